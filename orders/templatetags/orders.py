"""How an order's fields are shown: `{% load orders %}`."""

import re
from collections.abc import Container, ItemsView, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from itertools import groupby
from typing import Any

import phonenumbers
from django import template
from django.utils.timesince import timesince
from django.utils.translation import get_language, gettext, gettext_lazy

from codservice.bidi import unturned
from codservice.i18n_tags import dinars, listed
from orders import call_words, cancel_reasons, regions
from orders.models import DeliveryType, Order, OrderEdit
from orders.regions import gazetteer

register = template.Library()

EDITED = {
    "customer_name": gettext_lazy("Name"),
    "customer_phone": gettext_lazy("Phone"),
    "customer_phone_2": gettext_lazy("Second phone"),
    "customer_address": gettext_lazy("Address"),
    "customer_wilaya": gettext_lazy("Wilaya"),
    "wilaya_code": gettext_lazy("Wilaya"),
    "customer_commune": gettext_lazy("Commune"),
    "commune_code": gettext_lazy("Commune"),
    "delivery_type": gettext_lazy("Delivery type"),
    "notes": gettext_lazy("Notes"),
    "shipping_fee": gettext_lazy("Shipping fee"),
    "total_amount": gettext_lazy("Total"),
}
# The same for an order's line; "" is the line as a whole, which was added or removed.
EDITED_IN_LINE = {
    "": gettext_lazy("Line %(line)d"),
    "product_id": gettext_lazy("Product in line %(line)d"),
    "product_name": gettext_lazy("Product in line %(line)d"),
    "quantity": gettext_lazy("Quantity in line %(line)d"),
    "unit_price": gettext_lazy("Price in line %(line)d"),
    "attributes": gettext_lazy("Details in line %(line)d"),
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
    return _place_name("wilaya", code)


def part_name(by: str, key: str) -> str:
    """In words, the key of a part of orders that are divided `by` wilaya, by reason, or by names that others gave."""
    match by:
        case "wilaya":
            return f"{key} {wilaya(key)}"
        case "reason":
            key = cancel_reasons.in_words(key)
    return key or gettext("Not specified")


def _place_name(kind: str, code: str) -> str:
    try:
        return name_of(getattr(regions, kind)(code))
    except regions.NotFound:
        return code


def name_of(place: regions.Wilaya | regions.Commune) -> str:
    """The place's name in the reader's script."""
    return place.name_ar if _reads_arabic() else place.name


def wilaya_choices(none: str) -> list[tuple[str, str]]:
    """The wilayas as choices of a form: `16 Alger`. The first choice, labelled `none`, is no wilaya."""
    return [("", none), *((place.code, f"{place.code} {name_of(place)}") for place in regions.WILAYAS)]


def names_of(said: str) -> str:
    """The places of a rule's sentence (`Alger`, or `Alger, Mila or Oran`) in the reader's script, where one is sure."""
    most, _or, last = said.rpartition(" or ")
    in_script = gazetteer.arabic_names() if _reads_arabic() else {}
    return listed(in_script.get(name, name) for name in [*filter(None, most.split(", ")), last])


def _reads_arabic() -> bool:
    return (get_language() or "").startswith("ar")


@register.simple_tag
def place(kind: str, code: str | None, sent: str) -> dict[str, str]:
    """A `wilaya` or `commune` in French and Arabic, and `sent`: what the shop wrote, if that is something else."""
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
def pairs(names: Mapping[str, Any]) -> ItemsView[str, Any]:
    """The items of a dict. In a template, `names.items` would be the value of a key `items`, if there is one."""
    return names.items()


register.filter("reason_in_words", cancel_reasons.in_words)
register.filter("note_in_words", call_words.in_words)


@register.filter
def sent_phone(order: Order) -> str:
    """The phone number as the shop sent it; empty if only its spaces differ from what is shown."""
    plain = "".join(order.customer_phone.split())
    return "" if plain in (order.phone_e164, phone(order.phone_e164).replace(" ", "")) else order.customer_phone


@register.filter
def age(moment: datetime) -> str:
    """`5 minutes`, `3 hours`, `2 days`: the largest unit alone."""
    return timesince(moment, depth=1)


@dataclass
class Edited:
    """What somebody changed at one time: (field, old, new) for each change, in words."""

    at: datetime
    actor: str
    changes: list[tuple[str, str, str]]


@register.filter
def edits_in_words(edits: Iterable[OrderEdit]) -> list[Edited]:
    """The edits of an order in words, one entry for all that were made at one time, in the order given."""
    entries = []
    for (at, actor), rows in groupby(edits, key=lambda edit: (edit.at, edit.actor)):
        made = {row.field: row for row in rows}
        told = sorted((field for field in made if not _is_told_beside(field, made)), key=_rank)
        changes = [(_label(name), _said(name, made[name].old), _said(name, made[name].new)) for name in told]
        entries.append(Edited(at, actor, changes))
    return entries


# Fields that are left out if the other was changed too: a place's name comes from its code, and a product's id says
# nothing beside its name.
_TOLD_BESIDE = {"customer_wilaya": "wilaya_code", "customer_commune": "commune_code", "product_id": "product_name"}
_IN_ORDER = [name for name in EDITED if name not in ("shipping_fee", "total_amount")]
_WHOLE_LINE = re.compile(r"(.*), (\d+\.\d\d)", re.DOTALL)  # with its price at the end


def _is_told_beside(field: str, made: Container[str]) -> bool:
    *line, name = field.split(".")
    return name in _TOLD_BESIDE and ".".join([*line, _TOLD_BESIDE[name]]) in made


def _rank(field: str) -> tuple[int, str]:
    """The sort key: first the customer, then the lines, then the sums."""
    return (_IN_ORDER.index(field) if field in _IN_ORDER else len(EDITED) + (not field.startswith("items.")), field)


def _label(field: str) -> str:
    if field.startswith("items."):
        _items, line, *column = field.split(".")
        return EDITED_IN_LINE[".".join(column)] % {"line": int(line) + 1}
    return EDITED.get(field, field)


def _said(field: str, value: str) -> str:
    """An edit's value as people read it."""
    name = field.rpartition(".")[2]
    if not value:
        return ""
    if name in ("shipping_fee", "total_amount", "unit_price"):
        return _sum(value)
    if name == "delivery_type":
        return str(dict(DeliveryType.choices).get(value, value))
    if name in ("wilaya_code", "commune_code"):
        return _place_name(name.removesuffix("_code"), value)
    if name.isdecimal() and (line := _WHOLE_LINE.fullmatch(value)):
        return listed([unturned(line[1]), _sum(line[2])])
    return value


def _sum(text: str) -> str:
    try:
        return f"{dinars(Decimal(text))} {gettext('DA')}"
    except InvalidOperation:
        return text
