"""The OpenAPI description passes the strictest linters that people run over it, without an exception."""

import os
import subprocess
from pathlib import Path

import pytest
from django.test import Client

from tests.harness.npm import installed, program

PACKAGE = Path(__file__).with_name("description")
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}


@pytest.fixture
def folder(tmp_path: Path, client: Client) -> Path:
    """The folder of the linters, with the description as served in `openapi.yaml`."""
    (tmp_path / "openapi.yaml").write_bytes(client.get("/api/schema").content)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["@stoplight/spectral-cli/dist/index.js", "lint", "--fail-severity=hint", "--ruleset=spectral.yaml"],
        ["@redocly/cli/bin/cli.js", "lint", "--config=redocly.yaml"],
    ],
    ids=["spectral", "redocly"],
)
def test_linters_find_nothing(command: list[str], folder: Path) -> None:
    cache = installed(PACKAGE)
    script, *options = command

    done = subprocess.run(
        [program("node"), cache / "node_modules" / script, *options, folder / "openapi.yaml"],
        cwd=cache, env=os.environ | QUIET, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
