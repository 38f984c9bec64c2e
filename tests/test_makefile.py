"""`make` over an environment from before."""

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
