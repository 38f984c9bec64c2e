"""Every way an order changes once it is here: the moves of `Order.MOVES`, edits and call notes.

Called by API, console, commands and tasks. Each function is one transaction. A move locks the order's row, looks itself
up in the table, writes the order, a `StatusChange` and, where the table says so, the event. A refusal changes nothing.
Locks are taken orders first, then products, each by primary key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from msgspec import Meta, Struct, convert
from uuid_utils.compat import uuid7

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import User
from codservice.errors import Invalid, Refused
from codservice.values import MAX_AMOUNT
from codservice.wire import Amount, Id, Moment
from orders import movement
from orders.models import CallNote, CallState, Order, OrderEdit, OrderItem, Status
from webhooks import events


class NotCancellable(Refused):
    """The order has left the warehouse; there is nothing to cancel any more."""

    code = "order_not_cancellable"


class AlreadyDecided(Refused):
    """Someone was faster, or the order is not where this move starts."""

    code = "order_already_decided"


class NotAllowed(Refused):
    """The move exists, but not for this role."""

    code, status = "not_allowed", 403


class Changed(Refused):
    """The order is no longer the version that the person saw."""

    code, status = "order_changed", 409

    def __init__(self) -> None:
        super().__init__(_("The order has been changed since you opened it. Read it again before you decide."))


class OrderEvent(Struct):
    """What an event of an order tells: the `data` of `order.confirmed` and `order.cancelled`."""

    id: Id
    status: Annotated[str, Meta(extra_json_schema={"enum": Status.values})]
    customer_name: str
    customer_phone: str
    total_amount: Amount
    updated_at: Moment


# --- Editing -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Edit:
    """What an agent changes in a pending order after asking the customer; None is left as it is.

    The codes belong to the texts beside them, as in an import. `quantities` are new quantities by item id: 0 removes
    the line.
    """

    customer_name: str | None = None
    customer_address: str | None = None
    customer_wilaya: str | None = None
    wilaya_code: str | None = None
    customer_commune: str | None = None
    commune_code: str | None = None
    shipping_fee: Decimal | None = None
    quantities: dict[UUID, int] = field(default_factory=dict)


def edit(order_id: UUID, changes: Edit, *, actor: Actor, seen_version: int | None = None) -> Order:
    """Change a pending order, and write down each field's old and new value.

    The total follows by the difference, so that a discount in it stays. Nothing different is no change.
    Raises AlreadyDecided, Changed, and Invalid when no line would be left or the total leave its bounds.
    """
    with transaction.atomic():
        order = _lock(order_id)
        if order.status != Status.PENDING:
            raise _refusal(order, "edit")
        if seen_version not in (None, order.version):
            raise Changed
        written = _edit_fields(order, changes)
        line_edits, difference = _edit_lines(order, changes.quantities)
        if changes.shipping_fee is not None:
            difference += changes.shipping_fee - order.shipping_fee
            written.append(("shipping_fee", order.shipping_fee, changes.shipping_fee))
        if difference:
            total = order.total_amount + difference
            if not 0 <= total <= MAX_AMOUNT:
                raise Invalid({"total_amount": [_("The total would become %(total)s.") % {"total": total}]})
            written.append(("total_amount", order.total_amount, total))
        for name, _old, new in written:
            setattr(order, name, new)
        edits = [row for row in [*written, *line_edits] if row[1] != row[2]]
        if not edits:
            return order
        order.updated_at, order.version = order.now, order.version + 1
        order.save(update_fields=[*(name for name, _old, _new in written), "updated_at", "version"])
        OrderEdit.objects.bulk_create(
            OrderEdit(
                account_id=order.account_id,
                order=order,
                field=name,
                old="" if old is None else str(old),
                new="" if new is None else str(new),
                at=order.now,
                actor=actor.name,
                user_id=actor.user_id,
            )
            for name, old, new in edits
        )
    return order


def _edit_fields(order: Order, changes: Edit) -> list[tuple[str, Any, Any]]:
    """(field, old, new) of the customer's fields to write. A wilaya that is changed takes its commune along."""
    names = ["customer_name", "customer_address", "customer_wilaya", "wilaya_code"]
    written = [
        (name, getattr(order, name), getattr(changes, name)) for name in names if getattr(changes, name) is not None
    ]
    if changes.customer_commune is not None or changes.wilaya_code not in (None, order.wilaya_code):
        commune, code = changes.customer_commune or "", changes.commune_code
        written += [("customer_commune", order.customer_commune, commune), ("commune_code", order.commune_code, code)]
    return written


def _edit_lines(order: Order, quantities: dict[UUID, int]) -> tuple[list[tuple[str, Any, Any]], Decimal]:
    """Write the lines' new quantities: (field, old, new) of each that changes, and what they add to the total."""
    if not quantities:
        return [], Decimal(0)
    edits, difference, left = [], Decimal(0), 0
    for item in OrderItem.objects.filter(order=order).order_by("position"):
        quantity = quantities.get(item.id, item.quantity)
        left += bool(quantity)
        if quantity == item.quantity:
            continue
        edits.append((f"items.{item.position}.quantity", item.quantity, quantity))
        difference += (quantity - item.quantity) * item.unit_price
        if quantity:
            item.quantity = quantity
            item.save(update_fields=["quantity"])
        else:
            item.delete()
    if not left:
        raise Invalid({"items": [_("An order keeps at least one line. Cancel it instead.")]})
    return edits, difference


# --- Calls -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Call:
    """A call to a customer, as the agent notes it. A `note_id` that is there says that it was noted before."""

    agent: User
    outcome: CallNote.Outcome
    note: str = ""
    note_id: UUID | None = None
    callback_at: datetime | None = None


@dataclass(slots=True, frozen=True)
class CallPlan:
    """What a pending order waits for after a call."""

    state: CallState
    due_at: datetime
    attempts: int
    agent_id: UUID | None = None  # who promised to call


def add_call_note(order_id: UUID, *, plan: CallPlan | None = None, **call: Any) -> CallNote | None:
    """Note one call, whose fields are those of `Call`, on one order; see `add_call_notes`. None when it was noted."""
    with transaction.atomic():
        order = _lock(order_id)
        notes = add_call_notes([order], Call(**call), {order.id: plan} if plan else {})
    return notes[0] if notes else None


def add_call_notes(orders: Sequence[Order], call: Call, plans: Mapping[UUID, CallPlan] = {}) -> list[CallNote]:
    """Note one call on each of `orders`, whose rows the caller's transaction has locked by `lock`.

    An order's status stays what it is: silence is no cancellation, an answer no confirmation. Those that have a plan
    then wait for what it says. The first note has the call's `note_id`, the other ones' ids follow from it; a call that
    was noted before changes nothing, so that a form sent twice notes once.
    """
    if _is_noted(call):
        return []
    planned = [order for order in orders if order.id in plans]
    for order in planned:
        plan = plans[order.id]
        order.call_state, order.call_due_at = plan.state, plan.due_at
        order.call_attempts, order.callback_agent_id = plan.attempts, plan.agent_id
    Order.objects.bulk_update(planned, ["call_state", "call_due_at", "call_attempts", "callback_agent"])
    return _note(orders, call)


def _is_noted(call: Call) -> bool:
    return call.note_id is not None and CallNote.objects.filter(id=call.note_id).exists()


def _note(orders: Sequence[Order], call: Call) -> list[CallNote]:
    return CallNote.objects.bulk_create(
        CallNote(
            id=uuid7() if call.note_id is None else uuid5(call.note_id, str(order.id)) if number else call.note_id,
            account_id=order.account_id,
            order=order,
            outcome=call.outcome,
            note=call.note,
            agent=call.agent,
            agent_name=call.agent.display_name,
            callback_at=call.callback_at,
            created_at=order.now,
        )
        for number, order in enumerate(orders)
    )


# --- Moves -------------------------------------------------------------------------------------------------------


def confirm(order_id: UUID, *, actor: Actor, seen_version: int | None = None, call: Call | None = None) -> Order:
    """The customer said yes. Raises AlreadyDecided, Changed, NotAllowed.

    The `call` in which they did is noted with it. One that was noted before is a decision that was made before: then
    nothing is changed and nothing refused.
    """
    return _move("confirm", order_id, actor=actor, seen_version=seen_version, call=call)


def cancel(
    order_id: UUID,
    *,
    actor: Actor,
    account_id: UUID | None = None,
    reason: str = "",
    seen_version: int | None = None,
    call: Call | None = None,
) -> Order:
    """Cancel what has not been shipped. Raises NotCancellable, AlreadyDecided, Changed, NotAllowed.

    A merchant's cancel of a canceled order changes nothing and is no error: their retry is safe. A `call` as in
    `confirm`.
    """
    return _move(
        "cancel", order_id, actor=actor, account_id=account_id, reason=reason, seen_version=seen_version, call=call
    )


def ship(order_id: UUID, *, actor: Actor, account_id: UUID | None = None, seen_version: int | None = None) -> Order:
    """The parcel was handed to the courier."""
    return _move("ship", order_id, actor=actor, account_id=account_id, seen_version=seen_version)


def deliver(order_id: UUID, *, actor: Actor, account_id: UUID | None = None, seen_version: int | None = None) -> Order:
    """The customer took the parcel and paid."""
    return _move("deliver", order_id, actor=actor, account_id=account_id, seen_version=seen_version)


def return_order(
    order_id: UUID, *, actor: Actor, account_id: UUID | None = None, reason: str = "", seen_version: int | None = None
) -> Order:
    """The parcel came back."""
    return _move("return", order_id, actor=actor, account_id=account_id, reason=reason, seen_version=seen_version)


def _move(
    name: str,
    order_id: UUID,
    *,
    actor: Actor,
    account_id: UUID | None = None,
    reason: str = "",
    seen_version: int | None = None,
    call: Call | None = None,
) -> Order:
    """Make the move `name`, or raise a Refused; Order.DoesNotExist outside `account_id`, when that is given."""
    with transaction.atomic():
        order = _lock(order_id, account_id)
        if call is not None and _is_noted(call):
            return order
        if name == "cancel" and order.status == Status.CANCELED and actor.role == Role.API:
            return order
        move = Order.MOVES.get((Status(order.status), name))
        if move is None:
            raise _refusal(order, name)
        if actor.role not in move.by:
            raise NotAllowed(_("Only a supervisor can do this to an order that is %(status)s.") % said(order))
        if seen_version not in (None, order.version):
            raise Changed
        if call is not None:
            _note([order], call)
        movement.write([movement.make(order, move, reason)], actor)
        if move.event is not None:
            data = convert(order, OrderEvent, from_attributes=True)
            events.publish(order.account_id, move.event, data=data, at=order.now)
    return order


def lock(orders: QuerySet[Order], most: int | None = None) -> list[Order]:
    """The first of the orders by key, with their rows locked.

    `order.now` is when it is changed: the database's time, and never before the last change.
    """
    locked = orders.annotate(clock=Now()).order_by("id").select_for_update(of=("self",))[:most]
    for order in locked:
        order.now = max(order.clock, order.updated_at)
    return list(locked)


def _lock(order_id: UUID, account_id: UUID | None = None) -> Order:
    orders = Order.objects.filter(id=order_id)
    locked = lock(orders if account_id is None else orders.filter(account_id=account_id))
    if not locked:
        raise Order.DoesNotExist
    return locked[0]


def _refusal(order: Order, name: str) -> Refused:
    if name == "cancel" and order.status in (Status.SHIPPED, Status.DELIVERED, Status.RETURNED):
        return NotCancellable(_("The order is %(status)s; it can no longer be canceled.") % said(order))
    last = order.status_changes.order_by("-at", "-id").first()
    if last is None or order.status == Status.PENDING:
        return AlreadyDecided(_("This cannot be done to an order that is %(status)s.") % said(order))
    who = {**said(order), "who": last.actor, "when": f"{last.at:%H:%M UTC on %Y-%m-%d}"}
    return AlreadyDecided(_("Already %(status)s by %(who)s at %(when)s.") % who)


def said(order: Order) -> dict[str, str]:
    """What a refusal's sentence says of the order."""
    return {"status": Status(order.status).label.lower()}
