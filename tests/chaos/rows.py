"""Reads the tables at the end of a run."""

from collections import defaultdict
from typing import Any
from urllib.parse import urlsplit

import psycopg

from .record import Row, Rows

_ORDERS = """
SELECT o.id::text, a.name AS account, status, notes, total_amount::text, customer_name AS name, customer_phone AS phone
FROM orders_order o JOIN accounts_account a ON a.id = o.account_id
"""
_LINES = """
SELECT order_id::text AS "order", product_name, quantity, unit_price::text FROM orders_orderitem
ORDER BY order_id, position
"""
_CHANGES = 'SELECT order_id::text AS "order", from_status, to_status FROM orders_statuschange ORDER BY id'
_NOTES = 'SELECT order_id::text AS "order", note FROM orders_callnote'
_PRODUCTS = """
SELECT p.id::text, a.name AS account, sku, stock_quantity
FROM inventory_product p JOIN accounts_account a ON a.id = p.account_id
"""
_MOVEMENTS = """
SELECT product_id::text AS product, old_quantity AS old, new_quantity AS new FROM inventory_stockmovement ORDER BY id
"""
_EVENTS = """
SELECT e.id::text, a.name AS account, kind, body
FROM webhooks_event e JOIN accounts_account a ON a.id = e.account_id
"""
_DELIVERIES = """
SELECT d.id::text, event_id::text AS event, url AS webhook, status
FROM webhooks_delivery d JOIN webhooks_webhook w ON w.id = d.webhook_id
"""
_SETTINGS = "SELECT name, setting FROM pg_settings"


def read_rows(connection: "psycopg.Connection[Any]") -> Rows:
    def read(sql: str) -> list[Row]:
        with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            return cursor.execute(sql).fetchall()  # type: ignore[arg-type]

    def by_id(sql: str) -> dict[str, Row]:
        return {row.pop("id"): row for row in read(sql)}

    lines = defaultdict[str, list[Row]](list)
    for line in read(_LINES):
        lines[line.pop("order")].append(line)
    deliveries = by_id(_DELIVERIES)
    for delivery in deliveries.values():
        delivery["webhook"] = urlsplit(delivery["webhook"]).path
    return Rows(
        orders=by_id(_ORDERS),
        lines=dict(lines),
        changes=read(_CHANGES),
        notes=[(note["order"], note["note"]) for note in read(_NOTES)],
        products=by_id(_PRODUCTS),
        movements=read(_MOVEMENTS),
        events=by_id(_EVENTS),
        deliveries=deliveries,
        settings={setting["name"]: setting["setting"] for setting in read(_SETTINGS)},
    )
