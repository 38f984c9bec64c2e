"""The worker: `python -m codservice.run.worker`; `celery -A codservice worker --pool threads` in less memory.

Threads and not processes: a task here waits for PostgreSQL and for receivers, and sends many deliveries at once by
itself. A second process would cost as much memory as the first.
"""

import os
import sys
import warnings

from celery.platforms import SecurityWarning

from .kernel import return_memory_soon

THREADS = 2


def preload() -> None:
    """Import what a worker needs, so that it need not when it is forked."""
    import celery.apps.worker
    import celery.concurrency.thread
    import celery.worker.consumer  # noqa: F401

    from codservice.celery import app

    app.loader.import_default_modules()


def main() -> int:
    from django.conf import settings

    from codservice import metrics
    from codservice.celery import app

    # Root is the only user of many a container, and nothing here unpickles what comes from the broker.
    warnings.simplefilter("ignore", SecurityWarning)
    if settings.METRICS_PORT:
        host = os.environ.get("HOST") or "127.0.0.1"
        try:
            metrics.serve(host, settings.METRICS_PORT)
        except OSError as error:
            sys.exit(f"codservice: METRICS_PORT {settings.METRICS_PORT} on {host} cannot be used: {error.strerror}.")
    worker = app.Worker(
        pool_cls="threads",
        concurrency=THREADS,
        loglevel="WARNING",
        quiet=True,
        # One worker talks to nobody; without these it neither waits for peers nor sends them anything.
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    return_memory_soon()
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    sys.exit(main())
