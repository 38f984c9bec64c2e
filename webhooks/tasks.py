from celery import shared_task
from celery.signals import worker_shutting_down

from webhooks import registry, wakeup
from webhooks.engine import engine


@shared_task
def deliver() -> int:
    """Send what is due, until nothing is; how many attempts.

    The task is a wake-up and no more, which may be lost, doubled or late. When a delivery is tried again stands in its
    row (`next_attempt_at`), and `webhooks.retries` decides it. Celery's `eta`, `countdown` and `retry` are not for
    that: a Redis broker hands a task that waits longer than its visibility timeout, an hour, out again and again, and
    what it held is gone when it is killed.
    """
    wakeup.hear()
    return engine.drain()


@shared_task
def drop_left_over() -> int:
    """Drop what deleted webhooks still have waiting; how many deliveries."""
    return registry.drop_left_over()


@worker_shutting_down.connect
def stop_delivering(**kwargs: object) -> None:
    engine.stop()
