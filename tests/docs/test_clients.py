"""Generators that people use make working clients from the description: each imports, lists and cancels an order.

The commands and programs are those of docs/clients.md, run against the service.
"""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from orders.models import Order
from tests.harness.background import PATIENCE
from tests.harness.npm import installed, program
from tests.harness.service import Service

PACKAGE = Path(__file__).with_name("clients")
PYTHON = Path(sys.prefix) / "clients/bin"
COMMANDS = {
    "python": (
        'openapi-python-client generate --url "$URL/api/schema" --meta none --output-path codservice_client',
        "python3 client.py 1042",
    ),
    "typescript": (
        'npx openapi-typescript "$URL/api/schema" --output schema.d.ts',
        "npx tsc --strict --skipLibCheck --target es2022 --module nodenext client.ts",
        "node client.js 1042",
    ),
}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module", params=sorted(COMMANDS))
def generated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _service: Service
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Generate a client once, and run the program that uses it as often as called."""
    *generate, use = COMMANDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    environ = os.environ | {"URL": _service.url}
    if request.param == "python":
        assert PYTHON.exists(), "generators of clients are missing; install them: make .venv/clients/.requirements"
        environ["PATH"] = f"{PYTHON}:{environ['PATH']}"
    else:
        assert program("npx")
        cache = installed(PACKAGE)
        (folder / "node_modules").symlink_to(cache / "node_modules")
        shutil.copy(cache / "package.json", folder)
    for path in (settings.BASE_DIR / "docs/examples").glob("client.*"):
        shutil.copy(path, folder)

    def execute(command: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euc", command],
            cwd=folder, env=environ | changes, capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip

    for command in generate:
        done = execute(command)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in (done.stdout + done.stderr).lower(), done.stdout + done.stderr
    return lambda number, **changes: execute(use.replace("1042", number), **changes)


@pytest.fixture
def run(
    generated: Callable[..., subprocess.CompletedProcess[str]], service: Service, key: str
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the program with a key of this test's account."""
    return partial(generated, KEY=key)


def test_a_generated_client_imports_lists_cancels_and_does_not_wait_for_ever(run: Any) -> None:
    done, again, refused = run("1042"), run("1042"), run("9" * 65)

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.lower() for line in done.stdout.splitlines()] == [
        "imported 1042 pending_confirmation",
        "listed 1 true",
        "canceled canceled out of stock",
    ]
    assert (again.returncode, again.stdout) == (0, done.stdout)  # the first answer again, and nothing done twice
    assert refused.returncode == 1
    assert "external_id" in refused.stderr
    order = Order.objects.get()
    assert (order.status, order.wilaya_code, str(order.total_amount)) == ("canceled", "16", "4900.00")

    with socket.create_server(("127.0.0.1", 0)) as silent:
        waited = run("1042", URL=f"http://127.0.0.1:{silent.getsockname()[1]}")

    assert waited.returncode != 0
    assert "timeout" in waited.stderr.lower() or "timed out" in waited.stderr.lower()


def test_what_stands_before_the_service_may_answer_as_nobody_describes(run: Any) -> None:
    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_error(502)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = run("1042", URL=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == "No answer that the description knows; send it again with the same key."


@pytest.mark.parametrize("page", ["docs/clients.md", "docs/fr/clients.md"])
def test_the_page_shows_the_commands_that_are_run_here(page: str) -> None:
    shown = (settings.BASE_DIR / page).read_text(encoding="utf-8")

    for command in [*COMMANDS["python"], *COMMANDS["typescript"]]:
        assert f"{command}\n" in shown
