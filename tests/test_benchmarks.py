"""Each benchmark can be imported, and says how it is called."""

import subprocess
import sys

import pytest

from tests.harness.processes import CHECKOUT

FILES = [path for path in sorted((CHECKOUT / "benchmarks").glob("*.py")) if not path.stem.startswith("__")]
PARTS = [path for path in FILES if "\ndef main(" in path.read_text()]  # each of the others belongs to one of these
OTHERS = [path for path in FILES if path not in PARTS]


@pytest.mark.parametrize("name", [path.stem for path in OTHERS])
def test_what_belongs_to_a_part_begins_by_itself_too(name: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", f"import benchmarks.{name}"]
    process = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-500:]


@pytest.mark.parametrize("name", [path.stem for path in PARTS])
def test_each_part_says_how_it_is_called(name: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{name}", "--help"]
    process = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 0, process.stderr[-500:]
    examples = [line for line in process.stdout.splitlines() if line.startswith(("    make bench-", "    python -m "))]
    assert examples, process.stdout
