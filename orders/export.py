"""An account's orders as rows of a table, for people and their spreadsheets."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from uuid import UUID

from django.db.models import DateTimeField, F, Func, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext_lazy as _
from django.utils.translation import override

from codservice.days import ALGIERS
from codservice.files.workbooks import MAX_CELL
from codservice.long_lists import batches_by
from orders import cancel_reasons, phones, regions
from orders.models import DeliveryType, Order, Status
from orders.templatetags.orders import name_of

# How many orders are in memory at once, of which each may take 128 KiB: where nothing else needs the memory, and where
# each download holds them for as long as its client reads.
BATCH = 1000
DOWNLOADED = 200

# The lines of an order as people read them: `2 × Robe (taille: M); 1 × Sac`. Cut to the size of a spreadsheet cell:
# lines may have twenty times as much text, and a batch of these would fill the memory.
_ITEMS = Func(
    "id",
    most=MAX_CELL,
    template="""left(coalesce((
        SELECT string_agg(concat(quantity, ' × ', product_name, ' (' || (
            SELECT string_agg(concat(key, ': ', value), ', ' ORDER BY turn)
            FROM jsonb_each_text(attributes) WITH ORDINALITY AS detail(key, value, turn)
        ) || ')'), '; ' ORDER BY position)
        FROM orders_orderitem WHERE order_id = %(expressions)s
    ), ''), %(most)s)""",
    output_field=TextField(),
)
COLUMNS = {
    "order_id": _("Id"),
    "external_id": _("Order number"),
    "status": _("Status"),
    "created_at": _("Received"),
    "updated_at": _("Last change"),
    "confirmed_at": _("Confirmed on"),
    "canceled_at": _("Canceled on"),
    "cancel_reason": _("Reason"),
    "customer_name": _("Name"),
    "customer_phone": _("Phone"),
    "customer_address": _("Address"),
    "wilaya_code": _("Wilaya code"),
    "wilaya": _("Wilaya"),
    "commune_code": _("Commune code"),
    "commune": _("Commune"),
    "items": _("Items"),
    "total_amount": _("To pay on delivery"),
    "shipping_fee": _("Shipping fee"),
    "notes": _("Notes for the agent"),
    "delivery_type": _("Delivery type"),
    "source": _("Source"),
    "customer_phone_2": _("Second phone"),
}
# What is read for columns that are not named as a field of the order. Two of these are codes, of which names are made.
_READ = {"order_id": Cast("id", TextField()), "customer_phone": F("phone_e164"), "customer_phone_2": F("phone_2_e164"),
         "wilaya": F("wilaya_code"), "commune": F("commune_code"), "items": _ITEMS}  # fmt: skip
_ORDER = [_READ.get(name, name) for name in COLUMNS]
_SHOWN = [
    Func(name, template=f"date_trunc('second', %(expressions)s AT TIME ZONE '{ALGIERS}')", output_field=DateTimeField())
    if name.endswith("_at")
    else read
    for name, read in zip(COLUMNS, _ORDER, strict=True)
]
_STATUS, _REASON, _DELIVERY, _WILAYA_CODE, _WILAYA, _COMMUNE_CODE, _COMMUNE, *_PHONES = map(
    list(COLUMNS).index,
    ("status", "cancel_reason", "delivery_type", "wilaya_code", "wilaya", "commune_code", "commune", "customer_phone",
     "customer_phone_2"),
)  # fmt: skip


def batches(
    orders: QuerySet[Order],
    size: int,
    *,
    shown: bool = False,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Iterator[list[list[Any]]]:
    """The COLUMNS of each order, oldest first, in batches of up to `size`; an order's lines are one text.

    With `shown`, times are as people read them in a table: in Algeria's time, without fraction and zone.

    Each batch is a statement of its own, run within `around`, and each order is as it is when it is read.
    """
    found = orders.values_list(*(_SHOWN if shown else _ORDER), F("created_at"))
    key = ("created_at", "id")
    for batch in batches_by(found, key, size, place=lambda row: (row[-1], UUID(row[0])), around=around):
        rows = [row for *row, _created_at in batch]
        for row in rows:
            row[_WILAYA] = regions.wilaya(row[_WILAYA]).name
            row[_COMMUNE] = row[_COMMUNE] and regions.commune(row[_COMMUNE]).name
        yield rows


def in_words(rows: list[list[Any]], language: str) -> list[list[Any]]:
    """The same rows with statuses, cancel reasons, delivery types and places in `language`, as on the pages."""
    with override(language):
        statuses, deliveries = ({kind.value: str(kind.label) for kind in kinds} for kinds in (Status, DeliveryType))
        for row in rows:
            row[_STATUS], row[_DELIVERY] = statuses[row[_STATUS]], deliveries[row[_DELIVERY]]
            row[_REASON] = cancel_reasons.in_words(row[_REASON])
            row[_WILAYA] = name_of(regions.wilaya(row[_WILAYA_CODE]))
            row[_COMMUNE] = row[_COMMUNE] and name_of(regions.commune(row[_COMMUNE_CODE]))
    return rows


def with_national_phones(rows: list[list[Any]]) -> list[list[Any]]:
    """The same rows with phones as couriers' lists have them. Only for cells of text: others lose the 0 in front."""
    for row in rows:
        for place in _PHONES:
            row[place] = row[place] and phones.national(row[place])
    return rows
