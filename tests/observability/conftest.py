"""Web and worker as in production, in processes of their own over the test's database."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings

from tests.harness import manage
from tests.harness.background import eventually
from tests.harness.database import database_url
from tests.harness.processes import free_port

from .part import Part

PRODUCTION = {name: manage.PRODUCTION[name] for name in ("SECRET_KEY", "ENCRYPTION_KEYS")} | {"HTTPS": "false"}


@pytest.fixture(scope="session")
def static_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Collect the static files, as the image does for web processes in production. Returns the settings for them."""
    where = {
        "DJANGO_SETTINGS_MODULE": "tests.harness.patient",
        "STATIC_ROOT": str(tmp_path_factory.mktemp("static")),
    }
    command = [sys.executable, "manage.py", "collectstatic", "--no-input", "--verbosity=0"]
    none = {"DATABASE_URL": "postgresql://nobody/none", "REDIS_URL": settings.REDIS_URL}
    subprocess.run(command, cwd=settings.BASE_DIR, env=os.environ | PRODUCTION | none | where, check=True)
    return where


@pytest.fixture
def start(static_files: dict[str, str], transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., Part]]:
    """Start parts by name, `web` or `worker`. They share a folder of counters, as on one host."""
    started: list[Part] = []

    def make(name: str, *, module: str = "", **environment: str) -> Part:
        port = free_port()
        environ = os.environ | PRODUCTION | static_files | {
            "DATABASE_URL": database_url(),
            "REDIS_URL": settings.REDIS_URL,
            "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "counters"),
            "WEBHOOK_ALLOW_PRIVATE": "true",
            "PORT" if name == "web" else "METRICS_PORT": str(port),
        } | environment  # fmt: skip
        log = tmp_path / f"{name}-{len(started)}.log"
        started.append(Part(module or f"codservice.run.{name}", port, log, environ))
        eventually(lambda: started[-1].is_up("/healthz" if name == "web" else "/metrics"))
        return started[-1]

    yield make
    for part in started:
        part.stop()
