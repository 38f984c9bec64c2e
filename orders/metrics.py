"""What /metrics says about orders."""

import logging

import redis
from django.core.cache import cache

from codservice import metrics, postgresql
from orders.models import Status

logger = logging.getLogger(__name__)

_KEY = "pending-orders"
_KEPT = 600  # seconds; an older count is not shown
AGES = ("under_1h", "1h_to_4h", "4h_to_24h", "over_24h")

# Uses the index `order_console`. It takes longer the more orders are pending, so beat runs it, not Prometheus.
_PENDING = """
SELECT count(*) FILTER (WHERE created_at > now() - interval '1 hour'),
    count(*) FILTER (WHERE created_at <= now() - interval '1 hour' AND created_at > now() - interval '4 hours'),
    count(*) FILTER (WHERE created_at <= now() - interval '4 hours' AND created_at > now() - interval '24 hours'),
    count(*) FILTER (WHERE created_at <= now() - interval '24 hours')
FROM orders_order WHERE status = %s AND call_state <> 'test'
"""


def register() -> None:
    metrics.add_figure(
        "codservice_orders_pending",
        "Orders that wait for confirmation, by age, without test orders; counted every minute.",
        lambda: [((age,), count) for age, count in zip(AGES, _last_count(), strict=False)],
        labels=["age"],
    )


def count_pending() -> None:
    """Count the pending orders, for whichever host is asked for /metrics next. Without Redis, the count is lost."""
    counts = postgresql.row(_PENDING, [Status.PENDING])
    try:
        cache.set(_KEY, counts, _KEPT)
    except redis.RedisError as error:
        logger.warning("pending orders were not counted, because Redis cannot be used: %s", error)


def _last_count() -> list[int]:
    """The counts by age; empty if Redis is away, nothing was counted, or the cached value is not ours."""
    try:
        found = cache.get(_KEY)
    except redis.RedisError:
        return []
    is_ours = isinstance(found, list) and len(found) == len(AGES) and all(type(count) is int for count in found)
    return found if is_ours else []
