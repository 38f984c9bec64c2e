"""Begins no test that may see midnight in Algeria: many look at "today" more than once.

A run that crosses it stands still meanwhile.
"""

import time
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from codservice import days

NEAR = timedelta(minutes=2)  # longer than nearly every test takes, on a busy machine too


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    time.sleep(seconds_to_wait(timezone.now()))


def seconds_to_wait(now: datetime) -> float:
    """The rest of Algeria's day if midnight is near, otherwise 0."""
    left = days.end_of(now.astimezone(days.ALGIERS).date()) - now
    return left.total_seconds() if left < NEAR else 0.0
