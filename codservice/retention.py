"""What is kept for how long. Apps register what forgets; the command `prune` and beat's task let it work."""

import logging
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Protocol

from django.db import connection

logger = logging.getLogger(__name__)

# Between two batches it rests for so many times as long as the last one took, so that requests hardly notice.
REST = 3.0
BATCH = 1000  # rows that a statement deletes


class Sweep(Protocol):
    """Forgets what is old, by one short transaction for each step of the iteration, so that it can end anywhere.

    Gives how many rows of what each batch has deleted or overwritten, or with `dry_run` would have, zeros included.
    `before` is for what has no time of its own after which it goes.
    """

    def __call__(self, before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]: ...


# Name → sweep, in the order in which they run. Apps add theirs when they are ready.
SWEEPS: dict[str, Sweep] = {}


class SweepsFailed(Exception):
    """Some could not be gone through; all others were."""


def sweep(older_than: timedelta, *, dry_run: bool = False) -> Iterator[tuple[str, dict[str, int]]]:
    """Let all SWEEPS forget what is older, batch by batch: the sweep's name and its counts.

    Whoever stops asking stops it; the next one goes on with what is left. Two at once do no harm. One that fails does
    not stop those after it; at the end SweepsFailed names it.
    """
    with connection.cursor() as cursor:
        # A host whose clock is wrong shall not delete what is new.
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


def delete_old(
    table: str, name: str, kept: timedelta, *, at: str, key: str = "id", dry_run: bool
) -> Iterator[dict[str, int]]:
    """A sweep that deletes rows when their time `at` is `kept` ago, and counts them as `name`. Where there may be many
    rows, `at` has an index."""
    old = f"FROM {table} WHERE {at} < now() - %s"
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
