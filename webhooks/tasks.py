import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from celery import shared_task
from celery.concurrency.thread import TaskPool
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from celery.worker.consumer import Consumer

from webhooks import alarms, delivery, recovery, registry, wakeup
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
    """Drop what webhooks that are deleted or off still have waiting; how many deliveries."""
    return registry.drop_left_over()


@shared_task
def shorten_claims() -> int:
    """Let no claim last, and no delivery wait, for longer than usual, whatever becomes of the database's clock; how
    many would have.
    """
    return delivery.shorten_waits()


@shared_task
def recover() -> int:
    """Go on with recoveries that answers have left; how many deliveries."""
    return recovery.go_on()


@shared_task
def tell_of_failing() -> int:
    """Mail account holders whose webhooks have stopped answering, or are well again; how many mails."""
    return alarms.tell()


# One thread drains, and one tells it to look again.
_woken = ThreadPoolExecutor(2, thread_name_prefix="woken")


@worker_ready.connect
def listen(sender: Consumer, **kwargs: object) -> None:
    """Have the bell wake this worker, if its tasks are threads and so share one engine."""
    if isinstance(sender.pool, TaskPool):
        heard = partial(_woken.submit, deliver)
        threading.Thread(target=wakeup.listen, args=(heard, engine.stopping), name="bell", daemon=True).start()


@worker_shutdown.connect
def finish(**kwargs: object) -> None:
    """Let what is under way end and be written down: at the interpreter's exit no thread would be asked any more."""
    _woken.shutdown()


@worker_shutting_down.connect
def stop_delivering(**kwargs: object) -> None:
    engine.stop()
