"""Orders as they come in (contract, section 5): each class reads a body, and describes it."""

from collections.abc import Callable
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

from rest_framework import serializers
from rest_framework.fields import empty

from codservice.api.error_answers import flatten
from codservice.api.fields import Amount, CanonicalUUID, Integer, StringMap, Text
from codservice.errors import Invalid
from orders import phones, regions

Row = dict[str, Any]  # an order by the names of its columns, with its lines so as `items`
Errors = dict[str, list[str]]  # by dotted path, as `Invalid` has them


class PhoneField(Text):
    """An Algerian phone number in any usual form; gives the pair (as sent, E.164)."""

    def clean(self, data: Any) -> tuple[str, str]:  # type: ignore[override]
        text = super().clean(data)
        return text, phones.to_e164(text)

    openapi = {"type": "string", "pattern": phones.PATTERN}


class RegionField(Text):
    """The name or code of a region, a code also as a JSON integer; gives the text as sent."""

    def clean(self, data: Any) -> str:
        return super().clean(str(data) if type(data) is int and 0 <= data <= 99_999 else data)


# What every client should send for a wilaya; many more spellings are understood.
WILAYA_TEXTS = [
    {"type": "string", "pattern": "^(0{0,2}[1-9]|0?[1-6][0-9])$", "title": "Code"},
    {"type": "string", "enum": [name for w in regions.WILAYAS for name in (w.name, w.name_ar)], "title": "Name"},
]


class WilayaField(RegionField):
    openapi = {"anyOf": [*WILAYA_TEXTS, {"type": "integer", "minimum": 1, "maximum": 69, "title": "Code"}]}


class CommuneField(RegionField):
    @property
    def openapi(self) -> dict[str, Any]:
        code = {"type": "integer", "minimum": 101, "maximum": 99_999, "title": "Code"}
        return {"anyOf": [super().openapi | {"title": "Code or name"}, code]}


class Lines(serializers.ListSerializer):
    """A list of bodies; gives for each what its `read` gives."""

    def run_child_validation(self, data: Any) -> Any:
        return self.child.read(data)  # type: ignore[union-attr]


class Body(serializers.Serializer):
    """A JSON object, read field by field without what DRF adds for forms, sources and partial updates.

    A file of orders runs through these checks at the rate that is left after them.
    """

    class Meta:
        list_serializer_class = Lines

    def read(self, data: Any) -> tuple[dict[str, Any], Any]:
        """What can be read, and what is wrong with the rest as DRF nests it. For null a field has its default."""
        if type(data) is not dict:
            try:
                self.run_validation(data)
            except serializers.ValidationError as error:  # always: it is refused in DRF's words
                return {}, error.detail
        values: dict[str, Any] = {}
        errors: dict[str, Any] = {}
        for name, check, default in self._checks:
            sent = data.get(name)
            if sent is None and default is not empty:
                values[name] = default() if callable(default) else default
                continue
            try:
                values[name] = check(data.get(name, empty) if sent is None else sent)
            except serializers.ValidationError as error:
                errors[name] = error.detail
        return values, errors

    @cached_property
    def _checks(self) -> list[tuple[str, Callable[[Any], Any], Any]]:
        return [(name, field.run_validation, field.default) for name, field in self.fields.items()]


class OrderItemImport(Body):
    """A line of an order. With a product, its name and price may be left to the catalog."""

    product_id = CanonicalUUID(allow_null=True, default=None)
    product_name = Text(max_length=255, allow_null=True, default=None)
    quantity = Integer(min_value=1, max_value=10_000)
    unit_price = Amount(allow_null=True, default=None)
    attributes = StringMap(max_entries=20, max_key=64, max_value=255, allow_null=True, default=dict)

    openapi_extra = {
        "anyOf": [
            {"title": "A product", "required": ["product_id"], "properties": {"product_id": {"type": "string"}}},
            {
                "title": "Anything else",
                "required": ["product_name", "unit_price"],
                "properties": {"product_name": {"type": "string"}, "unit_price": {"type": ["number", "string"]}},
            },
        ]
    }

    def read(self, data: Any) -> tuple[dict[str, Any], Any]:
        values, errors = super().read(data)
        if values.get("product_id", ...) is None:
            for name in ("product_name", "unit_price"):
                if values.get(name, ...) is None:
                    errors[name] = ["This field is required without product_id."]
        return values, errors


class OrderImport(Body):
    """An order as a shop took it. For a field that may be left out, null is the same."""

    customer_name = Text(max_length=255)
    customer_phone = PhoneField(max_length=phones.MAX_LENGTH)
    customer_address = Text(max_length=500, free=True)
    customer_wilaya = WilayaField(max_length=255)
    customer_commune = CommuneField(max_length=255, allow_null=True, allow_blank=True, default="")
    total_amount = Amount()
    shipping_fee = Amount(allow_null=True, default=Decimal("0.00"))
    notes = Text(max_length=2000, free=True, allow_null=True, allow_blank=True, default="")
    external_id = Text(max_length=64, allow_null=True, default=None)
    items = OrderItemImport(many=True, allow_empty=False, max_length=100)

    def read(self, data: Any) -> tuple[dict[str, Any], Any]:
        """Field by field, then what is made of phone and regions, of which one depends on the other."""
        values, errors = super().read(data)
        if lines := values.get("items"):
            values["items"] = [line for line, _ in lines]
            if any(wrong for _, wrong in lines):
                errors["items"] = [wrong for _, wrong in lines]
        if "customer_phone" in values:
            values["customer_phone"], values["phone_e164"] = values["customer_phone"]
        if "customer_wilaya" in values:
            wilaya = _found(errors, "customer_wilaya", _wilaya(data["customer_wilaya"]))
            values["wilaya_code"] = wilaya and wilaya.code
            is_given = wilaya and values.get("customer_commune")
            commune = is_given and _found(errors, "customer_commune", _commune(data["customer_commune"], wilaya.code))
            values["commune_code"] = commune.code if commune else None
        return values, errors


# A name that is not spelled exactly costs 20 µs to 4 ms to find or to refuse, and a shop spells it the same each time.
@lru_cache(maxsize=1024)
def _wilaya(text: str | int) -> regions.Wilaya | str:
    """The wilaya, or the sentence that refuses the text."""
    try:
        return regions.find_wilaya(text)
    except regions.NotFound as error:
        return str(error)


@lru_cache(maxsize=8192)
def _commune(text: str | int, wilaya_code: str) -> regions.Commune | str:
    try:
        return regions.find_commune(text, wilaya_code)
    except regions.NotFound as error:
        return str(error)


def _found(errors: dict[str, Any], name: str, found: Any) -> Any:
    if isinstance(found, str):
        errors[name] = [found]
        return None
    return found


# DRF copies a serializer's fields for every instance, which costs more than the checks themselves. These checks keep
# no state, so that one instance serves all requests.
_IMPORT = OrderImport()

# What an import says of an order and of a line, and what is made of it.
SAID: list[str] = [name for name in _IMPORT.fields if name != "items"]
SAID_OF_LINE: list[str] = list(OrderItemImport().fields)
MADE = ["phone_e164", "wilaya_code", "commune_code"]


def read_order(body: dict[str, Any]) -> tuple[Row, Errors]:
    """What a body says of an order, by the names of its columns, and all that is wrong with it by dotted path.

    When nothing is wrong the order is whole but for ids and for what the catalog knows of its `items`; else it is what
    could be read.
    """
    values, errors = _IMPORT.read(body)
    return values, flatten(errors) if errors else {}


def external_id(body: dict[str, Any]) -> str | None:
    """The body's external_id as we keep it; None when there is none that can be used."""
    try:
        return _IMPORT.fields["external_id"].run_validation(body.get("external_id"))
    except serializers.ValidationError:
        return None


class OrderCancel(serializers.Serializer):
    reason = Text(max_length=500, free=True, required=False, allow_null=True, allow_blank=True, default="")


_CANCEL = OrderCancel()


def read_cancel(body: dict[str, Any]) -> str:
    """The reason in a cancel's optional body. Raises Invalid."""
    try:
        return _CANCEL.run_validation(body)["reason"] or ""
    except serializers.ValidationError as error:
        raise Invalid(flatten(error.detail)) from None
