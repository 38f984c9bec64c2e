"""What recurs: note that it was done, ask how long ago, and let one worker at a time do it. By the database's clock."""

from datetime import datetime, timedelta

from django.db import connection


def note(name: str) -> None:
    """It was done now."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO operations_duty (name, done_at, taken_until) VALUES (%s, now(), now())"
            " ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at",
            [name],
        )


def take(name: str, *, every: timedelta, lease: timedelta) -> datetime | None:
    """Take a duty that is due: until when it is the caller's. None when it was done less than `every` ago, or somebody
    else is at it.

    A caller that dies holds it for `lease`. A duty that was never done is due at once, and so is one that was done or
    taken while the clock was ahead.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO operations_duty AS duty (name, done_at, taken_until)"
            " VALUES (%(name)s, now() - %(every)s::interval, now() + %(lease)s::interval)"
            " ON CONFLICT (name) DO UPDATE SET taken_until = excluded.taken_until"
            " WHERE (duty.taken_until <= now() OR duty.taken_until > clock_timestamp() + %(lease)s::interval)"
            " AND (duty.done_at <= excluded.done_at OR duty.done_at > clock_timestamp())"
            " RETURNING taken_until",
            {"name": name, "every": every, "lease": lease},
        )
        found = cursor.fetchone()
    return found[0] if found else None


def leave(name: str, taken_until: datetime, *, is_done: bool) -> None:
    """Give back what was taken: done, so that it rests until it is due again, or for anybody to go on with.

    Whoever was paused for so long that somebody else has it by now gives nothing back.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE operations_duty SET taken_until = now(), done_at = CASE WHEN %s THEN now() ELSE done_at END"
            " WHERE name = %s AND taken_until = %s",
            [is_done, name, taken_until],
        )


def ages() -> dict[str, float]:
    """How many seconds ago each was last done, by name: the few that there are. None is below zero, though its clock
    may have been ahead then."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, GREATEST(EXTRACT(EPOCH FROM now() - done_at), 0)::float FROM operations_duty")
        return dict(cursor.fetchall())


def age(name: str) -> float | None:
    """How many seconds ago it was last done; None when nobody has ever been at it."""
    return ages().get(name)
