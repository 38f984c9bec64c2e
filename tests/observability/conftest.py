"""Web and worker as a production runs them, in processes of their own over the test's database."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.api.conftest import Service, database_url
from tests.run.conftest import free_port
from tests.webhooks.engine.conftest import webhook_to  # noqa: F401  (a fixture)
from tests.webhooks.engine.receivers import Receiver

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
PRODUCTION = {"SECRET_KEY": "".join(map(chr, range(48, 110))), "ENCRYPTION_KEYS": KEY, "HTTPS": "false"}


class Part(Service):
    """One process of ours that listens, and what it has logged."""

    def __init__(self, module: str, port: int, log: Path, environ: dict[str, str]) -> None:
        super().__init__(port, log)
        with log.open("wb") as output:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", module],
                env=environ,
                stdout=subprocess.DEVNULL,
                stderr=output,
                cwd=settings.BASE_DIR,
            )

    def lines(self) -> list[dict[str, Any]]:
        """Every line that it has logged, each a JSON object."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def is_up(self, path: str) -> bool:
        assert self.popen.poll() is None, self.log.read_text()
        try:
            return self.send("GET", path).status == 200
        except OSError:
            return False

    def metrics(self) -> dict[str, float]:
        """What /metrics shows: series as text, with their labels → value."""
        answer = self.send("GET", "/metrics")
        assert answer.status == 200, answer.body
        rows = (line.rpartition(" ") for line in answer.body.decode().splitlines() if not line.startswith("#"))
        return {series: float(value) for series, _, value in rows}

    def stop(self) -> None:
        self.popen.send_signal(signal.SIGTERM)
        try:
            self.popen.wait(20)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


@pytest.fixture(scope="session")
def _static_files() -> None:
    """A production's web processes look for them when they start, as the image has them."""
    command = [sys.executable, "manage.py", "collectstatic", "--no-input", "--verbosity=0"]
    environ = os.environ | PRODUCTION | {"DATABASE_URL": "postgresql://nobody/none", "REDIS_URL": settings.REDIS_URL}
    with open(settings.BASE_DIR / "manage.py") as one_at_a_time:  # of the workers that run the tests
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        subprocess.run(command, cwd=settings.BASE_DIR, env=environ, check=True)


@pytest.fixture
def start(_static_files: None, transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., Part]]:
    """Starts parts by name, `web` or `worker`; they share a folder of counters, as on one host."""
    started: list[Part] = []

    def make(name: str, **environment: str) -> Part:
        port = free_port()
        environ = os.environ | PRODUCTION | {
            "DATABASE_URL": database_url(),
            "REDIS_URL": settings.REDIS_URL,
            "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "counters"),
            "WEBHOOK_ALLOW_PRIVATE": "true",
            "PORT" if name == "web" else "METRICS_PORT": str(port),
        } | environment  # fmt: skip
        log = tmp_path / f"{name}-{len(started)}.log"
        started.append(Part(f"codservice.run.{name}", port, log, environ))
        eventually(lambda: started[-1].is_up("/healthz" if name == "web" else "/metrics"), 30)
        return started[-1]

    yield make
    for part in started:
        part.stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def eventually(check: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What `check` gives, once it gives something."""
    deadline = time.monotonic() + seconds
    while not (result := check()):
        assert time.monotonic() < deadline, f"did not come true within {seconds} s"
        time.sleep(0.05)
    return result
