"""What agents say on the phone: merchants' texts with placeholders, filled in from an order."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from django.utils.translation import get_language, get_language_bidi, override
from django.utils.translation import gettext_lazy as _

from codservice.bidi import unturned
from codservice.i18n_tags import dinars, listed
from codservice.values import shortened
from inventory.models import MAX_SCRIPT
from orders.models import Order, OrderItem
from orders.templatetags.orders import wilaya

# Placeholders in English, French and Arabic, in either case: phones begin texts with a capital. Anything else in braces
# stays as it is.
PLACEHOLDERS = {
    "name": ("name", "nom", "الاسم"),
    "product": ("product", "produit", "المنتج"),
    "sum": ("sum", "somme", "المبلغ"),
    "shop": ("shop", "boutique", "المتجر"),
    "wilaya": ("wilaya", "wilaya", "الولاية"),
}
_MEANING = {word: meaning for meaning, words in PLACEHOLDERS.items() for word in words}
_PLACEHOLDER = re.compile("{ *(" + "|".join(map(re.escape, _MEANING)) + ") *}", re.IGNORECASE | re.ASCII)
_WORD_IN_BRACES = re.compile(r"{ *([^\W\d_][^{}\n]{,39}?) *}")
MOST_SAID = 5 * MAX_SCRIPT  # characters of a filled-in text, which may name the products two hundred times
HINT = _("You can use these words, which are filled in for each order: %(words)s.")


@dataclass(frozen=True)
class Script:
    """A text in one language (empty: unknown), of a product or, if `of` is empty, of the merchant."""

    text: str
    language: str = ""
    of: str = ""


def of_order(order: Order, lines: Sequence[OrderItem], *, french: str, arabic: str) -> list[Script]:
    """The merchant's texts, the reader's language first, and then those of the products, all filled in.

    The order's account and the lines' products must be loaded.
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


def not_filled_in(text: str) -> list[str]:
    """What stands in braces like a placeholder but is none, with its braces: agents would read it as it is."""
    return [found[0] for found in _WORD_IN_BRACES.finditer(text) if found[1].lower() not in _MEANING]


def _words(order: Order, lines: Sequence[OrderItem], language: str) -> dict[str, str]:
    """The words in the text's language, not the page's, since they are read aloud in one sentence."""
    with override(language):
        products = listed(unturned(f"{line.quantity} × {line.product_name}") for line in lines)
        return {
            "name": unturned(order.customer_name),
            "product": shortened(products, MAX_SCRIPT),
            "sum": f"{dinars(order.total_amount)} {_('DA')}",
            "shop": unturned(order.account.name),
            "wilaya": wilaya(order.wilaya_code),
        }


def _language(script: Script) -> str:
    """The text's language. A product's text has none: it is Arabic if it has Arabic letters, otherwise the reader's."""
    if script.language == "ar" or any(unicodedata.bidirectional(sign) == "AL" for sign in script.text):
        return "ar-dz"
    return script.language or ("fr" if get_language_bidi() else get_language() or "fr")


def example(text: str, *, language: str, shop: str) -> str:
    """The text, `fr` or `ar`, as agents would read it for a made-up order."""
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
    """Replace all placeholders in one pass, so that braces in an order's own words are left alone."""
    return shortened(_PLACEHOLDER.sub(lambda found: words[_MEANING[found[1].lower()]], text), MOST_SAID)
