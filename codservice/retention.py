"""Deleting what is old. Apps register sweeps; the command `prune` and beat's task run them."""

import logging
import math
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Protocol

from codservice import postgresql

logger = logging.getLogger(__name__)

# The rest between two batches, as a multiple of the time of the last one, so that requests hardly notice.
REST = 3.0
BATCH = 1000  # rows that one statement deletes
# What is deleted by a wrong clock does not come back. A machine may start with a wrong date, which its time service
# soon sets right, or be given one by mistake.
SETTLING = timedelta(minutes=15)  # from a worker's first look at the clock until it deletes anything
JUMP = timedelta(hours=1)
MISTRUST = timedelta(days=1)  # after a jump of the database's clock: time for somebody to see it
# Nobody sets it, and where the system has such a clock it goes on while the machine sleeps.
_STEADY_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Sweep(Protocol):
    """Deletes or overwrites what is old, in a short transaction per step of the iteration, so that it can end anywhere.

    Yields how many rows of each kind a batch changed, or would have changed with `dry_run`, zeros included. `before`
    is for rows that have no retention time of their own.
    """

    def __call__(self, before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]: ...


# Name → sweep, in the order in which they run. Apps add theirs when they are ready.
SWEEPS: dict[str, Sweep] = {}


class SweepsFailed(Exception):
    """Some sweeps failed; all others have run."""


def sweep(older_than: timedelta, *, dry_run: bool = False) -> Iterator[tuple[str, dict[str, int]]]:
    """Run all SWEEPS, batch by batch, and yield each batch's sweep by name, with its counts.

    The caller may stop the iteration, and go on with it later, in another thread too; a new one begins with the first
    sweep, and finds what is left. Two at once do no harm. A sweep that fails does not stop those after it; at the end
    SweepsFailed names it.
    """
    # By the database's clock, so that a host whose clock is wrong cannot delete what is new.
    before = postgresql.row("SELECT now() - %s::interval", [older_than])[0]
    failed: dict[str, Exception] = {}
    for name, each in SWEEPS.items():
        batches = each(before, dry_run=dry_run)
        while True:
            started = time.monotonic()
            try:
                counts = next(batches, None)
            except Exception as error:
                logger.exception("the sweep of %s failed", name)
                failed[name] = error
                break
            taken = time.monotonic() - started
            if counts is None:
                break
            yield name, counts
            time.sleep(taken * REST)
    if failed:
        raise SweepsFailed("; ".join(f"the sweep of {name} failed: {error}" for name, error in failed.items()))


def old_rows(table: str, name: str, kept: timedelta, *, at: str, key: str = "id") -> Sweep:
    """Return a sweep that deletes rows whose time `at` is longer ago than `kept`, and counts them as `name`.

    If there may be many rows, `at` needs an index."""
    old = f"FROM {table} WHERE {at} < now() - %s"

    def sweep(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
        if dry_run:
            yield {name: postgresql.row(f"SELECT count(*) {old}", [kept])[0]}
            return
        deleted = BATCH
        while deleted == BATCH:
            deleted = postgresql.execute(
                f"DELETE FROM {table} WHERE {key} = ANY(ARRAY("  # noqa: S608  (our own tables)
                f"SELECT {key} {old} ORDER BY {at} LIMIT %s FOR UPDATE SKIP LOCKED))",
                [kept, BATCH],
            )
            yield {name: deleted}

    return sweep


def now() -> datetime:
    found: datetime = postgresql.row("SELECT clock_timestamp()")[0]
    return found


# When the clock was last seen to be set, among the duties: a worker that starts later has not seen it.
_NOTE_SET = """
INSERT INTO operations_duty (name, done_at, taken_until) VALUES ('clock', %(now)s, %(now)s)
ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at
"""
_SET_SINCE = "SELECT done_at FROM operations_duty WHERE name = 'clock' AND done_at > %s"


class DatabaseClock:
    """The database's clock, compared with a steady one from time to time."""

    def __init__(self, settling: timedelta = SETTLING) -> None:
        self._settling = settling
        self._ahead: float | None = None  # none until the first look: workers are forked with what was loaded before
        self._settled_from = math.inf

    def is_trusted(self) -> bool:
        """Look at it, and return whether it has gone evenly for long enough to delete what is old by it.

        What any worker has seen counts, also after that worker has ended."""
        there, here = now(), time.clock_gettime(_STEADY_CLOCK)
        ahead = there.timestamp() - here
        if self._ahead is None:
            self._settled_from = here + self._settling.total_seconds()
        elif abs(ahead - self._ahead) > JUMP.total_seconds():
            _note_set(there)
            logger.error(
                "the database's clock was set by %+.1f hours, so nothing is pruned for a day. If it is right, run"
                " `manage.py prune`.",
                (ahead - self._ahead) / 3600,
            )
        self._ahead = ahead
        return here >= self._settled_from and not _was_set_lately(there)


def _note_set(at: datetime) -> None:
    postgresql.execute(_NOTE_SET, {"now": at})


def _was_set_lately(at: datetime) -> bool:
    found = postgresql.row(_SET_SINCE, [at - MISTRUST])
    if found and found[0] > at:  # noted by a clock that was ahead, and set back while nobody looked
        _note_set(at)
    return found is not None


database_clock = DatabaseClock()
