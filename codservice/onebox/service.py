"""The processes of the service, as a plain list."""

import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

from codservice.data_folder import Layout, is_set
from codservice.onebox.postgres import postgres
from codservice.onebox.process import Process
from codservice.onebox.valkey import valkey
from codservice.run import counters
from codservice.run.web import STOP_SECONDS, Web

CHECKOUT = Path(__file__).resolve().parent.parent.parent
STOP_ORDER = ("application", "broker", "database")

WEB_STOP = ((signal.SIGTERM, STOP_SECONDS + 5.0),)
# There is no cold stop, as Celery has none for threads: what a task leaves undone is still a row that is due.
WORKER_STOP = ((signal.SIGTERM, 15.0),)
BEAT_STOP = ((signal.SIGTERM, 5.0),)
# The three one after the other, and a little more.
APPLICATION_STOP = ((signal.SIGTERM, sum(seconds for _, seconds in (*WEB_STOP, *WORKER_STOP, *BEAT_STOP)) + 5.0),)

# Database sessions for workers and commands, besides one for each web thread.
OTHER_SESSIONS = 56


def processes(layout: Layout, web: Web) -> list[Process]:
    """Return all processes in start order; database and broker only if the environment does not name others."""
    listed = []
    if not is_set("DATABASE_URL"):
        listed.append(postgres(layout, sessions=web.workers * web.threads + OTHER_SESSIONS))
    if not is_set("REDIS_URL"):
        listed.append(valkey(layout))
    return [*listed, application(layout, web)]


def application(layout: Layout, web: Web) -> Process:
    """Return the process that loads and runs our own parts, with our environment and some additions."""
    folder = layout.data / "counters"
    return Process(
        "application",
        [sys.executable, "-m", "codservice.onebox.application"],
        # The processes that counted there died with the previous one.
        before_start=partial(shutil.rmtree, folder, ignore_errors=True),
        is_ready=web.answers,
        is_early=True,
        start_seconds=None,  # migrations take as long as they take
        stop=APPLICATION_STOP,
        options={"cwd": CHECKOUT},
        environment={
            "DATA_DIR": str(layout.data),
            counters.VARIABLE: str(folder),
            # With few threads, there is no need for memory arenas per core.
            "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2"),
            # `manage.py check` and the tests run the checks; a worker need not.
            "CELERY_SKIP_CHECKS": os.environ.get("CELERY_SKIP_CHECKS", "true"),
        },
    )
