"""Orders as they come in (docs/orders.md). Each class reads a body and describes it."""

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from rest_framework import serializers

from codservice.api.fields import (
    Amount,
    Bodies,
    Body,
    CanonicalUUID,
    Entries,
    Integer,
    StringMap,
    Text,
    Word,
    flatten,
)
from codservice.errors import Errors
from orders import phones, regions
from orders.models import (
    MAX_ATTRIBUTE_NAME,
    MAX_ATTRIBUTE_VALUE,
    MAX_ATTRIBUTES,
    MAX_LINES,
    MAX_QUANTITY,
    DeliveryType,
)

MAX_ORDERS = 100  # of a batch (docs/orders.md)

# An order on its way in: a dict by the names of its columns. Its `items` are such dicts too. Each step adds to them:
#
#   step                 to the order                             to each line
#   read_order           SENT and DERIVED                         SENT_OF_LINE
#   importing._complete  id, account_id; event_id and event,      id, sku; product_name and unit_price
#                        which are no columns                     from the catalog, where they are None
#   importing._outcomes  status, created_at, in a copy for bodies.imported
Row = dict[str, Any]


class PhoneField(Text):
    """An Algerian phone number in any usual form; gives (as sent, E.164), or None if it is blank."""

    def clean(self, data: Any) -> tuple[str, str] | None:  # type: ignore[override]
        text = super().clean(data)
        return (text, phones.to_e164(text)) if text else None

    @property
    def openapi(self) -> dict[str, Any]:
        number = {"type": "string", "pattern": phones.PATTERN}
        return {"anyOf": [number, {"type": "string", "pattern": "^ *$"}]} if self.allow_blank else number


class RegionField(Text):
    """The name or code of a region; a code may be a JSON integer too. Gives the text as sent."""

    def clean(self, data: Any) -> str:
        if type(data) is int and 0 <= data <= 99_999:
            data = str(data)
        if type(data) is not str:
            raise ValueError("Must be a string, or a code as an integer from 0 to 99999, without a point.")
        return super().clean(data)


# What clients should send for a wilaya, though many more spellings are understood.
WILAYA_TEXTS = [
    {"type": "string", "pattern": "^(0{0,2}[1-9]|0?[1-6][0-9])$", "title": "Code"},
    {"type": "string", "enum": [name for w in regions.WILAYAS for name in (w.name, w.name_ar)], "title": "Wilaya"},
]


class WilayaField(RegionField):
    openapi = {"anyOf": [*WILAYA_TEXTS, {"type": "integer", "minimum": 1, "maximum": 69, "title": "Code"}]}


class CommuneField(RegionField):
    @property
    def openapi(self) -> dict[str, Any]:
        code = {"type": "integer", "minimum": 101, "maximum": 99_999, "title": "Code"}
        return {"anyOf": [super().openapi | {"title": "Code or name"}, code]}


class OrderItemImport(Body):
    """A line of an order. With a `product_id`, the name and price that are not sent come from the catalog."""

    product_id = CanonicalUUID(
        allow_null=True,
        default=None,
        help_text="A product's `id`. Its name and price are the line's, unless the line sends its own.",
    )
    product_name = Text(max_length=255, allow_null=True, default=None)
    quantity = Integer(min_value=1, max_value=MAX_QUANTITY)
    unit_price = Amount(allow_null=True, default=None)
    attributes = StringMap(
        max_entries=MAX_ATTRIBUTES,
        max_key=MAX_ATTRIBUTE_NAME,
        max_value=MAX_ATTRIBUTE_VALUE,
        allow_null=True,
        default=dict,
    )

    # Said by what is not allowed: of the parts of an `anyOf`, client generators make classes that are not whole lines.
    openapi_extra = {
        "not": {
            "anyOf": [
                {"properties": {name: {"type": "null"} for name in ("product_id", missing)}}
                for missing in ("product_name", "unit_price")
            ]
        }
    }

    def read(self, data: Any) -> tuple[dict[str, Any], Any]:
        values, errors = super().read(data)
        if values.get("product_id", ...) is None:
            for name in ("product_name", "unit_price"):
                if values.get(name, ...) is None:
                    errors[name] = ["This field is required without product_id."]
        return values, errors


class Lines(Entries):
    default_error_messages = serializers.Field.default_error_messages  # the usual ones: it is one field of many


class OrderImport(Body):
    """An order as a shop took it. Null is the same as leaving an optional field out."""

    customer_name = Text(max_length=255)
    customer_phone = PhoneField(max_length=phones.MAX_LENGTH)
    customer_phone_2 = PhoneField(max_length=phones.MAX_LENGTH, allow_null=True, allow_blank=True, default=None)
    customer_address = Text(max_length=500, free=True)
    customer_wilaya = WilayaField(max_length=255)
    customer_commune = CommuneField(max_length=255, allow_null=True, allow_blank=True, default="")
    total_amount = Amount()
    shipping_fee = Amount(allow_null=True, default=Decimal("0.00"))
    notes = Text(max_length=2000, free=True, allow_null=True, allow_blank=True, default="")
    external_id = Text(max_length=64, allow_null=True, default=None)
    delivery_type = Word(choices=DeliveryType.choices, allow_null=True, default=DeliveryType.HOME.value)
    source = Text(max_length=64, allow_null=True, allow_blank=True, default=None)
    items = Lines(child=OrderItemImport(), max_length=MAX_LINES)

    def read(self, data: Any) -> tuple[dict[str, Any], Any]:
        """Read the fields, then find the regions' codes: the commune depends on the wilaya."""
        values, errors = self.read_fields(data)
        if "customer_wilaya" in values:
            values["wilaya_code"], values["commune_code"] = region_codes(values, errors)
        return values, errors

    def read_fields(self, data: Any) -> tuple[dict[str, Any], Any]:
        """Read the fields, each by itself."""
        values, errors = super().read(data)
        if lines := values.get("items"):
            values["items"] = [line for line, _ in lines]
            if any(wrong for _, wrong in lines):
                errors["items"] = [wrong for _, wrong in lines]
        for name, e164 in _PHONES:
            if name in values:
                values[name], values[e164] = values[name] or (None, None)
        if "source" in values:
            values["source"] = values["source"] or None
        return values, errors


class OrderChanges(OrderImport):
    """The changes to a pending order. Fields that are not sent stay as they are."""

    external_id = None
    source = None

    only_sent = True

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


class OrderBatch(Body):
    orders = Bodies(child=OrderImport(), max_length=MAX_ORDERS, called="orders")


_PHONES = (("customer_phone", "phone_e164"), ("customer_phone_2", "phone_2_e164"))


def region_codes(
    texts: dict[str, Any], errors: dict[str, Any], wilaya_code: str | None = None, commune_code: str | None = None
) -> tuple[str | None, str | None]:
    """The codes of the wilaya and commune that `texts` name; where a text is missing, the given code stays.

    Adds problems to `errors`. A commune that stays must lie in a new wilaya too.
    """
    if "customer_wilaya" in texts:
        wilaya_code, refusal = _code(regions.find_wilaya, texts["customer_wilaya"])
        if refusal:
            errors["customer_wilaya"] = [refusal]
    text = texts.get("customer_commune", commune_code)
    if not (wilaya_code and text):
        return wilaya_code, None
    commune_code, refusal = _code(regions.find_commune, text, wilaya_code)
    if refusal:
        errors["customer_commune"] = [refusal]
    return wilaya_code, commune_code


# A name that is not spelled exactly takes 20 µs to 4 ms to find or refuse, and a shop spells it the same each time.
# Only texts that were read are cached, since these are short: what is sent may have a megabyte of spaces around it.
@lru_cache(maxsize=8192)
def _code(find: Callable[..., regions.Wilaya | regions.Commune], *asked: str) -> tuple[str | None, str]:
    """The code of the place that `find` finds, or None and the message that refuses the text."""
    try:
        return find(*asked).code, ""
    except regions.NotFound as error:
        return None, str(error)


# As in `read_body`, one instance serves all requests.
_IMPORT = OrderImport()
_CHANGES = OrderChanges()

# The fields that an import sends of an order and of a line, and what is derived from them.
SENT: list[str] = [name for name in _IMPORT.fields if name != "items"]
_LINE = OrderItemImport().fields
SENT_OF_LINE: list[str] = list(_LINE)
DERIVED = ["phone_e164", "phone_2_e164", "wilaya_code", "commune_code"]


def read_order(body: dict[str, Any]) -> tuple[Row, Errors]:
    """Read a body as an order, by the names of its columns, and all that is wrong with it, by dotted path.

    If nothing is wrong, only ids and what the catalog knows of the `items` are missing. Otherwise the order is what
    could be read.
    """
    values, errors = _IMPORT.read(body)
    return values, flatten(errors) if errors else {}


def read_attributes(data: dict[str, str]) -> tuple[dict[str, str], Errors]:
    """Read a line's attributes, and all that is wrong with them: with one by its name, with all of them by ""."""
    try:
        return _LINE["attributes"].run_validation(data), {}
    except serializers.ValidationError as error:
        return {}, flatten(error.detail)


def read_changes(body: dict[str, Any]) -> tuple[Row, Errors]:
    """Read what is to change, by the names of the columns, and all that is wrong with it, by dotted path.

    Regions are still texts; `region_codes` finds them, together with the order's own.
    """
    values, errors = _CHANGES.read_fields(body)
    return values, flatten(errors) if errors else {}


def external_id(body: Any) -> str | None:
    """The body's external_id as we store it; None if it has none that can be used."""
    return _read_alone("external_id", body) if type(body) is dict else None


def wilaya_code(body: dict[str, Any]) -> str | None:
    """The code of the wilaya that the body names; None if it cannot be told."""
    text = _read_alone("customer_wilaya", body)
    return _code(regions.find_wilaya, text)[0] if text else None


def _read_alone(name: str, body: dict[str, Any]) -> Any:
    """One field of a body, whatever the others are; None if it cannot be used."""
    try:
        return _IMPORT.fields[name].run_validation(body.get(name))
    except serializers.ValidationError:
        return None


class OrderCancel(Body):
    reason = Text(max_length=500, free=True, allow_null=True, allow_blank=True, default="")
