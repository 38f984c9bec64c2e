"""The real service under load and faults for a minute, and with broken promises, which are found."""

import json
import os
import secrets
from pathlib import Path

import pytest

from .checker import check, figures
from .faults import named
from .plants import PLANTS
from .run import Run, Settings

pytestmark = pytest.mark.hosts

SEED = int(os.environ.get("SEED") or secrets.randbelow(10**6))
RATE = 25.0  # changes a second


def test_nothing_is_lost_doubled_or_kept_back_whatever_is_killed(tmp_path: Path) -> None:
    print(f"SEED={SEED}")
    plan = named(
        *("worker killed", "Redis flushed", "web killed", "PostgreSQL killed", "worker told to stop"),
        *("broker killed", "application killed", "beat killed", "one of the web processes killed"),
        *("trouble on the way to PostgreSQL", "supervisor killed", "trouble on the way to the service"),
    )
    record = Run(Settings(SEED, 50, plan, RATE, print), tmp_path).carry_out()
    breaches = check(record)
    print(json.dumps(figures(record, breaches), indent=2))
    assert breaches == []
    assert len(record.injuries) == len(plan)


def test_what_is_planted_into_a_real_service_is_found(tmp_path: Path) -> None:
    plants = [sql for sql, _ in PLANTS.values()]
    plan = named("PostgreSQL killed", "PostgreSQL stopped at once", "PostgreSQL killed")
    record = Run(Settings(SEED, 15, plan, RATE, print, plants), tmp_path).carry_out()
    found = {breach.rule for breach in check(record)}
    assert {rule for _, rules in PLANTS.values() for rule in rules} <= found
