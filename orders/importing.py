"""JSON in, orders written: the one way in for orders, of the API, files and pages."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection, models
from uuid_utils.compat import uuid7

from codservice import postgresql
from codservice.accounts.actor import Actor
from codservice.errors import Errors, Invalid
from codservice.wire import dump_json
from inventory.models import Product
from orders import bodies, serializers
from orders.bodies import OrderBody
from orders.models import Order, OrderItem, Status
from orders.order_events import OrderEventWithNumber
from orders.serializers import Row
from webhooks import events
from webhooks.models import Event

_DUPLICATE: Errors = {"external_id": ["Another order of this account already has it."]}


class DuplicateExternalId(Invalid):
    """An order of the account already has this `external_id`; `errors` also has what else is wrong.

    `order_id` is that order's id, which the message names too; None if the order is gone by now.
    """

    GONE = "The order that had this external_id is gone by now. Send this one again, with a new Idempotency-Key."

    def __init__(self, errors: Errors, order_id: UUID | None) -> None:
        super().__init__(errors | _DUPLICATE)
        self.order_id = order_id
        self.message += f" Order {order_id} has this external_id." if order_id else f" {self.GONE}"


def import_orders(
    account_id: UUID,
    sent: Sequence[dict[str, Any]],
    *,
    actor: Actor,
    skip_known: bool = False,
    ids: Sequence[UUID] | None = None,
) -> list[OrderBody | Invalid]:
    """Import orders from JSON bodies. Returns for each the order, or all that is wrong with it if it was not written.

    A body is refused if it cannot be read, names a product that is not the account's, or has the `external_id` of an
    earlier order, in the database or before it in `sent`. With `skip_known`, for what may be sent again as a whole,
    nothing else is read of a body whose `external_id` is in the database, which is three times as fast. If the caller
    gives the orders' `ids`, a new one for each body, a repeated call is safe: IntegrityError says that an order already
    has its id.

    One body or a thousand cost at most three statements: the named products; the insert, which outside a larger
    transaction is its own commit; and the external ids of what was not written. With `skip_known`, one more: the
    external ids of all, at first.
    """
    external_ids = [serializers.external_id(body) if skip_known else None for body in sent]
    taken = orders_with(account_id, set(external_ids))
    read: list[tuple[Row, Errors]] = [
        ({"external_id": external_id}, dict(_DUPLICATE)) if external_id in taken else serializers.read_order(body)
        for external_id, body in zip(external_ids, sent, strict=True)
    ]
    catalog = named_products(account_id, [order for order, _ in read])
    for order, errors in read:
        errors.update(unknown_products(order, catalog))
    ids = ids or [uuid7() for _ in read]
    rows = []
    for id_, (order, errors) in zip(ids, read, strict=True):
        if not errors:
            _complete(order, id_, account_id, catalog)
            rows.append(order)
    written = _insert(account_id, rows, actor) if rows else {}
    # Those found at first have errors already; others may have come since.
    unwritten = [order for order, errors in read if order.get("id") not in written and not (skip_known and errors)]
    taken |= orders_with(account_id, {order.get("external_id") for order in unwritten})
    return _outcomes(read, taken, written)


def has_made(order: Order, body: dict[str, Any]) -> bool:
    """Whether the order is as an import of `body`, whose lines have their names and prices, makes it."""
    made = {name: getattr(order, name) for name in (*serializers.SENT, *serializers.DERIVED)}
    made["items"] = list(order.items.order_by("position").values(*serializers.SENT_OF_LINE))
    return serializers.read_order(body) == (made, {})


def _outcomes(
    read: Sequence[tuple[Row, Errors]], taken: dict[str | None, UUID], written: dict[UUID, datetime]
) -> list[OrderBody | Invalid]:
    still_ahead = set(written)  # ids of the orders of bodies not reached yet: a body repeats none of these
    outcomes: list[OrderBody | Invalid] = []
    for order, errors in read:
        if (id_ := order.get("id")) in written:
            still_ahead.remove(id_)
            outcomes.append(bodies.imported(order | {"status": Status.PENDING, "created_at": written[id_]}))
            continue
        other = taken.get(order.get("external_id"))
        # With no error of its own, only its external id can have kept it from being written.
        is_duplicate = not errors or (other is not None and other not in still_ahead)
        outcomes.append(DuplicateExternalId(errors, other) if is_duplicate else Invalid(errors))
    return outcomes


def named_products(account_id: UUID, orders: Iterable[Row]) -> dict[UUID | None, Product]:
    """The account's products that lines of `orders` name, by id; no statement if they name none."""
    wanted = {line.get("product_id") for order in orders for line in order.get("items", ())} - {None}
    return {product.id: product for product in Product.objects.named(account_id, ids=wanted)}


def unknown_products(order: Row, catalog: dict[UUID | None, Product]) -> Errors:
    return {
        f"items.{index}.product_id": ["No product of this account has this id."]
        for index, line in enumerate(order.get("items", ()))
        if line.get("product_id") is not None and line["product_id"] not in catalog
    }


# Asks for the next external id in order, which only the unique index can give. Otherwise, before PostgreSQL has
# statistics of the table, it would read all orders of the account for each external id.
_WITH_EXTERNAL_IDS = """
SELECT wanted.external_id, next.id
FROM unnest(%s::text[]) AS wanted (external_id) CROSS JOIN LATERAL (
    SELECT id, external_id FROM orders_order WHERE account_id = %s AND external_id >= wanted.external_id
    ORDER BY external_id LIMIT 1
) AS next
WHERE next.external_id = wanted.external_id
"""


def orders_with(account_id: UUID, external_ids: set[str | None]) -> dict[str | None, UUID]:
    """The ids of the account's orders by external id, for these `external_ids`; no statement if there are none."""
    if not (wanted := external_ids - {None}):
        return {}
    return dict(postgresql.rows(_WITH_EXTERNAL_IDS, [list(wanted), account_id]))


def _complete(order: Row, id_: UUID, account_id: UUID, catalog: dict[UUID | None, Product]) -> None:
    """Give the order its ids and its event, and its lines what the catalog knows of them."""
    order["id"], order["account_id"], order["event_id"] = id_, account_id, uuid7()
    order["event"] = _event(order)
    complete_lines(order["items"], catalog)


def complete_lines(lines: Iterable[Row], catalog: dict[UUID | None, Product]) -> None:
    """Give lines their ids, and what the catalog knows of them."""
    for line in lines:
        product = catalog.get(line["product_id"])
        line["id"], line["sku"] = uuid7(), product and product.sku
        if product and line["product_name"] is None:
            line["product_name"] = product.name
        if product and line["unit_price"] is None:
            line["unit_price"] = product.price


_TOLD = [name for name in OrderEventWithNumber.__struct_fields__ if name not in ("status", "updated_at")]


def _event(order: Row) -> str:
    """The inside of the event's `data` as JSON, without the time, which only the statement knows."""
    return dump_json({"status": Status.PENDING, **{name: order[name] for name in _TOLD}})[1:-1].decode()


# Orders, lines, history and events in one statement: one round trip and, outside a larger transaction, one commit, for
# one order or a thousand. The rows travel as JSON, whose numbers PostgreSQL reads as exact decimals. They are dated by
# the statement's own clock, because the transaction of a whole file began long before.
# The statement itself marks the orders of a twin, so that no caller can forget it.
_INSERT = """
WITH sent AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(orders)s::json) AS sent(
        {typed_columns}, items json, event_id uuid, event text)
), clock AS MATERIALIZED (
    SELECT at, {time_as_json} AS said,
        (SELECT CASE WHEN live_id IS NULL THEN 'new' ELSE 'test' END FROM accounts_account WHERE id = %(account)s)
            AS call_state
    FROM (SELECT clock_timestamp() AS at) AS now
), new_order AS (
    INSERT INTO orders_order ({columns}, status, version, cancel_reason, call_state, created_at, updated_at)
    SELECT {columns}, 'pending_confirmation', 1, '', clock.call_state, clock.at, clock.at FROM sent, clock
    ON CONFLICT (account_id, external_id) WHERE external_id IS NOT NULL DO NOTHING
    RETURNING id, account_id, created_at
), new_line AS (
    INSERT INTO orders_orderitem (account_id, order_id, position, {line_columns})
    SELECT new_order.account_id, new_order.id, line.number - 1, {line_values}
    FROM new_order JOIN sent USING (id)
    CROSS JOIN ROWS FROM (json_to_recordset(sent.items) AS ({typed_line_columns})) WITH ORDINALITY
        AS line({line_columns}, number)
), new_change AS (
    INSERT INTO orders_statuschange (account_id, order_id, to_status, at, actor, user_id, reason)
    SELECT account_id, id, 'pending_confirmation', created_at, %(actor)s, %(user)s::uuid, '' FROM new_order
), told AS MATERIALIZED (
    SELECT sent.event_id AS id, new_order.account_id, 'order.created' AS kind, new_order.created_at AS at,
        '{{"event":"order.created","timestamp":' || clock.said || ',"data":{{' || sent.event
        || ',"updated_at":' || clock.said || '}}}}' AS body
    FROM new_order JOIN sent USING (id) CROSS JOIN clock
), {steps}
SELECT (SELECT count(*) FROM delivery), created_at, array_agg(id) FROM new_order GROUP BY created_at
"""


@cache
def _statement() -> str:
    """_INSERT with the columns of an import, by the models' names and types.

    On one line, to be shorter: psycopg parses a statement of more than 4 096 characters anew at each call.
    """
    columns = ["id", "account_id", *serializers.SENT, *serializers.DERIVED]
    line_columns = ["id", "sku", *serializers.SENT_OF_LINE]
    text = _INSERT.format(
        columns=", ".join(columns),
        typed_columns=_typed(Order, columns),
        line_columns=", ".join(line_columns),
        line_values=", ".join(f"line.{name}" for name in line_columns),
        typed_line_columns=_typed(OrderItem, line_columns),
        time_as_json=events.TIME_AS_JSON,
        steps=events.STEPS,
    )
    return " ".join(text.split())


def _typed(model: type[models.Model], columns: Sequence[str]) -> str:
    return ", ".join(f"{name} {model._meta.get_field(name).db_type(connection)}" for name in columns)  # type: ignore[union-attr]


def _insert(account_id: UUID, rows: Sequence[Row], actor: Actor) -> dict[UUID, datetime]:
    """Write the orders, and return the creation times of those that were written, by id.

    They are written in the order of their external ids, so that batches that share some cannot deadlock. Of two orders
    with the same external id, the first is written.
    """
    rows = sorted(rows, key=lambda row: row["external_id"] or "")
    parameters: dict[str, Any] = {
        "account": account_id,
        "orders": dump_json(rows).decode(),
        "actor": actor.name,
        "user": actor.user_id,
    }
    written = postgresql.row(_statement(), parameters | events.parameters())
    if written is None:
        return {}
    deliveries, created_at, ids = written
    events.after_writing({Event.Kind.ORDER_CREATED.value: len(ids)}, deliveries=deliveries)
    return dict.fromkeys(ids, created_at)
