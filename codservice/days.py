"""Algeria's clock: days begin and end as they do there, whatever time zone a server or a browser is in."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

ALGIERS = ZoneInfo("Africa/Algiers")
# The years that people may choose: at the ends of Python's calendar, arithmetic and time zones fail.
YEARS = range(2000, 3000)
# Python would read a Unix timestamp as a date: 1773100800 as 8 October 1773.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def today() -> date:
    return datetime.now(ALGIERS).date()


def at(day: date, clock: time) -> datetime:
    return datetime.combine(day, clock, ALGIERS)


def start_of(day: date) -> datetime:
    return at(day, time())


def end_of(day: date) -> datetime:
    """Return the first moment after `day`; for Python's last day, its last moment."""
    return datetime.max.replace(tzinfo=UTC) if day == date.max else start_of(day + timedelta(days=1))


def ended_by(end: datetime) -> date | None:
    """Return the day whose `end_of` is this moment; None if it is in the middle of a day."""
    day = end.astimezone(ALGIERS).date()
    return day - timedelta(days=1) if end == start_of(day) else None


def between(first: date, last: date) -> Iterator[date]:
    """The days from `first` to `last`, both included."""
    return map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))


def read_moment(text: str, *, ends: bool = False) -> datetime:
    """Read an ISO 8601 time with an offset, or a date: the day's start in Algeria, or with `ends` its end.

    Raises ValueError with a sentence.
    """
    try:
        if _DATE.fullmatch(text):
            day = date.fromisoformat(text)
            return end_of(day) if ends else start_of(day)
        # In a query, a `+` that was not escaped arrives as a space.
        moment = datetime.fromisoformat(text.replace(" ", "+")) if _DATE.match(text) else None
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError("Must be an ISO 8601 date, or an ISO 8601 time with a UTC offset.")
    return moment
