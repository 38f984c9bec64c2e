"""Starts PostgreSQL and Valkey for the tests, before Django's settings are read: `-p tests.harness.embedded_services`.

A server whose DATABASE_URL or REDIS_URL is set is not started. With pytest-xdist the controller starts them once, and
its workers find the URLs in their environment.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from codservice import data_folder
from codservice.data_folder import Layout
from codservice.onebox.postgres import postgres
from codservice.onebox.process import Process, becomes_ready, spawn
from codservice.onebox.valkey import valkey
from codservice.secret_file import secrets

# Database 0 is for a run without xdist.
REDIS_DATABASES = 64
START_SECONDS = 90.0
# Losing the tests' rows in a crash of the machine is fine; services that tests start themselves do not get these
# options. The connections are for tests that do fifty things at once, in each worker.
OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


class _Services:
    """A temporary data folder and the servers over it."""

    def __init__(self) -> None:
        self.running: list[tuple[Process, subprocess.Popen[bytes]]] = []
        self.folder: Path | None = None

    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="codservice-tests-"))
        layout = Layout(self.folder / "data")
        layout.data.mkdir(mode=0o700)
        os.environ["DATA_DIR"] = str(layout.data)
        # Secrets in the environment would mean production to the settings; the tests talk plain HTTP.
        for name in ("SECRET_KEY", "ENCRYPTION_KEYS"):
            os.environ.pop(name, None)
        secrets(layout.data)
        if not os.environ.get("DATABASE_URL"):
            database = postgres(layout)
            options = [word for name, value in OPTIONS.items() for word in ("-c", f"{name}={value}")]
            self._run(replace(database, command=[*database.command, *options]))
            os.environ["DATABASE_URL"] = data_folder.database_url(layout.data)
        if not os.environ.get("REDIS_URL"):
            broker = valkey(layout)
            self._run(replace(broker, command=[*broker.command, "--databases", str(REDIS_DATABASES)]))
            os.environ["REDIS_URL"] = data_folder.redis_url(layout.data)

    def _run(self, process: Process) -> None:
        # Test data is thrown away, so there is nothing to write out when this process dies.
        process = replace(process, orphan_signal=signal.SIGKILL)
        popen = spawn(process)
        self.running.append((process, popen))
        if not becomes_ready(process, popen, seconds=START_SECONDS):
            log = process.log.read_text(errors="replace")[-2000:] if process.log else ""
            pytest.exit(f"the {process.name} for the tests did not start:\n{log}", returncode=3)

    def stop(self) -> None:
        for process, popen in reversed(self.running):
            popen.send_signal(process.stop[0][0])
            try:
                popen.wait(10)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
        self.running.clear()
        if self.folder:
            shutil.rmtree(Layout(self.folder / "data").runtime, ignore_errors=True)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None


_services = _Services()


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    # The wheel with Valkey includes a pytest plugin whose dependencies it does not.
    pluginmanager.set_blocked("valkey")


# A wrapper, because pytest-django reads the settings in this very hook.
@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, object, object]:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        os.environ["REDIS_URL"] = of_worker(os.environ["REDIS_URL"], int(worker.removeprefix("gw")) + 1)
    else:
        _services.start()
    return (yield)


def pytest_unconfigure() -> None:
    _services.stop()


def of_worker(url: str, number: int) -> str:
    """The URL of the worker's own database in the same Redis."""
    parts = urlsplit(url)
    if parts.scheme == "unix":  # written out: urlunsplit would drop the slashes before an empty host
        return f"unix://{parts.path}?db={number}"
    return parts._replace(path=f"/{number}").geturl()
