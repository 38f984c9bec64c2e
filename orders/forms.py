"""The forms in which a merchant writes an order or corrects one. They give a body as an import takes it."""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from itertools import zip_longest
from typing import Any, cast
from uuid import UUID

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice import values, wording
from codservice.accounts.models import Account
from codservice.bidi import unturned
from codservice.errors import Invalid
from codservice.form_fields import AmountField, Form, FreeText, LongSelect, QuantityField, WrittenText
from codservice.i18n_tags import dinars, listed, written_amount
from inventory.models import Product
from orders import editing, fees, phones, regions
from orders.models import MAX_QUANTITY, DeliveryType, Order, OrderItem
from orders.serializers import read_attributes
from orders.templatetags.orders import name_of, wilaya_choices

LINES, MORE_LINES = 3, 3
MOST_NAMED = 5  # SKUs that are named when several products have the same name
LONGEST_OPEN, CLOCKS_DIFFER = timedelta(days=7), timedelta(minutes=10)
_OF_THE_FORM = {"id", "shown_fee", "fee_for", "shown_total"}  # fields that an order does not have


class PhoneField(WrittenText):
    """A phone number, kept as it was written, because agents see it so."""

    widget = forms.TelInput

    def to_python(self, value: str | None) -> str:
        text = super().to_python(value)
        try:
            if text:
                phones.to_e164(text)
        except phones.NotAPhone:
            raise forms.ValidationError(_("Enter an Algerian phone number, such as 0550 12 34 56.")) from None
        return text

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return super().widget_attrs(widget) | {"dir": "ltr", "placeholder": "0550 12 34 56"}


class LineForm(Form):
    """A line of the order. Without a product it is no line: it was left empty, or is to be removed.

    A new line with another quantity, a price or a detail has been begun, and says that its product is missing.
    """

    item = forms.UUIDField(widget=forms.HiddenInput, required=False)  # the existing line, in a correction
    product = WrittenText(label=_("Product or SKU"), max_length=255)
    quantity = QuantityField(label=_("Quantity"), min_value=1, max_value=MAX_QUANTITY, initial=1)
    unit_price = AmountField(label=_("Price"), max_length=20, required=False)
    shown_price = AmountField(max_length=20, required=False, widget=forms.HiddenInput)
    details = FreeText(label=_("Details"), required=False, help_text=_("One on each line, such as size: M."))

    def __init__(self, data: Any, number: int, written: Any) -> None:
        prefix = f"line-{number}"
        initial = {name: written[f"{prefix}-{name}"] for name in self.base_fields if f"{prefix}-{name}" in written}
        super().__init__(data, prefix=prefix, initial=initial, use_required_attribute=False)
        self.has_product = self._said("product")
        is_counted = self._said("quantity") and self["quantity"].data != "1"
        is_begun = is_counted or self._said("unit_price") or self._said("details")
        self.is_written = self.has_product or (is_begun and not self._said("item"))
        if not self.is_written:
            self.is_bound = False

    def ask_for_product(self) -> None:
        """Make this a line although it was left empty, so that its product says that one is needed."""
        self.is_bound = True
        self.fields["product"].error_messages["required"] = _("Enter at least one product.")

    def read_details(self, item: OrderItem | None) -> dict[str, str]:
        """The line's attributes, or what is wrong with its details said beside them.

        Those of `item` whose text is as it was shown stay exactly as they are, even if it could be read otherwise.
        All do if the field was not sent.
        """
        before = item.attributes if item else {}
        lines = [line for each in self.cleaned_data["details"].split("\n") if (line := _on_one_line(each))]
        shown = _detail_lines(before)
        if self.add_prefix("details") not in self.data or sorted(lines) == sorted(shown):
            return before
        try:
            details = _details(lines, known=dict(zip(shown, before.items(), strict=True)))
        except forms.ValidationError as error:
            self.add_error("details", error)
            return before
        details, errors = read_attributes(details)
        for name, sentences in errors.items():
            said = f"{unturned(name)}{gettext(':')} " if name else ""
            self.add_error("details", [said + wording.in_words(sentence) for sentence in sentences])
        return details

    def _said(self, name: str) -> bool:
        return bool(values.has_visible(str(self.data.get(self.add_prefix(name), ""))))


def _details(lines: list[str], known: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Read the name and the value on each line, unless it is a known one."""
    details: dict[str, str] = {}
    for line in lines:
        name, value = known.get(line) or map(str.strip, line.partition(":")[::2])
        if line not in known and not (values.has_visible(name) and values.has_visible(value)):
            said = {"text": unturned(values.shortened(line, 50))}
            raise forms.ValidationError(_("“%(text)s” cannot be read. Write a name, a colon and a value.") % said)
        if name in details:
            said = {"text": unturned(values.shortened(name, 50))}
            raise forms.ValidationError(_("Two details of a line have the same name: %(text)s") % said)
        details[name] = value
    return details


def _detail_lines(attributes: dict[str, str]) -> list[str]:
    return [_on_one_line(f"{name}: {value}") for name, value in attributes.items()]


def _on_one_line(text: str) -> str:
    return values.on_one_line(text).strip()


def no_commune(text: str, found: regions.NotFound) -> str:
    """The message for a commune that is not in the chosen wilaya."""
    said = {"text": text, "names": listed(map(name_of, found.suggestions or found.elsewhere))}
    if found.elsewhere:
        return _("“%(text)s” is not a commune of this wilaya. It lies in %(names)s.") % said
    if found.suggestions:
        return _("“%(text)s” is not a commune of this wilaya. Did you mean one of these: %(names)s?") % said
    return _("“%(text)s” is not a commune of this wilaya.") % said


class FutureId(forms.Field):
    """The id of the order that the form will make, so that a form sent twice makes only one.

    Only an id of the last days is taken, and otherwise a new one made: the console lists all merchants' orders by id,
    and whoever could choose any would choose the place in that list.
    """

    widget = forms.HiddenInput

    def clean(self, value: str | None) -> UUID:
        id_ = values.uuid_or_none(value)
        return id_ if id_ and id_.version == 7 and -CLOCKS_DIFFER < _age(id_) < LONGEST_OPEN else uuid7()


def _age(id_: UUID) -> timedelta:
    """How long ago an id of version 7 was made: it begins with the milliseconds since 1970 (RFC 9562, 5.7)."""
    return timedelta(seconds=time.time() - (id_.int >> 80) / 1000)


class DeliveryForm(Form):
    """A form in which a delivery may move to another place. Who leaves the fee is shown the merchant's there once.

    Its hidden fields say which fee was shown, and for which place.
    """

    shown_fee = AmountField(max_length=20, required=False, widget=forms.HiddenInput)
    fee_for = forms.CharField(max_length=20, required=False, widget=forms.HiddenInput)
    account_id: UUID

    @property
    def place(self) -> tuple[str, str] | None:
        """The codes of the wilaya and delivery type that are entered, or None when they cannot be read."""
        raise NotImplementedError

    @cached_property
    def proposed_fee(self) -> Decimal | None:
        """The merchant's fee for this place, or None when they have set none."""
        return fees.by_place(self.account_id).get(self.place) if self.place else None

    @property
    def needs_fee(self) -> bool:
        """Whether the place has changed, the merchant's fee there differs, and nobody has looked at the fee."""
        fee, shown, shown_for = map(self.cleaned_data.get, ("shipping_fee", "shown_fee", "fee_for"))
        is_seen = self.place is None or shown_for in ("", "-".join(self.place))
        return fee == shown and not is_seen and self.proposed_fee not in (None, fee)


def showing_fee(fee: Decimal, place: tuple[str, str]) -> dict[str, str]:
    """The values of the fields of a fee that is shown for a place."""
    written = written_amount(fee)
    return {"shipping_fee": written, "shown_fee": written, "fee_for": "-".join(place)}


class OrderForm(DeliveryForm):
    id = FutureId()
    customer_name = WrittenText(label=_("Name"), max_length=255)
    customer_phone = PhoneField(label=_("Phone"), max_length=phones.MAX_LENGTH)
    customer_phone_2 = PhoneField(label=_("Second phone"), max_length=phones.MAX_LENGTH, required=False)
    customer_wilaya = forms.ChoiceField(label=_("Wilaya"), widget=LongSelect)
    customer_commune = WrittenText(label=_("Commune"), max_length=255, required=False)
    delivery_type = forms.ChoiceField(label=_("Delivery"), choices=DeliveryType.choices)
    customer_address = FreeText(label=_("Address"), max_length=500)
    notes = FreeText(label=_("Notes for the agent"), max_length=2000, required=False)
    shipping_fee = AmountField(
        label=_("Shipping fee"),
        max_length=20,
        required=False,
        help_text=_("If you leave it empty, your fee for the wilaya applies."),
    )
    total_amount = AmountField(
        label=_("To pay on delivery"),
        max_length=20,
        required=False,
        help_text=_("If you leave it empty, it is the sum of the lines and the shipping fee."),
    )
    external_id = WrittenText(
        label=_("Order number"), max_length=64, required=False, widget=forms.TextInput(attrs={"dir": "ltr"})
    )
    source = WrittenText(
        label=_("Source"), max_length=64, required=False, help_text=_("Such as telephone, facebook or shop.")
    )

    def __init__(
        self,
        data: Any = None,
        *,
        account: Account,
        items: Sequence[OrderItem] = (),
        lines: int = LINES,
        written: Any = None,
    ) -> None:
        """Validate `data`; `written` is only shown again, unchecked.

        A line that is one of `items` keeps its product and each of its attributes whose text is unchanged, unless two
        that are shown alike have become one.
        """
        written = written or {"id": uuid7()}
        super().__init__(data, initial=written)
        self.account, self.account_id, self.items = account, account.id, items
        chosen = cast(forms.ChoiceField, self.fields["customer_wilaya"])
        chosen.choices = wilaya_choices(gettext("Choose a wilaya"))
        self.lines = [LineForm(data, number, written) for number in range(lines)]

    @property
    def place(self) -> tuple[str, str] | None:
        wilaya, kind = map(self.cleaned_data.get, ("customer_wilaya", "delivery_type"))
        return (wilaya, kind) if wilaya and kind else None

    def clean(self) -> dict[str, Any]:
        """Show the merchant's fee in place of one that was left from another place."""
        if self.needs_fee and self.place and self.proposed_fee is not None:
            self.data = self.data.dict() | showing_fee(self.proposed_fee, self.place)
            wilaya, kind = self.place
            said = {
                "wilaya": name_of(regions.wilaya(wilaya)),
                "delivery": DeliveryType(kind).label,
                "fee": dinars(self.proposed_fee),
            }
            self.add_error(
                "shipping_fee",
                _("Nothing has been saved yet. Check your fee for %(wilaya)s (%(delivery)s): %(fee)s DA.") % said,
            )
        return self.cleaned_data

    def clean_customer_commune(self) -> str:
        text, wilaya = self.cleaned_data["customer_commune"], self.cleaned_data.get("customer_wilaya")
        if text and wilaya:
            try:
                regions.find_commune(text, wilaya)
            except regions.NotFound as error:
                raise forms.ValidationError(no_commune(text, error)) from None
        return text

    def body(self) -> dict[str, Any] | None:
        """The order as a body for an import; None if something is wrong, which the fields then say."""
        written = [line for line in self.lines if line.is_written]
        if not any(line.has_product for line in self.lines):
            written = written or self.lines[:1]
            written[0].ask_for_product()
        readable = [line for line in written if line.is_valid()]
        skus = [line.cleaned_data["product"] for line in readable]
        catalog = {each.sku: each for each in Product.objects.filter(account=self.account, sku__in=skus)}
        lines = list(self._lines(readable, catalog))
        if not self.is_valid() or any(line.errors for line in written):
            return None
        asked = self.cleaned_data.items()
        data = {name: value for name, value in asked if value is not None and name not in _OF_THE_FORM}
        if not data.get("external_id"):
            data.pop("external_id", None)
        if "shipping_fee" not in data:
            data["shipping_fee"] = self.proposed_fee or Decimal()
        price = sum((line["unit_price"] * line["quantity"] for line in lines), data["shipping_fee"])
        data["total_amount"] = self._total(data.get("total_amount"), price)
        try:
            editing.check_total(data["total_amount"])
        except Invalid as invalid:
            self.add_error("total_amount", invalid.errors["total_amount"])
            return None
        return data | {"items": lines}

    def _total(self, written: Decimal | None, price: Decimal) -> Decimal:
        """The total: as written, or else `price`, the sum of lines and fee."""
        return price if written is None else written

    def _lines(self, written: list[LineForm], catalog: dict[str, Product]) -> Iterator[dict[str, Any]]:
        items = {item.id: item for item in self.items}
        for line, at_its_place in zip_longest(written, self.items[: len(written)]):
            data, product = line.cleaned_data, catalog.get(line.cleaned_data["product"])
            # An earlier press of the form may have replaced the lines by these, which have other ids.
            item = items.get(data["item"], at_its_place) if data["item"] else None
            attributes = line.read_details(item)
            price = data["unit_price"] if data["unit_price"] is not None else product and product.price
            if price is None:
                self._ask_for_price(line)
                continue
            if item is not None and item.product_name == data["product"]:
                product_id, name = item.product_id, item.product_name
            elif product:
                product_id, name = product.id, product.name
                if data["unit_price"] == data["shown_price"]:  # left as it was for the product that was there
                    price = item.unit_price if item and item.product_id == product.id else product.price
            else:
                product_id, name = None, data["product"]
            yield {
                "product_id": str(product_id) if product_id else None,
                "product_name": name,
                "quantity": data["quantity"],
                "unit_price": price,
                "attributes": attributes,
            }

    def _ask_for_price(self, line: LineForm) -> None:
        """Say what is missing in a line whose text is no SKU; it may be the name of products that have one."""
        named = Product.objects.filter(account=self.account, name__iexact=line.cleaned_data["product"]).order_by("sku")
        if skus := named.values_list("sku", flat=True)[:MOST_NAMED]:
            said = {"skus": listed(unturned(sku) for sku in skus)}
            line.add_error("product", _("Enter the SKU of your product (%(skus)s), or a price.") % said)
        else:
            line.add_error("unit_price", _("Enter a price: none of your products has this SKU."))


class CorrectionForm(OrderForm):
    """The form for an existing order. Ids and source stay, and the discount if the total is left unchanged."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    shown_total = AmountField(max_length=20, required=False, widget=forms.HiddenInput)
    id = None
    external_id = None
    source = None

    def __init__(self, data: Any = None, *, order: Order, items: Sequence[OrderItem] = (), **kwargs: Any) -> None:
        shown = _written(order, items)
        written = kwargs.pop("written", None) or shown | {"shown_total": shown["total_amount"]}
        super().__init__(data, account=order.account, items=items, written=written, **kwargs)
        self.order = order
        self.fields["total_amount"].help_text = _(
            "If you leave it as it is, it follows the lines and the shipping fee. If you empty it, it is their sum."
        )

    def body(self) -> dict[str, Any] | None:
        """As in OrderForm, but without `items` if no line changes, so that the catalog is not looked up again."""
        if (body := super().body()) is None:
            return None
        if body["items"] == [_kept(item) for item in self.items]:
            del body["items"]
        return body

    def _total(self, written: Decimal | None, price: Decimal) -> Decimal:
        shown = self.cleaned_data["shown_total"]
        if written != (self.order.total_amount if shown is None else shown):
            return super()._total(written, price)
        return price - editing.discount(self.order, self.items)


def _kept(item: OrderItem) -> dict[str, Any]:
    """An existing line as the form would give it."""
    kept = {name: getattr(item, name) for name in ("product_name", "quantity", "unit_price", "attributes")}
    return {"product_id": str(item.product_id) if item.product_id else None, **kept}


def _written(order: Order, items: Sequence[OrderItem]) -> dict[str, Any]:
    """The order as initial values of its form."""
    commune = name_of(regions.commune(order.commune_code)) if order.commune_code else order.customer_commune
    names = ("version", "customer_name", "customer_phone", "delivery_type", "customer_address", "notes")
    written = {name: getattr(order, name) for name in names} | {
        "customer_phone_2": order.customer_phone_2 or "",
        "customer_wilaya": order.wilaya_code,
        "customer_commune": commune,
        "total_amount": written_amount(order.total_amount),
        **showing_fee(order.shipping_fee, (order.wilaya_code, order.delivery_type)),
    }
    for number, item in enumerate(items):
        written |= {
            f"line-{number}-item": item.id,
            f"line-{number}-product": item.product_name,
            f"line-{number}-quantity": item.quantity,
            f"line-{number}-unit_price": written_amount(item.unit_price),
            f"line-{number}-shown_price": written_amount(item.unit_price),
            f"line-{number}-details": "\n".join(_detail_lines(item.attributes)),
        }
    return written


def written_anew(order: Order, items: Sequence[OrderItem]) -> dict[str, Any]:
    """The order as initial values of a new one, whose total follows its lines unless this one had a discount."""
    written = _written(order, items) | {"id": uuid7(), "source": order.source}
    return written if editing.discount(order, items) else written | {"total_amount": ""}
