"""Tests stand still shortly before midnight in Algeria."""

from datetime import UTC, datetime

import pytest

from tests.harness.midnight import seconds_to_wait


@pytest.mark.parametrize(
    ("clock", "seconds"), [((22, 57, 59), 0), ((22, 58, 1), 119), ((22, 59, 59), 1), ((23, 0, 0), 0), ((12, 0, 0), 0)]
)
def test_they_wait_for_the_next_day_of_algeria(clock: tuple[int, int, int], seconds: float) -> None:
    assert seconds_to_wait(datetime(2026, 11, 29, *clock, tzinfo=UTC)) == seconds
