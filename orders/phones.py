"""Algerian phone numbers: any usual form in, E.164 out. The parsing is libphonenumber's."""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator

import phonenumbers
from phonenumbers import ValidationResult

MAX_LENGTH = 40  # characters; no way of writing a number needs more
# The forms that every client should send; many more are understood. Some clients refuse what it does not describe.
PATTERN = r"^(0|(\+|00)213 ?)([5-7][0-9]{2}|[1-4][0-9])( ?[0-9]{2}){3}$"
_PLAIN = re.compile(r"(?:0|\+213|00213)([567][0-9]{8})")

# The outline of Algeria's numbering plan as libphonenumber knows it: what a number could be, landlines included,
# whether or not that block has been handed out yet.
_plan = phonenumbers.PhoneMetadata.metadata_for_region("DZ")
_POSSIBLE = re.compile(_plan.general_desc.national_number_pattern)  # type: ignore[union-attr, type-var]

# Digits of any script with what people write between them. libphonenumber alone would read letters as keys
# (`0550 DOG 456`), drop `x12` and look for a number inside a sentence: each a guess.
_USUAL = re.compile(r"[+＋\d ()（）.．\-‐-―−－/／]+")
_BETWEEN = re.compile(r"[\W_]+")  # what stands between the digits of numbers, in a text that may be anything
_OTHER_DIGIT, _NO_DIGITS = re.compile(r"[^\D0-9]"), re.compile(r"\D+")
_SPACES = re.compile(r"[\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")  # marks of direction among them

# A text in which numbers are looked for is read with one sign for all that stands between two digits: a plus where the
# last of it is one, else a space.
_GAP = "[ +]?"
_TRUNK, _COUNTRY = f"0{_GAP}", f"(?:0{{1,2}}{_GAP})?213{_GAP}(?:0{_GAP})?"
_NUMBERS = [
    re.compile(rf"{prefix}(?:[1-4](?:{_GAP}\d){{7}}|[5-9](?:{_GAP}\d){{8}})(?!\d){_GAP}").match
    for prefix in (r"(?!(?<=\+)213)", _TRUNK, _COUNTRY)
]
_PIECE = re.compile(rf"(\d{{1,17}})(?!\d){_GAP}").match
# What may stand before a number and be no part of it: of three digits are the first pieces of many numbers.
_HOUSE = re.compile(rf"(?<!\+)(?!213)[1-9](?:\d?|\d{{3,4}})(?!\d){_GAP}").match
_FIGURES = re.compile(rf"(?<!\+)(?!00)\d{{1,7}}(?!\d){_GAP}").match
# Ends where no part of a number stands before.
_FRESH = re.compile(rf"(?:\A{_GAP}|[^\W\d_]{_GAP}|\d{{8}}[ +]|\+)(?=\d)")


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


def e164_or_none(text: str) -> str | None:
    """The same; None for what is no phone."""
    try:
        return to_e164(text)
    except NotAPhone:
        return None


def digits(text: str) -> str | None:
    """Those of a number or of a part of one, in any usual form: `٠٦٦١-١١` → `066111`. None for what is no such part."""
    text = _SPACES.sub(" ", text)
    found = "".join(str(int(sign)) for sign in text if sign.isdecimal())
    return found if found and _USUAL.fullmatch(text) else None


def finder(phone: str) -> Callable[[str], bool]:
    """Whether a text names this number (E.164), in any usual form and with other numbers or words beside it.

    `0521556677` does not name `021556677`: its digits begin and end where those of a number do. Where they begin
    without `0` or `213`, as a spreadsheet leaves them, no part of a number may stand before them: the text begins
    there, or a word stands there, eight digits or more in one piece, whole numbers, of whatever country and however
    written, or figures that begin none; or those of a house or a postal code, with which the text begins or what stands
    behind a word. A mobile number's nine in one piece are no part of another, whatever stands there.
    """
    digits = phone.removeprefix("+213")
    number = _GAP.join(digits) + r"(?!\d)"
    in_one_piece = rf"|{digits}(?!\d)" if len(digits) == 9 else ""
    search = re.compile(rf"(?<!\d)(?:(?:{_COUNTRY}|{_TRUNK}){number}{in_one_piece})").search
    match = re.compile(number).match

    def is_in(text: str) -> bool:
        text = _OTHER_DIGIT.sub(lambda sign: str(int(sign[0])), text)
        if digits not in _NO_DIGITS.sub("", text):  # most texts name nobody, and this takes a tenth of the time
            return False
        text = _BETWEEN.sub(lambda signs: "+" if signs[0][-1] in "+＋" else " ", text)
        return search(text) is not None or any(match(text, start) for start in _starts(text))

    return is_in


def _starts(text: str) -> Iterator[int]:
    """Where a number may begin without a prefix. Each place once: some digits can be read as two numbers."""
    fresh = {begins.end() for begins in _FRESH.finditer(text)}
    known = fresh | {house.end() for start in fresh if (house := _HOUSE(text, start))}
    waiting = list(known)
    while waiting:
        start = waiting.pop()
        yield start
        ends = {number.end() for read in _NUMBERS if (number := read(text, start))}
        ends = {*ends, *_ends_abroad(text, start)}
        if not ends and (figures := _FIGURES(text, start)):
            ends = {figures.end()}
        ends -= known
        known |= ends
        waiting += ends


def _ends_abroad(text: str, start: int) -> Iterator[int]:
    """Where a number of another country may end that begins here behind a `+`, or with `00`."""
    if text[start - 1 : start] != "+" and not text.startswith("00", start):
        return
    digits = ""
    while len(digits) < 17 and (piece := _PIECE(text, start)):
        digits, start = digits + piece[1], piece.end()
        if len(digits) > 6 and _is_abroad(digits.removeprefix("00")):
            yield start
        if text[start - 1] == "+":  # another number's
            return


def _is_abroad(digits: str) -> bool:
    """Whether they are a whole number of another country, by its length."""
    try:
        number = phonenumbers.parse(f"+{digits}")
    except phonenumbers.NumberParseException:
        return False
    how_long = phonenumbers.is_possible_number_with_reason(number)
    return number.country_code != 213 and how_long == ValidationResult.IS_POSSIBLE


def argument(text: str) -> str:
    """Of a command: a number in any usual form, as E.164."""
    try:
        return to_e164(text.strip())
    except NotAPhone as error:
        raise ArgumentTypeError(str(error)) from None
