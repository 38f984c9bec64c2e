"""Inventory on the wire: the entries of a bulk update as they come in, products and outcomes as they go out."""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from rest_framework import serializers

from codservice import values
from codservice.api.fields import CanonicalUUID, Integer, Strict, Text, read_body
from codservice.api.paging import PageMeta
from codservice.errors import Invalid
from codservice.wire import Id
from inventory.models import MAX_QUANTITY
from inventory.stock import Draft, Reason, Refusal, Result, Update

MAX_UPDATES = 100  # contract, section 7

# --- In ----------------------------------------------------------------------------------------------------------


class Quantity(Integer):
    """A stock. That it is missing or no number is one and the same mistake."""

    default_error_messages = {
        "null": f"Must be an integer from 0 to {MAX_QUANTITY}, as a JSON number without a point.",
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=0, max_value=MAX_QUANTITY, **kwargs)

    def clean(self, data: Any) -> int:
        if type(data) is int and 0 <= data <= MAX_QUANTITY:
            return data
        raise ValueError(self.error_messages["null"])


class StockUpdate(serializers.Serializer):
    """The product that `sku`, `id` or both name shall have `quantity` in stock."""

    openapi_extra = {
        "anyOf": [{"required": [name], "properties": {name: {"type": "string"}}} for name in ("sku", "id")],
    }
    sku = Text(max_length=64, required=False, allow_null=True, help_text="Or `id`; with both, they name one product.")
    id = CanonicalUUID(required=False, allow_null=True)
    expected_quantity = Quantity(
        required=False,
        allow_null=True,
        help_text="Only if this is the stock until now; otherwise the entry is `stale`.",
    )
    quantity = Quantity(help_text="The stock from now on.")

    def read(self, entry: object) -> Update:
        """The entry; with its refusal when it cannot be used, so that it does not spoil the others."""
        if type(entry) is not dict:
            return Update(refusal=Refusal(Reason.INVALID_ENTRY, {"": "Must be an object."}))
        update, wrong = Update(), {}
        for name, field in self.fields.items():
            try:
                setattr(update, name, field.run_validation(entry.get(name)))  # null is as good as missing
            except serializers.ValidationError as error:
                wrong[name] = str(error.detail[0])
        if wrong.keys() & {"sku", "id"}:
            update.sku = update.id = None  # half a name names no product
        elif update.sku is None and update.id is None:
            wrong = {"sku": "Send the product's sku or id.", **wrong}
        if wrong:
            reason = Reason.INVALID_QUANTITY if wrong.keys() == {"quantity"} else Reason.INVALID_ENTRY
            update.refusal = Refusal(reason, wrong)
        return update


class Entries(Strict, serializers.ListField):
    """1 to MAX_UPDATES entries, each read by itself; they are counted before any is looked at."""

    default_error_messages = dict.fromkeys(("required", "null"), "Must be a list.")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=StockUpdate(), min_length=1, max_length=MAX_UPDATES, **kwargs)

    def clean(self, data: Any) -> list[Update]:
        if type(data) is not list:
            raise ValueError("Must be a list.")
        if not 1 <= len(data) <= MAX_UPDATES:
            raise ValueError(f"Must have 1 to {MAX_UPDATES} entries.")
        return [self.child.read(entry) for entry in data]


class StockUpdates(serializers.Serializer):
    updates = Entries()


# One instance serves all requests: it keeps no state, and DRF copies the fields of each new one.
_STOCK_UPDATES = StockUpdates()


def read_updates(body: dict[str, Any]) -> list[Update]:
    """The entries of a bulk update's body; one that cannot be used has its refusal.

    Raises Invalid when there is no list of 1 to MAX_UPDATES entries.
    """
    return read_body(_STOCK_UPDATES, body)["updates"]


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
    "sku": partial(values.text, max_length=64),
    "name": partial(values.text, max_length=255),
    "price": values.amount,
    "stock_quantity": _read_stock,
    "is_active": _read_is_active,
}

# --- Out ---------------------------------------------------------------------------------------------------------

_MAX_NUMBER = 64  # characters; many readers of JSON fail over a number of thousands of digits

_Stock = Annotated[int, Meta(ge=0, le=MAX_QUANTITY)]


class ProductBody(Struct):
    id: Id
    name: str
    sku: str
    stock_quantity: _Stock
    price: Annotated[str, Meta(pattern=r"^[0-9]{1,8}\.[0-9]{2}$", description="DZD, with two places.")]
    is_active: bool


class InventoryBody(Struct):
    data: list[ProductBody]
    meta: Annotated[PageMeta, Meta(description="When `page` or `per_page` was sent.")] | UnsetType = UNSET


class UpdatedStockBody(Struct):
    id: Id
    sku: str
    stock_quantity: _Stock


class StockErrorBody(Struct, kw_only=True):
    index: Annotated[int, Meta(ge=0, le=MAX_UPDATES - 1, description="Of the entry in `updates`.")]
    sku: Annotated[Any, Meta(description="As it was sent.")] | UnsetType = UNSET
    id: Annotated[Any, Meta(description="As it was sent.")] | UnsetType = UNSET
    error: Annotated[str, Meta(extra_json_schema={"enum": list(Reason)})]
    message: str


class StockUpdatedBody(Struct):
    updated: list[UpdatedStockBody]
    errors: list[StockErrorBody]


LISTED = ProductBody.__struct_fields__  # columns


def product_body(row: tuple[Any, ...]) -> ProductBody:
    """A product of the list, from its LISTED columns."""
    id_, name, sku, stock_quantity, price, is_active = row
    return ProductBody(id_, name, sku, stock_quantity, str(price), is_active)


def result_body(result: Result, sent: list[Any]) -> StockUpdatedBody:
    """What became of each entry of the `updates` that were `sent`. Raises Invalid when none could be applied."""
    if not result.updated:
        raise Invalid(
            {
                f"updates.{index}.{field}".removesuffix("."): [sentence]
                for index, refusal in result.errors.items()
                for field, sentence in refusal.fields.items()
            }
        )
    return StockUpdatedBody(
        [UpdatedStockBody(*changed) for changed in result.updated.values()],
        [
            StockErrorBody(index=index, **_names_in(sent[index]), error=refusal.reason, message=_message(refusal))
            for index, refusal in result.errors.items()
        ],
    )


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
