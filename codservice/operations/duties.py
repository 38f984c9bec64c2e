"""Recurring duties: when each was last done, and which worker is doing it. By the database's clock."""

from datetime import datetime, timedelta

from codservice import postgresql


def note(name: str) -> None:
    """Note that the duty was done now."""
    postgresql.execute(
        "INSERT INTO operations_duty (name, done_at, taken_until) VALUES (%s, now(), now())"
        " ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at",
        [name],
    )


def take(name: str, *, every: timedelta, lease: timedelta) -> datetime | None:
    """Take a duty that is due, and return until when it is the caller's. None if it was done less than `every` ago or
    somebody else has it.

    If the caller dies, the duty stays taken for `lease`. A duty is due at once if it was never done, or was done or
    taken while the clock was ahead.
    """
    found = postgresql.row(
        "INSERT INTO operations_duty AS duty (name, done_at, taken_until)"
        " VALUES (%(name)s, now() - %(every)s::interval, now() + %(lease)s::interval)"
        " ON CONFLICT (name) DO UPDATE SET taken_until = excluded.taken_until"
        " WHERE (duty.taken_until <= now() OR duty.taken_until > clock_timestamp() + %(lease)s::interval)"
        " AND (duty.done_at <= excluded.done_at OR duty.done_at > clock_timestamp())"
        " RETURNING taken_until",
        {"name": name, "every": every, "lease": lease},
    )
    return found[0] if found else None


def leave(name: str, taken_until: datetime, *, is_done: bool) -> None:
    """Give a duty back: done, to rest until it is due again, or unfinished, for anybody to continue.

    Does nothing if the caller was paused for so long that somebody else has taken it.
    """
    postgresql.execute(
        "UPDATE operations_duty SET taken_until = now(), done_at = CASE WHEN %s THEN now() ELSE done_at END"
        " WHERE name = %s AND taken_until = %s",
        [is_done, name, taken_until],
    )


def ages() -> dict[str, float]:
    """Name → seconds since the duty was last done. Never negative, even if it was done while the clock was ahead."""
    statement = "SELECT name, GREATEST(EXTRACT(EPOCH FROM now() - done_at), 0)::float FROM operations_duty"
    return dict(postgresql.rows(statement))


def age(name: str) -> float | None:
    """Seconds since the duty was last done, or None if it never was taken or done."""
    return ages().get(name)
