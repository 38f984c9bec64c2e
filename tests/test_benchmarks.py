"""Each benchmark can be imported, and says how it is called."""

import pytest

from tests.harness.processes import CHECKOUT
from tests.harness.python import run_python

FILES = [path for path in sorted((CHECKOUT / "benchmarks").glob("*.py")) if not path.stem.startswith("__")]
PARTS = [path for path in FILES if "\ndef main(" in path.read_text()]  # each of the others belongs to one of these
OTHERS = [path for path in FILES if path not in PARTS]


@pytest.mark.parametrize("name", [path.stem for path in OTHERS])
def test_what_belongs_to_a_part_begins_by_itself_too(name: str) -> None:
    process = run_python("-c", f"import benchmarks.{name}")
    assert process.returncode == 0, process.stderr[-500:]


@pytest.mark.parametrize("name", [path.stem for path in PARTS])
def test_each_part_says_how_it_is_called(name: str) -> None:
    process = run_python("-m", f"benchmarks.{name}", "--help")
    assert process.returncode == 0, process.stderr[-500:]
    examples = [line for line in process.stdout.splitlines() if line.startswith(("    make bench-", "    python -m "))]
    assert examples, process.stdout
