"""Orders with all that belongs to them.

A single order is read by a statement that is written out: building and compiling it with Django for each order takes
longer than everything else.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

import msgspec
from django.contrib.postgres.fields import ArrayField
from django.db.models import Func, JSONField, QuerySet

from codservice import postgresql
from orders.models import Order


def _belonging(table: str, by: str, *columns: str, **others: str) -> str:
    """SQL for an order's rows in another table as a list of dicts, with `columns`, and `others` as name=SQL."""
    pairs = ", ".join(f"'{name}', {value}" for name, value in {**{name: name for name in columns}, **others}.items())
    return f"ARRAY(SELECT jsonb_build_object({pairs}) FROM {table} WHERE order_id = {{order}} ORDER BY {by})"  # noqa: S608  (our own tables)


# What belongs to an order, as SQL in which `{order}` is its id. Amounts are text, because JSON would make them floats;
# times are ISO 8601 text.
BELONGING = {
    "detail_items": _belonging(
        "orders_orderitem", "position",
        "id", "product_id", "product_name", "sku", "quantity", "attributes", unit_price="unit_price::text",
    ),
    "detail_notes": _belonging(
        "orders_callnote", "created_at, id", "id", "outcome", "note", "created_at", "callback_at", agent="agent_name"
    ),
    "detail_history": _belonging(
        "orders_statuschange", "at, id", "from_status", "to_status", "at", "actor", "reason"
    ),
    "detail_edits": _belonging("orders_orderedit", "at, id", "field", "old", "new", "at", "actor"),
}  # fmt: skip
# The latest `{most}` of an order's call notes and edits: it may have 10 000.
LATEST = {
    "detail_notes": _belonging(
        "(SELECT * FROM orders_callnote WHERE order_id = {order} ORDER BY created_at DESC, id DESC LIMIT {most}) n",
        "created_at, id", "outcome", "note", "created_at", "callback_at", agent="agent_name",
    ),
    "detail_edits": _belonging(
        "(SELECT * FROM orders_orderedit WHERE order_id = {order} ORDER BY at DESC, id DESC LIMIT {most}) e",
        "at, id", "field", "old", "new", "at", "actor",
    ),
}  # fmt: skip
_LISTS = {
    name: Func("id", template=sql.format(order="%(expressions)s"), output_field=ArrayField(JSONField()))
    for name, sql in BELONGING.items()
}
COLUMNS = [str(field.column) for field in Order._meta.concrete_fields]
_NAMES = [*COLUMNS, *BELONGING]
_READ = f"""
SELECT {", ".join(COLUMNS)}, {", ".join(sql.format(order="o.id") for sql in BELONGING.values())}
FROM orders_order o WHERE id = %s AND account_id = %s
"""  # noqa: S608  (our own columns)


def read(account_id: UUID, order_id: UUID) -> dict[str, Any]:
    """One order as a row of `with_detail(Order.objects).values()`. Raises Order.DoesNotExist."""
    found = postgresql.row(_READ, [order_id, account_id])
    if found is None:
        raise Order.DoesNotExist
    row = dict(zip(_NAMES, found, strict=True))
    return row | {name: [msgspec.json.decode(each) for each in row[name]] for name in BELONGING}


def with_detail(orders: QuerySet[Order], *, but: Collection[str] = ()) -> QuerySet[Order]:
    """Add all that belongs to the orders to the same statement, as the lists of BELONGING, except those in `but`."""
    return orders.annotate(**{name: each for name, each in _LISTS.items() if name not in but})
