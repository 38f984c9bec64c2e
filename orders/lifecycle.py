"""Every way an order changes: import and the moves of `Order.MOVES`, called by API, console, commands and tasks.

Each function is one transaction. A move locks the order's row, looks itself up in the table, writes the order, a
`StatusChange` and, where the table says so, the event. A refusal changes nothing. Locks are taken orders first,
then products, each by primary key.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from uuid_utils.compat import uuid7

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import User
from codservice.errors import Invalid, Refused
from codservice.values import MAX_AMOUNT
from inventory.models import Product
from orders import insertion, movement
from orders.insertion import NewOrder
from orders.models import CallNote, CallState, Move, Order, OrderEdit, OrderItem, Status
from webhooks import events


class DuplicateExternalId(Invalid):
    """An order of the account has this `external_id` already."""

    def __init__(self) -> None:
        super().__init__({"external_id": ["Another order of this account has it already."]})


class NotCancellable(Refused):
    """The order has left the warehouse; there is nothing to cancel any more."""

    code = "order_not_cancellable"


class AlreadyDecided(Refused):
    """Someone was faster, or the order is not where this move starts."""

    code = "order_already_decided"


class NotAllowed(Refused):
    """The move exists, but not for this role."""

    code, status = "not_allowed", 403


class UnknownOrder(Refused):
    """No order has this id, or none that is the account's."""

    code, status = "not_found", 404


class Changed(Refused):
    """The order is no longer the version that the person saw."""

    code, status = "order_changed", 409

    def __init__(self) -> None:
        super().__init__(_("The order has been changed since you opened it. Read it again before you decide."))


# --- Import ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class DraftItem:
    """A line to import. With `product_id`, name and price may be left to the catalog."""

    quantity: int
    product_id: UUID | None = None
    product_name: str | None = None
    unit_price: Decimal | None = None
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Draft:
    """An order to import, checked and in canonical form; `orders.serializers` makes it from what was sent."""

    customer_name: str
    customer_phone: str
    phone_e164: str
    customer_address: str
    customer_wilaya: str
    wilaya_code: str
    total_amount: Decimal
    items: list[DraftItem]
    customer_commune: str = ""
    commune_code: str | None = None
    shipping_fee: Decimal = Decimal("0.00")
    notes: str = ""
    external_id: str | None = None


def import_order(account_id: UUID, draft: Draft, *, actor: Actor) -> Order:
    """Import one order; it has `imported_items`, the list of its lines. Raises Invalid, and nothing is written then."""
    (new,) = import_orders(account_id, [draft], actor=actor)
    if isinstance(new, Invalid):
        raise new
    order = Order(**new.columns, created_at=new.created_at, updated_at=new.created_at)  # type: ignore[misc]  # it has one
    order.imported_items = [OrderItem(**columns) for columns in new.items]
    return order


def import_orders(account_id: UUID, drafts: Sequence[Draft], *, actor: Actor) -> list[NewOrder | Invalid]:
    """Import many orders in one transaction of at most two statements; for each draft its order or its refusal.

    Refused are products that are not the account's, and an `external_id` that an earlier order has, in the
    database or before it in `drafts`.
    """
    catalog = known_products(account_id, [item.product_id for draft in drafts for item in draft.items])
    problems = [unknown_products(catalog, draft.items) for draft in drafts]
    # A line with an unknown product is refused before the insert can see its external_id: both are said at once.
    refused = [draft.external_id for draft, errors in zip(drafts, problems, strict=True) if errors]
    taken = taken_external_ids(account_id, refused)
    outcomes: list[NewOrder | Invalid] = []
    for draft, errors in zip(drafts, problems, strict=True):
        if errors and draft.external_id in taken:
            errors |= DuplicateExternalId().errors
        outcomes.append(Invalid(errors) if errors else _new_order(account_id, draft, catalog))
    orders = [order for order in outcomes if isinstance(order, NewOrder)]
    written = insertion.insert(orders, actor) if orders else {}
    for order in orders:
        order.created_at = written.get(order.id)
    return [
        DuplicateExternalId() if isinstance(outcome, NewOrder) and outcome.created_at is None else outcome
        for outcome in outcomes
    ]


def known_products(account_id: UUID, product_ids: Sequence[UUID | None]) -> dict[UUID, Product]:
    """Those of `product_ids` that are products of the account; no statement when there are none."""
    wanted = {product_id for product_id in product_ids if product_id is not None}
    if not wanted:
        return {}
    products = Product.objects.filter(account_id=account_id, id__in=wanted).only("id", "name", "sku", "price")
    return {product.id: product for product in products}


def unknown_products(catalog: dict[UUID, Product], items: Sequence[DraftItem]) -> dict[str, list[str]]:
    """The errors of lines whose product is not in `catalog`, by dotted path."""
    return {
        f"items.{index}.product_id": ["No product of this account has this id."]
        for index, item in enumerate(items)
        if item.product_id is not None and item.product_id not in catalog
    }


def taken_external_ids(account_id: UUID, external_ids: Sequence[str | None]) -> set[str | None]:
    """Those of `external_ids` that orders of the account have; no statement when there are none."""
    wanted = {external_id for external_id in external_ids if external_id is not None}
    if not wanted:
        return set()
    orders = Order.objects.filter(account_id=account_id, external_id__in=wanted)
    return set(orders.values_list("external_id", flat=True))


def _new_order(account_id: UUID, draft: Draft, catalog: dict[UUID, Product]) -> NewOrder:
    order_id = uuid7()
    return NewOrder(
        columns={
            "id": order_id,
            "account_id": account_id,
            "external_id": draft.external_id,
            "customer_name": draft.customer_name,
            "customer_phone": draft.customer_phone,
            "phone_e164": draft.phone_e164,
            "customer_address": draft.customer_address,
            "customer_wilaya": draft.customer_wilaya,
            "wilaya_code": draft.wilaya_code,
            "customer_commune": draft.customer_commune,
            "commune_code": draft.commune_code,
            "total_amount": draft.total_amount,
            "shipping_fee": draft.shipping_fee,
            "notes": draft.notes,
        },
        items=[_new_item(order_id, position, item, catalog) for position, item in enumerate(draft.items)],
    )


def _new_item(order_id: UUID, position: int, item: DraftItem, catalog: dict[UUID, Product]) -> dict[str, Any]:
    name, price, sku = item.product_name, item.unit_price, None
    if item.product_id is not None:
        product = catalog[item.product_id]
        name = product.name if name is None else name
        price = product.price if price is None else price
        sku = product.sku
    assert name is not None and price is not None, "the serializer lets no line without a product leave them out"  # noqa: S101, PT018
    return {
        "id": uuid7(),
        "order_id": order_id,
        "position": position,
        "product_id": item.product_id,
        "product_name": name,
        "sku": sku,
        "quantity": item.quantity,
        "unit_price": price,
        "attributes": item.attributes,
    }


# --- Editing -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Edit:
    """What an agent changes in a pending order after asking the customer; None is left as it is.

    The codes belong to the texts beside them, as in a Draft. `quantities` are new quantities by item id: 0 removes the
    line.
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
        order, now = _lock(order_id)
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
        order.updated_at, order.version = now, order.version + 1
        order.save(update_fields=[*(name for name, _old, _new in written), "updated_at", "version"])
        OrderEdit.objects.bulk_create(
            OrderEdit(
                account_id=order.account_id,
                order=order,
                field=name,
                old="" if old is None else str(old),
                new="" if new is None else str(new),
                at=now,
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


# --- Moves -------------------------------------------------------------------------------------------------------


def confirm(order_id: UUID, *, actor: Actor, seen_version: int | None = None) -> Order:
    """The customer said yes. Raises AlreadyDecided, Changed, NotAllowed."""
    return _move("confirm", order_id, actor=actor, seen_version=seen_version)


def cancel(
    order_id: UUID, *, actor: Actor, account_id: UUID | None = None, reason: str = "", seen_version: int | None = None
) -> Order:
    """Cancel what has not been shipped. Raises NotCancellable, AlreadyDecided, Changed, NotAllowed.

    A merchant's cancel of a canceled order changes nothing and is no error: their retry is safe.
    """
    return _move("cancel", order_id, actor=actor, account_id=account_id, reason=reason, seen_version=seen_version)


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


@dataclass(slots=True, frozen=True)
class CallPlan:
    """What a pending order waits for after a call."""

    state: CallState
    due_at: datetime
    attempts: int
    agent_id: UUID | None = None  # who promised to call


def add_call_note(
    order_id: UUID,
    *,
    agent: User,
    outcome: CallNote.Outcome,
    note: str = "",
    callback_at: datetime | None = None,
    note_id: UUID | None = None,
    plan: CallPlan | None = None,
) -> CallNote:
    """Note a call. The order's status stays what it is: silence is no cancellation, an answer no confirmation.

    With `plan` the order then waits for what it says. Called again with the `note_id` of a note that exists, it changes
    nothing: a form sent twice makes one note.
    """
    with transaction.atomic():
        order, now = _lock(order_id)
        if note_id is not None and (written := CallNote.objects.filter(id=note_id).first()):
            return written
        if plan is not None:
            order.call_state, order.call_due_at = plan.state, plan.due_at
            order.call_attempts, order.callback_agent_id = plan.attempts, plan.agent_id
            order.save(update_fields=["call_state", "call_due_at", "call_attempts", "callback_agent"])
        return CallNote.objects.create(
            id=note_id or uuid7(),
            account_id=order.account_id,
            order=order,
            outcome=outcome,
            note=note,
            agent=agent,
            agent_name=agent.display_name,
            callback_at=callback_at,
            created_at=now,
        )


def _move(
    name: str,
    order_id: UUID,
    *,
    actor: Actor,
    account_id: UUID | None = None,
    reason: str = "",
    seen_version: int | None = None,
) -> Order:
    """Make the move `name`, or raise a Refused; Order.DoesNotExist outside `account_id`, when that is given."""
    with transaction.atomic():
        order, now = _lock(order_id, account_id)
        if name == "cancel" and order.status == Status.CANCELED and actor.role == Role.API:
            return order
        move = Order.MOVES.get((Status(order.status), name))
        if move is None:
            raise _refusal(order, name)
        if actor.role not in move.by:
            raise NotAllowed(_("Only a supervisor can do this to an order that is %(status)s.") % _said(order))
        if seen_version not in (None, order.version):
            raise Changed
        movement.write([_step(order, move, reason, now)], actor)
        if move.event is not None:
            events.publish(order.account_id, move.event, data=_event_data(order), at=now)
    return order


def _step(order: Order, move: Move, reason: str, now: datetime) -> movement.Step:
    """Make the move in memory."""
    previous = Status(order.status)
    order.status, order.updated_at, order.version = move.to, now, order.version + 1
    if move.to == Status.CONFIRMED:
        order.confirmed_at = now
    if move.to == Status.CANCELED:
        order.canceled_at, order.cancel_reason = now, reason
    return movement.Step(order, previous, move.to, reason)


@dataclass(slots=True)
class Shipment:
    """Where a courier says that an order is; the order by its id, or within an account by its `external_id`."""

    status: Status
    order_id: UUID | None = None
    external_id: str | None = None
    reason: str = ""
    seen_version: int | None = None  # where a person decides: the order as they saw it


def record_shipments(
    shipments: Sequence[Shipment], *, actor: Actor, account_id: UUID | None = None
) -> list[bool | Refused]:
    """Move many orders to where a courier says they are, in one transaction of three statements, one after the other.

    For each whether its order moved; False when it is there, or has been there on its way. Couriers leave steps out:
    an order that is to be further than the next status makes the moves between too, when all of them are the actor's.
    With `account_id` other accounts' orders do not exist.
    """
    outcomes: list[bool | Refused] = []
    steps: list[movement.Step] = []
    with transaction.atomic():
        orders = _lock_shipped(shipments, account_id)
        for shipment in shipments:
            order = orders.get(shipment.order_id or shipment.external_id)
            if order is None:
                outcomes.append(UnknownOrder(_("There is no such order.")))
                continue
            if shipment.seen_version not in (None, order.version):
                outcomes.append(Changed())
                continue
            moves = _route(Status(order.status), shipment.status, actor.role)
            if moves is None and _route(shipment.status, Status(order.status), actor.role) is None:
                said = {**_said(order), "to": shipment.status.label.lower()}
                outcomes.append(AlreadyDecided(_("The order is %(status)s; it cannot become %(to)s.") % said))
                continue
            now = max(order.now, order.updated_at)  # type: ignore[attr-defined]  # annotated
            steps += [_step(order, move, shipment.reason, now) for move in moves or ()]
            outcomes.append(bool(moves))
        if steps:
            movement.write(steps, actor)
    return outcomes


@cache
def _route(start: Status, end: Status, role: Role) -> tuple[Move, ...] | None:
    """The moves from one status to another; None when there is no way, or a move on it is not this role's.

    Moves that tell of themselves by an event are left to `_move`.
    """
    routes: dict[Status, tuple[Move, ...]] = {start: ()}
    reached = [start]
    for status in reached:
        for (from_status, _name), move in Order.MOVES.items():
            if from_status == status and role in move.by and move.event is None and move.to not in routes:
                routes[move.to] = (*routes[status], move)
                reached.append(move.to)
    return routes.get(end)


def _lock_shipped(shipments: Sequence[Shipment], account_id: UUID | None) -> dict[UUID | str | None, Order]:
    """The orders that are there, by id and by `external_id`, with their rows locked in the order of their keys."""
    named = Q(id__in={shipment.order_id for shipment in shipments} - {None})
    if account_id is not None:
        external_ids = {shipment.external_id for shipment in shipments} - {None}
        named = Q(account_id=account_id) & (named | Q(external_id__in=external_ids))
    orders = Order.objects.filter(named).only(
        "account_id", "external_id", "status", "version", "updated_at", "confirmed_at", "canceled_at", "cancel_reason"
    )
    locked = list(orders.annotate(now=Now()).order_by("id").select_for_update(of=("self",)))
    by_external_id: dict[UUID | str | None, Order] = {
        order.external_id: order for order in locked if account_id is not None and order.external_id
    }
    return by_external_id | {order.id: order for order in locked}


def _lock(order_id: UUID, account_id: UUID | None = None) -> tuple[Order, datetime]:
    """The order with its row locked, and the time of the change: the database's, and never before the last one's."""
    orders = Order.objects.filter(id=order_id)
    if account_id is not None:
        orders = orders.filter(account_id=account_id)
    order = orders.annotate(now=Now()).select_for_update(of=("self",)).get()
    return order, max(order.now, order.updated_at)  # type: ignore[attr-defined]  # annotated


def _refusal(order: Order, name: str) -> Refused:
    if name == "cancel" and order.status in (Status.SHIPPED, Status.DELIVERED, Status.RETURNED):
        return NotCancellable(_("The order is %(status)s; it can no longer be canceled.") % _said(order))
    last = order.status_changes.order_by("-at", "-id").first()
    if last is None or order.status == Status.PENDING:
        return AlreadyDecided(_("This cannot be done to an order that is %(status)s.") % _said(order))
    said = {**_said(order), "who": last.actor, "when": f"{last.at:%H:%M UTC on %Y-%m-%d}"}
    return AlreadyDecided(_("Already %(status)s by %(who)s at %(when)s.") % said)


def _said(order: Order) -> dict[str, str]:
    return {"status": Status(order.status).label.lower()}


def _event_data(order: Order) -> dict[str, object]:
    return {
        "id": order.id,
        "status": order.status,
        "customer_name": order.customer_name,
        "customer_phone": order.customer_phone,
        "total_amount": order.total_amount,
        "updated_at": order.updated_at,
    }
