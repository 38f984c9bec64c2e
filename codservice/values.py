"""What values may be, wherever they come from: plain functions, and the JSON Schema of each.

Each takes what was sent and gives it in the form in which we keep it, or raises ValueError with a sentence. Fields of
DRF (`codservice.api.fields`) and of Django's forms (`codservice.form_fields`) are thin adapters over them.
"""

import re
import unicodedata
from decimal import Decimal
from itertools import groupby
from typing import Any
from uuid import UUID

import ada_url

MAX_AMOUNT = Decimal("99999999.99")  # DZD
CENTIME = Decimal("0.01")

# Control characters (newline and tab pass in free text) and halves of surrogate pairs.
_UNUSABLE = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_UNUSABLE_IN_FREE_TEXT = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
# Spaces, the empty Braille cell, and what Unicode calls Default_Ignorable_Code_Point (joiners, marks of direction,
# fillers of Hangul, selectors of variants): a name of these alone is no name.
_INVISIBLE = (
    r"\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
)
# Which regular expressions of JSON Schema read as two characters each, and is not described.
_INVISIBLE_BEYOND_16_BITS = r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
_has_unusable = re.compile(f"[{_UNUSABLE}]").search
_free_text_has_unusable = re.compile(f"[{_UNUSABLE_IN_FREE_TEXT}]").search
_has_visible = re.compile(f"[^{_INVISIBLE}{_INVISIBLE_BEYOND_16_BITS}]").search
_SHORTENED = 4  # times at most, by NFC: a Greek letter and its three marks
# On one letter, several times what anybody writes for fun; to bring them into their order costs their square.
_MOST_MARKS = 100
_may_be_marks = re.compile(rf"[^\w\s\x00-\x7f]{{{_MOST_MARKS + 1}}}").search
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,19}", re.ASCII)
MOST_DIGITS = 2**31 - 1  # of a number that nobody gave a bound
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def text(value: Any, *, max_length: int | None = None, free: bool = False, may_be_blank: bool = False) -> str:
    """Unicode text, normalised to NFC and trimmed; no control characters. Newline and tab pass in `free` text."""
    if type(value) is not str:
        raise ValueError("Must be a string.")
    if max_length is not None and len(value) > _SHORTENED * max_length and len(value.strip()) > _SHORTENED * max_length:
        raise ValueError(f"Must have at most {max_length} characters.")  # nor read to its end
    if free and "\r" in value:
        value = value.replace("\r\n", "\n")
    if (_free_text_has_unusable if free else _has_unusable)(value):
        raise ValueError("Must not contain control characters or broken Unicode.")
    if not value.isascii():
        if _has_too_many_marks(value):
            raise ValueError("Must not contain control characters or broken Unicode.")
        value = unicodedata.normalize("NFC", value)
    value = value.strip()
    if not may_be_blank and not _has_visible(value):
        raise ValueError("Must not be empty.")
    if max_length is not None and len(value) > max_length:
        raise ValueError(f"Must have at most {max_length} characters.")
    return value


def _has_too_many_marks(value: str) -> bool:
    if not _may_be_marks(value):
        return False
    runs = groupby(value, lambda sign: unicodedata.combining(sign) > 0)
    return any(is_mark and sum(1 for _ in run) > _MOST_MARKS for is_mark, run in runs)


def link(value: Any, *, max_length: int) -> str:
    """An https address as browsers read it, with what has to be encoded encoded; no user name, no password."""
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


# Of links, what is usual; more is understood. Some clients refuse what it does not describe. A host has 251 characters
# at most so, and a name in it 62, which a resolver takes.
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
    # JSON Schema's regular expressions know no `\x`, and its strings no halves of surrogate pairs.
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
    """A JSON integer and nothing else."""
    if type(value) is not int:
        raise ValueError("Must be an integer, as a JSON number without a point.")
    if not least <= value <= most:
        raise ValueError(f"Must be from {least} to {most}.")
    return value


def digits(value: str, least: int, most: int) -> int:
    """An integer where only text can stand: in a query, in a file's cell. ASCII digits and nothing else."""
    if not _DIGITS.fullmatch(value) or not least <= int(value) <= most:
        raise ValueError(f"Must be an integer from {least} to {most}.")
    return int(value)


def digits_or_none(value: str, *, most: int = MOST_DIGITS) -> int | None:
    """As `digits`, of what an address or a form of ours has; None for what is no number from 0 to `most`."""
    try:
        return digits(value, 0, most)
    except ValueError:
        return None


class TooMuch(ValueError):
    """A number, but none of what an amount may be."""


def amount(value: Any) -> Decimal:
    """An amount in DZD with exactly two places, from a JSON number or a string of ASCII digits and at most one point.

    No binary float is met on the way: `wire.load_json` gives numbers as Decimal.
    """
    if type(value) is str and len(value) <= 20 and _AMOUNT.fullmatch(value):
        value = Decimal(value)
    elif type(value) is int:
        # Compared before it is converted: an integer of thousands of digits is no work then.
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
    """What a cell of a file says in English, French or Arabic."""
    try:
        return _YES_OR_NO[text.lower()]
    except KeyError:
        raise ValueError(YES_OR_NO) from None


# The digits of Arabic and of Persian keyboards; the signs before a fraction and between thousands; the comma.
_KEYBOARDS = str.maketrans("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹٫٬،", "01234567890123456789.\u202f,")
_MARKS = re.compile("[\u200e\u200f]+")
_AS_TEXT = re.compile("^'\\s*(?=[0-9])", re.ASCII)
_SPACE = "[ \u00a0\u2009\u202f]"
_CURRENCY = re.compile(r"^(?:da|dzd)\.?(?=[\s0-9])|(?:da|dzd|dinars?|د\.?\s?ج|دينار)\.?$", re.IGNORECASE)
_GROUPED = re.compile(rf"[0-9]{{1,3}}({_SPACE}[0-9]{{3}})+([.,][0-9]*)?", re.ASCII)
# Thousands apart by another sign than the fraction's, or by the same twice: `2.500` alone may be either.
_POINTED = re.compile(
    r"[1-9][0-9]{0,2}(?:([.,])[0-9]{3}(?:\1[0-9]{3})*(?!\1)[.,][0-9]{1,2}|([.,])[0-9]{3}(?:\2[0-9]{3})+)", re.ASCII
)
# With no more zeros than a spreadsheet shows of a fraction: of `1.000` nobody knows which it is.
_WHOLE = re.compile(rf"([0-9]{{1,3}}(?:{_SPACE}[0-9]{{3}})+|[0-9]+)(?:[.,]0{{1,2}})?", re.ASCII)

# How shops write how many there are of a product.
_COUNTED = re.compile(
    r"[x×*]\s*([0-9]+)|([0-9]+)\s*(?:[x×]|pcs?\.?|pi[eè]ces?|unit[eé]s?|articles?|قطعة|قطع|حبة|حبات)", re.IGNORECASE
)


def _plain(text: str) -> str:
    """A number as people type it, in Arabic too, in ASCII's digits, without marks of direction and the apostrophe by
    which a spreadsheet is told that it is text."""
    return _AS_TEXT.sub("", _MARKS.sub("", text.translate(_KEYBOARDS)).strip())


def plain_integer(text: str) -> str:
    """A whole number as spreadsheets show it, such as `1 200` or `5,00`, in digits alone; any other text as it is."""
    text = _plain(text)
    found = _WHOLE.fullmatch(text)
    return re.sub(_SPACE, "", found[1]) if found else text


def plain_quantity(text: str) -> str:
    """How many pieces there are, such as `x2`, `2 x` or `2 pcs`, in digits alone; any other text as it is."""
    text = plain_integer(text)
    found = _COUNTED.fullmatch(text)
    return found[1] or found[2] if found else text


def plain_amount(text: str) -> str:
    """An amount as people write it, such as `2 500,50 DA` or `2.500,50`, as `amount` takes it.

    Two numbers, such as `1500 2000`, stay two.
    """
    text = _CURRENCY.sub("", _plain(text)).strip()
    if _GROUPED.fullmatch(text):
        text = re.sub(_SPACE, "", text)
    elif pointed := _POINTED.fullmatch(text):
        text = text.replace(pointed[1] or pointed[2], "")
    return text.replace(",", ".")


# How an amount goes out, and what it may be when it comes in. Two decimal places of a number are said in words: whoever
# divides floats finds that 19.99 is no multiple of 0.01, as the validators of most languages do.
AMOUNT_SCHEMA = {"type": "number", "minimum": 0, "maximum": float(MAX_AMOUNT)}
SENT_AMOUNT_SCHEMA = {
    "anyOf": [
        AMOUNT_SCHEMA | {"description": "With at most two decimal places."},
        {"type": "string", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,2})?$"},
    ]
}


def uuid(value: Any) -> UUID:
    """A UUID as text with dashes, in either case, and no other of the forms that Python reads."""
    if type(value) is not str or not _UUID.fullmatch(value):
        raise ValueError("Must be a UUID.")
    return UUID(value)


def uuid_or_none(value: Any) -> UUID | None:
    """As `uuid`, of what a form or a file names; None for what is no UUID."""
    try:
        return uuid(value)
    except ValueError:
        return None


# `format` alone is a hint to many readers; the length is not.
UUID_SCHEMA = {"type": "string", "format": "uuid", "minLength": 36, "maxLength": 36}
