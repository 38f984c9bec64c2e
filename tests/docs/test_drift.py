"""The comparison at the end of a whole run finds what only one of the two knows, and makes the run fail."""

import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings

from tests.drift import drift

DESCRIPTION = {"paths": {"/api/v1/orders": {"get": {"responses": {"200": {}, "401": {}}}}}}


def test_agreement_is_silent() -> None:
    seen = {("GET", "/api/v1/orders", 200), ("GET", "/api/v1/orders", 401), ("PATCH", "/api/v1/orders", 405)}

    assert drift(seen, DESCRIPTION) == []


def test_what_only_one_of_them_knows_is_told() -> None:
    seen = {("GET", "/api/v1/orders", 200), ("GET", "/api/v1/orders", 418), ("PATCH", "/api/v1/orders", 200)}

    assert drift(seen, DESCRIPTION) == [
        "GET /api/v1/orders answered 418, which is not described",
        "GET /api/v1/orders is described with 401, which no test saw",
        "PATCH /api/v1/orders answered 200, which is not described",
    ]


def test_a_run_on_two_workers_fails_with_what_both_saw(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "from tests import drift\n"
        "def test_one(): drift.SEEN.add(('GET', '/api/v1/orders', 200))\n"
        "def test_two(): drift.SEEN.add(('GET', '/api/v1/orders', 418))\n"
    )
    command = [
        *(sys.executable, "-m", "pytest", "-n", "2", "--drift", "--noconftest", "-p", "no:cacheprovider"),
        *("-o", "addopts=-p tests.drift", "-p", "no:valkey", "-p", "no:randomly", str(tmp_path)),
    ]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}

    done = subprocess.run(
        [*command, f"--rootdir={settings.BASE_DIR}"],
        cwd=settings.BASE_DIR, env=outside, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    assert "GET /api/v1/orders answered 418, which is not described" in done.stdout
    assert "GET /api/v1/orders is described with 200" not in done.stdout
    assert "GET /api/v1/orders is described with 401, which no test saw" in done.stdout
