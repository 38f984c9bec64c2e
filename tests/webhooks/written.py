"""Deliveries and attempts in any state, written straight into the tables."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from uuid_utils.compat import uuid7

from webhooks.models import Attempt, Delivery, Event, Webhook

_FINISHED = ("delivered", "failed", "dropped")


def write_delivery(webhook: Webhook, status: str = "pending", *, attempts: int = 0, **changes: Any) -> Delivery:
    """A delivery of an event of its own; `attempts` of them are in its log, of which the last succeeded or not."""
    at: datetime = changes.pop("created_at", timezone.now())
    kind = changes.pop("kind", Event.Kind.ORDER_CONFIRMED)
    event = Event.objects.create(
        id=_uuid7_of(at),
        account_id=webhook.account_id,
        kind=kind,
        body=changes.pop("body", f'{{"event":"{kind}"}}'),
        created_at=at,
    )
    is_over = status in _FINISHED
    delivery = Delivery.objects.create(
        **{
            "account_id": webhook.account_id,
            "webhook": webhook,
            "event": event,
            "status": status,
            "attempt_count": attempts,
            "retries_left": max(3 - attempts, 0),
            "next_attempt_at": None if is_over else at,
            "finished_at": at if is_over else None,
            "created_at": at,
            **changes,
        }
    )
    for number in range(1, attempts + 1):
        is_good = status == "delivered" and number == attempts
        Attempt.objects.create(
            account_id=webhook.account_id,
            delivery=delivery,
            number=number,
            ended_at=at + timedelta(seconds=number),
            milliseconds=12,
            status_code=200 if is_good else 500,
            failure="" if is_good else "status",
            response=b"OK" if is_good else "Erreur \xe9 <b>".encode("latin-1"),
        )
    return delivery


def _uuid7_of(at: datetime) -> UUID:
    return UUID(int=(int(at.timestamp() * 1000) << 80) | (uuid7().int & ((1 << 80) - 1)))
