"""What is measured can be measured."""

import subprocess
import sys

import pytest

from tests.harness.processes import CHECKOUT

MODULES = sorted(path.stem for path in (CHECKOUT / "benchmarks").glob("*.py") if not path.stem.startswith("__"))


@pytest.mark.parametrize("name", MODULES)
def test_each_part_begins_by_itself(name: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", f"import benchmarks.{name}"]
    process = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-500:]
