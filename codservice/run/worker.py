"""The worker: `python -m codservice.run.worker`. It does what Celery's messages ask for, and some of it unasked.

Threads and not processes: a task here waits for PostgreSQL and for receivers, and sends many deliveries at once by
itself. A second process would cost as much memory as the first.
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
# What tasks of our own clock may still take at a stop: a delivery under way 3 s, and its result some more.
STOP_SECONDS = 10.0
# What Celery imports when a worker or beat starts, by name.
STARTED = (
    *(f"celery.app.{part}" for part in ("amqp", "control", "events", "log")),
    *(f"celery.{part}" for part in ("apps.beat", "apps.worker", "backends.base", "concurrency.thread")),
    *(f"celery.worker.{part}" for part in ("components", "strategy")),
    "kombu.transport.redis",
)


def preload() -> None:
    """Import and bind what workers and beat need, so that they need not when they are forked."""
    for module in STARTED:
        importlib.import_module(module)

    from codservice.celery import app

    app.loader.import_default_modules()
    app.finalize()


def take_no_orders() -> None:
    """Answer who asks whether we are there, as `check_service` does, and nothing else: by Celery's remote control
    whoever can write to Redis could stop workers and read their settings."""
    from celery.worker.control import Panel

    for command in Panel.data.keys() - {"ping"}:
        del Panel.data[command]


def hear_stops(worker: Any) -> None:
    """Finish at SIGTERM from now on, and when the terminal is closed, unless nohup keeps that off. Celery would listen
    for SIGTERM only when our own clock is at work already."""
    worker._isatty = True  # else Celery would run this file anew, which it cannot
    worker.install_platform_tweaks(worker)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


class PatientConsumer(Consumer):
    """Redis may refuse for long, as one that is full or has become a replica: it is asked again, but not at once."""

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        super().on_connection_error_before_connected(exc)
        _pause()

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        super().on_connection_error_after_connected(exc)
        _pause()


def _pause() -> None:
    """REFUSED_SECONDS, or until the worker is told to stop."""
    deadline = time.monotonic() + REFUSED_SECONDS
    while time.monotonic() < deadline:
        maybe_shutdown()
        time.sleep(0.1)


@contextmanager
def own_clock() -> Iterator[None]:
    """Do WORKER_SCHEDULE while the block runs, each task in a thread of its own.

    Neither Redis nor beat is needed for it, and no clock that somebody sets.
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
            logger.exception("%s failed and is tried again in %s s", name, seconds)
        if stopping.wait(seconds):
            return


def main() -> int:
    from django.conf import settings

    from codservice import metrics
    from codservice.celery import app

    # Root is the only user of many a container, and nothing here unpickles what comes from the broker.
    warnings.simplefilter("ignore", SecurityWarning)
    worker = app.Worker(
        pool_cls="threads",
        consumer_cls=PatientConsumer,
        concurrency=THREADS,
        loglevel="WARNING",
        quiet=True,
        # One worker talks to nobody; without these it neither waits for peers nor sends them anything.
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    take_no_orders()
    hear_stops(worker)
    # From here on there are threads, and the environment stays as it is: to write to it beside a thread that reads it,
    # as libraries in C do, ends the process. Celery has written what it wants there.
    if settings.METRICS_PORT:
        host = os.environ.get("HOST", "").strip() or "127.0.0.1"
        try:
            metrics.serve(host, settings.METRICS_PORT)
        except OSError as error:
            sys.exit(f"codservice: METRICS_PORT {settings.METRICS_PORT} on {host} cannot be used: {error.strerror}.")
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
