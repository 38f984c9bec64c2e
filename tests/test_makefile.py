"""`make` over an environment from before."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.processes import CHECKOUT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a filled environment."""
    shutil.copy2(CHECKOUT / "Makefile", tmp_path)
    (tmp_path / "requirements.txt").touch()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("bin/pip", ".requirements"):
        (tmp_path / ".venv" / name).touch()
    return tmp_path


def would_do(checkout: Path) -> str:
    command = ["make", "--dry-run", ".venv/.requirements"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True).stdout


def test_an_environment_that_works_is_kept(checkout: Path) -> None:
    (checkout / ".venv/bin/python").symlink_to("/bin/true")
    assert "up to date" in would_do(checkout)


@pytest.mark.parametrize("python", ["/usr/bin/python3.0", "/bin/false"], ids=["gone", "another, which has no pip"])
def test_an_environment_whose_python_was_upgraded_is_made_anew(checkout: Path, python: str) -> None:
    (checkout / ".venv/bin/python").symlink_to(python)
    said = would_do(checkout)
    assert "-m venv --clear" in said
    assert "-r requirements.txt" in said


TOOL = """#!/bin/sh
case "$0 $*" in
*mypy*) its=types others=tests;;
*pytest*) its=tests others=types;;
*) exit 0;;
esac
touch "began.$its"
timeout 30 sh -c "until [ -e began.$others ]; do sleep 0.05; done" || exit
echo "$its say so"
[ "$FAILS" != "$its" ]
"""


@pytest.mark.parametrize(("fails", "status"), [("nothing", 0), ("tests", 2), ("types", 2)])
def test_types_are_checked_beside_the_tests_and_either_fails_both(checkout: Path, fails: str, status: int) -> None:
    """Each waits here for the other to begin."""
    for name in ("python", "mypy", "ruff"):
        (tool := checkout / ".venv/bin" / name).write_text(TOOL)
        tool.chmod(0o755)
    for name in ("tests", "codservice/observability", "codservice/onebox"):
        (checkout / name).mkdir(parents=True)
        (checkout / name / "requirements.txt").touch()
    for name in (".requirements", ".requirements-dev", ".embedded"):
        (checkout / ".venv" / name).touch()
    environment = {"PATH": os.environ["PATH"], "FAILS": fails}

    def make(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["make", *words], cwd=checkout, env=environment, capture_output=True, text=True)

    would_do = make("--dry-run", "check").stdout
    assert "-m pytest" in would_do
    assert "bin/mypy" in would_do
    done = make("check")
    assert done.returncode == status
    assert {"tests say so", "types say so"} <= set(done.stdout.splitlines())
    assert "-m 'not process and not browser and not hosts'" in done.stdout
    assert "jobserver" not in done.stderr
