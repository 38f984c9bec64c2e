"""Requests per minute: exact over any number of web processes, one Redis round trip, open when Redis is away.

API keys are counted by a script that Redis runs as one step: counting and reading the window's end cannot come
apart. Addresses and logins, where a few round trips more do not matter, are counted by django-ratelimit.
docs/dependencies.md has the figures behind that split.
"""

import logging
import threading
import time
from typing import NamedTuple

import redis
from django.conf import settings
from django.http import HttpRequest
from django_ratelimit.core import get_usage
from redis.backoff import NoBackoff
from redis.retry import Retry

from codservice import metrics

logger = logging.getLogger(__name__)

WINDOW = 60  # seconds
ADDRESS_LIMIT = 300  # requests per window and address without a recognised key (contract, section 3)
# After a failure Redis is left alone for so long, so that a hung one costs one request its timeout, not each.
PAUSE = 2.0  # seconds

# The first request opens the window; a refused one neither lengthens it nor counts.
_COUNT = """
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count >= tonumber(ARGV[1]) then return {count + 1, redis.call('PTTL', KEYS[1])} end
count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {count, redis.call('PTTL', KEYS[1])}
"""


class Usage(NamedTuple):
    """How a key stands in its window; `reset` is in whole seconds, at least 1."""

    limit: int
    remaining: int
    reset: int
    is_exceeded: bool


class Counter:
    """The counter of requests per key in Redis. Thread-safe; one per process."""

    def __init__(self, url: str, timeout: float) -> None:
        # One immediate retry on a broken connection (Redis restarted), none on a slow one.
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        self._count = self._redis.register_script(_COUNT)
        self._paused_until = 0.0
        self._lock = threading.Lock()

    def use(self, name: str, limit: int) -> Usage:
        """Count one request of `name`. When Redis does not answer it passes, as the first of a window."""
        if self.is_paused:
            return Usage(limit, limit, WINDOW, is_exceeded=False)
        try:
            count, milliseconds = self._count(keys=[f"codservice:rate:{name}"], args=[limit, WINDOW * 1000])
        except redis.RedisError as error:
            self.pause(error)
            return Usage(limit, limit, WINDOW, is_exceeded=False)
        return Usage(limit, max(limit - count, 0), max(-(-milliseconds // 1000), 1), count > limit)

    def pause(self, error: Exception) -> None:
        with self._lock:
            if not self.is_paused:
                logger.warning("rate limit is open, Redis does not answer: %s", error)
                metrics.RATE_LIMIT_OPEN.inc()
            self._paused_until = time.monotonic() + PAUSE

    @property
    def is_paused(self) -> bool:
        return time.monotonic() < self._paused_until


counter = Counter(settings.REDIS_URL, settings.REDIS_TIMEOUT)


def use_key(key_id: object, limit: int) -> Usage:
    usage = counter.use(str(key_id), limit)
    if usage.is_exceeded:
        metrics.REFUSALS.labels("api-key").inc()
    return usage


def client_address(request: HttpRequest) -> str:
    """The client's address: the peer, or what the trusted proxies (TRUSTED_PROXIES of them) say of it."""
    hops = settings.TRUSTED_PROXIES
    if hops:
        forwarded = [hop.strip() for hop in request.headers.get("X-Forwarded-For", "").split(",")]
        if len(forwarded) >= hops and forwarded[-hops]:
            return forwarded[-hops]
    return request.META.get("REMOTE_ADDR") or "unknown"


def is_address_limited(request: HttpRequest) -> int:
    """Count a request without a recognised key; 0 when it may pass, else the seconds to wait."""
    return limited_for(request, "api-address", client_address(request), f"{ADDRESS_LIMIT}/m")


def limited_for(request: HttpRequest, group: str, value: str, rate: str) -> int:
    """Count one use of `value` in `group` with django-ratelimit; 0 when within `rate`, else seconds to wait."""
    if counter.is_paused:
        return 0
    try:
        usage = get_usage(request, group=group, key=lambda group, request: value, rate=rate, increment=True)
    except redis.RedisError as error:
        counter.pause(error)
        return 0
    if not usage or not usage["should_limit"]:
        return 0
    metrics.REFUSALS.labels(group).inc()
    # time_left counts to the start of the window's last second: without the 1 the client came back too early.
    return max(usage["time_left"] + 1, 1)
