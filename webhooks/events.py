"""Publishing changes. An event and its deliveries are written in the same transaction as the change itself."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from msgspec import Struct
from uuid_utils.compat import uuid7

from codservice import logs, postgresql
from codservice.errors import Invalid
from codservice.wire import Id, dump_json
from webhooks import metrics, wakeup
from webhooks.models import Event, Webhook
from webhooks.retries import RETRIES

# A delivery's id is a UUID of version 7 too, with the first seven bytes (time and version) of its event's id. So
# deliveries sort by time, their index stays compact, and the table can be partitioned by ranges of ids (docs/scale.md).
_DELIVERY_ID = (
    "encode(overlay(uuid_send(gen_random_uuid()) PLACING substring(uuid_send(event.id) FOR 7) FROM 1), 'hex')::uuid"
)


def new_deliveries(webhook_id: str, *, retries: str, due_at: str) -> str:
    """Return the beginning of a step that queues deliveries of events, up to its FROM.

    The arguments are expressions. The events are the rows of the statement's step `event (id, account_id, created_at)`.
    """
    return f"""INSERT INTO webhooks_delivery (id, account_id, event_id, created_at, status, attempt_count,
        webhook_id, retries_left, next_attempt_at)
    SELECT {_DELIVERY_ID}, event.account_id, event.id, event.created_at, 'pending', 0,
        {webhook_id}, {retries}, {due_at}"""


# SQL that writes the time `at` into a body.
TIME_AS_JSON = """'"' || to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"'"""

# The steps of a statement that publish the rows of its step `told (id, account_id, kind, body, at)`, for any number of
# events and webhooks. Statements that write changes themselves (`orders.importing`) include them. `webhooks_subscribed`
# looks for webhooks once `told` is there, after all that the statement has waited for: one that was on before the time
# of a change is told. It locks them (FOR KEY SHARE). So a deletion of a webhook (FOR UPDATE) waits for this transaction
# and then finds these deliveries. Or this waits for the deletion, looks again before it writes, and no longer sees the
# webhook. `parameters` gives the parameters `request_id`, `retries`.
STEPS = f"""
event AS (
    INSERT INTO webhooks_event (id, account_id, kind, body, request_id, created_at, position)
    SELECT id, account_id, kind, body, %(request_id)s, at, (SELECT webhooks_feed_position()) FROM told
    RETURNING id, account_id, kind, created_at
), subscribed AS MATERIALIZED (
    SELECT id, account_id, events
    FROM webhooks_subscribed(ARRAY(SELECT DISTINCT account_id FROM told), ARRAY(SELECT DISTINCT kind FROM told))
), delivery AS (
    {new_deliveries("subscribed.id", retries="%(retries)s", due_at="now()")}
    FROM event JOIN subscribed ON subscribed.account_id = event.account_id AND event.kind = ANY(subscribed.events)
    RETURNING 1
)"""  # noqa: S608  (our own text)
# The same for changes that are given by Python. `parameters_with` gives the parameters.
STEPS_WITH_CHANGES = f"""
told AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(told)s::json) AS t(
        id uuid, account_id uuid, kind text, body text, at timestamptz)
), {STEPS}"""  # noqa: S608  (our own text)
_PUBLISH = f"WITH {STEPS_WITH_CHANGES} SELECT count(*) FROM delivery"  # noqa: S608  (our own text)

# One attempt and no retry, since the question is whether the receiver works now. Neither a ping nor an example of an
# event is in the feed, because nothing has happened.
_PING = f"""
WITH webhook AS (
    SELECT id, account_id FROM webhooks_webhook
    WHERE id = %(webhook_id)s AND account_id = %(account_id)s AND deleted_at IS NULL AND is_active FOR KEY SHARE
), clock AS MATERIALIZED (
    SELECT at, {TIME_AS_JSON} AS said FROM clock_timestamp() AS at
), event AS (
    INSERT INTO webhooks_event (id, account_id, kind, body, request_id, created_at, position)
    SELECT %(event_id)s, account_id, %(kind)s, %(head)s::text || ',"timestamp":' || clock.said || ',' || %(rest)s::text,
        %(request_id)s, clock.at, NULL
    FROM webhook CROSS JOIN clock
    RETURNING id, account_id, created_at
)
{new_deliveries("webhook.id", retries="0", due_at="now()")}
FROM webhook CROSS JOIN event
RETURNING id
"""  # noqa: S608  (our own text)


class Told(NamedTuple):
    """A change to publish."""

    account_id: UUID
    kind: Event.Kind
    data: Struct
    at: datetime


class PingEvent(Struct):
    """The `data` of a `ping` event."""

    webhook_id: Id


def publish(changes: Sequence[Told]) -> None:
    """Write an event for each change, and a delivery of it to each active webhook that subscribes to its kind.

    The bodies are rendered and fixed here, so that every attempt sends and signs the same bytes. A worker is woken
    when the transaction is committed.

    Raises RuntimeError outside a transaction, where an event could be lost or could report a change that was rolled
    back.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("events.publish must run in the transaction of the change that it tells of.")
    (deliveries,) = postgresql.row(_PUBLISH, parameters_with(changes))
    after_writing(Counter(str(change.kind) for change in changes), deliveries=deliveries)


def parameters_with(changes: Sequence[Told]) -> dict[str, Any]:
    """Return the parameters of STEPS_WITH_CHANGES. Bodies are rendered here, as they will be sent and signed."""
    rows = [
        {
            "id": uuid7(),
            "account_id": change.account_id,
            "kind": change.kind,
            "body": dump_json({"event": change.kind, "timestamp": change.at, "data": change.data}).decode(),
            "at": change.at,
        }
        for change in changes
    ]
    return {"told": dump_json(rows).decode(), **parameters()}


def parameters() -> dict[str, Any]:
    """Return the parameters of STEPS."""
    return {"request_id": logs.request_id(), "retries": RETRIES}


def after_writing(kinds: Mapping[str, int], *, deliveries: int) -> None:
    """Count the events that STEPS wrote, by kind, and wake a worker after the commit if there are deliveries."""
    for kind, count in kinds.items():
        metrics.count_events(kind, count)
    if deliveries:
        wakeup.after_commit()


class WebhookOff(Invalid):
    """The webhook is not active, so nothing was written for it."""

    def __init__(self) -> None:
        super().__init__({"is_active": ["This webhook is off. Turn it on first: PATCH it with is_active true."]})


def off_or_gone(account_id: UUID, webhook_id: UUID) -> Exception:
    """The reason why nothing could be written for a webhook: WebhookOff or Webhook.DoesNotExist."""
    is_there = Webhook.of(account_id).filter(id=webhook_id).exists()
    return WebhookOff() if is_there else Webhook.DoesNotExist()


def ping(account_id: UUID, webhook_id: UUID, *, kind: str | None = None, example: Struct | None = None) -> UUID:
    """Write a test delivery to one webhook of the account, whatever it subscribes to, and return the delivery's id.

    With `kind` and `example`, the example is sent as an event of that kind, and its body has `"example": true`.

    Raises Webhook.DoesNotExist, WebhookOff.
    """
    kind = kind or Event.PING
    told: dict[str, Any] = {"data": PingEvent(webhook_id)} if example is None else {"data": example, "example": True}
    row = postgresql.row(
        _PING,
        {
            "account_id": account_id,
            "webhook_id": webhook_id,
            "event_id": uuid7(),
            "kind": kind,
            "head": dump_json({"event": kind})[:-1].decode(),  # of the body, before and after the database's time
            "rest": dump_json(told)[1:].decode(),
            "request_id": logs.request_id(),
        },
    )
    if row is None:
        raise off_or_gone(account_id, webhook_id)
    metrics.count_events(Event.PING, 1)
    wakeup.after_commit()
    return row[0]
