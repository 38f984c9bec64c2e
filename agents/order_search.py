"""The search box of the list: phone numbers in any form, last digits, names, shops' order numbers and our ids."""

import re
import unicodedata
from uuid import UUID

from django.contrib.postgres.search import SearchQuery
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from codservice.accounts.models import Account
from codservice.values import uuids_in
from orders import phones
from orders.models import NAME_FOLD, NAME_WORDS, PHONE_END, PHONE_END_LENGTH, Order, has_phone, numbers_meant

HINT = _("Phone number or its last digits, customer's name, the shop's order number or our id")
MAX_LENGTH = 100
MOST_SHOPS = 100  # that share an order number

_BETWEEN_WORDS = re.compile(r"[\s./@:_&?=<>+\-'\"\\]+")


def search(orders: QuerySet[Order], typed: str) -> QuerySet[Order]:
    """The `orders` that `typed` may mean; all of them when it is blank. Each way of searching has its own index."""
    text = " ".join(unicodedata.normalize("NFC", typed[:MAX_LENGTH]).replace("\0", "").split())
    if not text:
        return orders
    orders = orders.alias(phone_end=PHONE_END, name_words=NAME_WORDS)
    # Asked first and by account, as the shops' numbers are indexed. Without a hit, the second query stays simple enough
    # for the planner to see whether the index or the list is quicker.
    numbered = _numbered(text)
    found = _phone(text) or _name(text)
    if found is None:
        return orders.filter(pk__in=numbered)
    return orders.filter(found | Q(pk__in=numbered) if numbered else found)


def _numbered(text: str) -> list[UUID]:
    """The ids of the orders to which shops gave this number, and our own id if that is what it is."""
    shops = Account.objects.filter(live=None).values("pk")
    orders = Order.live.filter(account__in=shops, external_id__in=numbers_meant(text))
    return [*orders.values_list("pk", flat=True)[:MOST_SHOPS], *uuids_in([text])]


def _phone(text: str) -> Q | None:
    """A full number is looked up. A part is compared with the end, or also with the start if it begins with 0.

    The end of a second phone is not searched: it would need one more index.
    """
    digits = phones.digits(text)
    if digits is None or len(digits) < PHONE_END_LENGTH:
        return None
    try:
        return has_phone(phones.to_e164(text))
    except phones.NotAPhone:
        found = Q(phone_end=digits[-PHONE_END_LENGTH:], phone_e164__endswith=digits)
        return found | _begins(f"213{digits[1:]}") if digits.startswith("0") else found


def _begins(digits: str) -> Q:
    """The prefix as a range, which an index serves in any collation."""
    first, beyond = f"+{digits}", f"+{int(digits) + 1}"
    return Q(phone_e164__gte=first, phone_e164__lt=beyond) | Q(phone_2_e164__gte=first, phone_2_e164__lt=beyond)


def _name(text: str) -> Q | None:
    """Each word as a prefix of any word of the name, since people say names in either order."""
    words = [f"'{word}':*" for word in _BETWEEN_WORDS.split(text.translate(NAME_FOLD)) if word]
    return Q(name_words=SearchQuery(" & ".join(words), config="simple", search_type="raw")) if words else None
