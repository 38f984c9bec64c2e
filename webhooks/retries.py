"""When a delivery is tried again: four attempts, each so long after the end of the one before (contract, section 9)."""

from datetime import timedelta

SCHEDULE = (timedelta(minutes=10), timedelta(hours=2), timedelta(hours=12))
RETRIES = len(SCHEDULE)  # that a delivery begins with
# How long is waited after a failed attempt, by how many retries remain; None when that was the last.
DELAYS = [None, *reversed(SCHEDULE)]
