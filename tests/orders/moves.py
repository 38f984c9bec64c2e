"""Brings orders to each status by the moves that lead there, and reads an order's edits."""

from functools import partial

from codservice.accounts.actor import Actor, Role
from orders import lifecycle
from tests.factories import AccountFactory, make_order

MOVES = {name: partial(lifecycle.move, name) for name in ("confirm", "cancel", "ship", "deliver", "return")}
PATHS = {
    "pending_confirmation": (),
    "confirmed": ("confirm",),
    "canceled": ("cancel",),
    "shipped": ("confirm", "ship"),
    "delivered": ("confirm", "ship", "deliver"),
    "returned": ("confirm", "ship", "return"),
}


def actor(role, name="Samira"):
    return Actor(Role(role), name)


def order_in(status, account=None):
    order = make_order(account or AccountFactory())
    bring(order, status)
    return order


def bring(order, status):
    for move in PATHS[status]:
        MOVES[move](order.id, actor=actor("supervisor"))
    order.refresh_from_db()
    assert order.status == status


def edits(order):
    """The old and new value of each edited field."""
    return {edit.field: (edit.old, edit.new) for edit in order.edits.all()}
