"""When a customer is called again: pure functions of the call, the merchant's rules and the calls so far."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta

from agents.models import CallingRules
from codservice import days
from codservice.accounts.models import User
from codservice.days import ALGIERS
from orders.lifecycle import Call, CallPlan
from orders.models import CallNote, CallState, Order

Outcome = CallNote.Outcome
SILENT = (Outcome.NO_ANSWER, Outcome.BUSY, Outcome.SWITCHED_OFF)
SKIPPED_FOR = timedelta(minutes=15)  # before a skipped customer is served again
# Morning, afternoon, evening: who does not answer at work may answer at home.
AFTERNOON, EVENING = time(12, 30), time(17)
EVENING_CALL, MORNING_CALL = time(18), time(10)  # what customers mean by “this evening” and “tomorrow”


def after(call: Call, order: Order, rules: CallingRules, *, tried: Sequence[datetime], to: User | None) -> CallPlan:
    """What a locked order waits for after a call that decided nothing; `tried` are its silent calls before.

    After the last try it waits for a supervisor, as does one with a wrong number or one that is handed over to nobody.
    """
    attempts, now = order.call_attempts, order.now
    match call.outcome:
        case Outcome.CALLBACK:
            assert call.callback_at is not None  # noqa: S101  (the form asks for it)
            return CallPlan(CallState.CALLBACK, call.callback_at, attempts=0, agent_id=call.agent.id)
        case Outcome.HANDED_OVER if to is not None:
            return CallPlan(CallState.CALLBACK, now, attempts=attempts, agent_id=to.id)
        case Outcome.WRONG_NUMBER | Outcome.HANDED_OVER:
            return CallPlan(CallState.REVIEW, now, attempts=attempts)
        case Outcome.SKIPPED:
            state = CallState(order.call_state)
            return CallPlan(state, now + SKIPPED_FOR, attempts=attempts, agent_id=order.callback_agent_id)
    attempts += 1
    if attempts >= rules.most_attempts:
        return CallPlan(CallState.REVIEW, now, attempts=attempts)
    return CallPlan(CallState.RETRY, next_try(now, rules, [*tried, now]), attempts=attempts)


def next_try(now: datetime, rules: CallingRules, tried: Sequence[datetime]) -> datetime:
    """When to call again after the silent calls at `tried`, the last of which was just now.

    Never before `retry_minutes` are over, never outside calling hours or on a day off, and in the part of the day in
    which fewest calls went unanswered; the part of the last call comes after its equals.
    """
    earliest = (now + timedelta(minutes=rules.retry_minutes)).astimezone(ALGIERS)
    parts = _parts(rules)
    missed = [_part_of(at, parts) for at in tried]
    missed += missed[-1:]
    moments = {part: _first_moment(earliest, part, rules.days_off) for part in parts}
    return min(moments.items(), key=lambda choice: (missed.count(choice[0]), choice[1]))[1]


def presets(now: datetime) -> dict[str, datetime]:
    """The times that customers ask for most; the evening only while it lies ahead."""
    here = now.astimezone(ALGIERS)
    evening = days.at(here, EVENING_CALL)
    return {
        "hour": now + timedelta(hours=1),
        **({"evening": evening} if evening > now + timedelta(minutes=30) else {}),
        "tomorrow": days.at(here + timedelta(days=1), MORNING_CALL),
    }


Part = tuple[time, time]


def _parts(rules: CallingRules) -> list[Part]:
    """The parts of a day in which the merchant's customers may be called, from and until."""
    edges = [rules.opens_at, *(edge for edge in (AFTERNOON, EVENING) if rules.opens_at < edge < rules.closes_at)]
    return list(zip(edges, [*edges[1:], rules.closes_at], strict=True))


def _part_of(at: datetime, parts: list[Part]) -> Part | None:
    moment = at.astimezone(ALGIERS).time()
    return next((part for part in parts if part[0] <= moment < part[1]), None)


def _first_moment(earliest: datetime, part: Part, days_off: list[int]) -> datetime:
    """The first moment from `earliest` on that lies in this part of a working day."""
    day: date = earliest.date()
    while True:
        start, end = (days.at(day, edge) for edge in part)
        if day.isoweekday() not in days_off and earliest < end:
            return max(earliest, start)
        day += timedelta(days=1)
