from celery import shared_task
from celery.signals import worker_shutting_down

from webhooks import registry, wakeup
from webhooks.engine import engine


@shared_task
def deliver() -> int:
    """Send what is due, until nothing is; how many attempts."""
    wakeup.hear()
    return engine.drain()


@shared_task
def drop_left_over() -> int:
    """Drop what deleted webhooks still have waiting; how many deliveries."""
    return registry.drop_left_over()


@worker_shutting_down.connect
def stop_delivering(**kwargs: object) -> None:
    engine.stop()
