"""Deleting what is old. Apps register sweeps; the command `prune` and beat's task run them."""

import logging
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Protocol

from django.db import connection

logger = logging.getLogger(__name__)

# The rest between two batches, as a multiple of the time of the last one, so that requests hardly notice.
REST = 3.0
BATCH = 1000  # rows that one statement deletes


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

    The caller may stop the iteration; the next one goes on with what is left. Two at once do no harm. A sweep that
    fails does not stop those after it; at the end SweepsFailed names it.
    """
    with connection.cursor() as cursor:
        # By the database's clock, so that a host whose clock is wrong cannot delete what is new.
        cursor.execute("SELECT now() - %s::interval", [older_than])
        before = cursor.fetchone()[0]
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
        with connection.cursor() as cursor:
            if dry_run:
                cursor.execute(f"SELECT count(*) {old}", [kept])
                yield {name: cursor.fetchone()[0]}
                return
            deleted = BATCH
            while deleted == BATCH:
                cursor.execute(
                    f"DELETE FROM {table} WHERE {key} = ANY(ARRAY("  # noqa: S608  (our own tables)
                    f"SELECT {key} {old} ORDER BY {at} LIMIT %s FOR UPDATE SKIP LOCKED))",
                    [kept, BATCH],
                )
                deleted = cursor.rowcount
                yield {name: deleted}

    return sweep
