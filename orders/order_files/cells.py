"""Turns the rows of one order in a file into the body of an import: what people write in cells, as the API takes it."""

import contextlib
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from codservice import values
from codservice.errors import Errors, Invalid
from codservice.files.intake import SHORTENED, Entry, altered
from inventory.models import Product
from inventory.product_files import skus_of
from orders import phones, regions, serializers
from orders.models import MAX_QUANTITY, DeliveryType
from orders.order_files import delivery_cells, phone_cells
from orders.order_files.columns import AMOUNTS, DETAILS, NAME, NOTHING, PHONES, without_nothing
from orders.serializers import SENT, SENT_OF_LINE

Catalog = dict[str | UUID, Product]  # by SKU and by id
Fees = dict[tuple[str, str], Decimal]  # by wilaya and delivery type

# What people write for a fee if there is none beside the total.
_NO_FEE = {"inclus", "incluse", "inclue", "compris", "comprise", "included", *map(str.lower, NOTHING)}
_INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_OF_ONE_LINE = ("customer_name", *PHONES, "customer_wilaya", "customer_commune", "source")
_NO_PHONE = (
    "Is a number that a spreadsheet has shortened, and its last digits are lost. Format the column as text, "
    "and enter the numbers again."
)
_NO_PRICE = (
    "The total less the shipping fee gives no price for each piece in whole centimes. Correct them, or enter the price."
)
_CONTRADICTS = "The stop desk column contradicts this. Correct one of the two."


def body_of(entry: Entry, catalog: Catalog, constants: Mapping[str, str], own_fees: Fees) -> dict[str, Any]:
    """The order as the API takes it, from its rows and the `constants` for all rows.

    A missing total is the sum of the lines and the shipping fee. A missing price of an order's only line is what the
    total leaves for each piece. A SKU names a product of the catalog; any other SKU becomes the product's name, if that
    is missing. Wilaya and commune may be in one cell, and so may two phones; the name may be in two. Size and colour
    are attributes. For a stop desk, a missing address is the commune. Without fee and total, the fee is that of
    `own_fees` for the order's wilaya and delivery type. A cell that marks nothing is as an empty one where the order
    may lack it.
    """
    first = without_nothing(with_constants(constants, entry[0].cells))
    body: dict[str, Any] = {name: first[name] for name in SENT if first.get(name)}
    for name in ("customer_wilaya", "customer_commune"):
        if (code := values.plain_integer(first.get(name, ""))).isdecimal():
            body[name] = code
    if name := " ".join(filter(None, map(first.get, NAME))):
        body["customer_name"] = name
    if not first.get("customer_commune") and (places := regions.find_both(first.get("customer_wilaya", ""))):
        body["customer_wilaya"], body["customer_commune"] = (place.name for place in places)
    if kind := _delivery_type(first):
        body["delivery_type"] = kind
    if kind == DeliveryType.DESK.value and body.get("customer_commune"):
        body.setdefault("customer_address", body["customer_commune"])
    _part_phones(body)
    body |= {name: values.on_one_line(body[name]) for name in _OF_ONE_LINE if name in body}
    body["items"] = [_item(row.cells, constants, catalog) for row in entry]
    _write_amounts_plainly(body)
    if "shipping_fee" in body:
        _read_absent_fee(body, first["shipping_fee"])
    if _is_shipped_free(entry[0].cells):
        body["shipping_fee"] = "0"
    if own_fees and body.keys().isdisjoint(("shipping_fee", "total_amount")):
        where = serializers.wilaya_code(body) or "", body.get("delivery_type", DeliveryType.HOME.value)
        if where in own_fees:  # otherwise it is unclear where it goes, or there is no fee for it
            body["shipping_fee"] = own_fees[where]
    if _lacks_price(body):
        if (price := _price(body)) is not None:
            body["items"][0]["unit_price"] = price
    elif "total_amount" not in body and (total := _total(body, catalog)) is not None:
        body["total_amount"] = total
    return body


def _part_phones(body: dict[str, Any]) -> None:
    """Strip the phones to their numbers, and give two numbers of one cell a field each.

    The second phone stands in for the first if that is missing, and is left out if it is the same number.
    """
    body |= {name: phone_cells.bare(body[name]) for name in PHONES if name in body}
    if "customer_phone" not in body and "customer_phone_2" in body:
        body["customer_phone"] = body.pop("customer_phone_2")
    if "customer_phone_2" not in body and (two := phone_cells.two_in(body.get("customer_phone", ""))):
        body |= dict(zip(PHONES, two, strict=True))
    if "customer_phone_2" in body and len({phones.e164_or_none(body.get(name, "")) or name for name in PHONES}) == 1:
        del body["customer_phone_2"]


def misread(entry: Entry, catalog: Catalog) -> Errors:
    """The sizes, colours and SKUs that a spreadsheet has altered, and free shipping that is neither yes nor no.

    A SKU that the catalog has is as it should be.
    """
    try:
        _is_shipped_free(entry[0].cells)
    except ValueError as error:
        return {"free_shipping": [str(error)]}
    return {
        f"items.{index}.{name}": [said]
        for index, row in enumerate(entry)
        for name in (*DETAILS, "sku")
        if (said := altered(row.cells.get(name, "")))
        and (name != "sku" or not (row.cells.get("product_id") or _product_of(row.cells, catalog)))
    }


def errors_of(refusal: Invalid, body: dict[str, Any], entry: Entry) -> Errors:
    """The errors, by columns that the rows have.

    Leaves out a total or price that is missing only because what it is calculated from is wrong.
    """
    first = entry[0].cells
    follows = ""
    if "total_amount" not in body and any(
        path == "shipping_fee" or path.startswith("items.") for path in refusal.errors
    ):
        follows = "total_amount"
    elif _lacks_price(body) and refusal.errors.keys() & {"total_amount", "shipping_fee", "items.0.quantity"}:
        follows = "items.0.unit_price"
    shortened = {name: [_NO_PHONE] for name in PHONES if SHORTENED.fullmatch(body.get(name, ""))}
    errors = {path: said for path, said in refusal.errors.items() if path != follows} | shortened
    if "customer_phone" in errors.keys() & body.keys() and not first.get("customer_phone"):
        errors["customer_phone_2"] = errors.pop("customer_phone")
    if _lacks_price(body) and "items.0.unit_price" in errors:
        errors["items.0.unit_price"] = [_NO_PRICE]
    if "delivery_type" in errors and first.get("stop_desk"):
        if not first.get("delivery_type"):
            del errors["delivery_type"]
            errors["stop_desk"] = [values.YES_OR_NO]
        elif body["delivery_type"] != first["delivery_type"]:
            errors["delivery_type"] = [_CONTRADICTS]
    for index, (row, item) in enumerate(zip(entry, body["items"], strict=True)):
        for name, word in DETAILS.items():
            path, cell = f"items.{index}.attributes.{word}", row.cells.get(name)
            if path in errors and cell and item["attributes"][word] == values.on_one_line(cell):
                errors[f"items.{index}.{name}"] = errors.pop(path)
    return errors


def with_constants(constants: Mapping[str, str], cells: dict[str, str]) -> dict[str, str]:
    """A row's cells, with the texts for all rows in place of empty ones."""
    return {**constants, **{name: cell for name, cell in cells.items() if cell}} if constants else cells


def _delivery_type(cells: Mapping[str, str]) -> str:
    """The delivery type as the API calls it, or the text as it is if that is unknown.

    Gives both texts if the two columns contradict each other, and is empty if the row says nothing.
    """
    said, at_desk = cells.get("delivery_type", ""), cells.get("stop_desk", "")
    kind, other = (delivery_cells.kind_in(text) or text for text in (said, at_desk))
    with contextlib.suppress(ValueError):
        other = DeliveryType.DESK.value if values.yes_or_no(at_desk) else DeliveryType.HOME.value
    return f"{said}, {at_desk}" if {kind, other} == set(DeliveryType.values) else kind or other


def _item(said: dict[str, str], constants: Mapping[str, str], catalog: Catalog) -> dict[str, Any]:
    cells = without_nothing(with_constants(constants, said))
    item: dict[str, Any] = {name: cells[name] for name in SENT_OF_LINE if cells.get(name)}
    _write_amounts_plainly(item)
    if "product_name" in item:
        item["product_name"] = values.on_one_line(item["product_name"])
    if _INTEGER.fullmatch(quantity := values.plain_quantity(item.get("quantity", ""))):
        item["quantity"] = int(quantity)
    if "attributes" in item:
        with contextlib.suppress(ValueError, RecursionError):  # then it stays a text, which the field refuses
            item["attributes"] = json.loads(item["attributes"])
            if item["attributes"] is None:  # none, as by API
                del item["attributes"]
    details = {word: values.on_one_line(cell) for name, word in DETAILS.items() if (cell := cells.get(name))}
    if details and isinstance(attributes := item.get("attributes", {}), dict):
        item["attributes"] = details | attributes
    if (sku := cells.get("sku")) and "product_id" not in item:
        if product := _product_of(cells, catalog):
            item["product_id"] = str(product.id)
        else:
            item.setdefault("product_name", values.on_one_line(sku))
    if "product_id" in item and not said.get("product_name"):
        item.pop("product_name", None)  # a constant, which must not replace the catalog's name
    return item


def _product_of(cells: Mapping[str, str], catalog: Catalog) -> Product | None:
    """The product that has the row's SKU."""
    return next(filter(None, map(catalog.get, skus_of(cells))), None)


def _write_amounts_plainly(body: dict[str, Any]) -> None:
    for name in AMOUNTS:
        if name in body:
            body[name] = values.plain_amount(body[name])


def _read_absent_fee(body: dict[str, Any], said: str) -> None:
    """Make the fee 0 if the cell certainly says that there is none.

    `-   DA` is how Excel's accounting format shows 0. A lone dash may stand for the usual fee, unless the order has a
    total: beside it, an empty fee is 0 as well.
    """
    fee = body["shipping_fee"]
    if (fee in ("-", "–", "—") and any(map(str.isalpha, said))) or ("total_amount" in body and fee.lower() in _NO_FEE):
        body["shipping_fee"] = "0"


def _is_shipped_free(cells: Mapping[str, str]) -> bool:
    """Whether the row says that the customer pays no fee, and gives none itself.

    Raises ValueError if it says neither yes nor no.
    """
    said = "" if cells.get("shipping_fee") else cells.get("free_shipping", "")
    return bool(said) and values.yes_or_no(said)


def _lacks_price(body: dict[str, Any]) -> bool:
    """Whether the order's only line has no price, but the order has a total to calculate it from."""
    first, *others = body["items"]
    return "total_amount" in body and not (others or "unit_price" in first or "product_id" in first)


def _price(body: dict[str, Any]) -> Decimal | None:
    """What the total leaves for each piece; None if that is no amount, or if something cannot be read."""
    try:
        paid = values.amount(body["total_amount"]) - values.amount(body.get("shipping_fee", "0"))
        return values.amount(paid / values.integer(body["items"][0]["quantity"], 1, MAX_QUANTITY))
    except (KeyError, ValueError):
        return None


def is_price_of_all(body: dict[str, Any]) -> bool:
    """Whether the prices seem to be of all pieces of a line: without the quantities they fit the total, with them not.

    Where nothing says what the fee is, they fit if it explains the rest rather than a discount of more than a third.
    """
    try:
        paid = values.amount(body["total_amount"]) - values.amount(body.get("shipping_fee", "0"))
        of_lines = of_pieces = Decimal()
        for item in body["items"]:
            price = values.amount(item["unit_price"])
            of_lines += price
            of_pieces += price * values.integer(item["quantity"], 1, MAX_QUANTITY)
    except (KeyError, ValueError):
        return False
    if "shipping_fee" in body:
        return paid == of_lines < of_pieces
    return of_lines <= paid < of_pieces * 2 / 3


def _total(body: dict[str, Any], catalog: Catalog) -> Decimal | None:
    """The sum of the lines and the shipping fee; None if one of them cannot be read, which has its own error."""
    total = Decimal()
    try:
        for item in body["items"]:
            price = item["unit_price"] if "unit_price" in item else catalog[values.uuid(item["product_id"])].price
            total += values.amount(price) * values.integer(item["quantity"], 1, MAX_QUANTITY)
        return total + values.amount(body.get("shipping_fee", "0"))
    except (KeyError, ValueError):
        return None
