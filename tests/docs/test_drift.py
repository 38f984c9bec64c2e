"""The comparison at the end of a whole run finds what only one of the two has, and makes the run fail."""

import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings

from tests.harness.drift import drift

DESCRIPTION = {"paths": {"/api/v1/orders": {"get": {"responses": {"200": {}, "401": {}}}}}}


def test_agreement_is_silent() -> None:
    seen = {("GET", "/api/v1/orders", 200), ("GET", "/api/v1/orders", 401)}
    seen |= {("PATCH", "/api/v1/orders", 405), ("PATCH", "/api/v1/orders", 404), ("OPTIONS", "/api/v1/orders", 204)}

    assert drift(seen, DESCRIPTION) == []


def test_what_only_one_of_them_knows_is_told() -> None:
    seen = {("GET", "/api/v1/orders", 200), ("GET", "/api/v1/orders", 418), ("PATCH", "/api/v1/orders", 200)}
    seen |= {("DELETE", "/api/v1/orders", 204), ("OPTIONS", "/api/v1/orders", 200)}

    assert drift(seen, DESCRIPTION) == [
        "DELETE /api/v1/orders answered 204, which is not described",
        "GET /api/v1/orders answered 418, which is not described",
        "GET /api/v1/orders is described with 401, which no test saw",
        "OPTIONS /api/v1/orders answered 200, which is not described",
        "PATCH /api/v1/orders answered 200, which is not described",
    ]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a suite of two tests, each of which sees one answer."""
    (folder / "test_two.py").write_text(
        "from tests.harness import drift\n"
        "def test_one(): drift.SEEN.add(('GET', '/api/v1/orders', 200))\n"
        "def test_two(): drift.SEEN.add(('GET', '/api/v1/orders', 418))\n"
    )
    command = [
        *(sys.executable, "-m", "pytest", "--noconftest", f"--rootdir={settings.BASE_DIR}"),
        *("-o", "addopts=-p pytest_django.plugin -p xdist.plugin -p tests.harness.drift"),
        *("-p", "no:cacheprovider", *options),
    ]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    outside["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # loading unused ones takes seconds
    return subprocess.run(command, cwd=settings.BASE_DIR, env=outside, capture_output=True, text=True, check=False)


def test_a_whole_run_fails_with_what_all_workers_saw(tmp_path: Path) -> None:
    for options in ([str(tmp_path), "--drift"], ["-o", f"testpaths={tmp_path}", "-n", "2"]):
        done = run(tmp_path, *options)

        assert "2 passed" in done.stdout, done.stdout + done.stderr
        assert done.returncode == 1
        assert "GET /api/v1/orders answered 418, which is not described" in done.stdout
        assert "GET /api/v1/orders is described with 200" not in done.stdout
        assert "GET /api/v1/orders is described with 401, which no test saw" in done.stdout


def test_a_part_of_the_suite_is_not_compared(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", f"testpaths={tmp_path}", "-k", "one or two")

    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
