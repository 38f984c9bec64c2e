"""Products and their stock on the wire: entries of bulk updates in, products and outcomes out."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Self

from msgspec import UNSET, Meta, Struct, UnsetType

from codservice.api.fields import Amount, Body, Boolean, CanonicalUUID, Entries, Integer, Link, Text, read_body
from codservice.api.paging import ListMeta
from codservice.errors import Invalid
from codservice.wire import Id, Moment, one_of
from inventory.catalog import Done, Draft, Saved
from inventory.models import MAX_LINK, MAX_QUANTITY, MAX_SCRIPT
from inventory.stock import Reason, Refusal, Result, Update

MAX_UPDATES = 100  # entries of a request (docs/inventory.md)

# --- What comes in -----------------------------------------------------------------------------------------------


class Quantity(Integer):
    """A stock quantity. The message is the same whether it is missing or not a number."""

    default_error_messages = dict.fromkeys(
        ("required", "null"), f"Must be an integer from 0 to {MAX_QUANTITY}, as a JSON number without a point."
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=0, max_value=MAX_QUANTITY, **kwargs)

    def clean(self, data: Any) -> int:
        if type(data) is int and 0 <= data <= MAX_QUANTITY:
            return data
        raise ValueError(self.error_messages["null"])


class StockUpdate(Body):
    """Sets the stock of a product, named by `sku`, `id` or both, to `quantity`."""

    # Said by what is not allowed: of parts of an `anyOf`, client generators make classes that are not whole entries.
    openapi_extra = {"not": {"properties": {name: {"type": "null"} for name in ("sku", "id")}}}
    sku = Text(
        max_length=64,
        required=False,
        allow_null=True,
        help_text="This or `id`. If both are sent, they must name the same product.",
    )
    id = CanonicalUUID(required=False, allow_null=True)
    expected_quantity = Quantity(
        required=False,
        allow_null=True,
        help_text="Set the stock only if it is this now; otherwise the entry is refused as `stale`.",
    )
    quantity = Quantity(help_text="The new stock.")

    def read(self, entry: object) -> Update:
        """Read an entry. One that cannot be used carries its refusal, so that it does not spoil the others."""
        if type(entry) is not dict:
            return Update(refusal=Refusal(Reason.INVALID_ENTRY, {"": "Must be an object."}))
        given, errors = super().read(entry)
        update = Update(**given)
        if errors.keys() & {"sku", "id"}:
            update.sku = update.id = None  # half a name names no product
        elif update.sku is None and update.id is None:
            errors = {"sku": ["Send the product's sku or id."], **errors}
        if errors:
            update.refusal = _refusal(errors, "quantity")
        return update


class ProductDraft(Body):
    """A product as it should be. Optional fields that are left out or null stay as they are."""

    sku = Text(max_length=64, help_text="Your own name for the product, which never changes.")
    name = Text(max_length=255)
    price = Amount()
    is_active = Boolean(
        required=False, allow_null=True, help_text="Whether the product is for sale; a new one is by default."
    )
    stock_quantity = Quantity(
        required=False, allow_null=True, help_text="The first stock of a new product; ignored for an existing one."
    )
    image_url = Link(max_length=MAX_LINK, required=False, allow_null=True, allow_blank=True)
    script = Text(
        max_length=MAX_SCRIPT, free=True, required=False, allow_null=True, allow_blank=True,
        help_text="What agents say about the product on the phone.",
    )  # fmt: skip

    def read(self, entry: object) -> tuple[str | None, Draft | Refusal]:
        """The entry's SKU, if it has one, and its draft, or why it cannot be used."""
        if type(entry) is not dict:
            return None, Refusal(Reason.INVALID_ENTRY, {"": "Must be an object."})
        given, errors = super().read(entry)
        return given.get("sku"), _refusal(errors, "stock_quantity") if errors else Draft(**given)


def _refusal(errors: dict[str, list[str]], quantity: str) -> Refusal:
    """The refusal of an entry, with the first message of each field."""
    reason = Reason.INVALID_QUANTITY if errors.keys() == {quantity} else Reason.INVALID_ENTRY
    return Refusal(reason, {name: str(messages[0]) for name, messages in errors.items()})


class StockUpdates(Body):
    updates = Entries(child=StockUpdate(), max_length=MAX_UPDATES)


class ProductDrafts(Body):
    products = Entries(child=ProductDraft(), max_length=MAX_UPDATES)


def read_drafts(body: dict[str, Any]) -> list[Draft | Refusal]:
    """The entries of a body of products: each a draft, or why it cannot be used.

    The second entry with a SKU is refused, even if the first is too: which of the two was meant? Raises Invalid if
    there is no list of 1 to MAX_UPDATES entries.
    """
    read: list[Draft | Refusal] = []
    seen = set()
    for sku, entry in read_body(ProductDrafts, body)["products"]:
        is_second = sku is not None and sku in seen and isinstance(entry, Draft)
        read.append(Refusal(Reason.DUPLICATE, {"sku": "An earlier entry has the same sku."}) if is_second else entry)
        seen.add(sku)
    return read


# --- What goes out -----------------------------------------------------------------------------------------------

_MAX_NUMBER = 64  # characters; many JSON parsers fail on a number with thousands of digits

_Stock = Annotated[int, Meta(ge=0, le=MAX_QUANTITY)]


class ProductBody(Struct):
    id: Id
    name: str
    sku: str
    stock_quantity: _Stock
    price: Annotated[str, Meta(pattern=r"^[0-9]{1,8}\.[0-9]{2}$", description="DZD, with two decimal places.")]
    is_active: bool


class InventoryBody(Struct):
    data: list[ProductBody]
    meta: Annotated[ListMeta, Meta(description="Only if `page`, `per_page` or `cursor` was sent.")] | UnsetType = UNSET


class UpdatedStockBody(Struct):
    id: Id
    sku: str
    stock_quantity: _Stock


class StockErrorBody(Struct, kw_only=True):
    index: Annotated[int, Meta(ge=0, le=MAX_UPDATES - 1, description="The entry's position in `updates`, from 0.")]
    sku: Annotated[Any, Meta(description="As it was sent.")] | UnsetType = UNSET
    id: Annotated[Any, Meta(description="As it was sent.")] | UnsetType = UNSET
    error: Annotated[str, one_of(Reason)]
    message: str


class StockUpdatedBody(Struct):
    updated: list[UpdatedStockBody]
    errors: list[StockErrorBody]


class ListedProductBody(ProductBody):
    image_url: Annotated[str, Meta(description="Empty if the product has none.")]
    created_at: Moment
    updated_at: Annotated[Moment, Meta(description="When the product or its stock last changed.")]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """A product, from the columns that the body has."""
        return cls(**{**row, "price": str(row["price"])})


class ProductListBody(Struct):
    data: list[ListedProductBody]
    meta: ListMeta


class ProductDetailBody(ListedProductBody):
    script: Annotated[str, Meta(description="What agents say about the product on the phone.")]


class SavedProductBody(Struct):
    id: Id
    sku: str
    stock_quantity: Annotated[_Stock, Meta(description="The current stock.")]


class ProductErrorBody(Struct, kw_only=True):
    index: Annotated[int, Meta(ge=0, le=MAX_UPDATES - 1, description="The entry's position in `products`, from 0.")]
    sku: Annotated[Any, Meta(description="As it was sent.")] | UnsetType = UNSET
    error: Annotated[str, one_of([Reason.INVALID_QUANTITY, Reason.INVALID_ENTRY, Reason.DUPLICATE])]
    message: str


class ProductsSavedBody(Struct):
    created: list[SavedProductBody]
    updated: Annotated[list[SavedProductBody], Meta(description="Includes products that already were as sent.")]
    errors: list[ProductErrorBody]


LISTED = ProductBody.__struct_fields__  # columns


def product_body(row: tuple[Any, ...]) -> ProductBody:
    """A product of the inventory, from a row of the LISTED columns."""
    id_, name, sku, stock_quantity, price, is_active = row
    return ProductBody(id_, name, sku, stock_quantity, str(price), is_active)


def saved_body(entries: Sequence[Draft | Refusal], saved: Sequence[Saved], sent: list[Any]) -> ProductsSavedBody:
    """What became of each of the `sent` entries, of which those in `saved` could be applied.

    Raises Invalid if none could.
    """
    errors = {index: entry for index, entry in enumerate(entries) if isinstance(entry, Refusal)}
    if not saved:
        raise _none_of("products", errors)
    created, updated = [], []
    for id_, sku, stock_quantity, done in saved:
        (created if done is Done.CREATED else updated).append(SavedProductBody(id_, sku, stock_quantity))
    return ProductsSavedBody(created, updated, _errors(ProductErrorBody, errors, sent, "sku"))


def result_body(result: Result, sent: list[Any]) -> StockUpdatedBody:
    """What became of each of the `sent` entries. Raises Invalid if none could be applied."""
    if not result.updated:
        raise _none_of("updates", result.errors)
    updated = [UpdatedStockBody(*product) for product in result.updated.values()]
    return StockUpdatedBody(updated, _errors(StockErrorBody, result.errors, sent, "sku", "id"))


def _none_of(path: str, errors: Mapping[int, Refusal]) -> Invalid:
    """The refusal of a list at `path`, none of whose entries could be applied."""
    return Invalid(
        {
            f"{path}.{index}.{field}".removesuffix("."): [sentence]
            for index, refusal in errors.items()
            for field, sentence in refusal.fields.items()
        }
    )


def _errors(body: type[Any], errors: Mapping[int, Refusal], sent: list[Any], *names: str) -> list[Any]:
    """A body for each refused entry, with those fields of `names` that were sent."""
    return [
        body(index=index, **_names_in(sent[index], names), error=refusal.reason, message=_message(refusal))
        for index, refusal in errors.items()
    ]


def _names_in(entry: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: _sendable(entry[name]) for name in names if name in entry} if isinstance(entry, dict) else {}


def _sendable(value: object) -> object:
    """The value in a form that every JSON parser accepts.

    Lone surrogates are replaced. Anything but text, true, false and numbers of a reasonable length is null.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    is_number = isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite())
    return value if is_number and len(str(value)) <= _MAX_NUMBER else None


def _message(refusal: Refusal) -> str:
    says_field = refusal.reason in (Reason.INVALID_ENTRY, Reason.INVALID_QUANTITY)
    return " ".join(
        f"{field}: {sentence}" if field and says_field else sentence for field, sentence in refusal.fields.items()
    )
