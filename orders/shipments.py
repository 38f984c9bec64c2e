"""Moving orders to where couriers say that they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField, Q
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext as _

from codservice.accounts.actor import Actor, Role
from codservice.errors import Refused
from orders import importing, lifecycle, moves
from orders.models import IS_LIVE, Move, Order, Status
from orders.order_events import OrderEventWithNumber

# The statuses that couriers move orders to.
STATUSES = (Status.SHIPPED, Status.DELIVERED, Status.RETURNED)


class UnknownOrder(Refused):
    """No order, or no order of the account, has this id."""

    code, status = "not_found", 404


@dataclass(slots=True, frozen=True)
class Shipment:
    """Where a courier says that an order is. The order is named by id or, within an account, by `external_id`.

    One that is named by both is that of the `external_id`, if there is one: shops' numbers may look like our ids.
    """

    status: Status
    order_id: UUID | None = None
    external_id: str | None = None
    reason: str = ""
    seen_version: int | None = None  # the version that a person saw, if one decides


def record(shipments: Sequence[Shipment], *, actor: Actor, account_id: UUID | None = None) -> list[bool | Refused]:
    """Move many orders to where a courier says they are, one after the other.

    One transaction, of at most three statements however many the orders: two, and one to look up external ids.
    Returns for each whether its order moved, or why it is refused; False means that it is there already, or has passed
    it. Couriers leave steps out: an order also makes the moves between, if the actor may make all of them. With
    `account_id`, other accounts' orders do not exist; without it, test orders do not.
    """
    outcomes: list[bool | Refused] = []
    steps: list[moves.Step] = []
    with transaction.atomic():
        orders = _lock(shipments, account_id)
        for shipment in shipments:
            try:
                made = _steps(orders.get(shipment.external_id) or orders.get(shipment.order_id), shipment, actor.role)
            except Refused as refused:
                outcomes.append(refused)
            else:
                outcomes.append(bool(made))
                steps += made
        if steps:
            moves.write(steps, actor)
    return outcomes


def _steps(order: Order | None, shipment: Shipment, role: Role) -> list[moves.Step]:
    """The moves to where the shipment is. Raises UnknownOrder, Changed, AlreadyDecided."""
    if order is None:
        raise UnknownOrder(_("There is no such order."))
    lifecycle.check_seen(order, shipment.seen_version)
    route = _route(Status(order.status), shipment.status, role)
    if route is None and _route(shipment.status, Status(order.status), role) is None:
        said = {**lifecycle.status_in_words(order), "to": shipment.status.label.lower()}
        raise lifecycle.AlreadyDecided(_("The order is %(status)s; it cannot become %(to)s.") % said)
    return [moves.make(order, move, shipment.reason) for move in route or ()]


def leads(start: Status, end: Status, role: Role) -> bool:
    """Whether this role can move an order from one status to the other, in one or more moves."""
    return bool(_route(start, end, role))


@cache
def _route(start: Status, end: Status, role: Role) -> tuple[Move, ...] | None:
    """The moves from one status to another; None if there is no way, or only one with a move that is not this role's.

    Confirming and canceling are left to `lifecycle`: couriers decide nothing.
    """
    routes: dict[Status, tuple[Move, ...]] = {start: ()}
    reached = [start]
    for status in reached:
        for (from_status, _name), move in Order.MOVES.items():
            if from_status == status and role in move.by and move.to in STATUSES and move.to not in routes:
                routes[move.to] = (*routes[status], move)
                reached.append(move.to)
    return routes.get(end)


def _lock(shipments: Sequence[Shipment], account_id: UUID | None) -> dict[UUID | str | None, Order]:
    """Lock the orders that exist. Returns them by id and by `external_id`.

    The query makes PostgreSQL use the primary key. Before it has statistics of the table it would choose an index of
    the account, and read all of its orders.
    """
    ids = {shipment.order_id for shipment in shipments} - {None}
    if account_id is None:
        named = Q(IS_LIVE, id__in=ids)
    else:
        ids |= {*importing.orders_with(account_id, {shipment.external_id for shipment in shipments}).values()}
        named = Q(RawSQL("account_id = coalesce(%s, account_id)", [account_id], BooleanField()), id__in=ids)
    orders = Order.objects.filter(named).only(*moves.COLUMNS, *OrderEventWithNumber.__struct_fields__)
    locked = lifecycle.lock(orders)
    by_external_id: dict[UUID | str | None, Order] = {
        order.external_id: order for order in locked if account_id is not None and order.external_id
    }
    return by_external_id | {order.id: order for order in locked}
