"""A press that comes too soon decides about nobody the agent has not seen: by the service alone, without a script."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.desk import shown
from codservice.accounts.models import Account
from orders.models import CallNote, Order
from tests.agents.screens import DESK, Screen, next_order, take, told
from tests.factories import make_order

OUTCOMES = ["confirm", "cancel", "no_answer", "callback_hour", "skipped"]
JUST_NOW = timedelta(seconds=-10)  # before it was read, however long the machine takes until the press
MORE = {"skip_reason": "Ligne coupée", "handover_reason": "x"}


@pytest.fixture
def screen(order: Order, browser: Client) -> Screen:
    return take(browser, order)


@pytest.mark.parametrize("milliseconds", [-5, 0, 150, 400, 800, 999, 999.999])
def test_a_screen_is_not_to_be_pressed_in_its_first_second(milliseconds: float) -> None:
    shown_at = timezone.now()
    with pytest.raises(shown.TooSoon):
        shown.check_age(shown_at, shown_at + timedelta(milliseconds=milliseconds))
    shown.check_age(shown_at, shown_at + timedelta(seconds=1))


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_screen_that_was_just_shown_is_not_decided(outcome: str, order: Order, screen: Screen) -> None:
    response = screen.press(outcome, age=JUST_NOW, note="Porte bleue", **MORE)
    assert response.status_code == 409
    assert "only just appeared" in told(response)
    assert "Nothing was saved." in told(response)
    assert "Porte bleue" in response.content.decode()
    order.refresh_from_db()
    assert (order.status, order.version, CallNote.objects.count()) == ("pending_confirmation", 1, 0)


def test_the_second_press_decides_nobody_and_the_third_does(alice: Account, browser: Client) -> None:
    first, second = (make_order(alice, phone=f"055000000{number}") for number in range(2))
    screen = Screen(browser, next_order(browser).press("confirm").url)
    assert screen.pending == [second]
    refused = screen.press("confirm", age=JUST_NOW)
    assert refused.status_code == 409
    screen.read(refused)
    assert screen.press("confirm", age=JUST_NOW).status_code == 409  # the second screen begins anew
    assert screen.press("confirm").url == DESK
    assert set(Order.objects.values_list("status", flat=True)) == {"confirmed"}
    assert first.call_notes.count() == second.call_notes.count() == 1


def test_nor_does_it_decide_the_customers_next_order(alice: Account, browser: Client) -> None:
    for _ in range(2):
        make_order(alice)
    screen = next_order(browser)
    again = Screen(browser, screen.press("confirm").url)
    assert again.press("confirm", age=JUST_NOW).status_code == 409
    assert sorted(Order.objects.values_list("status", flat=True)) == ["confirmed", "pending_confirmation"]


def test_a_form_that_is_sent_twice_is_no_refusal(screen: Screen) -> None:
    """The second of two clicks on one screen, or a form sent again because its answer was lost."""
    assert screen.press("confirm").url == DESK
    assert screen.press("confirm").url == DESK
    assert CallNote.objects.count() == 1


@pytest.mark.parametrize("outcome", ["confirm", "no_answer", "callback_hour"])
def test_what_is_written_on_a_screen_after_its_press_is_not_taken_for_noted(outcome: str, screen: Screen) -> None:
    """Whoever went back to it, or had no answer, and wrote more is told that it was not saved, and sees it again."""
    assert screen.press(outcome).url == DESK
    again = screen.press(outcome, note="Porte bleue")
    assert (again.status_code, "Porte bleue" in again.content.decode()) == (409, True)
    assert CallNote.objects.get().note == ""


def test_a_screen_of_one_second_may_be_pressed(screen: Screen) -> None:
    assert screen.press("confirm", age=shown.SETTLED).status_code == 302


@pytest.mark.parametrize("forged", ["shown_at", "seal", "seen", "another claim"])
def test_only_what_the_screen_showed_is_decided(forged: str, alice: Account, order: Order, screen: Screen) -> None:
    """A forged time, version, customer or seal is refused."""
    good = (screen.shown_at - timedelta(minutes=1)).isoformat()
    shown_at, seen, claim_id = screen.shown_at.isoformat(), screen.form["seen"], screen.claim_id
    other = [f"{make_order(alice).id}:1"]
    data = {
        "shown_at": {"shown_at": good, "seal": shown.seal(claim_id, shown_at, seen)},
        "seal": {"shown_at": good, "seal": ""},
        "seen": {"shown_at": good, "seen": [*seen, *other], "seal": shown.seal(claim_id, good, seen)},
        "another claim": {"shown_at": good, "seal": shown.seal(uuid4(), good, seen)},
    }[forged]
    response = screen.press("confirm", note="Porte bleue", **data)
    assert response.status_code == 422
    assert "This page is out of date." in response.content.decode()
    assert "Porte bleue" in response.content.decode()
    order.refresh_from_db()
    assert order.version == 1


@pytest.mark.parametrize("outcome", ["no_answer", "callback", "callback_hour"])
def test_what_no_screen_showed_is_not_looked_up(outcome: str, screen: Screen) -> None:
    """A thousand orders without a seal, say: nor is it said of any of them that it has changed."""
    seen = [f"{screen.pending[0].id}:7", *(f"{uuid4()}:1" for _ in range(3))]
    responses, counts = [], []
    for forged in ({}, {"seen": seen}):
        with CaptureQueriesContext(connection) as queries:
            responses.append(screen.press(outcome, seal="x", at="2030-01-01T10:00", **forged))
        counts.append(len(queries))
    assert [response.status_code for response in responses] == [422, 422]
    text = responses[1].content.decode()
    assert "has changed" not in text
    assert text.count("This page is out of date.") == 1
    assert counts[0] == counts[1]


def test_an_outcome_names_an_order_of_its_screen(alice: Account, order: Order, screen: Screen) -> None:
    newer = make_order(alice)  # of the same customer, but not on the screen
    response = screen.press("confirm", order=str(newer.id))
    assert (response.status_code, "This page is out of date." in response.content.decode()) == (409, True)
    newer.refresh_from_db()
    assert newer.version == 1
