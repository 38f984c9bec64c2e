"""Limits on requests per minute: exact over any number of web processes, open when Redis is away.

API keys and signed-in people are counted in one round trip by a script that Redis runs as one step, so that counting
and reading the window's end cannot come apart. Redis alone times their windows. Addresses, logins, passwords and mails,
where a few more round trips do not matter, are counted by django-ratelimit, in windows of each host's clock.
docs/dependencies.md has the figures behind that split.
"""

import logging
import threading
import time
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple

import redis
from django.conf import settings
from django.http import HttpRequest
from django_ratelimit.core import get_usage

from codservice import metrics

logger = logging.getLogger(__name__)

WINDOW = 60  # seconds
ADDRESS_LIMIT = 300  # requests per window and address without a recognised key (docs/limits.md)
# After a failure Redis is left alone for this long, so that its timeout is paid by one request and not by each.
PAUSE = 2.0  # seconds

# Counts in each of KEYS, or in none if one of them is used up. The first request opens a window; a refused one neither
# lengthens it nor counts. A window that ends later than possible, because Redis's clock was set back, begins anew with
# its count. Returns which key refuses (0: none), and for each the count and the rest of its window in milliseconds.
_COUNT = """
local refusing = 0
for i, key in ipairs(KEYS) do
  if tonumber(redis.call('GET', key) or '0') >= tonumber(ARGV[i + 1]) then refusing = i break end
end
local answer = {refusing}
for _, key in ipairs(KEYS) do
  local count = refusing == 0 and redis.call('INCR', key) or tonumber(redis.call('GET', key) or '0')
  if refusing == 0 and count == 1 then redis.call('PEXPIRE', key, ARGV[1]) end
  local left = redis.call('PTTL', key)
  if left > tonumber(ARGV[1]) then
    left = tonumber(ARGV[1])
    redis.call('PEXPIRE', key, left)
  end
  table.insert(answer, count)
  table.insert(answer, left)
end
return answer
"""


class Usage(NamedTuple):
    """The state of a key's window, or of its account's if less is left there.

    `reset` is in whole seconds, at least 1.
    """

    limit: int
    remaining: int
    reset: int
    is_exceeded: bool


class Counter:
    """The counters of keys and people in Redis. Thread-safe; one per process."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._url, self._options = url, options
        self._of_thread = threading.local()
        self._paused_until = 0.0
        self._lock = threading.Lock()

    def _count(self, keys: list[str], args: list[int]) -> list[int]:
        """Run the script on the thread's own connection: one from the client's pool takes half as long again."""
        if not hasattr(self._of_thread, "count"):
            client = redis.Redis.from_url(self._url, single_connection_client=True, **self._options)
            self._of_thread.count = client.register_script(_COUNT)
        return self._of_thread.count(keys=keys, args=args)

    def use(self, *limits: tuple[str, int]) -> Usage:
        """Count one request in each `(name, limit)`, or in none of them if one is used up.

        The usage's `limit` is that of the first. If Redis does not answer, the request passes without being counted.
        """
        limit = limits[0][1]
        unknown = Usage(limit, limit, WINDOW, is_exceeded=False)
        if self.is_paused:
            return unknown
        keys, most = [f"codservice:{name}" for name, _ in limits], [most for _, most in limits]
        try:
            refusing, *found = self._count(keys, [WINDOW * 1000, *most])
        except redis.RedisError as error:
            self.pause(error)
            return unknown
        left = [max(each - count, 0) for each, count in zip(most, found[::2], strict=True)]
        decisive = refusing - 1 if refusing else left.index(min(left))
        reset = max(-(-found[2 * decisive + 1] // 1000), 1)
        return Usage(limit, left[decisive], reset, is_exceeded=bool(refusing))

    def pause(self, error: Exception) -> None:
        with self._lock:
            if not self.is_paused:
                logger.warning("requests are not limited, because Redis does not answer: %s", error)
                metrics.RATE_LIMIT_OPEN.inc()
            self._paused_until = time.monotonic() + PAUSE

    @property
    def is_paused(self) -> bool:
        return time.monotonic() < self._paused_until


counter = Counter(settings.REDIS_URL, settings.REDIS_CLIENT)


def use_key(key_id: object, account_id: object, limit: int, most_keys: int) -> Usage:
    """Count one request of a key, against its own limit and that of all keys of its account together.

    `most_keys` is how many keys of an account work at once: keys that are made in place of others bring it no more than
    these may make. Windows begin with their own first request, so now and then an account's has less left than a key's.
    """
    usage = counter.use((f"rate:{key_id}", limit), (f"account-rate:{account_id}", limit * most_keys))
    if usage.is_exceeded:
        metrics.REFUSALS.labels("api-key").inc()
    return usage


def use_page(user_id: object) -> Usage:
    """Count one page that a signed-in person requests."""
    usage = counter.use((f"page-rate:{user_id}", settings.PAGE_RATE_LIMIT))
    if usage.is_exceeded:
        metrics.REFUSALS.labels("page").inc()
    return usage


def client_address(request: HttpRequest) -> str:
    """Return the client's address, normalised and without a port: the peer's, or what the TRUSTED_PROXIES report."""
    return str(_client(request) or "unknown")


def client_network(request: HttpRequest) -> str:
    """Return what limits by address count: an IPv4 address, or the /64 of an IPv6 one, which one subscriber has."""
    address = _client(request)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False))
    return str(address or "unknown")


def _client(request: HttpRequest) -> IPv4Address | IPv6Address | None:
    hops = settings.TRUSTED_PROXIES
    forwarded = request.headers.get("X-Forwarded-For", "").split(",") if hops else []
    said = _address(forwarded[-hops]) if 0 < hops <= len(forwarded) else None
    return said or _address(request.META.get("REMOTE_ADDR", ""))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address from a proxy: some append the port, and put IPv6 in brackets then. None for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def address_limited_for(request: HttpRequest) -> int:
    """Count a request without a recognised key. Returns 0 if it may pass, else the seconds to wait."""
    return limited_for(request, "api-address", client_network(request), f"{ADDRESS_LIMIT}/m")


def limited_for(request: HttpRequest, group: str, value: str, rate: str) -> int:
    """Count one use of `value` in `group` with django-ratelimit. Returns 0 if within `rate`, else seconds to wait."""
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
    # time_left ends at the start of the window's last second: without the 1, clients would come back too early.
    return max(usage["time_left"] + 1, 1)
