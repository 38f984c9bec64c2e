"""What the service consists of, as a plain list of processes."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codservice import embedded
from codservice.embedded.postgres import postgres
from codservice.embedded.valkey import valkey

from .process import Process
from .web import STOP_SECONDS, Web

CHECKOUT = Path(__file__).resolve().parent.parent.parent
STOP_ORDER = ("prepare", "web", "worker", "beat", "broker", "database")


def is_set(environ: Mapping[str, str], name: str) -> bool:
    """Whether a setting is given, directly or as a file that holds it."""
    return bool(environ.get(name) or environ.get(f"{name}_FILE"))


def processes(layout: embedded.Layout, web: Web, environ: Mapping[str, str] = os.environ) -> list[Process]:
    """All of them, in start order. Database and broker only when nothing else was named for them."""
    listed = []
    if not is_set(environ, "DATABASE_URL"):
        listed.append(postgres(layout))
    if not is_set(environ, "REDIS_URL"):
        listed.append(valkey(layout))
    return [*listed, *application_processes(layout, web)]


def application_processes(layout: embedded.Layout, web: Web) -> list[Process]:
    """The parts that are ours. Each gets our environment unchanged, with the data folder spelled out."""
    environment = {
        "DATA_DIR": str(layout.data),
        # Few threads need no memory arena of their own for each core.
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2"),
        # Checks load every page and form into the worker; `manage.py check` and the tests run them.
        "CELERY_SKIP_CHECKS": os.environ.get("CELERY_SKIP_CHECKS", "true"),
    }

    def ours(name: str, **more: Any) -> Process:
        command = [sys.executable, "-m", f"codservice.run.{name}"]
        return Process(name, command, options={"cwd": CHECKOUT}, environment=environment, **more)

    return [
        ours("prepare", once=True, start_seconds=None),
        ours("web", is_ready=web.answers, stop=((signal.SIGTERM, STOP_SECONDS + 5.0),)),
        # Warm shutdown, then a cold one: what a task leaves undone is still a row that is due.
        ours("worker", stop=((signal.SIGTERM, 15.0), (signal.SIGQUIT, 5.0))),
        ours("beat", stop=((signal.SIGTERM, 5.0),)),
    ]
