"""An agent's day: each call with its outcome, and counts that equal those of plain SQL and of the figures."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.supervision import agents_day, performance
from codservice import days
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from codservice.long_lists import BoundedPaginator
from orders import lifecycle
from orders.lifecycle import Call
from orders.models import CallNote, CallState, Order, StatusChange
from tests.factories import make_order
from tests.harness.client import browser_of

Outcome = CallNote.Outcome
YESTERDAY = days.today() - timedelta(days=1)


def page_of(user: User) -> str:
    return f"/console/people/{user.id}/day/"


@pytest.fixture
def browser(supervisor: User) -> Client:
    return browser_of(supervisor)


def called(
    account: Account, agent: User, minute: int, outcome: str, move: str = "", day: Any = YESTERDAY, **call: Any
) -> Order:
    """Return an order whose one call was noted `minute` minutes after nine, with the move that it decided."""
    order = make_order(account, phone=f"05500{minute:05}", customer_name=f"Customer {minute}")
    made = Call(agent, Outcome(outcome), **call)
    if move:
        lifecycle.move(move, order.id, actor=Actor.of_staff(agent), call=made)
    else:
        lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=Outcome(outcome), **call))
    at = days.start_of(day) + timedelta(hours=9, minutes=minute)
    CallNote.objects.filter(order=order).update(created_at=at)
    StatusChange.objects.filter(order=order, from_status="pending_confirmation").update(at=at)
    return order


@pytest.fixture
def day(alice: Account, charlie: Account, agent: User, colleague: User) -> list[Order]:
    orders = [
        called(alice, agent, 0, "answered", "confirm", note="Livrer samedi"),
        called(charlie, agent, 4, "no_answer"),
        called(alice, agent, 30, "answered", "cancel"),
        called(alice, agent, 31, "answered", "confirm"),
        called(alice, agent, 32, "note", "cancel", note="Duplicate of another"),
        called(alice, agent, 33, "busy"),
        called(alice, agent, 34, "wrong_number"),
        called(alice, agent, 35, "handed_over", note="Asks for someone in charge"),
    ]
    called(alice, colleague, 36, "answered", "confirm")
    called(alice, agent, 37, "answered", "confirm", day=YESTERDAY - timedelta(days=1))
    twin = called(alice, agent, 38, "answered", "confirm")
    Order.objects.filter(id=twin.id).update(call_state=CallState.TEST)
    lifecycle.move("ship", orders[0].id, actor=Actor.of_command("test"))
    return orders


def test_the_calls_stand_in_their_order_with_what_came_of_them(day: list[Order], agent: User, browser: Client) -> None:
    response = browser.get(page_of(agent), {"day": YESTERDAY.isoformat()})
    notes = list(response.context["notes"])
    assert [note.order for note in notes] == day
    decided = ["confirmed", None, "canceled", "confirmed", "canceled", None, None, None]
    assert [note.decided for note in notes] == decided
    assert [note.order.status for note in notes][:2] == ["shipped", "pending_confirmation"]
    minutes = [note.pause and note.pause / timedelta(minutes=1) for note in notes]
    assert minutes == [None, 4, 26, 1, 1, 1, 1, 1]
    text = response.content.decode()
    for piece in ("Livrer samedi", "Charlie&#x27;s shop", "Customer 30", "09:00", "after 26 minutes", "Shipped",
                  f"/console/orders/order/{day[0].id}/", "Handed over"):  # fmt: skip
        assert piece in text
    assert "Customer 36" not in text


def test_the_reason_of_a_cancellation_is_read_in_ones_own_language(
    alice: Account, agent: User, browser: Client
) -> None:
    order = called(alice, agent, 0, "answered", "cancel")
    Order.objects.filter(id=order.id).update(cancel_reason="Customer refused: Trop cher")
    address = f"{page_of(agent)}?day={YESTERDAY.isoformat()}"
    text = browser.get(address, headers={"Accept-Language": "fr"}).content.decode()
    assert "Customer refused" not in text
    assert ": Trop cher" in text


PLAIN = """
SELECT count(*) FILTER (WHERE outcome IN ('answered', 'callback', 'no_answer', 'busy', 'switched_off', 'wrong_number')),
    count(*) FILTER (WHERE outcome IN ('no_answer', 'busy', 'switched_off'))
FROM orders_callnote WHERE agent_id = %(agent)s AND (created_at AT TIME ZONE 'Africa/Algiers')::date = %(day)s
    AND order_id IN (SELECT id FROM orders_order WHERE call_state <> 'test')
"""
DECIDED = """
SELECT count(*) FROM orders_statuschange WHERE user_id = %(agent)s AND from_status = 'pending_confirmation'
    AND (at AT TIME ZONE 'Africa/Algiers')::date = %(day)s AND to_status = %(to)s
    AND order_id IN (SELECT id FROM orders_order WHERE call_state <> 'test')
"""


def test_the_counts_are_those_of_plain_sql_and_of_the_figures(day: list[Order], agent: User, browser: Client) -> None:
    found = browser.get(page_of(agent), {"day": YESTERDAY.isoformat()}).context["summary"]
    values = {"agent": agent.id, "day": YESTERDAY}
    with connection.cursor() as cursor:
        cursor.execute(PLAIN, values)
        assert (found.calls, found.silent) == cursor.fetchone() == (6, 2)
        for to, count in (("confirmed", found.confirmed), ("canceled", found.canceled)):
            cursor.execute(DECIDED, values | {"to": to})
            assert cursor.fetchone()[0] == count == 2
    assert found.rate == 50
    assert (found.first, found.last) == tuple(
        days.start_of(YESTERDAY) + timedelta(hours=9, minutes=minutes) for minutes in (0, 34)
    )
    assert found.longest_pause == timedelta(minutes=26)
    (row,) = (row for row in performance.read(YESTERDAY, YESTERDAY, "agent").rows if row.key == str(agent.id))
    assert (row.calls, row.confirmed, row.canceled) == (found.calls, found.confirmed, found.canceled)


def test_without_a_day_it_is_today_by_algerias_clock(alice: Account, agent: User, browser: Client) -> None:
    today = days.today()
    yesterday = today - timedelta(days=1)  # today may not be the day when the tests began
    called(alice, agent, 0, "busy", day=today)
    response = browser.get(page_of(agent))
    assert (response.context["day"], response.context["after"], response.context["summary"].calls) == (today, None, 1)
    assert f"?day={yesterday}" in response.content.decode()
    before = browser.get(page_of(agent), {"day": yesterday.isoformat()})
    assert b"No calls were noted on this day." in before.content
    assert f'rel="next" href="?day={today}"' in before.content.decode()
    edge = CallNote.objects.get()
    CallNote.objects.update(created_at=days.start_of(today) - timedelta(microseconds=1))
    assert [*agents_day.notes(agent, yesterday)] == [edge]
    assert agents_day.summary(agent, today).calls == 0


@pytest.mark.parametrize("text", ["x", "0001-01-01", "9999-12-31", "\0", "2026-02-30"])
def test_a_day_that_is_none_is_explained(text: str, agent: User, browser: Client) -> None:
    response = browser.get(page_of(agent), {"day": text})
    assert response.status_code == 422
    said = response.content.decode()
    assert '<p class="errornote" id="id_day_error" role="alert">' in said
    assert said.count('aria-invalid="true" aria-describedby="id_day_error"') == 1, "begin.js gives it the focus"


def test_the_page_costs_the_same_for_one_call_and_for_many(alice: Account, agent: User, browser: Client) -> None:
    counts = []
    for minutes in (range(1), range(1, agents_day.PER_PAGE + 20)):
        for minute in minutes:
            called(alice, agent, minute, "busy")
        with CaptureQueriesContext(connection) as queries:
            response = browser.get(page_of(agent), {"day": YESTERDAY.isoformat()})
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 12
    assert len(response.context["notes"]) == agents_day.PER_PAGE
    further = browser.get(page_of(agent), {"day": YESTERDAY.isoformat(), "p": 2})
    assert len(further.context["notes"]) == 20
    assert further.context["notes"][0].pause == timedelta(minutes=1)  # since the last call of the page before


def test_a_long_day_is_shown_to_its_end(
    alice: Account, agent: User, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who works for ten hours may note more than a list elsewhere shows."""
    monkeypatch.setattr(agents_day, "PER_PAGE", 2)
    monkeypatch.setattr(BoundedPaginator, "MOST", 3)
    orders = [called(alice, agent, minute, "busy") for minute in range(5)]
    with CaptureQueriesContext(connection) as queries:
        last = browser.get(page_of(agent), {"day": YESTERDAY.isoformat(), "p": 3})
    assert [note.order for note in last.context["notes"]] == orders[4:]
    (count,) = (query["sql"] for query in queries if "SELECT COUNT(*)" in query["sql"] and "callnote" in query["sql"])
    assert not re.search(r"LAG\(|statuschange", count), "the pauses and decisions of all pages are not read to count"


def test_the_day_is_for_supervisors_and_of_who_works_here(
    alice: Account, agent: User, supervisor: User, browser: Client
) -> None:
    assert browser_of(agent).get(page_of(agent)).status_code == 403
    assert browser.get(page_of(supervisor)).status_code == 200  # supervisors call, too
    assert browser.get(page_of(alice.holder)).status_code == 404


def test_agents_see_their_own_day_and_the_desk_leads_there(day: list[Order], agent: User) -> None:
    browser = browser_of(agent)
    assert '<a href="/console/day/">' in browser.get("/console/desk/").content.decode()
    assert '<a href="/console/day/">' in browser.get("/console/desk/now/").content.decode()
    response = browser.get("/console/day/", {"day": YESTERDAY.isoformat()})
    assert [note.order for note in response.context["notes"]] == day
    assert "/console/people/" not in response.content.decode(), "which they may not open"


def test_the_pages_of_agents_and_of_figures_lead_there(day: list[Order], agent: User, browser: Client) -> None:
    assert page_of(agent) in browser.get("/console/people/").content.decode()
    assert page_of(agent) in browser.get(f"/console/people/{agent.id}/").content.decode()
    one_day = {"by": "agent", "first": YESTERDAY.isoformat(), "last": YESTERDAY.isoformat()}
    assert f"{page_of(agent)}?day={YESTERDAY}" in browser.get("/console/figures/", one_day).content.decode()
    week = {**one_day, "first": (YESTERDAY - timedelta(days=6)).isoformat()}
    assert page_of(agent) not in browser.get("/console/figures/", week).content.decode()
