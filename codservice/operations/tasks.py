import time
from collections import Counter
from datetime import timedelta

from celery import shared_task
from django.conf import settings

from codservice import retention
from codservice.operations import duties

PRUNE_SECONDS = 20.0  # of one worker thread at a time; beat sends the next in a minute
PRUNE_LEASE = timedelta(minutes=5)
PRUNE_EVERY = timedelta(days=1)


@shared_task
def note_beat() -> None:
    """Beat alone sends this: that it arrives proves that both beat and a worker live."""
    duties.note("beat")


@shared_task
def note_worker() -> None:
    """Every worker does this by its own clock: that it was done proves that one lives, Redis and beat or not."""
    duties.note("worker")


@shared_task
def prune() -> dict[str, int]:
    """Forget what is old, once a day: for PRUNE_SECONDS a time, until a round has gone through all."""
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
