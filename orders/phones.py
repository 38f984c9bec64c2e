"""Algerian phone numbers: any usual form in, E.164 out. The parsing is libphonenumber's."""

import re
from argparse import ArgumentTypeError

import phonenumbers

MAX_LENGTH = 40  # characters; no way of writing a number needs more
# The forms that every client should send; many more are understood.
PATTERN = r"^(0|\+213|00213)[567][0-9]{8}$"
_PLAIN = re.compile(r"(?:0|\+213|00213)([567][0-9]{8})")

# The outline of Algeria's numbering plan as libphonenumber knows it: what a number could be, landlines included,
# whether or not that block has been handed out yet.
_plan = phonenumbers.PhoneMetadata.metadata_for_region("DZ")
_POSSIBLE = re.compile(_plan.general_desc.national_number_pattern)  # type: ignore[union-attr, type-var]

# Digits of any script with what people write between them. libphonenumber alone would read letters as keys
# (`0550 DOG 456`), drop `x12` and look for a number inside a sentence: each a guess.
_USUAL = re.compile(r"[+＋\d ()（）.．\-‐-―−－/／]+")
_SPACES = re.compile(r"[\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")  # marks of direction among them


class NotAPhone(ValueError):
    """The text is no possible Algerian phone number."""

    def __init__(self) -> None:
        super().__init__("Must be an Algerian phone number, such as 0550 12 34 56 or +213550123456.")


def to_e164(text: str) -> str:
    """`0550 12 34 56`, `+213…`, `00213…`, Arabic-Indic digits → `+213550123456`. Raises NotAPhone."""
    if len(text) > MAX_LENGTH:
        raise NotAPhone
    # A mobile number as nearly everybody writes it needs no parser, which takes ten times as long.
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


def argument(text: str) -> str:
    """Of a command: a number in any usual form, as E.164."""
    try:
        return to_e164(text.strip())
    except NotAPhone as error:
        raise ArgumentTypeError(str(error)) from None
