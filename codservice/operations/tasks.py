import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from celery import shared_task
from django.conf import settings

from codservice import retention, stops
from codservice.operations import duties, key_ends

PRUNE_SECONDS = 20.0  # of one worker thread at a time; beat sends the next in a minute
PRUNE_LEASE = timedelta(minutes=5)
PRUNE_EVERY = timedelta(days=1)

_Batches = Iterator[tuple[str, dict[str, int]]]
_left: tuple[float, _Batches] | None = None  # when this worker's unfinished round began, and its rest


@shared_task
def note_beat() -> None:
    """Sent only by beat. Its arrival proves that beat and a worker are alive."""
    duties.note("beat")


@shared_task
def note_worker() -> None:
    """Run by every worker on its own clock, which proves that one is alive even without Redis and beat."""
    duties.note("worker")


@shared_task
def tell_of_key_ends() -> int:
    """Mail account holders whose keys are in use and end soon. Returns how many mails."""
    return key_ends.tell()


@shared_task
def prune() -> dict[str, int]:
    """Prune old data once a day, for PRUNE_SECONDS at a time until a round is complete, by a clock that is trusted.

    A task goes on where its worker's last one ended: to read past what is kept may take longer than a task has.
    """
    global _left
    if not retention.database_clock.is_trusted():
        return {}
    taken = duties.take("prune", every=PRUNE_EVERY, lease=PRUNE_LEASE)
    if taken is None:
        return {}
    counts: Counter[str] = Counter()
    is_done = False
    try:
        deadline = time.monotonic() + PRUNE_SECONDS
        began, batches = _take_round()
        for _, batch in batches:
            counts.update(batch)
            if stops.stopping.is_set():
                break
            if time.monotonic() > deadline:
                _left = began, batches
                break
        else:
            is_done = True
    finally:
        duties.leave("prune", taken, is_done=is_done)
    return dict(counts)


def _take_round() -> tuple[float, _Batches]:
    """Take the round that was left, which no other thread then has. A day later another worker may have ended its own,
    so that the next begins anew."""
    global _left
    left, _left, now = _left, None, time.monotonic()
    if left and now - left[0] < PRUNE_EVERY.total_seconds():
        return left
    return now, retention.sweep(timedelta(days=settings.DELIVERY_RETENTION_DAYS))
