"""When a delivery is tried again: four attempts, each a fixed time after the end of the last (docs/webhooks.md)."""

from datetime import timedelta

SCHEDULE = (timedelta(minutes=10), timedelta(hours=2), timedelta(hours=12))
RETRIES = len(SCHEDULE)  # what a delivery begins with


def delay_before_retry(retries_left: int) -> timedelta | None:
    """Return how long to wait after a failed attempt when `retries_left` remain; None when that was the last."""
    return SCHEDULE[RETRIES - retries_left] if retries_left else None


# The delay for each number of retries left, for SQL.
DELAYS = [delay_before_retry(retries_left) for retries_left in range(RETRIES + 1)]
