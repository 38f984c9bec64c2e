"""Orders on the wire: what may come in, and what goes out (contract, section 5)."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.fields import empty

from codservice.api.error_answers import flatten
from codservice.api.fields import Amount, CanonicalUUID, Integer, StringMap, Text
from codservice.errors import Invalid
from orders import lifecycle, phones, regions


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


class Body(serializers.Serializer):
    """A JSON object, checked field by field without what DRF adds for forms, sources and partial updates.

    A file of orders runs through these checks at the rate that is left after them.
    """

    def run_validation(self, data: Any = empty) -> Any:
        is_empty, data = self.validate_empty_values(data)
        return data if is_empty else self.to_internal_value(data)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if type(data) is not dict:
            return super().to_internal_value(data)  # refuses it, in DRF's words
        values: dict[str, Any] = {}
        errors: dict[str, Any] = {}
        for name, check in self._checks:
            try:
                values[name] = check(data.get(name, empty))
            except serializers.ValidationError as error:
                errors[name] = error.detail
        if errors:
            raise serializers.ValidationError(errors)
        return values

    @cached_property
    def _checks(self) -> list[tuple[str, Callable[[Any], Any]]]:
        return [(name, field.run_validation) for name, field in self.fields.items()]


class OrderItemImport(Body):
    product_id = CanonicalUUID(required=False, allow_null=True, default=None)
    product_name = Text(max_length=255, required=False, allow_null=True, default=None)
    quantity = Integer(min_value=1, max_value=10_000)
    unit_price = Amount(required=False, allow_null=True, default=None)
    attributes = StringMap(max_entries=20, max_key=64, max_value=255, required=False, allow_null=True, default=None)

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

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        errors: dict[str, Any] = {}
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if not isinstance(data, dict):
                raise
            errors, values = error.detail, {}  # type: ignore[assignment]
        if data.get("product_id") is None:
            for name in ("product_name", "unit_price"):
                if data.get(name) is None and name not in errors:
                    errors[name] = ["This field is required without product_id."]
        if errors:
            raise serializers.ValidationError(errors)
        return values


class OrderImport(Body):
    customer_name = Text(max_length=255)
    customer_phone = PhoneField(max_length=phones.MAX_LENGTH)
    customer_address = Text(max_length=500, free=True)
    customer_wilaya = WilayaField(max_length=255)
    customer_commune = CommuneField(max_length=255, required=False, allow_null=True, allow_blank=True, default=None)
    total_amount = Amount()
    shipping_fee = Amount(required=False, allow_null=True, default=None)
    notes = Text(max_length=2000, free=True, required=False, allow_null=True, allow_blank=True, default="")
    external_id = Text(max_length=64, required=False, allow_null=True, default=None)
    items = OrderItemImport(many=True, allow_empty=False, max_length=100)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Field by field, then the two regions, of which one depends on the other: all problems at once."""
        errors: dict[str, Any] = {}
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            errors, values = error.detail, {}  # type: ignore[assignment]
        wilaya = commune = None
        if "customer_wilaya" not in errors:
            wilaya = _found(errors, "customer_wilaya", _wilaya(data["customer_wilaya"]))
        if wilaya and "customer_commune" not in errors and _is_given(data.get("customer_commune")):
            commune = _found(errors, "customer_commune", _commune(data["customer_commune"], wilaya.code))
        if errors:
            raise serializers.ValidationError(errors)
        values["wilaya_code"] = wilaya.code
        values["commune_code"] = commune.code if commune else None
        return values


def _is_given(commune: Any) -> bool:
    return commune is not None and (type(commune) is not str or commune.strip() != "")


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


def read_order(body: dict[str, Any], account_id: UUID) -> lifecycle.Draft:
    """The order in a request's body. Raises Invalid with all its problems."""
    (order,) = read_orders([body], account_id)
    if isinstance(order, Invalid):
        raise order
    return order


def read_orders(bodies: Sequence[dict[str, Any]], account_id: UUID) -> list[lifecycle.Draft | Invalid]:
    """For each body its order, or all that is wrong with it; at most two statements, and none without a wrong one."""
    orders = [_read(body) for body in bodies]
    wrong = [(order, body) for order, body in zip(orders, bodies, strict=True) if isinstance(order, Invalid)]
    if wrong:
        # What the database would refuse next, so that all is said at once.
        items = [_named_products(body) for _, body in wrong]
        catalog = lifecycle.known_products(account_id, [item.product_id for found in items for item in found])
        taken = lifecycle.taken_external_ids(account_id, [external_id(body) for _, body in wrong])
        for (order, body), found in zip(wrong, items, strict=True):
            order.errors |= lifecycle.unknown_products(catalog, found)
            if external_id(body) in taken:
                order.errors |= lifecycle.DuplicateExternalId().errors
    return orders


def external_id(body: dict[str, Any]) -> str | None:
    """The body's external_id as we keep it; None when there is none that can be used."""
    try:
        return _IMPORT.fields["external_id"].run_validation(body.get("external_id"))
    except serializers.ValidationError:
        return None


def _read(body: dict[str, Any]) -> lifecycle.Draft | Invalid:
    try:
        values = _IMPORT.run_validation(body)
    except serializers.ValidationError as error:
        return Invalid(flatten(error.detail))
    phone, phone_e164 = values.pop("customer_phone")
    return lifecycle.Draft(
        customer_name=values["customer_name"],
        customer_phone=phone,
        phone_e164=phone_e164,
        customer_address=values["customer_address"],
        customer_wilaya=values["customer_wilaya"],
        wilaya_code=values["wilaya_code"],
        customer_commune=values["customer_commune"] or "",
        commune_code=values["commune_code"],
        total_amount=values["total_amount"],
        shipping_fee=values["shipping_fee"] or Decimal("0.00"),
        notes=values["notes"] or "",
        external_id=values["external_id"],
        items=[
            lifecycle.DraftItem(
                quantity=item["quantity"],
                product_id=item["product_id"],
                product_name=item["product_name"],
                unit_price=item["unit_price"],
                attributes=item["attributes"] or {},
            )
            for item in values["items"]
        ],
    )


def _named_products(body: dict[str, Any]) -> list[lifecycle.DraftItem]:
    """The lines of a body that is refused already, as far as they name products."""
    items = body.get("items")
    if not isinstance(items, list) or len(items) > 100:
        return []
    field, found = CanonicalUUID(), []
    for item in items:
        try:
            product_id = field.run_validation(item.get("product_id")) if isinstance(item, dict) else None
        except serializers.ValidationError:
            product_id = None
        found.append(lifecycle.DraftItem(quantity=1, product_id=product_id))
    return found


class OrderCancel(serializers.Serializer):
    reason = Text(max_length=500, free=True, required=False, allow_null=True, allow_blank=True, default="")


_CANCEL = OrderCancel()


def read_cancel(body: dict[str, Any]) -> str:
    """The reason in a cancel's optional body. Raises Invalid."""
    try:
        return _CANCEL.run_validation(body)["reason"] or ""
    except serializers.ValidationError as error:
        raise Invalid(flatten(error.detail)) from None
