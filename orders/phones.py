"""Algerian phone numbers: any usual form in, E.164 out. libphonenumber does the parsing."""

import re
from argparse import ArgumentTypeError

import phonenumbers

MAX_LENGTH = 40  # characters; no usual form needs more
# The forms that clients should send. Many more are understood, but some clients refuse what the pattern does not match.
PATTERN = r"^(0|(\+|00)213 ?)([5-7][0-9]{2}|[1-4][0-9])( ?[0-9]{2}){3}$"
_PLAIN = re.compile(r"(?:0|\+213|00213)([567][0-9]{8})")

# The outline of Algeria's numbering plan in libphonenumber: what could be a number, landlines included, whether or not
# its block has been assigned yet.
_plan = phonenumbers.PhoneMetadata.metadata_for_region("DZ")
_POSSIBLE = re.compile(_plan.general_desc.national_number_pattern)  # type: ignore[union-attr, type-var]

# Digits of any script, with what people write between them. libphonenumber alone would guess: it reads letters as keys
# (`0550 DOG 456`), drops `x12`, and looks for a number inside a sentence.
_USUAL = re.compile(r"[+＋\d ()（）.．\-‐-―−－/／]+")
_DIGIT = re.compile(r"\d")  # of any script, too
_SPACES = re.compile(r"[\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")  # direction marks too


class NotAPhone(ValueError):
    """The text cannot be an Algerian phone number."""

    def __init__(self) -> None:
        super().__init__("Must be an Algerian phone number, such as 0550 12 34 56 or +213550123456.")


def to_e164(text: str) -> str:
    """`0550 12 34 56`, `+213…`, `00213…`, Arabic-Indic digits → `+213550123456`. Raises NotAPhone."""
    if len(text) > MAX_LENGTH:
        raise NotAPhone
    # A mobile number in the form that nearly everybody uses needs no parser, which would take ten times as long.
    if mobile := _PLAIN.fullmatch(text.replace(" ", "")):
        return f"+213{mobile[1]}"
    if not text.isascii():
        text = _SPACES.sub(" ", text)
    if not _USUAL.fullmatch(text):
        raise NotAPhone
    try:
        number = phonenumbers.parse(text, "DZ", _check_region=False)
    except phonenumbers.NumberParseException:
        raise NotAPhone from None
    national = str(number.national_number)
    if number.country_code != 213 or number.italian_leading_zero or not _POSSIBLE.fullmatch(national):
        raise NotAPhone
    return f"+213{national}"


def e164_or_none(text: str) -> str | None:
    """Like `to_e164`, but None if the text is no phone number."""
    try:
        return to_e164(text)
    except NotAPhone:
        return None


def national(e164: str) -> str:
    """`+213550123456` as it is dialled in Algeria, without spaces: `0550123456`."""
    return re.sub(r"^\+213", "0", e164)


def digits(text: str) -> str | None:
    """The digits of a number or a part of one, in any usual form: `٠٦٦١-١١` → `066111`. None if it is neither."""
    text = _SPACES.sub(" ", text)
    found = _digits_in(text)
    return found if found and _USUAL.fullmatch(text) else None


def stands_in(phone: str, text: str) -> bool:
    """Whether a text names this number (E.164), in any form: whether its digits stand there, whatever is between them.

    No form is missed. Now and then the digits are parts of other numbers, as `021 55 66 77` in `0521 55 66 77`.
    """
    return phone.removeprefix("+213") in _digits_in(text)


def _digits_in(text: str) -> str:
    return "".join(str(int(sign)) for sign in _DIGIT.findall(text))


def argument(text: str) -> str:
    """The `type` of a command's argument: a number in any usual form, as E.164."""
    try:
        return to_e164(text.strip())
    except NotAPhone as error:
        raise ArgumentTypeError(str(error)) from None
