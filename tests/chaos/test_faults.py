"""Plans of faults."""

import pytest

from .faults import make_plan


@pytest.mark.parametrize("seed", [1, 2])
def test_a_long_plan_does_all_of_it(seed: int) -> None:
    plan = make_plan(seed, 108)
    names = [fault.name for fault in plan]
    assert sum(bool(fault.kills) for fault in plan) >= 100
    assert names.count("Redis flushed") >= 5
    assert sum(fault.kills == "PostgreSQL" for fault in plan) >= 10
    assert names.count("disk full") >= 2
    assert plan == make_plan(seed, 108)
