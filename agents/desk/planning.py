"""When a customer is called again: pure functions of the time, a merchant's rules and the calls so far."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta

from agents.models import CallingRules
from codservice import days
from codservice.days import ALGIERS

# Morning, afternoon, evening: who does not answer at work may answer at home.
AFTERNOON, EVENING = time(12, 30), time(17)
EVENING_CALL, MORNING_CALL = time(18), time(10)  # what customers mean by “this evening” and “tomorrow”


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
