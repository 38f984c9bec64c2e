"""Telling of a change: event and deliveries are written in the transaction of the change itself, or none is."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection
from msgspec import Struct
from uuid_utils.compat import uuid7

from codservice import logs
from codservice.wire import Id, dump_json
from webhooks import metrics, wakeup
from webhooks.models import Event, Webhook
from webhooks.retries import RETRIES

# A delivery's id is a UUID of version 7 too: its first seven bytes, time and version, are its event's. So deliveries
# sort by time, their index stays compact, and a range of ids can be a part of the table (docs/scale.md).
_ID = "encode(overlay(uuid_send(gen_random_uuid()) PLACING substring(uuid_send(event.id) FOR 7) FROM 1), 'hex')::uuid"

# One statement, however many events and webhooks. A deletion (FOR UPDATE) waits for this transaction and then finds
# these deliveries; or this waits for it and, looking again before it writes any, no longer sees the webhook.
_PUBLISH = f"""
WITH event AS (
    INSERT INTO webhooks_event (id, account_id, kind, body, request_id, created_at)
    SELECT e.id, %(account_id)s, %(kind)s, e.body, %(request_id)s, %(at)s
    FROM json_to_recordset(%(events)s::json) AS e(id uuid, body text)
    RETURNING id
), subscribed AS (
    SELECT id FROM webhooks_webhook
    WHERE account_id = %(account_id)s AND deleted_at IS NULL AND is_active AND %(kind)s = ANY(events)
    ORDER BY id FOR KEY SHARE
), delivery AS (
    INSERT INTO webhooks_delivery
        (id, account_id, webhook_id, event_id, status, attempt_count, retries_left, next_attempt_at, created_at)
    SELECT {_ID}, %(account_id)s, subscribed.id, event.id, 'pending', 0, %(retries)s, now(), %(at)s
    FROM event CROSS JOIN subscribed
    RETURNING 1
)
SELECT count(*) FROM delivery
"""  # noqa: S608  (our own text)


# One attempt and no retry: it answers whether the receiver works now.
_PING = f"""
WITH webhook AS (
    SELECT id, account_id FROM webhooks_webhook
    WHERE id = %(webhook_id)s AND account_id = %(account_id)s AND deleted_at IS NULL FOR KEY SHARE
), event AS (
    INSERT INTO webhooks_event (id, account_id, kind, body, request_id, created_at)
    SELECT %(event_id)s, account_id, %(kind)s, %(body)s, %(request_id)s, %(at)s FROM webhook
    RETURNING id
)
INSERT INTO webhooks_delivery
    (id, account_id, webhook_id, event_id, status, attempt_count, retries_left, next_attempt_at, created_at)
SELECT {_ID}, webhook.account_id, webhook.id, event.id, 'pending', 0, 0, now(), %(at)s
FROM webhook CROSS JOIN event
RETURNING id
"""  # noqa: S608  (our own text)


class PingEvent(Struct):
    """What `ping` tells: its `data`."""

    webhook_id: Id


def publish(account_id: UUID, kind: Event.Kind, *, data: Struct, at: datetime) -> None:
    """Tell of one change of `kind` that happened at `at` (contract, section 9); see `publish_all`."""
    publish_all(account_id, kind, data=[data], at=at)


def publish_all(account_id: UUID, kind: Event.Kind, *, data: Sequence[Struct], at: datetime) -> None:
    """Write an event for each of `data`, and a delivery of it to each active webhook that subscribes to `kind`.

    The bodies are rendered and fixed here, so that every attempt sends and signs the same bytes. A worker is woken
    when the transaction is committed. Raises RuntimeError outside a transaction: an event that could be lost, or that
    could tell of a change that was rolled back, is worse than none.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("events.publish must run in the transaction of the change that it tells of.")
    events = [
        {"id": uuid7(), "body": dump_json({"event": kind, "timestamp": at, "data": each}).decode()} for each in data
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            _PUBLISH,
            {
                "account_id": account_id,
                "kind": str(kind),
                "retries": RETRIES,
                "events": dump_json(events).decode(),
                "request_id": logs.request_id(),
                "at": at,
            },
        )
        metrics.count_events(str(kind), len(events))
        if cursor.fetchone()[0]:
            wakeup.after_commit()


def ping(account_id: UUID, webhook_id: UUID, *, at: datetime) -> UUID:
    """Write a test delivery to one webhook of the account, whatever it subscribes to; the delivery's id.

    Raises Webhook.DoesNotExist.
    """
    body = dump_json({"event": Event.PING, "timestamp": at, "data": PingEvent(webhook_id)}).decode()
    with connection.cursor() as cursor:
        cursor.execute(
            _PING,
            {
                "account_id": account_id,
                "webhook_id": webhook_id,
                "event_id": uuid7(),
                "kind": Event.PING,
                "body": body,
                "request_id": logs.request_id(),
                "at": at,
            },
        )
        row = cursor.fetchone()
    if row is None:
        raise Webhook.DoesNotExist
    metrics.count_events(Event.PING, 1)
    wakeup.after_commit()
    return row[0]
