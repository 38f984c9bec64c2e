"""Metrics and log lines of events and deliveries."""

import logging
from collections import Counter as Tally
from collections.abc import Sequence
from functools import partial

from django.db import transaction

from codservice import metrics
from webhooks import queue
from webhooks.models import Event
from webhooks.posts import FAILURES, Outcome

logger = logging.getLogger(__name__)

DELIVERED = "delivered"

EVENTS = metrics.Counter("codservice_events", "Events whose change was committed.", ["kind"])
ATTEMPTS = metrics.Counter("codservice_delivery_attempts", "Finished attempts, by outcome.", ["outcome"])
SENDS_IN_FLIGHT = metrics.Gauge(
    "codservice_sends_in_flight", "Attempts under way in the workers of this host.", multiprocess_mode="livesum"
)
SWEEPS = metrics.Counter("codservice_delivery_sweeps", "Times that a worker looked for due deliveries.")

# A series that appears only with its first failure would show no rate for it.
for _kind in (*Event.Kind.values, Event.PING):
    EVENTS.labels(_kind)
for _outcome in (DELIVERED, *FAILURES):
    ATTEMPTS.labels(_outcome)


def register() -> None:
    metrics.add_figure(
        "codservice_deliveries_due",
        f"Due deliveries, including those under way; counted up to {queue.MOST_COUNTED}.",
        lambda: [((), queue.count_due())],
    )
    metrics.add_figure(
        "codservice_oldest_due_seconds",
        "Seconds that the oldest due delivery has waited for a worker.",
        lambda: [((), queue.oldest_due())],
    )
    metrics.add_figure("codservice_claims", "Attempts that workers have claimed.", lambda: [((), queue.count_claims())])


def count_events(kind: str, count: int) -> None:
    """Count events of the current transaction once it is committed."""
    transaction.on_commit(partial(EVENTS.labels(kind).inc, count), robust=True)


def note_attempts(outcomes: Sequence[Outcome]) -> None:
    """Count attempts by outcome, and log them: those that failed as information, the others for debugging."""
    for outcome, count in Tally(each.failure or DELIVERED for each in outcomes).items():
        ATTEMPTS.labels(outcome).inc(count)
    for each in outcomes:
        level = logging.INFO if each.failure else logging.DEBUG
        if logger.isEnabledFor(level):
            logger.log(
                level,
                "attempt failed" if each.failure else "attempt acknowledged",
                extra={
                    "delivery_id": str(each.post.delivery_id),
                    "webhook_id": each.post.webhook_id,
                    "account_id": each.post.account_id,
                    "request_id": each.post.request_id,
                    "event_kind": each.post.event,
                    "attempt": each.post.attempt,
                    "outcome": each.failure or DELIVERED,
                    "status": each.status_code,
                    "ms": each.milliseconds,
                },
            )
