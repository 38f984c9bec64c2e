import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from celery import shared_task
from celery.concurrency.thread import TaskPool
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from celery.worker.consumer import Consumer

from webhooks import alarms, delivery, recovery, registry, wakeup
from webhooks.engine import engine

logger = logging.getLogger(__name__)


@shared_task
def deliver() -> int:
    """Send until nothing is due, and return the number of attempts.

    The task is only a wake-up, which may be lost, doubled or late. `webhooks.retries` decides when a delivery is tried
    again, and its row says so (`next_attempt_at`). Celery's `eta`, `countdown` and `retry` would not do: a Redis broker
    hands out a task that waits longer than its visibility timeout, an hour, again and again, and loses its tasks when
    it is killed.
    """
    wakeup.hear()
    return engine.drain()


@shared_task
def drop_left_over() -> int:
    """Drop pending deliveries of webhooks that are deleted or off. Returns how many."""
    return registry.drop_left_over()


@shared_task
def shorten_claims() -> int:
    """Shorten claims and waits that are too long because the database's clock was set back. Returns how many."""
    return delivery.shorten_claims()


@shared_task
def recover() -> int:
    """Go on with recoveries that requests have left. Returns how many deliveries.

    Each worker runs it by its own clock (WORKER_SCHEDULE).
    """
    return recovery.go_on()


@shared_task
def tell_of_failing() -> int:
    """Mail account holders whose webhooks have stopped answering or are well again. Returns how many mails."""
    return alarms.tell()


# One thread: while it drains, the bell's thread tells it to look again.
_drains = ThreadPoolExecutor(1, thread_name_prefix="drains")


@worker_ready.connect
def listen(sender: Consumer, **kwargs: object) -> None:
    """Let the bell wake this worker if its tasks are threads, which share one engine."""
    if isinstance(sender.pool, TaskPool):
        threading.Thread(target=wakeup.listen, args=(_heard, engine.stopping), name="bell", daemon=True).start()


def _heard() -> None:
    """Have the drain that runs look again, or begin one. Another thread is woken only for the latter."""
    wakeup.hear()
    if not engine.wake_up():
        try:
            _drains.submit(engine.drain).add_done_callback(_note_failure)
        except RuntimeError as error:  # this worker ends, or the system allows no more threads
            logger.warning("the bell could not begin a drain: %s", error)


def _note_failure(drain: Future[int]) -> None:
    """Log what nobody else would hear of: Celery logs errors of its tasks only."""
    if not drain.cancelled() and (error := drain.exception()):
        logger.error("a drain ended with an error", exc_info=error)


@worker_shutdown.connect
def finish(**kwargs: object) -> None:
    """Let attempts that are under way end and be settled: at the interpreter's exit no thread could do it any more."""
    _drains.shutdown()


@worker_shutting_down.connect
def stop_delivering(**kwargs: object) -> None:
    engine.stop()
