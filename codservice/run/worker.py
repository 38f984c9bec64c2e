"""The worker: `python -m codservice.run.worker`. It runs tasks when Celery's messages ask for them, and some by itself.

It uses threads, not processes: tasks wait for PostgreSQL and for receivers, and the one that delivers sends many at
once. A second process would cost as much memory as the first.
"""

import importlib
import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery.apps.worker import Worker as CeleryWorker
from celery.apps.worker import install_worker_term_handler
from celery.platforms import SecurityWarning
from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown
from django.core.exceptions import ImproperlyConfigured

from codservice.errors import CannotStart
from codservice.run import pulse
from codservice.run.kernel import return_memory_soon

logger = logging.getLogger(__name__)

THREADS = 2
REFUSED_SECONDS = 5.0
# What tasks of our own clock may still take when stopping: 3 s for an attempt under way, and some more for its result.
STOP_SECONDS = 10.0
# What Celery imports by name when a worker or beat starts.
STARTED = (
    *(f"celery.app.{part}" for part in ("amqp", "control", "events", "log")),
    *(f"celery.{part}" for part in ("apps.beat", "apps.worker", "backends.base", "concurrency.thread")),
    *(f"celery.worker.{part}" for part in ("components", "strategy")),
    "kombu.transport.redis",
)


def preload() -> None:
    """Import and bind what workers and beat need before they are forked."""
    for module in STARTED:
        importlib.import_module(module)

    from codservice.celery import app

    app.loader.import_default_modules()
    app.finalize()


class Worker(CeleryWorker):
    """Celery's, which stops without printing a sentence that is no line of our log."""

    def install_platform_tweaks(self, worker: Any) -> None:
        super().install_platform_tweaks(worker)
        install_worker_term_handler(worker, verbose=False)


def hear_stops(worker: Any) -> None:
    """Finish at SIGTERM from now on, and when the terminal is closed, unless nohup prevents it.

    Celery would handle SIGTERM only later, when our own clock is already running."""
    worker._isatty = True  # otherwise Celery would try to run this file again, which fails
    worker.install_platform_tweaks(worker)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


class PatientConsumer(Consumer):
    """A consumer that pauses before it reconnects, as Redis may refuse for long when it is full or became a replica."""

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        super().on_connection_error_before_connected(exc)
        _pause()

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        super().on_connection_error_after_connected(exc)
        _pause()


def _pause() -> None:
    """Wait for REFUSED_SECONDS, or until the worker is told to stop."""
    deadline = time.monotonic() + REFUSED_SECONDS
    while time.monotonic() < deadline:
        maybe_shutdown()
        time.sleep(0.1)


@contextmanager
def own_clock() -> Iterator[None]:
    """Run WORKER_SCHEDULE while the block runs, each task in its own thread.

    It needs neither Redis nor beat, nor the system's wall clock.
    """
    from django.conf import settings

    stopping = threading.Event()
    threads = [
        threading.Thread(target=_repeat, args=(name, seconds, stopping), name=name, daemon=True)
        for name, seconds in settings.WORKER_SCHEDULE.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))


def _repeat(name: str, seconds: float, stopping: threading.Event) -> None:
    from django.db import close_old_connections

    from codservice.celery import app

    task = app.tasks[name]
    while True:
        close_old_connections()
        try:
            task()
        except Exception:
            logger.exception("%s failed and will be tried again in %s s", name, seconds)
        if stopping.wait(seconds):
            return


def main() -> int:
    from django.conf import settings

    from codservice import metrics
    from codservice.celery import app

    # Root is the only user of many containers, and nothing here unpickles what comes from the broker.
    warnings.simplefilter("ignore", SecurityWarning)
    worker = Worker(
        app=app,
        pool_cls="threads",
        consumer_cls=PatientConsumer,
        concurrency=THREADS,
        loglevel="WARNING",
        quiet=True,
        # Workers have nothing to say to each other: without these, one neither waits for peers nor sends to them.
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    hear_stops(worker)
    # From here on there are threads, and the environment must not change: writing to it while a thread reads it, as C
    # libraries do, can end the process. Celery has written what it needs by now.
    if settings.METRICS_PORT:
        host = os.environ.get("HOST", "").strip() or "127.0.0.1"
        try:
            metrics.serve(host, settings.METRICS_PORT)
        except (OSError, UnicodeError) as error:  # UnicodeError: HOST cannot be a name
            why = (getattr(error, "strerror", None) or str(error)).lower()
            sys.exit(
                f"codservice: METRICS_PORT {settings.METRICS_PORT} on {host} cannot be used ({why})."
                " Set another number, or 0 for none."
            )
    return_memory_soon()
    with own_clock():
        worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    try:
        pulse.need_file()
        sys.exit(main())
    except (CannotStart, ImproperlyConfigured) as error:
        sys.exit(f"codservice: {error}")
