"""Validation of values, wherever they come from: plain functions, and the JSON Schema of each.

Each takes what was sent and returns it in the form in which we store it, or raises ValueError with a sentence. DRF
fields (`codservice.api.fields`) and form fields (`codservice.form_fields`) are thin adapters over them.
"""

import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from itertools import groupby
from typing import Any
from uuid import UUID

import ada_url

MAX_AMOUNT = Decimal("99999999.99")  # DZD
CENTIME = Decimal("0.01")

# Control characters (newline and tab are allowed in free text) and halves of surrogate pairs.
_UNUSABLE = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_UNUSABLE_IN_FREE_TEXT = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
# Spaces, the empty Braille cell, and Unicode's Default_Ignorable_Code_Point (joiners, direction marks, Hangul fillers,
# variation selectors): a name made only of these is no name.
_INVISIBLE = (
    r"\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
)
# JSON Schema's regular expressions see two characters in each of these, so the schema leaves them out.
_INVISIBLE_BEYOND_16_BITS = r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
_has_unusable = re.compile(f"[{_UNUSABLE}]").search
_free_text_has_unusable = re.compile(f"[{_UNUSABLE_IN_FREE_TEXT}]").search
has_visible = re.compile(f"[^{_INVISIBLE}{_INVISIBLE_BEYOND_16_BITS}]").search
_SHORTENED = 4  # the most by which NFC divides the length: a Greek letter and its three marks
# Combining marks on one letter: several times what anybody writes for fun. Sorting them takes quadratic time.
_MOST_MARKS = 100
_may_be_marks = re.compile(rf"[^\w\s\x00-\x7f]{{{_MOST_MARKS + 1}}}").search
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,19}", re.ASCII)
MAX_INTEGER = 2**31 - 1  # where no other bound is given
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def text(value: Any, *, max_length: int | None = None, free: bool = False, may_be_blank: bool = False) -> str:
    """Return text, normalised to NFC and trimmed. Control characters are refused, but for newline and tab if `free`."""
    if type(value) is not str:
        raise ValueError("Must be a string.")
    if max_length is not None and len(value) > _SHORTENED * max_length and len(value.strip()) > _SHORTENED * max_length:
        raise ValueError(f"Must have at most {max_length} characters.")  # without reading all of it
    if free and "\r" in value:
        value = value.replace("\r\n", "\n")
    if (_free_text_has_unusable if free else _has_unusable)(value):
        raise ValueError("Must not contain control characters or broken Unicode.")
    if not value.isascii():
        if _has_too_many_marks(value):
            raise ValueError("Must not contain control characters or broken Unicode.")
        value = unicodedata.normalize("NFC", value)
    value = value.strip()
    if not may_be_blank and not has_visible(value):
        raise ValueError("Must not be empty.")
    if max_length is not None and len(value) > max_length:
        raise ValueError(f"Must have at most {max_length} characters.")
    return value


def visible_part(text: str) -> str:
    """Leave out the blanks and invisible marks at both ends, as they come with text copied from other programs."""
    first, last = has_visible(text), has_visible(text[::-1])
    return text[first.start() : len(text) - last.start()] if first and last else ""


def shortened(text: str, most: int) -> str:
    """The text, cut to `most` characters if it is longer; the last is then `…`.

    Django's Truncator may return more: it does not count combining marks.
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def looked_for(typed: str, most: int = 100) -> str:
    """What is looked for with this text in a search box: its first `most` characters, without NULs for PostgreSQL."""
    return visible_part(typed)[:most].replace("\0", "")


def _has_too_many_marks(value: str) -> bool:
    if not _may_be_marks(value):
        return False
    # Decomposed, as three Tibetan vowels are no marks themselves but consist of two. Not by a function for each sign:
    # at some depths of its stack, Python 3.11 asks the kernel for memory at each call.
    marks = [unicodedata.combining(unicodedata.normalize("NFD", sign)[0]) > 0 for sign in value]
    return any(is_mark and sum(run) > _MOST_MARKS for is_mark, run in groupby(marks))


def link(value: Any, *, max_length: int) -> str:
    """Return an https URL as browsers read it, with special characters encoded, without user name or password."""
    text_ = text(value, max_length=max_length)
    try:
        url = ada_url.URL(text_)
    except ValueError:
        raise ValueError("Must be a complete URL, such as https://shop.example/robe.jpg.") from None
    if url.protocol != "https:":
        raise ValueError("Must start with https://.")
    if url.username or url.password:
        raise ValueError("Must not contain a user name or password.")
    if len(url.href) > max_length:
        raise ValueError(f"Must have at most {max_length} characters once its special characters are encoded.")
    return url.href


# Describes usual links; `link` accepts more, though some clients refuse what the pattern does not match. A host that
# matches has at most 251 characters, and a label in it 62, which resolvers accept.
_NAME = r"([A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20}){0,2}|[A-Za-z0-9]{1,9}(-[A-Za-z0-9]{1,9}){3,5})"
_PORT = (
    r"(443|102[4-9]|10[3-9][0-9]|1[1-9][0-9]{2}|[2-9][0-9]{3}|[1-5][0-9]{4}"
    r"|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
)
LINK_PATTERN = (
    rf"https://([A-Za-z0-9]{{1,20}}(-[A-Za-z0-9]{{1,20}})?\.)?({_NAME}\.){{1,3}}[A-Za-z]{{2,20}}(:{_PORT})?"
    r"(/[A-Za-z0-9/?._~!$&()*+,;=:@-]{0,200}(%[0-9A-Fa-f]{2}[A-Za-z0-9/?._~!$&()*+,;=:@-]{0,200}){0,99})?"
)


def text_schema(*, max_length: int | None = None, free: bool = False, may_be_blank: bool = False) -> dict[str, Any]:
    # JSON Schema's regular expressions have no `\x`, and its strings no halves of surrogate pairs.
    unusable = (_UNUSABLE_IN_FREE_TEXT if free else _UNUSABLE).removesuffix(r"\ud800-\udfff")
    usable = f"[^{unusable}]*".replace(r"\x", r"\u00")
    visible = f"[^{_INVISIBLE}]".replace(r"\x", r"\u00")
    return {
        "type": "string",
        "maxLength": max_length,
        **({} if may_be_blank else {"minLength": 1}),
        "pattern": f"^{usable}$" if may_be_blank else f"^{usable}{visible}{usable}$",
    }


def integer(value: Any, least: int, most: int) -> int:
    """Return a JSON integer; anything else is refused."""
    if type(value) is not int:
        raise ValueError("Must be an integer, as a JSON number without a point.")
    if not least <= value <= most:
        raise ValueError(f"Must be from {least} to {most}.")
    return value


def digits(value: str, least: int, most: int) -> int:
    """Read an integer from text, as in a query or a file's cell: ASCII digits and nothing else."""
    if not _DIGITS.fullmatch(value) or not least <= int(value) <= most:
        raise ValueError(f"Must be an integer from {least} to {most}.")
    return int(value)


def digits_or_none(value: str, *, most: int = MAX_INTEGER) -> int | None:
    """Like `digits`, for our own URLs and forms; None for anything but a number from 0 to `most`."""
    try:
        return digits(value, 0, most)
    except ValueError:
        return None


class TooMuch(ValueError):
    """A number that is not in the range of amounts."""


def amount(value: Any) -> Decimal:
    """Return an amount in DZD with exactly two decimal places.

    Takes a JSON number or a string of ASCII digits with at most one point. No binary float is involved:
    `wire.load_json` returns numbers as Decimal.
    """
    if type(value) is str and len(value) <= 20 and _AMOUNT.fullmatch(value):
        value = Decimal(value)
    elif type(value) is int:
        # Compared before it is converted, so that an integer of thousands of digits costs nothing.
        value = Decimal(value) if 0 <= value <= MAX_AMOUNT else Decimal("Infinity")
    elif type(value) is not Decimal:
        raise ValueError("Must be a number, or a string of digits with at most one point.")
    if not (value.is_finite() and 0 <= value <= MAX_AMOUNT):
        raise TooMuch(f"Must be from 0 to {MAX_AMOUNT}.")
    if value.as_tuple().exponent < -2:
        raise ValueError("Must have at most two decimal places.")
    return abs(value).quantize(CENTIME)


_YES_OR_NO = {
    **dict.fromkeys(("true", "1", "yes", "oui", "vrai", "نعم"), True),
    **dict.fromkeys(("false", "0", "no", "non", "faux", "لا"), False),
}


YES_OR_NO = "Must be true or false, yes or no, oui or non, 1 or 0."


def yes_or_no(text: str) -> bool:
    """Read yes or no from a file's cell in English, French or Arabic."""
    try:
        return _YES_OR_NO[text.lower()]
    except KeyError:
        raise ValueError(YES_OR_NO) from None


# The digits of Arabic and Persian keyboards, the decimal and thousands separators, and the comma.
_KEYBOARDS = str.maketrans("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹٫٬،", "01234567890123456789.\u202f,")
_MARKS = re.compile("[\u200e\u200f\u202a-\u202d\u2066-\u2069\ufeff]+")
_AS_TEXT = re.compile("^'\\s*(?=[0-9])", re.ASCII)
_SPACE = "[ \u00a0\u2009\u202f]"
_CURRENCY = re.compile(r"^(?:da|dzd)\.?(?=[\s0-9])|(?:da|dzd|dinars?|د\.?\s?ج|دينار)\.?$", re.IGNORECASE)
_GROUPED = re.compile(rf"[0-9]{{1,3}}({_SPACE}[0-9]{{3}})+([.,][0-9]*)?", re.ASCII)
# Thousands separated by a different sign than the fraction, or by the same sign twice; `2.500` alone is ambiguous.
_POINTED = re.compile(
    r"[1-9][0-9]{0,2}(?:([.,])[0-9]{3}(?:\1[0-9]{3})*(?!\1)[.,][0-9]{1,2}|([.,])[0-9]{3}(?:\2[0-9]{3})+)", re.ASCII
)
# With at most as many zeros as a spreadsheet shows of a fraction; `1.000` is ambiguous.
_WHOLE = re.compile(rf"([0-9]{{1,3}}(?:{_SPACE}[0-9]{{3}})+|[0-9]+)(?:[.,]0{{1,2}})?", re.ASCII)

# How shops write quantities.
_COUNTED = re.compile(
    r"[x×*]\s*([0-9]+)|([0-9]+)\s*(?:[x×]|pcs?\.?|pi[eè]ces?|unit[eé]s?|articles?|قطعة|قطع|حبة|حبات)", re.IGNORECASE
)


def _plain(text: str) -> str:
    """Convert a number as people type it, also in Arabic, to ASCII digits.

    Removes direction and byte order marks and the apostrophe that makes spreadsheets treat it as text."""
    return _AS_TEXT.sub("", _MARKS.sub("", text.translate(_KEYBOARDS)).strip())


_BREAK = re.compile(r"[\t-\r]\s*")


def on_one_line(text: str) -> str:
    """Put a blank in place of the line breaks and tabs that people enter in a spreadsheet's cell."""
    return _BREAK.sub(" ", text)


def plain_integer(text: str) -> str:
    """Convert a whole number as spreadsheets show it, such as `1 200` or `5,00`, to digits; other text is kept."""
    text = _plain(text)
    found = _WHOLE.fullmatch(text)
    return re.sub(_SPACE, "", found[1]) if found else text


def plain_quantity(text: str) -> str:
    """Convert a quantity such as `x2`, `2 x` or `2 pcs` to digits; other text is kept."""
    text = plain_integer(text)
    found = _COUNTED.fullmatch(text)
    return found[1] or found[2] if found else text


# How shops write that something costs nothing.
_FREE = re.compile("free|gratis|gratuite?|offerte?|مجاني|مجانية|مجانا|مجانًا|مجاناً", re.IGNORECASE)


def plain_amount(text: str) -> str:
    """Convert an amount as people write it, such as `2 500,50 DA`, `2.500,50` or `Gratuit`, to what `amount` accepts.

    Two numbers, such as `1500 2000`, stay two.
    """
    text = _CURRENCY.sub("", _plain(text)).strip()
    if _FREE.fullmatch(text):
        return "0"
    if _GROUPED.fullmatch(text):
        text = re.sub(_SPACE, "", text)
    elif pointed := _POINTED.fullmatch(text):
        text = text.replace(pointed[1] or pointed[2], "")
    return text.replace(",", ".")


# Schemas of amounts in answers and in requests. The two decimal places are only described in words: validators in most
# languages divide floats and find that 19.99 is not a multiple of 0.01.
AMOUNT_SCHEMA = {"type": "number", "minimum": 0, "maximum": float(MAX_AMOUNT)}
SENT_AMOUNT_SCHEMA = {
    "anyOf": [
        AMOUNT_SCHEMA | {"description": "With at most two decimal places."},
        {"type": "string", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,2})?$"},
    ]
}


def uuid(value: Any) -> UUID:
    """Return a UUID from text with dashes, in either case. Other forms that Python reads are refused."""
    if type(value) is not str or not _UUID.fullmatch(value):
        raise ValueError("Must be a UUID.")
    return UUID(value)


def uuid_or_none(value: Any) -> UUID | None:
    """Like `uuid`, for forms and files; None for anything but a UUID."""
    try:
        return uuid(value)
    except ValueError:
        return None


def uuids_in(texts: Iterable[Any]) -> list[UUID]:
    """Those of the texts that are UUIDs, in their order; for forms that send many."""
    return [id_ for text in texts if (id_ := uuid_or_none(text))]


# Many validators treat `format` as a hint only, but not the length.
UUID_SCHEMA = {"type": "string", "format": "uuid", "minLength": 36, "maxLength": 36}
