"""Takes in files of orders, by the API's rules."""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef
from django.utils.translation import gettext_lazy as _

from codservice import values
from codservice.errors import Errors, Invalid
from codservice.files.intake import SURPLUS, Entry, Intake, Taken
from codservice.files.reports import is_of_report
from codservice.files.tables import Row
from inventory.models import Product
from inventory.product_files import skus_of
from orders import fees, importing, phones, serializers
from orders.models import Order, OrderEdit
from orders.order_files import grouping
from orders.order_files.cells import Catalog, body_of, errors_of, is_price_of_all, misread, with_constants
from orders.order_files.columns import COLUMNS, PHONES, PRODUCT, number_of, says_customer

_ITEM_PATH = re.compile(r"items\.(\d+)(?:\.(.+))?", re.ASCII)
_APART = "Line {line} has the same external_id, with other orders in between. Put an order's rows next to each other."
_FEWER = (
    "The order with this number already exists, with fewer lines than in the file. Correct it, or enter another number."
)
_LEFT_OUT = "The order with this number already exists, without this row. Correct it, or enter another number."
_OTHERS = "The order with this number already exists, with another phone. Correct it, or enter another number."
_OTHERS_ID = "The order with this id already exists, with another phone. Correct it, or leave the id out."
_PRICE_OF_ALL = _(
    "Check the price: in %(count)d of the first orders it fits the amount to pay only without the quantity. It must be "
    "that of one piece. If it is not, choose “(not in the file)” for it: in orders of one line it then follows from "
    "the amount to pay."
)

_Known = tuple[Entry, dict[str, Any], UUID | None]  # rows, their body, and the order that has its number or id


class OrderRows(Intake):
    """A row is one line of an order. `grouping.orders_of` says which rows are one order, `cells.body_of` what it holds.

    Orders whose number the account already has, or whose id, as in our own list, are left as they are. Rows that were
    never part of such an order are refused: rows of a report without a customer, rows that are more than the order's
    lines, if nobody has changed these, and rows with a phone that the order never had: in lists that are numbered anew
    each day, another order has the number.
    """

    columns = COLUMNS
    required = (
        ("customer_name",),
        ("customer_phone",),
        ("customer_wilaya",),
        ("customer_address",),
        PRODUCT,
        ("quantity",),
        ("unit_price", "sku", "product_id", "total_amount"),
    )
    of_campaign = ("product_name", "quantity", "unit_price")
    # Counts orders, not rows, of which there may be several times as many.
    counted: Mapping[str, Any] = {"imported": _("Orders imported"), "already_there": _("Orders that already exist")}
    refused = _("Orders refused")
    # Its phones are none, so that nobody is called for an example that is sent as it is.
    example = (
        {
            "external_id": "1001", "customer_name": "Amine Benali", "customer_phone": "0550 XX XX XX",
            "customer_wilaya": "Alger", "customer_commune": "Bab El Oued", "customer_address": "12 rue des Frères",
            "delivery_type": "domicile", "product_name": "Robe", "quantity": 1, "unit_price": 4500, "size": "M",
            "shipping_fee": 500, "notes": "",
        },
        {"external_id": "1001", "product_name": "Foulard", "quantity": 2, "unit_price": 1200},
        {
            "external_id": "1002", "customer_name": "سمير حمادي", "customer_phone": "0661 XX XX XX",
            "customer_wilaya": "Oran", "customer_commune": "Bir El Djir", "customer_address": "Bureau de Bir El Djir",
            "delivery_type": "stop desk", "product_name": "Chaussures", "quantity": 1, "unit_price": 6900, "size": "42",
            "shipping_fee": 300, "notes": "Appeler après 17 h",
        },
    )  # fmt: skip
    has_own_fees = False  # whether an order with neither fee nor total gets the account's fee for where it goes

    def entries(self, rows: Iterator[Row]) -> Iterator[Entry]:
        return grouping.orders_of(rows, self.constants)

    def name_of(self, entry: Entry) -> str | None:
        cells = entry[0].cells
        return serializers.external_id({"external_id": number_of(cells)}) if cells.get("external_id") else None

    def with_surplus(self, entry: Entry) -> tuple[Entry, Errors]:
        errors: Errors = {
            f"items.{index}" if index else "": [SURPLUS] for index, row in enumerate(entry) if row.surplus
        }
        return grouping.to_report(entry, errors)

    def take(self, entries: Sequence[Entry]) -> Taken:
        counts: Counter[str] = Counter()
        refused: list[tuple[Entry, Errors]] = []
        sent: list[tuple[Entry, dict[str, Any]]] = []
        known: list[_Known] = []
        marked, there = self._marked(entries), self._there(entries)
        catalog, own_fees = self._catalog(entries), fees.by_place(self.account_id) if self.has_own_fees else {}
        for entry in entries:
            first = self.first_line(entry)
            if errors := grouping.doubts(entry, self.constants) or misread(entry, catalog):
                refused.append((entry, errors))
            elif first != entry[0].line:
                refused.append((entry, {"external_id": [_APART.format(line=first)]}))
            else:
                body = body_of(entry, catalog, self.constants, own_fees)
                if body.get("external_id") and serializers.external_id(body) not in marked:
                    body["external_id"] = number_of(body)
                if (order_id := _id_in(entry)) in there:
                    known.append((entry, body, order_id))
                else:
                    sent.append((entry, body))
        outcomes = importing.import_orders(
            self.account_id, [body for _entry, body in sent], actor=self.actor, skip_known=True
        )
        for (entry, body), outcome in zip(sent, outcomes, strict=True):
            if isinstance(outcome, importing.DuplicateExternalId):
                known.append((entry, body, outcome.order_id))
            elif isinstance(outcome, Invalid):
                refused.append((entry, errors_of(outcome, body, entry)))
            else:
                counts["imported"] += 1
        for entry, errors in self._doubts_about(known):
            if errors:
                refused.append((entry, errors))
            else:
                counts["already_there"] += 1
        return Taken(counts, [grouping.to_report(entry, errors) for entry, errors in refused])

    def _marked(self, entries: Sequence[Entry]) -> Container[str | None]:
        """Of the order numbers with marks around them, those that orders have; no statement if no row has any."""
        written = [cells for entry in entries if number_of(cells := entry[0].cells) != cells.get("external_id", "")]
        return importing.orders_with(self.account_id, set(map(serializers.external_id, written)))

    def _there(self, entries: Sequence[Entry]) -> set[UUID]:
        """Of the ids in rows, those of the account's orders; no statement if no row has any."""
        ids = {*map(_id_in, entries)} - {None}
        return set(Order.objects.filter(account_id=self.account_id, id__in=ids).values_list("id", flat=True))

    def _doubts_about(self, known: Sequence[_Known]) -> Iterator[tuple[Entry, Errors]]:
        """Why rows were never part of the order that has their number or id; nothing if they may have been."""
        line_counts = self._line_counts([order_id for entry, _body, order_id in known if len(entry) > 1])
        others = self._others(known)
        for entry, _body, order_id in known:
            if is_of_report(cells := entry[0].cells) and not says_customer(cells):
                yield entry, {"external_id": [_LEFT_OUT]}
            elif entry[0].line in others:
                yield entry, {"our_id": [_OTHERS_ID]} if order_id == _id_in(entry) else {"external_id": [_OTHERS]}
            else:
                is_longer = len(entry) > line_counts.get(order_id, len(entry))
                yield entry, {"external_id": [_FEWER]} if is_longer else {}

    @classmethod
    def understood(cls, account_id: UUID, constants: Mapping[str, str]) -> Mapping[str, str]:
        """A product for all rows is a SKU if the catalog has it, otherwise a name."""
        skus = skus_of({"sku": constants.get("product_name", "")})
        known = set(Product.objects.filter(account_id=account_id, sku__in=skus).values_list("sku", flat=True))
        sku = next((each for each in skus if each in known), None)
        if sku is None:
            return constants
        return {"sku": sku} | {name: text for name, text in constants.items() if name != "product_name"}

    @classmethod
    def wrong_constants(cls, constants: Mapping[str, str]) -> Errors:
        errors = serializers.read_order(body_of([Row(0, {}, [])], {}, constants, {}))[1]
        columns = {path.rpartition(".")[2]: said for path, said in errors.items()}
        return {name: said for name, said in columns.items() if name in constants}

    @classmethod
    def to_check(cls, rows: Iterator[Row], constants: Mapping[str, str]) -> str:
        orders = (
            body_of(entry, {}, constants, {})
            for entry in grouping.orders_of(rows, constants)
            if not (grouping.doubts(entry, constants) or misread(entry, {}))
        )
        count = sum(map(is_price_of_all, orders))
        return _PRICE_OF_ALL % {"count": count} if count else ""

    def row_of(self, path: str) -> tuple[int, str]:
        item = _ITEM_PATH.fullmatch(path)
        return (int(item[1]), item[2] or "") if item else (0, path)

    def _line_counts(self, ids: Sequence[UUID | None]) -> dict[UUID | None, int]:
        """The number of lines of each order, without those whose lines somebody has changed. No `ids`, no statement."""
        orders = Order.objects.filter(account_id=self.account_id, id__in=ids)
        changed = OrderEdit.objects.filter(order=OuterRef("id"), field__startswith="items.")
        return dict(orders.filter(~Exists(changed)).annotate(lines=Count("items")).values_list("id", "lines"))

    def _others(self, known: Sequence[_Known]) -> set[int]:
        """In which lines an order has none of the phones that it has had. No phones, no statement."""
        sent = [(entry[0].line, id_, numbers) for entry, body, id_ in known if id_ and (numbers := _phones(body))]
        orders = Order.objects.filter(
            account_id=self.account_id, id__in={order_id for _, order_id, _ in sent}, anonymised_at=None
        )
        had = {order_id: {*numbers} for order_id, *numbers in orders.values_list("id", "phone_e164", "phone_2_e164")}
        others = [each for each in sent if each[1] in had and each[2].isdisjoint(had[each[1]])]
        edits = OrderEdit.objects.filter(order__in={order_id for _, order_id, _ in others}, field__in=PHONES)
        for order_id, old in edits.values_list("order_id", "old"):
            had[order_id].add(phones.e164_or_none(old))
        return {line for line, order_id, numbers in others if numbers.isdisjoint(had[order_id])}

    def _catalog(self, entries: Sequence[Entry]) -> Catalog:
        """The account's products that rows name by SKU, or by id without a price; no statement if they name none."""
        cells = [with_constants(self.constants, row.cells) for entry in entries for row in entry]
        skus = {sku for each in cells for sku in skus_of(each)}
        without_price = (values.uuid_or_none(each.get("product_id")) for each in cells if not each.get("unit_price"))
        ids = {id_ for id_ in without_price if id_}
        found = Product.objects.named(self.account_id, skus=skus, ids=ids)
        return {name: each for each in found for name in (each.sku, each.id)}


class UploadedOrderRows(OrderRows):
    """The rows of a file that a merchant uploads."""

    batch = 500  # rows: some tenths of a second
    has_own_fees = True  # like an order that is written by hand


def _id_in(entry: Entry) -> UUID | None:
    """The id that the rows' order has in our own list, as far as they say one."""
    return values.uuid_or_none(entry[0].cells.get("our_id"))


def _phones(body: Mapping[str, Any]) -> set[str]:
    return {number for name in PHONES if (number := phones.e164_or_none(body.get(name, "")))}
