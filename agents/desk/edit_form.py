"""The form for editing an order during the call, and what it offers from the merchant's catalog and fees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import Any

from django import forms
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from agents.desk import notices
from codservice import values
from codservice.accounts.models import User
from codservice.errors import Refused
from codservice.form_fields import AmountField, FreeText, QuantityField, WrittenText
from codservice.i18n_tags import listed, written_amount
from inventory.models import Product
from orders import editing, phones, regions
from orders.forms import DeliveryForm, PhoneField, no_commune, showing_fee
from orders.models import (
    MAX_ATTRIBUTE_NAME,
    MAX_ATTRIBUTE_VALUE,
    MAX_ATTRIBUTES,
    MAX_QUANTITY,
    DeliveryType,
    Order,
    OrderItem,
)
from orders.templatetags.orders import name_of

MOST_FOUND = 8  # products that a search offers
MOST_ADDED = 10  # lines that one edit adds
_NEW_KEYS = [f"new{number}" for number in range(MOST_ADDED)]
MORE_DETAILS = 2  # details that can be added to a line at once
MOST_DETAILED = 20  # lines with editable details, so that the page stays small

NOT_SOLD = _("This product is no longer sold.")


@dataclass
class Line:
    """A line on the form, of the order or added. Its field names end in `key`.

    `product` is what the line is to be, or None when that is not in the catalog.
    """

    form: "EditForm"
    key: str
    item: OrderItem | None
    product: Product | None
    is_detailed: bool = True

    @property
    def other(self) -> Product | None:
        """The product that the line is to be, if that is another than it was."""
        is_same = self.product and self.item and self.product.id == self.item.product_id
        return None if is_same else self.product

    @property
    def name(self) -> str:
        return self.other.name if self.other else self.item.product_name if self.item else ""

    @property
    def price(self) -> Decimal:
        return self.other.price if self.other else self.item.unit_price if self.item else Decimal()

    @property
    def is_short(self) -> bool:
        """Whether there is less in stock than the order has, or none for an added line."""
        return self.product is not None and self.product.stock_quantity < (self.item.quantity if self.item else 1)

    @property
    def attributes(self) -> dict[str, str]:
        return self.item.attributes if self.item and self.is_detailed else {}

    @property
    def most_more(self) -> int:
        return MORE_DETAILS if self.is_detailed else 0

    def field(self, kind: str) -> forms.BoundField:
        return self.form[f"{kind}-{self.key}"]

    @property
    def chosen(self) -> forms.BoundField:
        return self.field("product")

    @property
    def quantity(self) -> forms.BoundField:
        return self.field("quantity")

    @property
    def remove(self) -> forms.BoundField:
        return self.field("remove")

    @property
    def details(self) -> list[forms.BoundField]:
        return [self.field(f"detail{number}") for number in range(len(self.attributes))]

    @property
    def more(self) -> list[tuple[forms.BoundField, forms.BoundField]]:
        return [(self.field(f"name{number}"), self.field(f"value{number}")) for number in range(self.most_more)]

    @property
    def is_open(self) -> bool:
        """Whether its details are shown: on an added line, and on one with a refused detail."""
        return self.item is None or any(field.errors for field in chain(self.details, *self.more))


class EditForm(DeliveryForm):
    """What can be changed in a pending order, at the version that the agent saw.

    `data` is validated; `written`, what was entered so far, is only shown again. The second phone, delivery type,
    discount and details stay as they are when they are not sent; without a commune, the order's is cleared.
    """

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    customer_name = WrittenText(label=_("Name"), max_length=255)
    customer_phone_2 = PhoneField(label=_("Second phone"), max_length=phones.MAX_LENGTH, required=False)
    customer_address = FreeText(label=_("Address"), max_length=500)
    wilaya = WrittenText(label=_("Wilaya"), max_length=255)
    commune = WrittenText(label=_("Commune"), max_length=255, required=False)
    delivery_type = forms.ChoiceField(
        label=_("Delivery"), choices=DeliveryType.choices, required=False, widget=forms.RadioSelect
    )
    shipping_fee = AmountField(label=_("Shipping fee"), max_length=20)
    discount = AmountField(label=_("Discount"), max_length=20, required=False)
    q = WrittenText(label=_("Find a product"), max_length=100, required=False)

    def __init__(
        self,
        data: Any = None,
        *,
        order: Order,
        items: Sequence[OrderItem],
        agent: User,
        written: Mapping[str, str] | None = None,
    ) -> None:
        self.order, self.account_id, self.agent = order, order.account_id, agent
        discount = editing.discount(order, items)
        self.surcharge = max(-discount, Decimal())
        initial = {
            "version": order.version,
            "customer_name": order.customer_name,
            "customer_phone_2": order.customer_phone_2 or "",
            "customer_address": order.customer_address,
            "wilaya": name_of(regions.wilaya(order.wilaya_code)),
            "commune": name_of(regions.commune(order.commune_code)) if order.commune_code else order.customer_commune,
            "delivery_type": order.delivery_type,
            "discount": written_amount(discount) if discount > 0 else "",
            **showing_fee(order.shipping_fee, (order.wilaya_code, order.delivery_type)),
        }
        self.before = initial
        super().__init__(data, initial={**initial, **(written or {})}, auto_id="edit-%s")
        offered = self._lines(items)
        self.lines = [line for line in offered if line.item or line.product]
        self.is_one_gone = len(self.lines) < len(offered)
        for line in self.lines:
            self._add_fields(line)

    # --- Lines -------------------------------------------------------------------------------------------------------

    def _lines(self, items: Sequence[OrderItem]) -> list[Line]:
        """The order's lines and the added ones, even if their products are no longer sold."""
        said = self.data or self.initial
        added = [key for key in _NEW_KEYS if f"product-{key}" in said]
        self.is_full = len(added) == MOST_ADDED  # no more products until this is saved
        keys: dict[str, OrderItem | None] = {**{str(item.id): item for item in items}, **dict.fromkeys(added)}
        chosen = {key: values.uuid_or_none(said.get(f"product-{key}")) for key in keys}
        wanted = {*chosen.values(), *(item.product_id for item in items)} - {None}
        catalog = Product.objects.filter(account=self.order.account_id).in_bulk(wanted) if wanted else {}
        lines = []
        for number, (key, item) in enumerate(keys.items()):
            product = catalog.get(chosen[key])
            if product is None or not product.is_active:
                product = catalog.get(item.product_id) if item else None
            lines.append(Line(self, key, item, product, is_detailed=item is None or number < MOST_DETAILED))
        return lines

    def _add_fields(self, line: Line) -> None:
        key, said = line.key, {"product": line.name}
        fields = {
            "product": forms.UUIDField(widget=forms.HiddenInput, required=False),
            "quantity": QuantityField(
                label=_("Quantity of %(product)s") % said,
                min_value=0,
                max_value=MAX_QUANTITY,
                initial=line.item.quantity if line.item else 1,
            ),
            "remove": forms.BooleanField(label=_("Remove %(product)s") % said, required=False),
        }
        for number, (name, value) in enumerate(line.attributes.items()):
            fields[f"detail{number}"] = WrittenText(
                label=name, max_length=MAX_ATTRIBUTE_VALUE, required=False, initial=value
            )
        for number in range(line.most_more):
            fields[f"name{number}"] = WrittenText(
                label=_("Detail, such as the size"),
                max_length=MAX_ATTRIBUTE_NAME,
                required=False,
                widget=forms.TextInput({"placeholder": _("Size")}),
            )
            fields[f"value{number}"] = WrittenText(
                label=_("What it is"), max_length=MAX_ATTRIBUTE_VALUE, required=False
            )
        self.fields |= {f"{kind}-{key}": field for kind, field in fields.items()}

    # --- What the page shows -----------------------------------------------------------------------------------------

    @cached_property
    def found(self) -> list[Product]:
        """Products on sale that have each typed word in their name or SKU."""
        products = Product.objects.filter(account=self.order.account_id, is_active=True)
        for word in values.looked_for(str(self["q"].value() or "")).split():
            products = products.filter(Q(name__icontains=word) | Q(sku__icontains=word))
        return list(products.order_by("name", "sku")[:MOST_FOUND])

    @cached_property
    def place(self) -> tuple[str, str] | None:
        kind = self["delivery_type"].value() or self.order.delivery_type
        try:
            wilaya = regions.find_wilaya(str(self["wilaya"].value() or "")[:255])
        except regions.NotFound:
            return None
        return (wilaya.code, kind) if kind in DeliveryType.values else None

    def take_fee(self) -> None:
        """Fill in the proposed fee, if there is one."""
        if self.proposed_fee is not None and self.place:
            self.initial |= showing_fee(self.proposed_fee, self.place)

    @property
    def total(self) -> Decimal:
        """What the customer would pay; the order's present total while that cannot be computed."""
        try:
            kept = [line for line in self.lines if not line.remove.value()]
            lines = sum((int(line.quantity.value() or 0) * line.price for line in kept), Decimal())
            fee = AmountField().clean(self["shipping_fee"].value()) or Decimal()
            discount = AmountField(required=False).clean(self["discount"].value()) or Decimal()
        except (ValueError, forms.ValidationError):
            return self.order.total_amount
        return lines + fee + self.surcharge - discount

    # --- Reading what was entered ------------------------------------------------------------------------------------

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        self.errors.pop("q", None)  # what was looked for is not saved
        if data.get("version") != self.order.version:
            self.errors.clear()  # the order may have other lines by now, and so the form other fields
            raise forms.ValidationError(notices.what_happened(self.order.id, self.agent))
        self._clean_place(data)
        if self.is_one_gone:
            self.add_error(None, NOT_SOLD)
        for line in self.lines:
            self._clean_details(line, data)
            chosen = data.get(f"product-{line.key}")
            if line.item and chosen and (line.product is None or chosen != line.product.id):
                self.add_error(f"quantity-{line.key}", NOT_SOLD)
                self.data = self.data.copy()
                self.data[f"product-{line.key}"] = ""  # the page shows the line as it was
        return data

    def _clean_place(self, data: dict[str, Any]) -> None:
        """Read the wilaya and then the commune, which depends on it. A commune left over from another wilaya is
        dropped.
        """
        if "wilaya" not in data:
            return
        try:
            wilaya = regions.find_wilaya(data["wilaya"])
        except regions.NotFound as error:
            self.add_error("wilaya", _no_wilaya(data["wilaya"], error))
            return
        data["wilaya"] = wilaya
        if not data.get("commune"):
            return
        try:
            data["commune"] = regions.find_commune(data["commune"], wilaya.code)
        except regions.NotFound as error:
            if wilaya.code != self.order.wilaya_code and data["commune"] == self.before["commune"]:
                data["commune"] = ""
            else:
                self.add_error("commune", no_commune(data["commune"], error))

    def _clean_details(self, line: Line, data: dict[str, Any]) -> None:
        """Put the line's details into `attributes-…`. A cleared detail is removed; one that was empty before stays."""
        attributes = {} if line.is_detailed or line.item is None else {**line.item.attributes}
        for number, (name, before) in enumerate(line.attributes.items()):
            field = f"detail{number}-{line.key}"
            value = data.get(field, "") if field in self.data else before
            if value or not values.has_visible(before):
                attributes[name] = value or before
        for number in range(line.most_more):
            name, value = data.get(f"name{number}-{line.key}"), data.get(f"value{number}-{line.key}")
            if value and name:
                attributes[name] = value
            elif value:
                self.add_error(f"name{number}-{line.key}", _("Enter what this is, such as the size or colour."))
        if len(attributes) > MAX_ATTRIBUTES:
            self.add_error(
                f"name0-{line.key}", _("A line can have at most %(most)d details.") % {"most": MAX_ATTRIBUTES}
            )
        data[f"attributes-{line.key}"] = attributes

    def changes(self) -> editing.Edit:
        """What differs from the order. Another spelling of the same place is no change."""
        data, order = self.cleaned_data, self.order
        wilaya, commune = data["wilaya"], data["commune"]
        edit = editing.Edit(
            customer_name=data["customer_name"],
            customer_address=data["customer_address"],
            delivery_type=data["delivery_type"] or None,
            shipping_fee=data["shipping_fee"],
        )
        if "customer_phone_2" in self.data:
            phone = data["customer_phone_2"]
            edit.customer_phone_2, edit.phone_2_e164 = phone, phones.to_e164(phone) if phone else ""
        if "discount" in self.data:
            edit.discount = (data["discount"] or Decimal()) - self.surcharge
        if wilaya.code != order.wilaya_code:
            edit.customer_wilaya, edit.wilaya_code = str(wilaya), wilaya.code
        if wilaya.code != order.wilaya_code or (commune.code if commune else None) != order.commune_code:
            edit.customer_commune, edit.commune_code = str(commune), commune.code if commune else None
        for line in self.lines:
            quantity = 0 if data[f"remove-{line.key}"] else data[f"quantity-{line.key}"]
            columns: dict[str, Any] = {"quantity": quantity, "attributes": data[f"attributes-{line.key}"]}
            if other := line.other:
                columns |= {"product_id": other.id, "product_name": other.name}
                columns |= {"sku": other.sku, "unit_price": other.price}
            if line.item:
                edit.line_changes[line.item.id] = columns
            elif quantity:
                edit.added.append(columns)
        return edit

    def blame(self, refused: Refused) -> None:
        """Show what the rules refused; an error about the total goes beside the field that affects it."""
        beside = "discount" if "discount" in self.changed_data else "shipping_fee"
        for name, sentences in refused.by_field("").items():
            self.add_error(beside if name == "total_amount" else None, list(sentences))


def with_choice(said: Mapping[str, str]) -> dict[str, str]:
    """What was entered, with the chosen product in the line named by `instead`, or in a new line at the end."""
    written = dict(said)
    product, key = written.pop("choose"), written.pop("instead", "")
    if not key:
        key = next((key for key in _NEW_KEYS if f"product-{key}" not in written), "")
        written[f"quantity-{key}"] = "1"
    return written | {f"product-{key}": product}


def _no_wilaya(text: str, found: regions.NotFound) -> str:
    said = {"text": text, "names": listed(map(name_of, found.suggestions))}
    if found.suggestions:
        return _("“%(text)s” is not a wilaya. Did you mean one of these: %(names)s?") % said
    return _("“%(text)s” is not a wilaya.") % said
