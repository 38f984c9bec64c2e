"""How imported orders are written: `lifecycle.import_orders` decides, this is the one statement that it costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from codservice.accounts.actor import Actor
from codservice.wire import dump_json

_ORDER_COLUMNS = {
    "id": "uuid",
    "account_id": "uuid",
    "external_id": "text",
    "customer_name": "text",
    "customer_phone": "text",
    "phone_e164": "text",
    "customer_address": "text",
    "customer_wilaya": "text",
    "wilaya_code": "text",
    "customer_commune": "text",
    "commune_code": "text",
    "total_amount": "numeric",
    "shipping_fee": "numeric",
    "notes": "text",
}
_ITEM_COLUMNS = {
    "id": "uuid",
    "order_id": "uuid",
    "position": "int",
    "product_id": "uuid",
    "product_name": "text",
    "sku": "text",
    "quantity": "int",
    "unit_price": "numeric",
    "attributes": "jsonb",
}

# Orders, lines and history in one statement: one round trip and, outside a larger transaction, one commit, for one
# order as for five hundred. The rows travel as JSON, whose numbers PostgreSQL reads as exact decimals.
_INSERT = """
WITH new_order AS (
    INSERT INTO orders_order ({order_names}, status, version, cancel_reason, created_at, updated_at)
    SELECT {order_names}, 'pending_confirmation', 1, '', now(), now()
    FROM json_to_recordset(%s::json) AS o({order_columns})
    ON CONFLICT (account_id, external_id) WHERE external_id IS NOT NULL DO NOTHING
    RETURNING id, account_id, created_at
), new_item AS (
    INSERT INTO orders_orderitem (account_id, {item_names})
    SELECT new_order.account_id, {item_values} FROM json_to_recordset(%s::json) AS i({item_columns})
    JOIN new_order ON new_order.id = i.order_id
), new_change AS (
    INSERT INTO orders_statuschange (account_id, order_id, to_status, at, actor, user_id, reason)
    SELECT account_id, id, 'pending_confirmation', created_at, %s, %s::uuid, '' FROM new_order
)
SELECT created_at, array_agg(id) FROM new_order GROUP BY created_at
""".format(  # noqa: S608  (our own column names)
    order_names=", ".join(_ORDER_COLUMNS),
    order_columns=", ".join(f"{name} {kind}" for name, kind in _ORDER_COLUMNS.items()),
    item_names=", ".join(_ITEM_COLUMNS),
    item_values=", ".join(f"i.{name}" for name in _ITEM_COLUMNS),
    item_columns=", ".join(f"{name} {kind}" for name, kind in _ITEM_COLUMNS.items()),
)


@dataclass(slots=True)
class NewOrder:
    """An order to write: its columns and those of its lines as plain dicts; a model costs more than its row."""

    columns: dict[str, Any]
    items: list[dict[str, Any]]
    created_at: datetime | None = None  # when it is written

    @property
    def id(self) -> UUID:
        return self.columns["id"]


def insert(orders: Sequence[NewOrder], actor: Actor) -> dict[UUID, datetime]:
    """Write the orders; the time of creation of each that was written, by its id."""
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT,
            [
                dump_json([order.columns for order in orders]).decode(),
                dump_json([item for order in orders for item in order.items]).decode(),
                actor.name,
                actor.user_id,
            ],
        )
        return {order_id: created_at for created_at, ids in cursor.fetchall() for order_id in ids}
