"""Algerian phone numbers: any usual form in, E.164 out. libphonenumber does the parsing."""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator

import phonenumbers
from phonenumbers import ValidationResult

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
_BETWEEN = re.compile(r"[\W_]+")  # what may separate digits in any text
_OTHER_DIGIT, _NO_DIGITS = re.compile(r"[^\D0-9]"), re.compile(r"\D+")
_SPACES = re.compile(r"[\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")  # direction marks too

# Before `finder` searches a text, it replaces whatever separates two digits by one sign: a plus if it ends with one,
# else a space.
_GAP = "[ +]?"
_TRUNK, _COUNTRY = f"0{_GAP}", f"(?:0{{1,2}}{_GAP})?213{_GAP}(?:0{_GAP})?"
_NUMBERS = [
    re.compile(rf"{prefix}(?:[1-4](?:{_GAP}\d){{7}}|[5-9](?:{_GAP}\d){{8}})(?!\d){_GAP}").match
    for prefix in (r"(?!(?<=\+)213)", _TRUNK, _COUNTRY)
]
_PIECE = re.compile(rf"(\d{{1,17}})(?!\d){_GAP}").match
# A house's number or a postal code, which may precede a number. Not of three digits: many numbers begin with so many.
_HOUSE = re.compile(rf"(?<!\+)(?!213)[1-9](?:\d?|\d{{3,4}})(?!\d){_GAP}").match
_FIGURES = re.compile(rf"(?<!\+)(?!00)\d{{1,7}}(?!\d){_GAP}").match
# A match ends where no part of a number precedes.
_FRESH = re.compile(rf"(?:\A{_GAP}|[^\W\d_]{_GAP}|\d{{8}}[ +]|\+)(?=\d)")


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


def digits(text: str) -> str | None:
    """The digits of a number or a part of one, in any usual form: `٠٦٦١-١١` → `066111`. None if it is neither."""
    text = _SPACES.sub(" ", text)
    found = "".join(str(int(sign)) for sign in text if sign.isdecimal())
    return found if found and _USUAL.fullmatch(text) else None


def finder(phone: str) -> Callable[[str], bool]:
    """A function that tells whether a text names this number (E.164), in any usual form, beside other numbers or words.

    The digits must begin and end where those of a number do: `0521556677` does not name `021556677`. Without `0` or
    `213`, as spreadsheets leave them, they must not follow a part of another number. They may follow the start of the
    text, a word, eight or more digits in one piece, whole numbers of any country in any form, figures that begin no
    number, or the number of a house or a postal code that itself follows the start of the text or a word. The nine
    digits of a mobile number in one piece may follow anything: they are never part of another number.
    """
    digits = phone.removeprefix("+213")
    number = _GAP.join(digits) + r"(?!\d)"
    in_one_piece = rf"|{digits}(?!\d)" if len(digits) == 9 else ""
    search = re.compile(rf"(?<!\d)(?:(?:{_COUNTRY}|{_TRUNK}){number}{in_one_piece})").search
    match = re.compile(number).match

    def is_in(text: str) -> bool:
        text = _OTHER_DIGIT.sub(lambda sign: str(int(sign[0])), text)
        if digits not in _NO_DIGITS.sub("", text):  # true of most texts, and takes a tenth of the time
            return False
        text = _BETWEEN.sub(lambda signs: "+" if signs[0][-1] in "+＋" else " ", text)
        return search(text) is not None or any(match(text, start) for start in _starts(text))

    return is_in


def _starts(text: str) -> Iterator[int]:
    """The places where a number may begin without a prefix, each once: some digits can be read as two numbers."""
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
    """Where a foreign number may end that begins at `start`, after a `+` or with `00`."""
    if text[start - 1 : start] != "+" and not text.startswith("00", start):
        return
    digits = ""
    while len(digits) < 17 and (piece := _PIECE(text, start)):
        digits, start = digits + piece[1], piece.end()
        if len(digits) > 6 and _is_abroad(digits.removeprefix("00")):
            yield start
        if text[start - 1] == "+":  # the next number begins here
            return


def _is_abroad(digits: str) -> bool:
    """Whether the digits have the length of a whole number of another country."""
    try:
        number = phonenumbers.parse(f"+{digits}")
    except phonenumbers.NumberParseException:
        return False
    how_long = phonenumbers.is_possible_number_with_reason(number)
    return number.country_code != 213 and how_long == ValidationResult.IS_POSSIBLE


def argument(text: str) -> str:
    """The `type` of a command's argument: a number in any usual form, as E.164."""
    try:
        return to_e164(text.strip())
    except NotAPhone as error:
        raise ArgumentTypeError(str(error)) from None
