"""Waking a worker when a change has been committed. It takes a bounded time and never makes a request fail.

A wake-up may be lost, doubled or late: the rows are the queue, and workers look every few seconds. Many commits share
one ring: whoever finds that the bell has been rung does not ring again until a worker has heard it. Workers listen on a
Redis channel, which is three times as fast as a Celery task; where no worker listens and few messages wait, a task is
sent.
"""

import logging
import threading
import time
from collections.abc import Callable

import redis
from django.conf import settings
from django.db import transaction

from codservice.celery import app

logger = logging.getLogger(__name__)

_BELL = "codservice:deliveries:bell"
_RINGS_FOR = 1000  # milliseconds after which it may be rung again, whether heard or not
_GATHERS_FOR = 0.01  # seconds after a ring in which commits share the next: one alone never waits, many a little
_PAUSE = 2.0  # seconds that Redis is left alone after it did not answer

_redis = redis.Redis.from_url(settings.REDIS_URL, **settings.REDIS_CLIENT)
_KEYS = [_BELL, settings.CELERY_TASK_DEFAULT_QUEUE]
# Unlike a key, a channel is shared by all databases of a Redis, which may serve several installations.
_CHANNEL = f"{_BELL}:{_redis.get_connection_kwargs().get('db') or 0}"
# One round trip. Returns whether a task is needed: it was not rung already, nobody heard it, and few messages wait.
_ring = _redis.register_script("""
if not redis.call('SET', KEYS[1], 1, 'NX', 'PX', ARGV[1]) then return false end
return redis.call('PUBLISH', ARGV[2], '') == 0 and redis.call('LLEN', KEYS[2]) < tonumber(ARGV[3])
""")
_paused_until = 0.0


def after_commit() -> None:
    """Wake a worker once the current transaction is committed; nothing happens when it is rolled back."""
    transaction.on_commit(ring, robust=True)


def ring() -> None:
    """Wake a worker now. Never raises, and gives up when Redis does not answer in time."""
    global _paused_until
    if time.monotonic() < _paused_until:
        return
    try:
        if _ring(keys=_KEYS, args=[_RINGS_FOR, _CHANNEL, settings.MOST_MESSAGES]):
            app.send_task("webhooks.tasks.deliver", retry=False, expires=30)
    except Exception as error:  # kombu raises what its transports raise
        _paused_until = time.monotonic() + _PAUSE
        logger.warning("workers could not be woken, and will look by themselves: %s", error)


def hear() -> None:
    """Note that a worker is about to look at the queue, so that later commits ring again."""
    try:
        _redis.delete(_BELL)
    except redis.RedisError:
        logger.debug("the bell could not be deleted, and will expire")


def listen(heard: Callable[[], object], stopping: threading.Event) -> None:
    """Call `heard` at each ring, until `stopping` is set, and whenever Redis is reached (again), since rings may have
    been missed.
    """
    while not stopping.is_set():
        try:
            with _redis.pubsub() as bell:
                bell.subscribe(_CHANNEL)
                while not stopping.is_set():
                    # The first message confirms the subscription; nobody has heard a ring before it.
                    if bell.get_message(timeout=1.0) and not stopping.is_set():
                        heard()
                        stopping.wait(_GATHERS_FOR)
        except redis.RedisError as error:
            logger.debug("the bell cannot be listened to: %s", error)
            stopping.wait(_PAUSE)
