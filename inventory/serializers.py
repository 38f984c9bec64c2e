"""Inventory on the wire: the entries of a bulk update as they come in, products and outcomes as they go out."""

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from rest_framework import serializers

from codservice import values
from codservice.api.fields import Integer, Text
from codservice.api.paging import PageMetaSerializer as PageMeta
from codservice.errors import Invalid
from inventory.models import MAX_QUANTITY
from inventory.stock import Draft, Reason, Refusal, Result, Update

MAX_UPDATES = 100  # contract, section 7
LISTED = ("id", "name", "sku", "stock_quantity", "price", "is_active")

_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
read_sku = partial(values.text, max_length=64)

# --- In ----------------------------------------------------------------------------------------------------------


def read_updates(body: dict[str, Any]) -> list[Update]:
    """The entries of a bulk update's body; one that cannot be used has its refusal.

    Raises Invalid when there is no list of 1 to MAX_UPDATES entries; they are counted before any is looked at.
    """
    entries = body.get("updates")
    if type(entries) is not list:
        raise Invalid({"updates": ["Must be a list."]})
    if not 1 <= len(entries) <= MAX_UPDATES:
        raise Invalid({"updates": [f"Must have 1 to {MAX_UPDATES} entries."]})
    return [_read_update(entry) for entry in entries]


def _read_update(entry: object) -> Update:
    if type(entry) is not dict:
        return Update(refusal=Refusal(Reason.INVALID_ENTRY, {"": "Must be an object."}))
    update, wrong = Update(), {}
    try:
        update.sku = read_sku(entry["sku"]) if entry.get("sku") is not None else None
    except ValueError as error:
        wrong["sku"] = str(error)
    if (text := entry.get("id")) is not None:
        if type(text) is str and _UUID.fullmatch(text):
            update.id = UUID(text)
        else:
            wrong["id"] = "Must be a UUID."
    if wrong:
        update.sku = update.id = None  # half a name names no product
    elif update.sku is None and update.id is None:
        wrong["sku"] = "Send the product's sku or id."
    if (expected := entry.get("expected_quantity")) is not None:
        if _is_quantity(expected):
            update.expected_quantity = expected
        else:
            wrong["expected_quantity"] = _NO_QUANTITY
    reason = Reason.INVALID_ENTRY if wrong else Reason.INVALID_QUANTITY
    if _is_quantity(entry.get("quantity")):
        update.quantity = entry["quantity"]
    else:
        wrong["quantity"] = _NO_QUANTITY
    if wrong:
        update.refusal = Refusal(reason, wrong)
    return update


_NO_QUANTITY = f"Must be an integer from 0 to {MAX_QUANTITY}, as a JSON number without a point."


def _is_quantity(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_QUANTITY


class StockUpdate(serializers.Serializer):
    """An entry as OpenAPI describes it; `read_updates` reads it, because one bad entry does not spoil the others."""

    openapi_extra = {
        "anyOf": [{"required": [name], "properties": {name: {"type": "string"}}} for name in ("sku", "id")],
    }
    sku = Text(max_length=64, required=False, allow_null=True, help_text="Or `id`; with both, they name one product.")
    id = serializers.UUIDField(required=False, allow_null=True)
    quantity = Integer(min_value=0, max_value=MAX_QUANTITY, help_text="The stock from now on.")
    expected_quantity = Integer(
        min_value=0,
        max_value=MAX_QUANTITY,
        required=False,
        allow_null=True,
        help_text="Only if this is the stock until now; otherwise the entry is `stale`.",
    )


class StockUpdates(serializers.Serializer):
    updates = StockUpdate(many=True, allow_empty=False, max_length=MAX_UPDATES)


# --- In, from files ----------------------------------------------------------------------------------------------

REQUIRED_COLUMNS = ("sku", "name", "price")
OPTIONAL_COLUMNS = ("stock_quantity", "is_active")

_BOOLEANS = {"true": True, "1": True, "yes": True, "oui": True, "false": False, "0": False, "no": False, "non": False}


def read_product(row: dict[str, str]) -> Draft:
    """A row of a file of products, by the API's rules; raises Invalid with all that is wrong. Empty is not given."""
    columns: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}
    for name, read in _READ_COLUMN.items():
        try:
            columns[name] = read(row.get(name, ""))
        except ValueError as error:
            errors[name] = [str(error)]
    if errors:
        raise Invalid(errors)
    return Draft(**columns)


def _read_stock(text: str) -> int | None:
    return values.digits(text, 0, MAX_QUANTITY) if text else None


def _read_is_active(text: str) -> bool | None:
    try:
        return _BOOLEANS[text.lower()] if text else None
    except KeyError:
        raise ValueError("Must be true or false, yes or no, oui or non, 1 or 0.") from None


_READ_COLUMN: dict[str, Callable[[str], Any]] = {
    "sku": read_sku,
    "name": partial(values.text, max_length=255),
    "price": values.amount,
    "stock_quantity": _read_stock,
    "is_active": _read_is_active,
}

# --- Out ---------------------------------------------------------------------------------------------------------

_MAX_NUMBER = 64  # characters; many readers of JSON fail over a number of thousands of digits


def product_body(row: tuple[Any, ...]) -> dict[str, Any]:
    """A product of the list, from its LISTED columns."""
    id_, name, sku, stock_quantity, price, is_active = row
    return {
        "id": id_,
        "name": name,
        "sku": sku,
        "stock_quantity": stock_quantity,
        "price": str(price),
        "is_active": is_active,
    }


def result_body(result: Result, sent: list[Any]) -> dict[str, Any]:
    """What became of each entry of the `updates` that were `sent`. Raises Invalid when none could be applied."""
    if not result.updated:
        raise Invalid(
            {
                f"updates.{index}.{field}".removesuffix("."): [sentence]
                for index, refusal in result.errors.items()
                for field, sentence in refusal.fields.items()
            }
        )
    return {
        "updated": [changed._asdict() for changed in result.updated.values()],
        "errors": [
            {"index": index, **_names_in(sent[index]), "error": refusal.reason, "message": _message(refusal)}
            for index, refusal in result.errors.items()
        ],
    }


def _names_in(entry: object) -> dict[str, Any]:
    """`sku` and `id` as they were sent."""
    return {name: _sendable(entry[name]) for name in ("sku", "id") if name in entry} if isinstance(entry, dict) else {}


def _sendable(value: object) -> object:
    """The value as far as every reader of JSON takes it: halves of surrogate pairs are replaced, and what is neither
    text nor a number that a person would write is null."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    is_number = isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite())
    return value if is_number and len(str(value)) <= _MAX_NUMBER else None


def _message(refusal: Refusal) -> str:
    says_field = refusal.reason in (Reason.INVALID_ENTRY, Reason.INVALID_QUANTITY)
    return " ".join(
        f"{field}: {sentence}" if field and says_field else sentence for field, sentence in refusal.fields.items()
    )


class ProductBody(serializers.Serializer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    sku = serializers.CharField()
    stock_quantity = serializers.IntegerField(min_value=0, max_value=MAX_QUANTITY)
    price = serializers.RegexField(r"^[0-9]{1,8}\.[0-9]{2}$", help_text="DZD, with two places.")
    is_active = serializers.BooleanField()


class InventoryBody(serializers.Serializer):
    data = ProductBody(many=True)
    meta = PageMeta(required=False, help_text="When `page` or `per_page` was sent.")


class UpdatedStockBody(serializers.Serializer):
    id = serializers.UUIDField()
    sku = serializers.CharField()
    stock_quantity = serializers.IntegerField(min_value=0, max_value=MAX_QUANTITY)


class StockErrorBody(serializers.Serializer):
    index = serializers.IntegerField(min_value=0, max_value=MAX_UPDATES - 1, help_text="Of the entry in `updates`.")
    sku = serializers.JSONField(required=False, help_text="As it was sent.")
    id = serializers.JSONField(required=False, help_text="As it was sent.")
    error = serializers.ChoiceField([reason.value for reason in Reason])
    message = serializers.CharField()


class StockUpdatedBody(serializers.Serializer):
    updated = UpdatedStockBody(many=True)

    def get_fields(self) -> dict[str, serializers.Field]:
        # A serializer has an attribute `errors` of its own.
        return {**super().get_fields(), "errors": StockErrorBody(many=True)}
