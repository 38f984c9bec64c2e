"""How an order's fields are shown to people: `{% load orders %}`."""

from datetime import datetime
from decimal import Decimal

import phonenumbers
from django import template
from django.utils import formats, timezone
from django.utils.timesince import timesince
from django.utils.translation import get_language, gettext, gettext_lazy

from orders import regions
from orders.models import Order, OrderItem

register = template.Library()

EDITED = {
    "customer_name": gettext_lazy("Name"),
    "customer_address": gettext_lazy("Address"),
    "customer_wilaya": gettext_lazy("Wilaya"),
    "wilaya_code": gettext_lazy("Wilaya's code"),
    "customer_commune": gettext_lazy("Commune"),
    "commune_code": gettext_lazy("Commune's code"),
    "shipping_fee": gettext_lazy("Shipping fee"),
    "total_amount": gettext_lazy("Total"),
}


@register.filter
def phone(e164: str) -> str:
    """`+213550123456` as people write it: `0550 12 34 56`."""
    try:
        number = phonenumbers.parse(e164)
    except phonenumbers.NumberParseException:
        return e164
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)


@register.filter
def wilaya(code: str) -> str:
    """The name of the wilaya in the reader's script."""
    try:
        place = regions.wilaya(code)
    except regions.NotFound:
        return code
    return place.name_ar if (get_language() or "").startswith("ar") else place.name


@register.simple_tag
def place(kind: str, code: str | None, sent: str) -> dict[str, str]:
    """A `wilaya` or `commune` in French and Arabic, and `sent`: what the shop wrote, when it says something else."""
    try:
        found = getattr(regions, kind)(code)
    except regions.NotFound:
        return {"code": code or "", "name": sent, "name_ar": "", "sent": ""}
    same = {found.code, found.name.casefold(), found.name_ar}
    return {
        "code": found.code,
        "name": found.name,
        "name_ar": found.name_ar,
        "sent": "" if sent.casefold() in same else sent,
    }


@register.filter
def line_total(item: OrderItem) -> Decimal:
    return item.quantity * item.unit_price


@register.filter
def sent_phone(order: Order) -> str:
    """The phone number as the shop sent it, when it is not just spaced in another way."""
    plain = "".join(order.customer_phone.split())
    return "" if plain in (order.phone_e164, phone(order.phone_e164).replace(" ", "")) else order.customer_phone


@register.filter
def dinars(amount: Decimal) -> str:
    """`18 500`, `4 500.50`: centimes only where there are some, the same in every language."""
    text = f"{amount:,.2f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return text.removesuffix(".00")


@register.filter
def moment(at: datetime) -> str:
    """`21 Nov 2026, 14:05`, by the page's clock."""
    return formats.date_format(timezone.localtime(at), "j M Y, H:i")


@register.filter
def age(moment: datetime) -> str:
    """`5 minutes`, `3 hours`, `2 days`: the largest unit alone."""
    return timesince(moment, depth=1)


@register.filter
def edited(field: str) -> str:
    """The field of an `OrderEdit` in words."""
    if field.startswith("items."):
        return gettext("Quantity in line %(line)d") % {"line": int(field.split(".")[1]) + 1}
    return EDITED.get(field, field)
