"""When a delivery is tried again: four attempts, each so long after the end of the one before (docs/webhooks.md)."""

from datetime import timedelta

SCHEDULE = (timedelta(minutes=10), timedelta(hours=2), timedelta(hours=12))
RETRIES = len(SCHEDULE)  # that a delivery begins with


def delay_before_retry(retries_left: int) -> timedelta | None:
    """How long to wait after a failed attempt when `retries_left` remain; None when that was the last."""
    return SCHEDULE[RETRIES - retries_left] if retries_left else None


# By how many remain, as statements take it.
DELAYS = [delay_before_retry(retries_left) for retries_left in range(RETRIES + 1)]
