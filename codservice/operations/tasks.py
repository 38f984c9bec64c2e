import time
from collections import Counter
from datetime import timedelta

from celery import shared_task
from django.conf import settings

from codservice import retention, stops
from codservice.operations import duties

PRUNE_SECONDS = 20.0  # of one worker thread at a time; beat sends the next in a minute
PRUNE_LEASE = timedelta(minutes=5)
PRUNE_EVERY = timedelta(days=1)


@shared_task
def note_beat() -> None:
    """Sent only by beat. Its arrival proves that beat and a worker are alive."""
    duties.note("beat")


@shared_task
def note_worker() -> None:
    """Run by every worker on its own clock, which proves that one is alive even without Redis and beat."""
    duties.note("worker")


@shared_task
def prune() -> dict[str, int]:
    """Prune old data once a day, for PRUNE_SECONDS at a time until a round is complete, by a clock that is trusted."""
    if not retention.database_clock.is_trusted():
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
            if time.monotonic() > deadline or stops.stopping.is_set():
                break
        else:
            is_done = True
    finally:
        duties.leave("prune", taken, is_done=is_done)
    return dict(counts)
