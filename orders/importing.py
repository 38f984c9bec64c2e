"""Bodies in, orders out: the one way in which orders come to us, by the API, a file or a batch."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection, models
from uuid_utils.compat import uuid7

from codservice.accounts.actor import Actor
from codservice.errors import Invalid
from codservice.wire import dump_json
from inventory.models import Product
from orders import bodies, serializers
from orders.bodies import OrderBody
from orders.models import Order, OrderItem, Status
from orders.serializers import Errors, Row

_TAKEN: Errors = {"external_id": ["Another order of this account has it already."]}


class DuplicateExternalId(Invalid):
    """An order of the account has this `external_id` already; `errors` has what else is wrong too."""

    def __init__(self, errors: Errors) -> None:
        super().__init__(errors | _TAKEN)


def import_orders(
    account_id: UUID, sent: Sequence[dict[str, Any]], *, actor: Actor, skip_known: bool = False
) -> list[OrderBody | Invalid]:
    """Import orders from bodies of JSON: for each the order, or all that is wrong with it, and then it is not written.

    Refused are bodies that cannot be read, products that are not the account's, and an `external_id` that an earlier
    order has, in the database or before it in `sent`. With `skip_known`, for what may be sent once more as a whole,
    nothing else is read of a body whose `external_id` the database has; that is three times as fast.

    One body costs at most three statements, as do a thousand: the products that are named, the external ids (without
    `skip_known` only of what is refused anyway), and the insert, which outside a larger transaction is its own commit.
    """
    numbers = [serializers.external_id(body) if skip_known else None for body in sent]
    taken = _taken(account_id, set(numbers))
    read: list[tuple[Row, Errors]] = [
        ({"external_id": number}, dict(_TAKEN)) if number in taken else serializers.read_order(body)
        for number, body in zip(numbers, sent, strict=True)
    ]
    catalog = _products(account_id, {line.get("product_id") for order, _ in read for line in order.get("items", ())})
    for order, errors in read:
        errors |= _unknown_products(order, catalog)
    if not skip_known:  # what is refused never meets the insert, which sees the external ids of all others
        taken = _taken(account_id, {order.get("external_id") for order, errors in read if errors})
    rows = [_row(order, account_id, catalog) for order, errors in read if not errors]
    written = _insert(rows, actor) if rows else {}
    return [_outcome(order, errors, taken, written) for order, errors in read]


def _outcome(order: Row, errors: Errors, taken: set[str | None], written: dict[UUID, datetime]) -> OrderBody | Invalid:
    if errors:
        return DuplicateExternalId(errors) if order.get("external_id") in taken else Invalid(errors)
    if order["id"] not in written:
        return DuplicateExternalId(errors)
    return bodies.imported(order | {"status": Status.PENDING, "created_at": written[order["id"]]})


def _products(account_id: UUID, ids: set[UUID | None]) -> dict[UUID | None, Product]:
    """Those of `ids` that are products of the account; no statement when there are none."""
    if not (wanted := ids - {None}):
        return {}
    products = Product.objects.filter(account_id=account_id, id__in=wanted).only("id", "name", "sku", "price")
    return {product.id: product for product in products}


def _unknown_products(order: Row, catalog: dict[UUID | None, Product]) -> Errors:
    return {
        f"items.{index}.product_id": ["No product of this account has this id."]
        for index, line in enumerate(order.get("items", ()))
        if line.get("product_id") is not None and line["product_id"] not in catalog
    }


def _taken(account_id: UUID, external_ids: set[str | None]) -> set[str | None]:
    """Those of `external_ids` that orders of the account have; no statement when there are none."""
    if not (wanted := external_ids - {None}):
        return set()
    orders = Order.objects.filter(account_id=account_id, external_id__in=wanted)
    return set(orders.values_list("external_id", flat=True))


def _row(order: Row, account_id: UUID, catalog: dict[UUID | None, Product]) -> Row:
    """The order itself, completed with ids and with what the catalog knows of its lines."""
    order["id"], order["account_id"] = uuid7(), account_id
    for line in order["items"]:
        product = catalog.get(line["product_id"])
        line["id"], line["sku"] = uuid7(), product and product.sku
        if product and line["product_name"] is None:
            line["product_name"] = product.name
        if product and line["unit_price"] is None:
            line["unit_price"] = product.price
    return order


# Orders, lines and history in one statement: one round trip and, outside a larger transaction, one commit, for one
# order as for a thousand. The rows travel as JSON, whose numbers PostgreSQL reads as exact decimals.
_INSERT = """
WITH sent AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%s::json) AS sent({typed_columns}, items json)
), new_order AS (
    INSERT INTO orders_order ({columns}, status, version, cancel_reason, created_at, updated_at)
    SELECT {columns}, 'pending_confirmation', 1, '', now(), now() FROM sent
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
    SELECT account_id, id, 'pending_confirmation', created_at, %s, %s::uuid, '' FROM new_order
)
SELECT created_at, array_agg(id) FROM new_order GROUP BY created_at
"""


@cache
def _statement() -> str:
    """_INSERT with the columns that an import has, by the models' names and types."""
    columns = ["id", "account_id", *serializers.SAID, *serializers.MADE]
    line_columns = ["id", "sku", *serializers.SAID_OF_LINE]
    return _INSERT.format(
        columns=", ".join(columns),
        typed_columns=_typed(Order, columns),
        line_columns=", ".join(line_columns),
        line_values=", ".join(f"line.{name}" for name in line_columns),
        typed_line_columns=_typed(OrderItem, line_columns),
    )


def _typed(model: type[models.Model], columns: Sequence[str]) -> str:
    return ", ".join(f"{name} {model._meta.get_field(name).db_type(connection)}" for name in columns)  # type: ignore[union-attr]


def _insert(rows: Sequence[Row], actor: Actor) -> dict[UUID, datetime]:
    """Write the orders; the time of creation of each that was written, by its id."""
    with connection.cursor() as cursor:
        cursor.execute(_statement(), [dump_json(rows).decode(), actor.name, actor.user_id])
        return {order_id: created_at for created_at, ids in cursor.fetchall() for order_id in ids}
