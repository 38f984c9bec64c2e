"""The deliveries about orders for the OpenAPI description, each with an example."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from orders.models import CallNote, Status
from orders.order_events import CallEvent, OrderEvent, OrderEventWithNumber
from webhooks.models import Event
from webhooks.openapi import delivery

_AT = datetime(2026, 3, 1, 10, 15, 30, 123456, tzinfo=UTC)


def _example(status: Status) -> dict[str, Any]:
    return {
        "id": UUID("01954f6e-2a3b-7c4d-8e5f-0123456789ab"),
        "status": status.value,
        "customer_name": "سميرة بن علي",
        "customer_phone": "0550 12 34 56",
        "total_amount": Decimal("4500.00"),
        "updated_at": _AT,
    }


def _with_number(status: Status) -> OrderEventWithNumber:
    return OrderEventWithNumber(**_example(status), external_id="1042")


CREATED = delivery(Event.Kind.ORDER_CREATED, "An order came in", _with_number(Status.PENDING))
UPDATED = delivery(Event.Kind.ORDER_UPDATED, "A pending order is changed", _with_number(Status.PENDING))
CALL_ATTEMPTED = delivery(
    Event.Kind.ORDER_CALL_ATTEMPTED,
    "A call ended without a decision",
    CallEvent(
        **_example(Status.PENDING),
        external_id="1042",
        outcome=CallNote.Outcome.NO_ANSWER.value,
        attempt_count=1,
        next_call_at=_AT.replace(hour=16),
    ),
)
CONFIRMED = delivery(Event.Kind.ORDER_CONFIRMED, "An order is confirmed", OrderEvent(**_example(Status.CONFIRMED)))
CANCELLED = delivery(Event.Kind.ORDER_CANCELLED, "An order is canceled", OrderEvent(**_example(Status.CANCELED)))
SHIPPED = delivery(Event.Kind.ORDER_SHIPPED, "An order is handed to the courier", _with_number(Status.SHIPPED))
DELIVERED = delivery(Event.Kind.ORDER_DELIVERED, "An order is delivered and paid", _with_number(Status.DELIVERED))
RETURNED = delivery(Event.Kind.ORDER_RETURNED, "An order is returned", _with_number(Status.RETURNED))
