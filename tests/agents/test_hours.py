"""Calling hours bind: who is served, what is counted, which times can be promised, and what opens a day."""

import csv
import re
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.formats import date_format

from agents import public_holidays
from agents.desk import claims, decisions, hours, overview, planning
from agents.models import CallingPeriod, CallingRules
from agents.supervision import bulk_changes
from agents.templatetags.console_tags import near
from codservice import days
from codservice.accounts.models import Account, SecurityEntry, User
from codservice.days import ALGIERS
from orders.lifecycle import Call
from orders.models import CallNote, CallState, Order
from tests.agents.public_holidays import YEARS, table
from tests.agents.screens import DESK, next_order, take
from tests.agents.states import waits
from tests.factories import AccountFactory, AgentFactory, make_order, make_orders
from tests.harness.background import Background, open_transaction
from tests.harness.client import browser_of
from tests.harness.database import wait_for_lock
from tests.harness.plans import rows_read

CLOSED = "calling hours: only call a customer who has called you."
ALL_DAY = {"opens_at": time.min, "closes_at": time.max}
NEARLY_ALL_DAY = {"break_from": time(0, 0, 0, 1), "break_until": time(23, 59, 58)}


@pytest.fixture(autouse=True)
def _usual_hours(_open: None) -> None:
    CallingPeriod.objects.all().delete()


def weekday(ahead: int = 0) -> int:
    return (days.today() + timedelta(days=ahead)).isoweekday()


def rules(account: Account, **changes: Any) -> CallingRules:
    return CallingRules.objects.create(account=account, **{**ALL_DAY, "days_off": [], **changes})


def closed(account: Account, **changes: Any) -> CallingRules:
    """Close for today, and open all day tomorrow."""
    return rules(account, days_off=[weekday()], **changes)


def test_the_list_says_when_hours_begin_of_who_is_due_outside_of_them(
    alice: Account, charlie: Account, supervisor: User
) -> None:
    closed(alice)
    rules(charlie)
    promised = days.start_of(days.today() + timedelta(days=2))
    for name, account, due_at in ("Closed", alice, None), ("Promised", alice, promised), ("Open", charlie, None):
        order = make_order(account, customer_name=name, phone=f"055012345{len(name)}")
        if due_at:
            Order.objects.filter(id=order.id).update(call_due_at=due_at)
    page = browser_of(supervisor).get(reverse("admin:orders_order_changelist")).content.decode()
    said = dict(re.findall(r'<bdi>(\w+)</bdi></a></th>.*?"Next call">(?:<time [^>]+>)?([^<]+)', page, re.DOTALL))
    tomorrow = days.start_of(days.today() + timedelta(days=1))
    with timezone.override(ALGIERS):
        assert said == {"Closed": near(tomorrow), "Promised": near(promised), "Open": "Due"}


def period(account: Account | None, **changes: Any) -> CallingPeriod:
    today = {"first_day": days.today(), "last_day": days.today()}
    return CallingPeriod.objects.create(account=account, **{**today, **ALL_DAY, "is_opening": True, **changes})


def test_whose_merchant_has_a_day_off_is_not_served(alice: Account, charlie: Account, agent: User) -> None:
    closed(alice)
    rules(charlie)
    make_order(alice, phone="0550000001")
    open_order = make_order(charlie, phone="0550000002")
    mine = make_order(alice, phone="0550000003")
    Order.objects.filter(id=mine.id).update(call_state="callback", callback_agent=agent)
    claim_id = claims.next_customer(agent)
    assert claim_id == claims.on_customer(open_order.phone_e164).id
    claims.release(claim_id)
    tonight = days.end_of(days.today()) - timedelta(seconds=1)
    Order.objects.filter(id=open_order.id).update(call_due_at=tonight)
    assert claims.next_customer(agent) is None
    assert overview.counters(agent) == {"due": 0, "later": 1, "mine": 1, "review": 0, "overdue": 0}


def test_the_desk_says_when_calling_hours_begin(alice: Account, agent: User, browser: Client) -> None:
    closed(alice)
    order = make_order(alice)
    call = overview.next_call(agent)
    assert call == (days.start_of(days.today() + timedelta(days=1)), True)
    said = "Nobody can be called now. The next calling hours begin on "
    assert said in browser.get(DESK).content.decode()
    assert browser.post(f"{DESK}next/").url == DESK
    assert browser.get(DESK).content.decode().count(said) == 2
    # An agent may take the customer themselves all the same; the screen then says that it is no time to call.
    assert CLOSED in take(browser, order).text


def test_the_browsers_tab_counts_no_promise_that_nobody_may_call_now(
    alice: Account, charlie: Account, agent: User, browser: Client
) -> None:
    closed(alice)
    rules(charlie)
    waits(make_order(alice), CallState.CALLBACK, -1, agent)
    assert 'data-overdue="0"' in browser.get(DESK).content.decode()
    waits(make_order(charlie, phone="0550000001"), CallState.CALLBACK, -1, agent)
    assert 'data-overdue="1"' in browser.get(DESK).content.decode()


def test_who_is_served_for_one_merchant_may_be_called(
    alice: Account, charlie: Account, agent: User, browser: Client
) -> None:
    """This holds even when another of the customer's merchants has a day off."""
    closed(alice)
    working = rules(charlie)
    order, _other = make_order(alice), make_order(charlie)
    screen = next_order(browser)
    assert order in screen.pending
    assert len(screen.pending) == 2
    assert CLOSED not in screen.text
    working.days_off = [weekday()]
    working.save()
    assert CLOSED in browser.get(screen.address).content.decode()


def test_what_falls_due_outside_is_called_when_the_hours_begin(alice: Account, agent: User) -> None:
    rules(alice, days_off=[weekday(1)])
    order = make_order(alice)
    midnight = days.start_of(days.today() + timedelta(days=1))
    Order.objects.filter(id=order.id).update(call_due_at=midnight + timedelta(hours=3), call_state=CallState.RETRY)
    assert overview.next_call(agent) == (midnight + timedelta(days=1), True)
    Order.objects.filter(id=order.id).update(call_due_at=midnight + timedelta(hours=30))
    assert overview.next_call(agent) == (midnight + timedelta(hours=30), False)


def test_hours_that_hold_up_what_is_due_begin_even_where_a_retry_is_planned_then(alice: Account, agent: User) -> None:
    closed(alice)
    begins = days.start_of(days.today() + timedelta(days=1))
    waits(make_order(alice), CallState.RETRY, -1)
    retry = make_order(alice, phone="0550000001")
    Order.objects.filter(id=retry.id).update(call_due_at=begins, call_state=CallState.RETRY)
    assert overview.next_call(agent) == (begins, True)


def test_hours_bind_to_the_minute(alice: Account, agent: User) -> None:
    make_order(alice)
    now = timezone.localtime(timezone=ALGIERS)
    if not time(0, 2) < now.time() < time(23, 58):
        pytest.skip("the day has no room for a window on each side of now")
    before = rules(alice, opens_at=time.min, closes_at=(now - timedelta(minutes=1)).time())
    assert claims.next_customer(agent) is None
    assert overview.counters(agent)["later"] == 0
    before.opens_at, before.closes_at = (now + timedelta(minutes=1)).time(), time.max
    before.save()
    assert claims.next_customer(agent) is None
    assert overview.counters(agent) == {"due": 0, "later": 1, "mine": 0, "review": 0, "overdue": 0}
    before.opens_at = (now - timedelta(minutes=1)).time()
    before.save()
    assert claims.next_customer(agent)
    assert overview.counters(agent)["due"] == 1


def test_a_promise_shortly_before_closing_is_its_agents_when_the_hours_begin_again(
    alice: Account, agent: User, colleague: User
) -> None:
    """It stays theirs for what was left of the quarter of an hour. By the clock alone it would be overdue all night."""
    now = timezone.localtime(timezone=ALGIERS).replace(microsecond=0)
    if not time(0, 20) <= now.time() < time(23, 49):
        pytest.skip("the day has no room for a window on each side of now")
    opened = rules(alice, opens_at=(now - timedelta(minutes=5)).time(), closes_at=time.max)
    order = make_order(alice)
    promised = {"call_state": CallState.CALLBACK, "callback_agent": colleague}
    Order.objects.filter(id=order.id).update(**promised, call_due_at=now - timedelta(hours=13))
    assert claims.next_customer(agent) is None
    assert overview.counters(agent) == {"due": 0, "later": 1, "mine": 0, "review": 0, "overdue": 0}
    assert overview.next_call(agent) == (now + timedelta(minutes=10), False)
    assert overview.counters(colleague)["due"] == 1
    claim_id = claims.next_customer(colleague)
    assert claim_id
    claims.release(claim_id)

    opened.opens_at = (now - timedelta(minutes=16)).time()
    opened.save()
    assert overview.counters(agent)["due"] == 1
    assert overview.next_call(agent) == (None, False)
    assert claims.next_customer(agent)


def test_where_hours_go_on_over_midnight_a_promise_is_late_by_the_clock(
    alice: Account, agent: User, colleague: User
) -> None:
    rules(alice)
    midnight = days.end_of(days.today())
    promised = {"call_state": CallState.CALLBACK, "callback_agent": colleague}
    Order.objects.filter(id=make_order(alice).id).update(**promised, call_due_at=midnight - timedelta(minutes=5))
    assert overview.next_call(agent) == (midnight + timedelta(minutes=10), False)


def test_nobody_is_called_in_a_break(alice: Account, agent: User, browser: Client) -> None:
    order = make_order(alice)
    rules(alice, **NEARLY_ALL_DAY)
    assert claims.next_customer(agent) is None
    assert overview.counters(agent) == {"due": 0, "later": 1, "mine": 0, "review": 0, "overdue": 0}
    assert overview.next_call(agent) == (days.at(days.today(), time(23, 59, 58)), True)
    screen = take(browser, order)
    assert CLOSED in screen.text
    tomorrow = datetime.combine(days.today() + timedelta(days=1), time(12))
    answer = screen.press("callback", at=tomorrow.strftime("%Y-%m-%dT%H:%M")).content.decode()
    assert "Calling hours on that day are 00:00–00:00, 23:59–23:59." in answer


def test_before_a_break_what_is_due_is_not_due_later_too(alice: Account, agent: User) -> None:
    make_order(alice)
    rules(alice, break_from=time(23, 59, 56), break_until=time(23, 59, 58))
    assert overview.counters(agent) == {"due": 1, "later": 0, "mine": 0, "review": 0, "overdue": 0}
    assert claims.next_customer(agent)


def test_a_season_has_breaks_of_its_own(alice: Account) -> None:
    CallingRules.objects.create(account=alice, days_off=[], break_from=time(12), break_until=time(14))
    first, last = (days.today() + timedelta(days=ahead) for ahead in (1, 2))
    period(None, first_day=first, last_day=first, opens_at=time(10), closes_at=time(23, 30), is_opening=False,
           break_from=time(18, 30), break_until=time(20, 30))  # fmt: skip
    period(None, first_day=last, last_day=last, opens_at=time(10), closes_at=time(15), is_opening=False)
    found = [window for window in hours.of_account(alice.id, 2) if window.opens_at >= days.start_of(first)]
    assert [window.opens_at for window in found] == [
        days.at(first, time(10)), days.at(first, time(20, 30)), days.at(last, time(10))
    ]  # fmt: skip
    assert [window.closes_at for window in found] == [
        days.at(first, time(18, 30)), days.at(first, time(23, 30)), days.at(last, time(15))
    ]  # fmt: skip
    assert hours.of_account(alice.id, 3)[-2:] == [
        (days.at(last + timedelta(days=1), time(9)), days.at(last + timedelta(days=1), time(12))),
        (days.at(last + timedelta(days=1), time(14)), days.at(last + timedelta(days=1), time(20))),
    ]


@pytest.mark.parametrize(
    ("starts", "ends"),
    [(None, time(12)), (time(12), None), (time(12), time(12)), (time(14), time(12)), (time(8), time(10)),
     (time(9), time(10)), (time(19), time(20))],
)  # fmt: skip
def test_a_break_lies_within_the_hours(starts: time | None, ends: time | None, alice: Account) -> None:
    with pytest.raises(IntegrityError, match="calling_break_within"):
        CallingRules.objects.create(account=alice, break_from=starts, break_until=ends)


def windows(order: Order) -> dict[date, tuple[time, time]]:
    found = hours.by_account([order.id], 6).get(order.account_id, [])
    here = [(opens_at.astimezone(ALGIERS), closes_at.astimezone(ALGIERS)) for opens_at, closes_at in found]
    return {opens_at.date(): (opens_at.time(), closes_at.time()) for opens_at, closes_at in here}


def test_a_window_is_opened_by_hand_for_a_day(alice: Account, charlie: Account, agent: User) -> None:
    closed(alice)
    closed(charlie)
    order, other = make_order(alice), make_order(charlie, phone="0550000009")
    period(alice)
    assert days.today() in windows(order)
    assert days.today() not in windows(other)
    assert claims.next_customer(agent) == claims.on_customer(order.phone_e164).id
    period(None, opens_at=time(0, 30))  # for all merchants, but a merchant's own goes before it
    assert windows(other)[days.today()][0] == time(0, 30)
    assert windows(order)[days.today()][0] == time.min


def test_a_season_changes_hours_and_keeps_days_off(alice: Account) -> None:
    CallingRules.objects.create(account=alice, days_off=[weekday(2)])
    order = make_order(alice)
    first, last = (days.today() + timedelta(days=ahead) for ahead in (1, 3))
    season = {"first_day": first, "last_day": last, "is_opening": False}
    period(None, **season, opens_at=time(10), closes_at=time(15), name="Ramadan")
    found = windows(order)
    usual, ramadan = (time(9), time(20)), (time(10), time(15))
    expected = [usual, ramadan, None, ramadan, usual, usual, usual]
    assert [found.get(days.today() + timedelta(days=ahead)) for ahead in range(7)] == expected


def test_public_holidays_are_days_off_for_who_keeps_them(alice: Account, charlie: Account, monkeypatch: Any) -> None:
    rules(alice, keeps_holidays=True)
    rules(charlie)
    keeps, works = make_order(alice), make_order(charlie)
    today = days.today()
    tomorrow = today + timedelta(days=1)
    monkeypatch.setattr(
        public_holidays, "_known", lambda: [(day, "Eid al-Fitr (estimated)") for day in (today, tomorrow)]
    )
    assert not windows(keeps).keys() & {today, tomorrow}
    assert windows(works).keys() >= {today, tomorrow}
    period(alice, first_day=tomorrow, last_day=tomorrow)  # the estimate was wrong
    assert tomorrow in windows(keeps)


def test_a_closed_day_goes_before_seasons_and_only_a_merchants_own_opening_before_it(
    alice: Account, charlie: Account
) -> None:
    closed_to, worked = make_order(alice), make_order(charlie)
    tomorrow = days.today() + timedelta(days=1)
    eid = {"first_day": tomorrow, "last_day": tomorrow}
    for account in (alice, charlie):
        rules(account)
        period(account, **eid, is_opening=False, name="Ramadan")
    assert tomorrow in windows(closed_to)
    period(None, **eid, is_opening=False, is_closed=True, name="Eid")
    assert tomorrow not in windows(closed_to)
    assert windows(closed_to).keys() >= {tomorrow + timedelta(days=ahead) for ahead in (-1, 1)}
    period(charlie, **eid, name="We work")
    assert (tomorrow in windows(worked), tomorrow in windows(closed_to)) == (True, False)


def test_a_public_holiday_lasts_until_the_databases_midnight(alice: Account, monkeypatch: Any) -> None:
    """Also for a host whose clock is ahead, where it is tomorrow already."""
    rules(alice, keeps_holidays=True)
    order, today = make_order(alice), days.today()
    monkeypatch.setattr(public_holidays, "_known", lambda: [(today, "Eid al-Fitr (estimated)")])
    monkeypatch.setattr(hours, "today", lambda: today + timedelta(days=1))
    assert today not in windows(order)


@pytest.mark.parametrize("year", YEARS[:-1])
def test_the_year_ahead_has_its_public_holidays(year: int) -> None:
    today = date(year, 3, 7)
    ahead = public_holidays.ahead(today)
    assert list(ahead) == sorted(ahead)
    assert min(ahead) >= today
    assert min(ahead) in public_holidays.ahead(min(ahead))
    assert max(ahead) - today > timedelta(days=365)
    assert ahead[date(year, 7, 5)].startswith("Independence Day")
    assert sum(name.startswith("Eid al-Adha") for name in ahead.values()) >= 2


@pytest.mark.parametrize("language", ["fr", "ar-dz"])
def test_public_holidays_are_named_in_the_language_of_who_looks(language: str, supervisor: User) -> None:
    with public_holidays.DAYS.open(encoding="utf-8") as file:
        names = {one for _day, name in csv.reader(file) for one in name.split("; ")}
    assert {name.removesuffix(public_holidays.ESTIMATED) for name in names} == public_holidays.NAMES
    with translation.override(language):
        assert [name for name in names if public_holidays.in_words(name).startswith(name[:4])] == []
        seen = public_holidays.in_words("Eid al-Adha (estimated)")
    text = browser_of(supervisor).get("/console/periods/", headers={"Accept-Language": language}).content.decode()
    assert seen in text
    assert [name for name in names if name in text] == []


def test_public_holidays_are_those_that_the_package_knows() -> None:
    assert public_holidays.DAYS.read_text() == table(), "run `make holidays`"
    assert days.today().year + 3 in YEARS


# --- Orders assigned to an agent ---------------------------------------------------------------------------------


def test_what_is_assigned_outside_of_calling_hours_is_no_colleagues_when_they_begin(
    alice: Account, charlie: Account, agent: User, supervisor: User
) -> None:
    """On Friday for Saturday: by the clock alone, the agent would be late with all of them by then."""
    closed(alice)
    rules(charlie)
    theirs = [make_order(alice, phone=f"055000000{n}") for n in range(3)]
    later, other = make_order(alice, phone="0550000008"), make_order(charlie, phone="0550000009")
    in_two_days = days.start_of(days.today() + timedelta(days=2))
    Order.objects.filter(id=later.id).update(call_due_at=in_two_days)
    seen = {order.id: order.version for order in (*theirs, later, other)}
    assert bulk_changes.assign(seen, to=agent, supervisor=supervisor) == {}
    *due, due_later, due_now = Order.objects.order_by("id").values_list("call_due_at", flat=True)
    opens_at = days.start_of(days.today() + timedelta(days=1))
    assert opens_at <= due[0] < opens_at + planning.PACE
    assert [at - due[0] for at in due] == [n * planning.PACE for n in range(3)]
    assert due_later == in_two_days
    assert abs(due_now - timezone.now()) < timedelta(minutes=1), "where hours are open now, the turn is not lost"


def test_what_does_not_fit_into_todays_hours_is_assigned_for_the_next_day(
    alice: Account, agent: User, supervisor: User
) -> None:
    make_orders(alice, [{"phone": f"05500000{n:02}"} for n in range(12)])
    now = timezone.localtime(timezone=ALGIERS)
    closes_at = now + timedelta(minutes=9)
    if now.time() < time(0, 20) or closes_at.date() != now.date():
        pytest.skip("the day has no room for a window that ends soon")
    rules(alice, opens_at=time(0, 10), closes_at=closes_at.time())
    bulk_changes.assign(dict(Order.objects.values_list("id", "version")), to=agent, supervisor=supervisor)
    due = list(Order.objects.order_by("call_due_at").values_list("call_due_at", flat=True))
    opens_again = days.at(days.today() + timedelta(days=1), time(0, 10))
    assert all(at < closes_at for at in due[:5])
    assert all(at >= opens_again for at in due[5:])
    assert all(later - earlier >= planning.PACE for earlier, later in pairwise(due))


def test_who_is_handed_over_outside_of_calling_hours_falls_due_when_they_begin(
    alice: Account, agent: User, colleague: User
) -> None:
    closed(alice)
    order = make_order(alice)
    call = Call(agent, CallNote.Outcome.HANDED_OVER, "Parle kabyle")
    decisions.note_call(decisions.Screen(claims.take(order.id, agent=agent), agent, {order.id: 1}), call, to=colleague)
    order.refresh_from_db()
    assert (order.call_state, order.callback_agent) == (CallState.CALLBACK, colleague)
    assert order.call_due_at == days.start_of(days.today() + timedelta(days=1))


# --- What can be promised ----------------------------------------------------------------------------------------


def at(ahead: int, clock: time) -> str:
    return f"{days.at(days.today() + timedelta(days=ahead), clock):%Y-%m-%dT%H:%M}"


@pytest.mark.parametrize(
    ("ahead", "clock", "sentence"),
    [
        (1, time(1, 6), "Calling hours on that day are 09:00–20:00."),
        (1, time(20), "Calling hours on that day are 09:00–20:00."),
        (2, time(12), "No calls are made on that day."),
    ],
)
def test_a_promise_lies_in_the_merchants_hours(
    ahead: int, clock: time, sentence: str, alice: Account, browser: Client
) -> None:
    CallingRules.objects.create(account=alice, days_off=[weekday(2)])
    screen = take(browser, make_order(alice))
    response = screen.press("callback", at=at(ahead, clock), note="Porte bleue")
    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert "Porte bleue" in response.content.decode()
    assert CallNote.objects.count() == 0
    assert screen.press("callback", at=at(1, time(9))).status_code == 302


def test_the_button_for_tomorrow_is_the_next_day_that_is_worked(alice: Account, browser: Client) -> None:
    """With its date, as it may be weeks away."""
    CallingRules.objects.create(account=alice, opens_at=time(11), days_off=[weekday(1), weekday(2)])
    order = make_order(alice)
    screen = take(browser, order)
    third = days.today() + timedelta(days=3)
    with timezone.override(ALGIERS):
        assert f"{third:%A} <small>{near(days.at(third, time(11)))}</small>" in screen.text
    assert screen.press("callback_tomorrow").status_code == 302
    order.refresh_from_db()
    assert order.call_due_at == datetime.combine(third, time(11), ALGIERS)


def test_a_customer_of_two_merchants_is_called_when_both_have_hours(
    alice: Account, charlie: Account, browser: Client
) -> None:
    rules(alice, opens_at=time(9), closes_at=time(14))
    rules(charlie, opens_at=time(12), closes_at=time(20))
    order = make_order(alice)
    make_order(charlie)
    screen = take(browser, order)
    assert "12:00–14:00" in screen.press("callback", at=at(1, time(10))).content.decode()
    assert screen.press("callback", at=at(1, time(13))).status_code == 302


# --- Supervisors -------------------------------------------------------------------------------------------------


def form(**changes: Any) -> dict[str, Any]:
    today = days.today().isoformat()
    return {
        "account": "",
        "name": "Ramadan",
        "first_day": today,
        "last_day": today,
        "opens_at": "10:00",
        "closes_at": "15:30",
        **changes,
    }


def test_a_season_that_is_sent_twice_is_one(alice: Account, supervisor: User) -> None:
    browser = browser_of(supervisor)
    for account in ("", str(alice.id)):
        for _ in range(2):
            answer = browser.post("/console/periods/", form(account=account), follow=True)
        assert "These hours are already in the list. Nothing was changed." in answer.content.decode()
    assert CallingPeriod.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_season_that_is_sent_again_before_it_is_answered_is_one(supervisor: User) -> None:
    first, second = browser_of(supervisor), browser_of(supervisor)
    with open_transaction(lambda: first.post("/console/periods/", form())):
        again = Background(lambda: second.post("/console/periods/", form(), follow=True))
        wait_for_lock()
    assert "already in the list" in again.result().content.decode()
    assert CallingPeriod.objects.count() == 1


def test_a_supervisor_enters_a_season_and_ends_it(alice: Account, supervisor: User) -> None:
    browser = browser_of(supervisor)
    assert browser.post("/console/periods/", form(account=str(alice.id), is_opening="on")).status_code == 302
    made = CallingPeriod.objects.get()
    assert (made.account, made.name, made.opens_at, made.is_opening) == (alice, "Ramadan", time(10), True)
    assert "10:00–15:30" in said_of(browser.get("/console/periods/"), "Ramadan")
    button = f'id="end-{made.id}" aria-labelledby="end-{made.id} name-{made.id} days-{made.id}"'  # unique label
    assert button in browser.get("/console/periods/").content.decode()
    assert browser.post("/console/periods/", {"end": str(made.id)}).status_code == 302
    assert browser.post("/console/periods/", {"end": "x"}).status_code == 302
    assert not CallingPeriod.objects.exists()
    refused = browser.post("/console/periods/", form(opens_at="21:00", closes_at="01:00"))
    assert "a break from 01:00 to 21:00. Such hours can have no other break." in refused.content.decode()
    night = form(opens_at="00:00", closes_at="23:59", break_from="01:00", break_until="21:00")
    assert browser.post("/console/periods/", night).status_code == 302
    assert CallingPeriod.objects.get().shifts == [(time(0), time(1)), (time(21), time(23, 59))]


def test_a_supervisor_closes_a_day_for_all_merchants_and_needs_no_hours_for_it(
    alice: Account, charlie: Account, supervisor: User, agent: User
) -> None:
    rules(alice)
    rules(charlie)
    make_order(alice, phone="0550000001")
    make_order(charlie, phone="0550000002")
    browser = browser_of(supervisor)
    empty = re.findall(r'<input type="time"[^>]*>', browser.get("/console/periods/").content.decode())
    assert len(empty) == 4
    assert not any("required" in field for field in empty)
    eid = form(name="Eid", opens_at="", closes_at="", is_closed="on")
    answer = browser.post("/console/periods/", eid, follow=True)
    assert "Saved. Nobody is called on these days." in answer.content.decode()
    assert "closed – End" in said_of(answer, "Eid")
    assert claims.next_customer(agent) is None
    assert CallingPeriod.objects.get().shifts == [(time(0), time(0, 1))], "hours to a version that knows no closed days"
    again = browser.post("/console/periods/", eid, follow=True)
    assert "These hours are already in the list." in again.content.decode()
    browser.post("/console/periods/", {"end": str(CallingPeriod.objects.get().id)})
    assert claims.next_customer(agent)


def test_thousands_of_merchants_to_choose_from_take_no_template_each(alice: Account, supervisor: User) -> None:
    answer = browser_of(supervisor).post("/console/periods/", form(account=str(alice.id), opens_at=""))
    assert f'<option value="{alice.id}" selected>' in answer.content.decode()
    assert "django/forms/widgets/select_option.html" not in {template.name for template in answer.templates}


def test_a_season_that_comes_or_goes_is_in_the_security_log(alice: Account, supervisor: User) -> None:
    browser, noted = browser_of(supervisor), SecurityEntry.objects.filter(action="calling_rules", by="staff")
    for account in (str(alice.id), ""):
        browser.post("/console/periods/", form(account=account))
        made = CallingPeriod.objects.get()
        for _press in (1, 2):
            browser.post("/console/periods/", {"end": str(made.id)})
    season = f"Ramadan ({made.first_day} – {made.last_day})"
    assert list(noted.order_by("id").values_list("target", "account")) == [
        (f"+{season}", alice.id),
        (f"-{season}", alice.id),
        (f"+{season}", None),
        (f"-{season}", None),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"closes_at": "09:00"},
        {"last_day": "2020-01-01"},
        {"first_day": "2020-01-01", "last_day": "2020-01-02"},
        {"last_day": "9999-12-31"},
        {"account": "x"},
        {"name": "x" * 101},
        {"name": "Rama\ndan"},
        {"opens_at": ""},
        {"is_closed": "on", "is_opening": "on", "opens_at": "", "closes_at": ""},
        {"break_from": "12:00"},
        {"break_from": "12:00", "break_until": "16:00"},
    ],
)
def test_hours_that_nobody_could_keep_are_refused(changes: dict[str, str], supervisor: User) -> None:
    assert browser_of(supervisor).post("/console/periods/", form(**changes)).status_code == 422
    assert not CallingPeriod.objects.exists()


@pytest.mark.parametrize("kept", ["opens_at", "closes_at", "break_from", "break_until"])
def test_a_closed_day_with_hours_is_refused_rather_than_closed_without_them(kept: str, supervisor: User) -> None:
    """Whoever writes them means another day, or has the choice wrong."""
    hours = {"opens_at": "", "closes_at": "", kept: "00:00"}
    answer = browser_of(supervisor).post("/console/periods/", form(is_closed="on", **hours))
    assert (answer.status_code, CallingPeriod.objects.count()) == (422, 0)
    assert list(answer.context["form"].errors) == ["is_closed"]
    assert "Closed days have no hours." in answer.content.decode()


def test_so_are_more_than_a_year_and_more_than_two_weeks_without_calls(supervisor: User) -> None:
    for changes, most in ({}, 366), ({"is_closed": "on", "opens_at": "", "closes_at": ""}, 14):
        last = days.today() + timedelta(days=most)
        assert browser_of(supervisor).post("/console/periods/", form(**changes, last_day=last)).status_code == 422
        assert not CallingPeriod.objects.exists()


def said_of(answer: Any, name: str) -> str:
    """Return what the page says in the row of these hours, in one line."""
    row = next(part for part in answer.content.decode().split("<tr>") if f"<bdi>{name}</bdi></th>" in part)
    return " ".join(re.sub(r"<[^>]*>", "", row).split())


def test_a_season_is_entered_with_its_break(supervisor: User) -> None:
    iftar = {"closes_at": "23:30", "break_from": "18:30", "break_until": "20:30"}
    answer = browser_of(supervisor).post("/console/periods/", form(**iftar), follow=True)
    assert "10:00–18:30, 20:30–23:30" in said_of(answer, "Ramadan")


def test_the_page_says_which_of_two_seasons_applies(alice: Account, charlie: Account, supervisor: User) -> None:
    browser, order = browser_of(supervisor), make_order(alice)
    today, tomorrow = (f"{days.today() + timedelta(days=ahead):%Y-%m-%d}" for ahead in (0, 1))

    def enter(name: str, **changes: Any) -> list[str]:
        data = form(name=name, is_opening="on", **changes)
        return [str(each) for each in browser.post("/console/periods/", data, follow=True).context["messages"]]

    assert enter("Ramadan", first_day=today, last_day=tomorrow) == ["These hours apply now."]
    (said,) = enter("Summer", first_day=tomorrow, last_day=tomorrow, opens_at="08:00")
    assert said.startswith("These hours apply from ")
    assert enter("Own", first_day=tomorrow, last_day=tomorrow, account=str(alice.id), opens_at="07:00") == [said]
    overruled = "Saved. On some of these days, other hours take precedence: see the list."
    assert enter("Winter", first_day=today, last_day=tomorrow, opens_at="06:00") == [overruled]
    assert windows(order)[days.today() + timedelta(days=1)][0] == time(7)

    answer = browser.get("/console/periods/")
    assert "takes precedence" not in said_of(answer, "Own")
    assert "“Own” takes precedence (Alice&#x27;s shop)" in said_of(answer, "Winter")
    assert "“Winter” takes precedence" in said_of(answer, "Summer")
    day = date_format(days.today() + timedelta(days=1), "j N Y")
    assert f"{day}: “Summer” takes precedence" in said_of(answer, "Ramadan")
    assert "“Ramadan” takes precedence" not in answer.content.decode()


def test_hours_of_other_merchants_and_of_other_days_go_before_none(
    alice: Account, charlie: Account, supervisor: User
) -> None:
    browser, tomorrow = browser_of(supervisor), days.today() + timedelta(days=1)
    period(alice)
    period(charlie)
    period(alice, first_day=tomorrow, last_day=tomorrow)
    assert "takes precedence" not in browser.get("/console/periods/").content.decode()


def test_periods_are_read_once_however_many_merchants_and_days_are_asked_for(alice: Account) -> None:
    for account in AccountFactory.create_batch(30):
        make_order(account)
    season = {"name": "Ramadan", "first_day": days.today(), "last_day": days.today() + timedelta(days=20), **ALL_DAY}
    CallingPeriod.objects.create(**season)
    CallingPeriod.objects.create(**season | {"account": alice, "opens_at": time(9)})
    with CaptureQueriesContext(connection) as queries:
        assert overview.next_call(AgentFactory())
        assert claims.next_customer(AgentFactory())
    asked = [each["sql"] for each in queries if "agents_callingperiod" in each["sql"]]
    assert len(asked) >= 2
    for sql in asked:
        assert rows_read(sql, "agents_callingperiod") <= 2
