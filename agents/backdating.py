"""Believable times for demonstration orders: calls minutes after the import, decisions hours later, promises kept or
broken, parcels days later."""

import math
from datetime import datetime, timedelta
from random import Random

from django.utils import timezone

from codservice.accounts.models import Account
from codservice.days import ALGIERS
from orders.models import CallNote, Order, OrderEdit, Status, StatusChange

OPENS, CLOSES = 9, 20  # hours of a day in Algeria in which customers are called
DAY = timedelta(days=1)
PAUSE = timedelta(hours=2)  # until the next attempt, which is tomorrow's for orders of the evening
_TIMES = ["created_at", "updated_at", "confirmed_at", "canceled_at", "call_due_at"]  # of an order
_RELATED = ("call_notes", "status_changes", "edits")
# The least and the most hours from the previous move to this one.
_UNTIL = {Status.SHIPPED: (12, 30), Status.DELIVERED: (24, 72), Status.RETURNED: (72, 120)}


def spread_over_time(account: Account, chance: Random) -> None:
    """Move each order of the account into the past, with all that belongs to it.

    Decided orders are spread over the past weeks. Pending ones had their last call or change within the last hours,
    in the order of their ids, by which the list of orders is sorted."""
    now = timezone.now()
    orders = list(account.orders.order_by("-id").prefetch_related(*_RELATED))
    minutes = iter(sorted(chance.randrange(2, 300) for order in orders if order.status == Status.PENDING))
    for number, order in enumerate(orders):
        _tell(order, now - timedelta(minutes=100 * number), chance)
        last = max(order.updated_at, *(note.created_at for note in order.call_notes.all()), order.created_at)
        if order.status == Status.PENDING:
            _shift(order, now - timedelta(minutes=next(minutes)) - last)
        else:
            _shift(order, DAY * min(math.floor((now - last) / DAY), 0))
    notes, changes, edits = ([row for order in orders for row in getattr(order, name).all()] for name in _RELATED)
    CallNote.objects.bulk_update(notes, ["created_at", "callback_at"], batch_size=500)
    StatusChange.objects.bulk_update(changes, ["at"], batch_size=500)
    OrderEdit.objects.bulk_update(edits, ["at"], batch_size=500)
    Order.live.bulk_update(orders, _TIMES, batch_size=500)


def _tell(order: Order, created: datetime, chance: Random) -> None:
    """Set all times of an order as if it was imported at `created`. What happened to it stays in sequence."""

    def later(at: datetime, least: float, most: float) -> datetime:
        return at + timedelta(minutes=chance.triangular(least, most, least))

    first, *moves = sorted(order.status_changes.all(), key=lambda change: (change.at, change.id))
    notes = sorted(order.call_notes.all(), key=lambda note: (note.created_at, note.id))
    at = order.created_at = first.at = created
    promised: datetime | None = None
    waits = min(order.call_due_at - notes[-1].created_at, PAUSE) if notes and order.call_due_at else timedelta()
    for number, note in enumerate(notes):
        if promised:  # most promises are kept
            at = later(promised, 0, 10) if chance.random() < 0.75 else later(promised, 40, 300)
        else:
            at = _open(later(at, 90, 300) if number else later(at, 2, 45))
        note.created_at, promised = at, None
        if note.outcome == CallNote.Outcome.CALLBACK:
            note.callback_at = promised = _open(later(at, 45, 1200))
    order.call_due_at = promised or at + waits
    for move in moves:
        if hours := _UNTIL.get(Status(move.to_status)):
            at = _open(at + timedelta(hours=chance.uniform(*hours)))
        move.at = at
        if move.to_status == Status.CONFIRMED:
            order.confirmed_at = at
        if move.to_status == Status.CANCELED:
            order.canceled_at = at
    decided = moves[0].at if moves else at
    for edit in order.edits.all():
        edit.at = max(decided - timedelta(minutes=1), created)
    order.updated_at = max([order.created_at, *(row.at for row in (*moves, *order.edits.all()))])


def _open(at: datetime) -> datetime:
    """This time, or soon after the next opening if it is at night."""
    local = at.astimezone(ALGIERS)
    if OPENS <= local.hour < CLOSES:
        return at
    opening = local.replace(hour=OPENS, minute=local.minute % 40)
    return opening if local.hour < OPENS else opening + DAY


def _shift(order: Order, by: timedelta) -> None:
    for row, names in [
        (order, _TIMES),
        *((note, ["created_at", "callback_at"]) for note in order.call_notes.all()),
        *((row, ["at"]) for row in (*order.status_changes.all(), *order.edits.all())),
    ]:
        for name in names:
            if (at := getattr(row, name)) is not None:
                setattr(row, name, at + by)
