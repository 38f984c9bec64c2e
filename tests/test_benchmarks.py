"""Each benchmark can be imported, and says how it is called. All together tell the figures of each."""

import json
import shutil
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.harness.processes import CHECKOUT
from tests.harness.python import FreshPython, run_python

FOLDER = CHECKOUT / "benchmarks"
FILES = [path for path in sorted(FOLDER.glob("*.py")) if not path.stem.startswith("__")]
PARTS = [path for path in FILES if "\ndef main(" in path.read_text()]


@pytest.mark.parametrize("name", ["draining", "receiver"])  # which no part imports when it begins
def test_what_belongs_to_a_part_begins_by_itself_too(name: str) -> None:
    process = run_python("-c", f"import benchmarks.{name}")
    assert process.returncode == 0, process.stderr[-500:]


@pytest.mark.parametrize("name", [path.stem for path in PARTS])
def test_each_part_says_how_it_is_called(name: str) -> None:
    process = run_python("-m", f"benchmarks.{name}", "--help")
    assert process.returncode == 0, process.stderr[-500:]
    examples = [line for line in process.stdout.splitlines() if line.startswith(("    make bench-", "    python -m "))]
    assert examples, process.stdout


def test_figures_of_the_same_name_are_told_for_each_part(tmp_path: Path) -> None:
    parts = tmp_path / "benchmarks"
    parts.mkdir()
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(FOLDER / name, parts)
    (parts / "orders.py").write_text("print('{\"p50_ms\": 1}')")
    (parts / "lists.py").write_text("print('{\"p50_ms\": 2}')")
    (parts / "mix.py").write_text("raise SystemExit(1)")
    command = ("-m", "benchmarks", "orders", "mix", "lists")
    with FreshPython[str](*command, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True) as process:
        said, failed = process.communicate()
    assert json.loads(said.splitlines()[-1]) == {"orders": {"p50_ms": 1}, "mix": {}, "lists": {"p50_ms": 2}}
    assert (process.returncode, failed) == (1, "failed: mix\n")
