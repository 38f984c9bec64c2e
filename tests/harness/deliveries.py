"""Deliveries and attempts in any state, written straight to the tables; moving their clock; and running an engine."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone
from uuid_utils.compat import uuid7

from codservice.accounts.models import Account
from webhooks import delivery, events
from webhooks.engine import Engine
from webhooks.models import Attempt, Delivery, Event, Webhook
from webhooks.posts import Post

from .background import Background

_WRITE = """
WITH event AS (
    INSERT INTO webhooks_event (id, account_id, kind, body, created_at)
    SELECT gen_random_uuid(), %(account)s, 'order.confirmed',
        '{"event":"order.confirmed","timestamp":"2026-01-01T00:00:00Z","data":{"name":"أمين","n":' || n || '}}', now()
    FROM generate_series(1, %(count)s) AS n RETURNING id
)
INSERT INTO webhooks_delivery
    (id, account_id, webhook_id, event_id, status, attempt_count, retries_left, next_attempt_at, created_at)
SELECT gen_random_uuid(), %(account)s, %(webhook)s, id, 'pending', %(attempts)s, 3 - %(attempts)s, now() - %(age)s,
    now() FROM event RETURNING id
"""
_FINISHED = ("delivered", "failed", "dropped")


def claim_due(token: UUID, limit: int) -> list[Post]:
    """Claim up to `limit` due deliveries now, all of failing webhooks if there are no others."""
    return delivery.claim(token, limit, limit_failing=limit, asked_at=time.monotonic())


def write_delivery(webhook: Webhook, status: str = "pending", *, attempts: int = 0, **changes: Any) -> Delivery:
    """Write a delivery with an event of its own and so many logged `attempts`.

    The attempts failed, except for the last one of a `delivered` delivery.
    """
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
    written = Delivery.objects.create(
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
            delivery=written,
            number=number,
            ended_at=at + timedelta(seconds=number),
            milliseconds=12,
            status_code=200 if is_good else 500,
            failure="" if is_good else "status",
            response=b"OK" if is_good else "Erreur \xe9 <b>".encode("latin-1"),
        )
    return written


def _uuid7_of(at: datetime) -> UUID:
    return UUID(int=(int(at.timestamp() * 1000) << 80) | (uuid7().int & ((1 << 80) - 1)))


def write(webhook: Webhook, count: int = 1, *, attempts: int = 0, age: float = 0.0) -> list[UUID]:
    """Write deliveries that have been due for `age` seconds and have had `attempts`. Returns their ids."""
    with connection.cursor() as cursor:
        cursor.execute(
            _WRITE,
            {
                "account": webhook.account_id,
                "webhook": webhook.id,
                "count": count,
                "attempts": attempts,
                "age": timedelta(seconds=age),
            },
        )
        return [id_ for (id_,) in cursor.fetchall()]


def publish(account: Account, count: int = 1, kind: Event.Kind = Event.Kind.ORDER_CONFIRMED, **ago: float) -> None:
    """Publish `count` events of the account, dated so long `ago`."""
    at = timezone.now() - timedelta(**ago)
    with transaction.atomic():
        events.publish([events.Told(account.id, kind, {"n": number}, at) for number in range(count)])


def statuses(**which: Any) -> Counter[str]:
    """The number of deliveries in each status, of all or of those that `which` selects."""
    return Counter(Delivery.objects.filter(**which).values_list("status", flat=True))


@contextmanager
def draining(engine: Engine, pause: float = 0.05) -> Iterator[None]:
    """Have the engine send what is due while the block runs, with a `pause` in seconds between its looks."""
    stopping = threading.Event()

    def work() -> None:
        while not stopping.is_set():
            engine.drain()
            time.sleep(pause)

    working = Background(work)
    try:
        yield
    finally:
        stopping.set()
        engine.stop()
        working.result()


def pass_time(**interval: float) -> None:
    """Move the clock on for the queue, by moving all times that it compares with the clock back."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE webhooks_delivery SET next_attempt_at = next_attempt_at - %s", [timedelta(**interval)])
        cursor.execute("UPDATE webhooks_claim SET until = until - %s", [timedelta(**interval)])
