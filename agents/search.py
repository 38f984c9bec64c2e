"""What agents type into the search box: a phone number in any form, the end of one, a name, a shop's order number."""

import re
import unicodedata

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from codservice.accounts.models import Account
from orders import phones
from orders.models import Order

HINT = _("Phone number or its last digits, customer's name, or the shop's order number")
MAX_LENGTH = 100
SHORTEST_PHONE_END = 4  # digits; fewer would find half of the table

_BETWEEN_DIGITS = re.compile(r"[\s().\-/+\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def search(orders: QuerySet[Order], typed: str) -> QuerySet[Order]:
    """Those of `orders` that `typed` may mean. Nothing but spaces means all."""
    text = " ".join(unicodedata.normalize("NFC", typed[:MAX_LENGTH]).split())
    if not text:
        return orders
    by_person = Order.objects.filter(_phone(text) or _name(text))
    # Asked account by account, because that is how the shops' numbers are indexed.
    by_number = Order.objects.filter(account__in=Account.objects.values("pk"), external_id=text)
    # Two look-ups, each with its own index; OR would read the whole table.
    return orders.filter(pk__in=by_person.values("pk").union(by_number.values("pk")))


def _phone(text: str) -> Q | None:
    """A whole number is looked up; a part of one is compared from the end, or from the start when it begins with 0."""
    digits = _ascii_digits(_BETWEEN_DIGITS.sub("", text))
    if digits is None or len(digits) < SHORTEST_PHONE_END:
        return None
    try:
        return Q(phone_e164=phones.to_e164(text))
    except phones.NotAPhone:
        found = Q(phone_e164__endswith=digits)
        return found | Q(phone_e164__startswith=f"+213{digits[1:]}") if digits.startswith("0") else found


def _ascii_digits(text: str) -> str | None:
    try:
        return "".join(str(unicodedata.digit(character)) for character in text)
    except ValueError:
        return None


def _name(text: str) -> Q:
    """Every word, wherever it stands in the name: people say it in either order."""
    words = Q()
    for word in text.split():
        words &= Q(customer_name__icontains=word)
    return words
