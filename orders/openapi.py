"""Orders in the OpenAPI description: examples of answers, and the deliveries, each with its example."""

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from codservice.errors import Invalid
from orders import bodies
from orders.batches import BatchCreatedBody, BatchErrorBody, OrderBatchBody, refused
from orders.lifecycle import TEST_AGENT
from orders.models import CallNote, DeliveryType, Status
from orders.order_events import CallEvent, OrderEvent, OrderEventWithNumber
from webhooks.models import Event
from webhooks.openapi import AT, delivery

# --- Answers ---------------------------------------------------------------------------------------------------------

SENT: dict[str, Any] = {
    "external_id": "1042",
    "customer_name": "Amine Benali",
    "customer_phone": "0550123456",
    "customer_address": "12 rue Didouche Mourad",
    "customer_wilaya": "16",
    "customer_commune": "Bab Ezzouar",
    "total_amount": 4900,
    "shipping_fee": 400,
    "items": [{"product_name": "Robe kabyle", "quantity": 1, "unit_price": 4500, "attributes": {"taille": "M"}}],
}
KEY = "API key shop"  # who sent it
_ID = UUID("01954f6e-2a3b-7c4d-8e5f-0123456789ab")
_CUSTOMER = {
    "name": SENT["customer_name"],
    "phone": SENT["customer_phone"],
    "phone_2": None,
    "address": SENT["customer_address"],
    "wilaya": "16",
    "commune": "1621",
}
_FIELDS: dict[str, Any] = {
    "id": _ID,
    "external_id": SENT["external_id"],
    "total_amount": Decimal("4900.00"),
    "shipping_fee": Decimal("400.00"),
    "delivery_type": DeliveryType.HOME,
    "source": None,
    "notes": "",
    "items": [
        bodies.OrderItemBody(
            UUID("01954f6e-2a3b-7c4d-8e5f-0123456789ac"),
            None,
            "Robe kabyle",
            None,
            1,
            Decimal("4500.00"),
            {"taille": "M"},
        )
    ],
    "created_at": AT,
}
IMPORTED = bodies.OrderBody(**_FIELDS, status=Status.PENDING, customer=bodies.CustomerBody(**_CUSTOMER))


def detail(*steps: Status, actor: str = TEST_AGENT, reason: str = "") -> bodies.OrderDetailBody:
    """The order that SENT imports, an hour for each of these `steps` later. `actor` made them."""
    times = [AT + timedelta(hours=hour) for hour in range(len(steps) + 1)]
    statuses = [None, Status.PENDING, *steps]
    history = [
        bodies.StatusChangeBody(before, after, at, KEY if before is None else actor, "")
        for before, after, at in zip(statuses, statuses[1:], times, strict=False)
    ]
    history[-1].reason = reason
    reached = dict(zip(steps, times[1:], strict=True))
    fields: dict[str, Any] = {
        "updated_at": times[-1],
        "confirmed_at": reached.get(Status.CONFIRMED),
        "canceled_at": reached.get(Status.CANCELED),
        "anonymised_at": None,
        "cancel_reason": reason,
        "call_notes": [],
        "status_history": history,
        "edits": [],
    }
    customer = bodies.CustomerDetailBody(**_CUSTOMER, wilaya_name="Alger", commune_name="Bab Ezzouar")
    return bodies.OrderDetailBody(**_FIELDS, status=statuses[-1], customer=customer, **fields)


CHANGES = {"customer_address": "14 rue Larbi Ben M'hidi", "notes": "Appeler après 17 h"}
_LATER = AT + timedelta(minutes=5)
CHANGED = replace(
    detail(),
    customer=replace(detail().customer, address=CHANGES["customer_address"]),
    notes=CHANGES["notes"],
    updated_at=_LATER,
    edits=[
        bodies.OrderEditBody("customer_address", SENT["customer_address"], CHANGES["customer_address"], _LATER, KEY),
        bodies.OrderEditBody("notes", "", CHANGES["notes"], _LATER, KEY),
    ],
)
CALLED = replace(
    detail(),
    call_notes=[
        bodies.CallNoteBody(
            UUID("01954f6e-2a3b-7c4d-8e5f-0123456789ad"), CallNote.Outcome.NO_ANSWER, "", TEST_AGENT, _LATER, None
        )
    ],
)

_CREATED = [
    BatchCreatedBody(0, _ID, "1042", Status.PENDING),
    BatchCreatedBody(1, UUID("01954f6e-2a3b-7c4d-8e5f-0123456789ae"), "1043", Status.PENDING),
]
_WRONG = [
    BatchErrorBody(index, number, Invalid.code, Invalid({}).message, {"customer_phone": ["This field is required."]})
    for index, number in enumerate(("1042", "1043"))
]
BATCH = {201: OrderBatchBody(_CREATED, []), 207: OrderBatchBody(_CREATED[:1], _WRONG[1:]), 422: refused(_WRONG)}

# --- Deliveries ------------------------------------------------------------------------------------------------------


def _example(status: Status) -> dict[str, Any]:
    return {
        "id": _ID,
        "status": status.value,
        "customer_name": "سميرة بن علي",
        "customer_phone": "0550 12 34 56",
        "total_amount": Decimal("4500.00"),
        "updated_at": AT,
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
        next_call_at=AT + timedelta(hours=6),
    ),
)
CONFIRMED = delivery(Event.Kind.ORDER_CONFIRMED, "An order is confirmed", OrderEvent(**_example(Status.CONFIRMED)))
CANCELLED = delivery(Event.Kind.ORDER_CANCELLED, "An order is canceled", OrderEvent(**_example(Status.CANCELED)))
SHIPPED = delivery(Event.Kind.ORDER_SHIPPED, "An order is handed to the courier", _with_number(Status.SHIPPED))
DELIVERED = delivery(Event.Kind.ORDER_DELIVERED, "An order is delivered and paid", _with_number(Status.DELIVERED))
RETURNED = delivery(Event.Kind.ORDER_RETURNED, "An order is returned", _with_number(Status.RETURNED))
