"""What events about orders tell: the `data` of each kind, in webhooks, the feed and the API's description."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from codservice.wire import Amount, Id, Moment, converter
from orders.models import CallNote, Order, Status
from webhooks.events import Told
from webhooks.models import Event


class OrderEvent(Struct):
    """The `data` of `order.confirmed` and `order.cancelled`."""

    id: Id
    status: Annotated[str, Meta(extra_json_schema={"enum": Status.values})]
    customer_name: str
    customer_phone: str
    total_amount: Amount
    updated_at: Moment


class OrderEventWithNumber(OrderEvent):
    """The `data` of all other order events; it includes the shop's own number."""

    external_id: str | None


class CallEvent(OrderEventWithNumber):
    """The `data` of `order.call_attempted`."""

    outcome: Annotated[str, Meta(extra_json_schema={"enum": CallNote.CALLS})]
    attempt_count: Annotated[int, Meta(ge=1, description="How many calls about this order ended without a decision.")]
    next_call_at: Annotated[Moment | None, Meta(description="Null if a supervisor reviews the order first.")]


_to_event, _to_event_with_number = converter(OrderEvent), converter(OrderEventWithNumber)


def told(order: Order, kind: Event.Kind, *, status: Status | None = None) -> Told:
    """The event of an order's change; `status` is its status then, if that was not the present one."""
    to_event = _to_event if kind in (Event.Kind.ORDER_CONFIRMED, Event.Kind.ORDER_CANCELLED) else _to_event_with_number
    data = to_event(order, from_attributes=True)
    return Told(order.account_id, kind, data if status is None else replace(data, status=status), order.now)


def told_of_call(order: Order, outcome: str, *, attempt_count: int, next_call_at: datetime | None) -> Told:
    """The event of a call that decided nothing."""
    data = CallEvent(
        **asdict(_to_event_with_number(order, from_attributes=True)),
        outcome=outcome,
        attempt_count=attempt_count,
        next_call_at=next_call_at and next_call_at.astimezone(UTC),
    )
    return Told(order.account_id, Event.Kind.ORDER_CALL_ATTEMPTED, data, order.now)
