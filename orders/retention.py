"""Anonymising the customers of old orders, as Algeria's law on personal data (18-07) asks for.

An order that ended CUSTOMER_RETENTION_DAYS ago, and that nobody has called about since, no longer needs to know whose
it was. Overwritten are name, phone, address, the wilaya and commune as they were sent, the merchant's notes, the texts
of calls, reasons and edits of the customer; what figures are made of stays: codes of wilaya and commune, amounts,
lines, statuses, outcomes of calls, times, who worked on it, and the shop's own number.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

NOBODY = "—"  # in place of the name, so that a list still shows something
BATCH = 200  # orders that a statement anonymises

# Orders that have ended, along the index `order_to_anonymise`. `updated_at` stays: clients that ask what has changed
# need not read all old orders again.
_ANONYMISE = """
WITH old AS (
    SELECT id FROM orders_order o
    WHERE status IN ('canceled', 'delivered', 'returned') AND anonymised_at IS NULL
      AND updated_at < now() - %(kept)s::interval
      AND NOT EXISTS (
        SELECT FROM orders_callnote n WHERE n.order_id = o.id AND n.created_at >= now() - %(kept)s::interval)
    ORDER BY updated_at LIMIT %(batch)s FOR NO KEY UPDATE SKIP LOCKED
), notes AS (
    UPDATE orders_callnote SET note = '' WHERE order_id = ANY(ARRAY(SELECT id FROM old)) AND note <> ''
), reasons AS (
    UPDATE orders_statuschange SET reason = '' WHERE order_id = ANY(ARRAY(SELECT id FROM old)) AND reason <> ''
), edits AS (
    UPDATE orders_orderedit SET old = '', new = ''
    WHERE order_id = ANY(ARRAY(SELECT id FROM old)) AND field NOT LIKE 'items.%%'
)
UPDATE orders_order SET customer_name = %(nobody)s, customer_phone = '', phone_e164 = '', customer_address = '',
    customer_wilaya = '', customer_commune = '', notes = '', cancel_reason = '', version = version + 1,
    anonymised_at = now()
WHERE id = ANY(ARRAY(SELECT id FROM old))
"""
_COUNT = """
WITH page AS (
    SELECT id, updated_at FROM orders_order
    WHERE status IN ('canceled', 'delivered', 'returned') AND anonymised_at IS NULL
      AND updated_at < now() - %(kept)s::interval AND (updated_at, id) > (%(at)s, %(id)s)
    ORDER BY updated_at, id LIMIT %(batch)s
)
SELECT (SELECT count(*) FROM page WHERE NOT EXISTS (
        SELECT FROM orders_callnote n WHERE n.order_id = page.id AND n.created_at >= now() - %(kept)s::interval)),
    count(*) OVER (), updated_at, id
FROM page ORDER BY updated_at DESC, id DESC LIMIT 1
"""


def anonymise_customers(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Overwrite the customers of orders that ended CUSTOMER_RETENTION_DAYS ago; nobody, when that is 0.

    A sweep of `codservice.retention`, whose `before` is not asked. Each batch is one statement: an order is anonymised
    with all that belongs to it, or not at all.
    """
    if not settings.CUSTOMER_RETENTION_DAYS:
        yield {"customers": 0}
        return
    parameters = {"kept": timedelta(days=settings.CUSTOMER_RETENTION_DAYS), "nobody": NOBODY, "batch": BATCH}
    yield from _count(parameters) if dry_run else _anonymise(parameters)


def _anonymise(parameters: dict[str, Any]) -> Iterator[dict[str, int]]:
    done = BATCH
    while done == BATCH:
        with connection.cursor() as cursor:
            cursor.execute(_ANONYMISE, parameters)
            done = cursor.rowcount
        yield {"customers": done}


def _count(parameters: dict[str, Any]) -> Iterator[dict[str, int]]:
    at, id_, size = datetime.min.replace(tzinfo=UTC), UUID(int=0), BATCH
    while size == BATCH:
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, {**parameters, "at": at, "id": id_})
            count, size, at, id_ = cursor.fetchone() or (0, 0, at, id_)
        yield {"customers": count}
