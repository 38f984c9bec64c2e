"""How moves are made, and written with their events, by one statement for one move or a thousand.

`lifecycle` and `shipments` decide which moves.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from codservice import postgresql
from codservice.accounts.actor import Actor
from codservice.wire import dump_json
from orders.models import Move, Order, Status
from orders.order_events import told
from webhooks import events
from webhooks.models import Event


class Step(NamedTuple):
    """A move that an order has made in memory. `order` is as it is after the last of its moves."""

    order: Order
    from_status: Status
    to_status: Status
    reason: str
    event: Event.Kind


def make(order: Order, move: Move, reason: str) -> Step:
    """Make a move in memory, of an order that `lifecycle.lock` has locked."""
    step = Step(order, Status(order.status), move.to, reason, move.event)
    order.status, order.updated_at, order.version = move.to, order.now, order.version + 1
    if move.to == Status.CONFIRMED:
        order.confirmed_at = order.now
    if move.to == Status.CANCELED:
        order.canceled_at, order.cancel_reason = order.now, reason
    return step


_ORDER_COLUMNS = {
    "id": "uuid",
    "status": "text",
    "version": "int",
    "updated_at": "timestamptz",
    "confirmed_at": "timestamptz",
    "canceled_at": "timestamptz",
    "cancel_reason": "text",
}
COLUMNS = ("account_id", *_ORDER_COLUMNS)  # what must be loaded of an order to move it
_CHANGES = ", ".join(f"{name} = moved.{name}" for name in _ORDER_COLUMNS if name != "id")
_MOVED = ", ".join(f"{name} {kind}" for name, kind in _ORDER_COLUMNS.items())
_WRITE = f"""
WITH moved AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(orders)s::json) AS moved({_MOVED})
), changed AS (
    UPDATE orders_order SET {_CHANGES} FROM moved
    WHERE orders_order.id = moved.id AND orders_order.id = ANY(ARRAY(SELECT id FROM moved))
), history AS (
    INSERT INTO orders_statuschange (account_id, order_id, from_status, to_status, at, actor, user_id, reason)
    SELECT account_id, order_id, from_status, to_status, at, %(actor)s, %(user)s, reason
    FROM ROWS FROM (
        json_to_recordset(%(steps)s::json) AS (
            account_id uuid, order_id uuid, from_status text, to_status text, at timestamptz, reason text)
    ) WITH ORDINALITY AS step(account_id, order_id, from_status, to_status, at, reason, turn) ORDER BY turn
), {events.STEPS_WITH_CHANGES}
SELECT count(*) FROM delivery
"""  # noqa: S608  (our own columns)


def write(steps: Sequence[Step], actor: Actor) -> None:
    """Write the locked orders of `steps`, and a history entry and an event for each step, in this order."""
    moved = {step.order.id: step.order for step in steps}
    orders = [{name: getattr(order, name) for name in _ORDER_COLUMNS} for order in moved.values()]
    history = [
        {
            "account_id": step.order.account_id,
            "order_id": step.order.id,
            "from_status": step.from_status,
            "to_status": step.to_status,
            "at": step.order.updated_at,
            "reason": step.reason,
        }
        for step in steps
    ]
    (deliveries,) = postgresql.row(
        _WRITE,
        {
            "orders": dump_json(orders).decode(),
            "steps": dump_json(history).decode(),
            "actor": actor.name,
            "user": actor.user_id,
            **events.parameters_with([told(step.order, step.event, status=step.to_status) for step in steps]),
        },
    )
    events.after_writing(Counter(str(step.event) for step in steps), deliveries=deliveries)
