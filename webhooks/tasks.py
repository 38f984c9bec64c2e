from celery import shared_task
from celery.signals import worker_shutting_down

from webhooks import wakeup
from webhooks.engine import engine


@shared_task
def deliver() -> int:
    """Send what is due, until nothing is; how many attempts."""
    wakeup.hear()
    return engine.drain()


@worker_shutting_down.connect
def stop_delivering(**kwargs: object) -> None:
    engine.stop()
