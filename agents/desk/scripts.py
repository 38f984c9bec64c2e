"""What agents say on the phone: texts that merchants gave, in which an order's words stand for placeholders."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from django.utils.translation import get_language, get_language_bidi, override
from django.utils.translation import gettext_lazy as _

from codservice.bidi import unturned
from codservice.i18n_tags import dinars, listed
from inventory.models import MAX_SCRIPT
from orders.models import Order, OrderItem
from orders.templatetags.orders import wilaya

# What a text may name, in English, French and Arabic; anything else in braces is left as it is.
PLACEHOLDERS = {
    "name": ("name", "nom", "الاسم"),
    "product": ("product", "produit", "المنتج"),
    "sum": ("sum", "somme", "المبلغ"),
    "shop": ("shop", "boutique", "المتجر"),
    "wilaya": ("wilaya", "wilaya", "الولاية"),
}
_MEANING = {word: meaning for meaning, words in PLACEHOLDERS.items() for word in words}
_PLACEHOLDER = re.compile("{(" + "|".join(map(re.escape, _MEANING)) + ")}")
MOST_SAID = 5 * MAX_SCRIPT  # characters of a text with its words: it may name the products two hundred times
HINT = _("You can use these words, which are filled in for each order: %(words)s.")


@dataclass(frozen=True)
class Script:
    """A text in one language (empty: unknown), of a product or, without one, of the merchant."""

    text: str
    language: str = ""
    of: str = ""


def of_order(order: Order, lines: Sequence[OrderItem], *, french: str, arabic: str) -> list[Script]:
    """The merchant's texts, the reader's language first, and then those of the products, all filled in.

    With `order` comes its account, with `lines` the products, where there are any.
    """
    found = [Script(french, "fr"), Script(arabic, "ar")]
    if get_language_bidi():
        found.reverse()
    products = {line.product_id: line.product for line in lines if line.product_id and line.product}
    found += [Script(product.script, of=product.name) for product in products.values()]
    found = [script for script in found if script.text]
    languages = [_language(script) for script in found]
    words = {language: _words(order, lines, language) for language in set(languages)}
    return [
        replace(script, text=_filled(script.text, words[language]))
        for script, language in zip(found, languages, strict=True)
    ]


def _words(order: Order, lines: Sequence[OrderItem], language: str) -> dict[str, str]:
    """Of the language of the text, whatever the page's: both are read in one breath."""
    with override(language):
        products = listed(unturned(f"{line.quantity} × {line.product_name}") for line in lines)
        return {
            "name": unturned(order.customer_name),
            "product": _cut(products, MAX_SCRIPT),
            "sum": f"{dinars(order.total_amount)} {_('DA')}",
            "shop": unturned(order.account.name),
            "wilaya": wilaya(order.wilaya_code),
        }


def _language(script: Script) -> str:
    """The text's; of a product's, which does not say, Arabic where it has Arabic letters, and else the reader's."""
    if script.language == "ar" or any(unicodedata.bidirectional(sign) == "AL" for sign in script.text):
        return "ar-dz"
    return script.language or ("fr" if get_language_bidi() else get_language() or "fr")


def example(text: str, *, language: str, shop: str) -> str:
    """The text, `fr` or `ar`, as agents would read it of an order that is made up."""
    is_arabic = language == "ar"
    with override("ar-dz" if is_arabic else language):
        words = {
            "name": "نادية شريف" if is_arabic else "Nadia Cherif",
            "product": f"2 × {'قفطان' if is_arabic else 'Robe kabyle'}",
            "sum": f"{dinars(Decimal(4500))} {_('DA')}",
            "shop": unturned(shop),
            "wilaya": wilaya("16"),
        }
        return _filled(text, words)


def _filled(text: str, words: dict[str, str]) -> str:
    """In one pass: what is filled in is no text of the merchant's, whatever it has in it."""
    return _cut(_PLACEHOLDER.sub(lambda found: words[_MEANING[found[1]]], text), MOST_SAID)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
