"""When an order comes back after a call that was not answered."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from agents.desk import planning
from agents.desk.hours import Window
from agents.models import CallingRules
from codservice import days
from codservice.days import ALGIERS
from orders.lifecycle import Call
from orders.models import CallNote, Order

Outcome = CallNote.Outcome

# A Monday. Algiers is one hour ahead of UTC all year.
MONDAY = datetime(2026, 11, 23, tzinfo=ALGIERS)


def at(hour: int, minute: int = 0, day: int = 0) -> datetime:
    return MONDAY + timedelta(days=day, hours=hour, minutes=minute)


def windows(rules: CallingRules) -> list[Window]:
    """Return the windows of two weeks from that Monday on, as `hours` reads them."""
    dates = [MONDAY.date() + timedelta(days=ahead) for ahead in range(14)]
    return [
        Window(days.at(day, opens_at), days.at(day, closes_at))
        for day in dates
        if day.isoweekday() not in rules.days_off
        for opens_at, closes_at in rules.shifts
    ]


def next_try(now: datetime, rules: CallingRules, tried: list[datetime]) -> datetime:
    return planning.next_try(now, rules, tried, windows(rules))


def presets(now: datetime, **rules: Any) -> dict[str, datetime]:
    return planning.presets(now, windows(CallingRules(**rules)))


def test_tries_are_spread_over_the_parts_of_the_day() -> None:
    rules, tried, now = CallingRules(), [], at(9, 40)
    for _ in range(6):
        tried.append(now)
        now = next_try(now, rules, tried)
    assert tried[1:] == [at(12, 30), at(17), at(9, day=1), at(12, 30, day=1), at(17, day=1)]


def test_it_comes_back_no_earlier_than_the_merchant_wants() -> None:
    rules = CallingRules(retry_minutes=300)
    assert next_try(at(10), rules, [at(10)]) == at(15)


@pytest.mark.parametrize("outcome", [Outcome.ANSWERED, Outcome.NOTE])
def test_what_says_nothing_of_the_next_call_is_not_taken_for_silence(outcome: Outcome) -> None:
    order = Order(call_state="new", call_due_at=at(9))
    order.now = at(10)
    with pytest.raises(ValueError, match=outcome):
        planning.after(Call(None, outcome), order, CallingRules(), tried=[], windows=[], to=None)


@pytest.mark.parametrize("state", ["new", "callback", "retry"])
@pytest.mark.parametrize(("due", "again"), [(at(9), at(10, 15)), (at(10, 10), at(10, 15)), (at(12), at(12))])
def test_a_skip_brings_no_call_forward(state: str, due: datetime, again: datetime) -> None:
    order = Order(call_state=state, call_due_at=due)
    order.now = at(10)
    call = Call(None, Outcome.SKIPPED, "Bad line")
    plan = planning.after(call, order, CallingRules(retry_minutes=120), tried=[], windows=[], to=None)
    assert (plan.state, plan.due_at) == (state, again)


@pytest.mark.parametrize("now", [at(19, 50, day=3), at(18, 30, day=3)])
def test_a_day_off_is_passed_over(now: datetime) -> None:
    """From Thursday evening, with Friday off, to Saturday morning."""
    assert next_try(now, CallingRules(), [now]) == at(9, day=5)


def test_a_short_day_has_the_one_part_that_it_has() -> None:
    rules = CallingRules(opens_at=time(14), closes_at=time(16), days_off=[])
    assert next_try(at(14, 30), rules, [at(14, 30)]) == at(14, day=1)
    rules = CallingRules(opens_at=time(14), closes_at=time(16), days_off=[], retry_minutes=30)
    assert next_try(at(14, 30), rules, [at(14, 30)]) == at(15)


def test_a_call_at_night_counts_for_no_part() -> None:
    assert next_try(at(2), CallingRules(), [at(2)]) == at(9)


@pytest.mark.parametrize(("closes_at", "called"), [(22, at(18, 30)), (17, at(18, 30)), (17, at(18, 30, day=-1))])
def test_a_call_in_a_season_counts_for_its_part_of_the_day(closes_at: int, called: datetime) -> None:
    """This holds whether or not the usual hours include it: in the evening nobody answered."""
    rules = CallingRules(closes_at=time(closes_at), retry_minutes=120)
    season = windows(CallingRules(opens_at=time(12), closes_at=time(22), days_off=[]))
    assert planning.next_try(at(18, 30), rules, [called, at(18, 30)], season) == at(12, day=1)
    assert planning.next_try(at(10, 30), rules, [called], season) == at(12, 30)


@pytest.mark.parametrize(("ahead", "expected"), [(1, at(20, day=1)), (2, at(9, day=1)), (21, at(9, day=1))])
def test_no_other_hours_that_are_far_are_waited_for(ahead: int, expected: datetime) -> None:
    """Ramadan's hours, for instance, have evenings. The next day's evening is waited for, one farther off is not."""
    usual = windows(CallingRules(closes_at=time(16)))
    season = [Window(at(20, day=ahead), at(23, day=ahead))]
    assert planning.next_try(at(15), CallingRules(), [at(9, 30), at(12, 45), at(15)], [*usual, *season]) == expected


def test_nobody_is_called_in_the_break() -> None:
    rules = CallingRules(break_from=time(12), break_until=time(14), retry_minutes=60)
    assert next_try(at(11, 30), rules, [at(11, 30)]) == at(14)
    assert next_try(at(13), rules, [at(9, day=-1), at(17, day=-1), at(13)]) == at(14), "it counts for no part"
    assert presets(at(12, 30), break_from=time(12), break_until=time(14))["evening"] == at(18)
    assert "hour" not in presets(at(12, 30), break_from=time(12), break_until=time(14))


def test_hours_are_those_of_algiers_whatever_clock_is_given() -> None:
    now = datetime(2026, 11, 23, 19, 30, tzinfo=UTC)
    assert next_try(now, CallingRules(), [now]) == at(9, day=1)


def test_presets_are_what_customers_ask_for() -> None:
    assert presets(at(15)) == {"hour": at(16), "evening": at(18), "tomorrow": at(10, day=1)}
    assert presets(at(17, 45)) == {"hour": at(18, 45), "tomorrow": at(10, day=1)}


def test_presets_lie_in_the_merchants_hours() -> None:
    assert presets(at(19, 30)) == {"tomorrow": at(10, day=1)}
    assert presets(at(15), closes_at=time(17)) == {"hour": at(16), "tomorrow": at(10, day=1)}
    assert presets(at(0, 6)) == {"evening": at(18), "tomorrow": at(10, day=1)}
    assert presets(at(15, day=3)) == {"hour": at(16, day=3), "evening": at(18, day=3), "tomorrow": at(10, day=5)}
    assert presets(at(15), opens_at=time(11)) == {"hour": at(16), "evening": at(18), "tomorrow": at(11, day=1)}
    assert planning.presets(at(15), []) == {}


def test_tomorrow_is_not_the_same_evening_where_hours_go_on_over_midnight() -> None:
    night = {"opens_at": time.min, "closes_at": time(23, 59)}
    assert presets(at(22), **night, break_from=time(1), break_until=time(21))["tomorrow"] == at(21, day=1)
    assert presets(at(22), **night, break_from=time(1), break_until=time(9))["tomorrow"] == at(10, day=1)
    assert presets(at(22), opens_at=time.min, closes_at=time(2))["tomorrow"] == at(0, day=1)


@pytest.mark.parametrize(("until", "tomorrow"), [(21, at(21, day=1)), (18, at(18, day=1)), (9, at(10, day=1))])
def test_tomorrow_is_the_same_day_before_and_after_midnight_of_a_night(until: int, tomorrow: datetime) -> None:
    night = {"opens_at": time.min, "closes_at": time(23, 59), "break_from": time(1), "break_until": time(until)}
    for now in (at(23, 58), at(23, 59), at(0, day=1), at(0, 59, day=1), at(1, 5, day=1)):  # a call may run over
        assert presets(now, **night)["tomorrow"] == tomorrow
    assert presets(at(22, day=1), **night)["tomorrow"] == tomorrow + timedelta(days=1)


def test_a_night_is_over_when_the_days_own_hours_begin() -> None:
    """One merchant works at night until 01:00 and from 09:00; the other pauses at noon."""
    windows = [
        Window(at(opens, day=day), at(closes, day=day) if closes < 24 else at(0, day=day + 1))
        for day in (0, 1)
        for opens, closes in ((0, 1), (9, 12), (14, 24))
    ]
    assert planning.presets(at(0, 30), windows)["tomorrow"] == at(10)
    assert planning.presets(at(8, 59), windows)["tomorrow"] == at(10)
    assert planning.presets(at(9, 30), windows)["tomorrow"] == at(10, day=1)


def test_no_two_buttons_of_a_night_promise_the_same_evening() -> None:
    night = {"opens_at": time.min, "closes_at": time(23, 59), "break_from": time(1)}
    assert presets(at(0, 30), **night, break_until=time(18)) == {"tomorrow": at(18)}
    assert presets(at(0, 30), **night, break_until=time(9)) == {"evening": at(18), "tomorrow": at(10)}
    assert presets(at(11), **night, break_until=time(18)) == {"evening": at(18), "tomorrow": at(18, day=1)}


def test_after_midnight_tomorrow_is_the_next_day_of_those_who_work_through_it() -> None:
    around = {"opens_at": time.min, "closes_at": time(23, 59)}
    for now in (at(0, 30), at(9)):
        assert presets(now, **around)["tomorrow"] == at(10, day=1)
        assert presets(now, **around, break_from=time(12), break_until=time(13))["tomorrow"] == at(10, day=1)
    assert presets(at(0, 30), opens_at=time.min, closes_at=time(2))["tomorrow"] == at(0, day=1)
