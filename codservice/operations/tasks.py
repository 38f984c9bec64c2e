import logging
import time
from collections import Counter
from datetime import timedelta

from celery import shared_task
from django.conf import settings

from codservice import retention
from codservice.operations import duties

logger = logging.getLogger(__name__)

PRUNE_SECONDS = 20.0  # of one worker thread at a time; beat sends the next in a minute
PRUNE_LEASE = timedelta(minutes=5)
PRUNE_EVERY = timedelta(days=1)
# What is deleted by a wrong clock does not come back. A machine may start with a wrong date, which its time service
# soon sets right, or be given one by mistake.
SETTLING = timedelta(minutes=15)  # from a worker's start until it prunes
JUMP = timedelta(hours=1)
MISTRUST = timedelta(days=1)  # after a jump of the database's clock: time for somebody to see it
# Nobody sets it, and where the system has such a clock it goes on while the machine sleeps.
_STEADY_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@shared_task
def note_beat() -> None:
    """Sent only by beat. Its arrival proves that beat and a worker are alive."""
    duties.note("beat")


@shared_task
def note_worker() -> None:
    """Run by every worker on its own clock, which proves that one is alive even without Redis and beat."""
    duties.note("worker")


class DatabaseClock:
    """The database's clock, compared with a steady one from time to time."""

    def __init__(self, settling: timedelta = SETTLING) -> None:
        self._trusted_from = time.clock_gettime(_STEADY_CLOCK) + settling.total_seconds()
        self._ahead: float | None = None

    def is_trusted(self) -> bool:
        """Look at it, and return whether it has gone evenly for long enough to delete what is old by it."""
        here = time.clock_gettime(_STEADY_CLOCK)
        before, self._ahead = self._ahead, duties.now().timestamp() - here
        if before is not None and abs(self._ahead - before) > JUMP.total_seconds():
            self._trusted_from = here + MISTRUST.total_seconds()
            logger.error(
                "the database's clock was set by %+.1f hours, so nothing is pruned for a day. If it is right, run"
                " `manage.py prune`.",
                (self._ahead - before) / 3600,
            )
        return here >= self._trusted_from


database_clock = DatabaseClock()


@shared_task
def prune() -> dict[str, int]:
    """Prune old data once a day, for PRUNE_SECONDS at a time until a round is complete, by a clock that is trusted."""
    if not database_clock.is_trusted():
        return {}
    taken = duties.take("prune", every=PRUNE_EVERY, lease=PRUNE_LEASE)
    if taken is None:
        return {}
    counts: Counter[str] = Counter()
    is_done = False
    try:
        deadline = time.monotonic() + PRUNE_SECONDS
        for _, batch in retention.sweep(timedelta(days=settings.DELIVERY_RETENTION_DAYS)):
            counts.update(batch)
            if time.monotonic() > deadline:
                break
        else:
            is_done = True
    finally:
        duties.leave("prune", taken, is_done=is_done)
    return dict(counts)
