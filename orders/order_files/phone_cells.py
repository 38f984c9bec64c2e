"""Phones in the cells of a file of orders."""

import re

from orders import phones

# What precedes a number in lists of Facebook leads, and where somebody protected its zero from a spreadsheet.
_BEFORE = re.compile(r"(?:p:|')\s*(?=[+\d])", re.IGNORECASE)
_BETWEEN = re.compile(r"[/,،;|\n]|\s(?:[-–—]|ou|et|or|and|و|أو)\s", re.IGNORECASE)
_WITHIN = (re.compile(r"[-–—]+"), re.compile(r"\s+"))  # separate two mobile numbers; elsewhere they are within one
_AS_AMOUNT = re.compile(r"([0-9]{8,12})[.,]00?", re.ASCII)  # as programs write a column of numbers
# As Java programs write a large number, and as Excel shows it in a format with that many places: no digit is lost.
_SCIENTIFIC = re.compile(r"([1-9])[.,]([0-9]{8,11})E\+?([0-9]{1,2})", re.ASCII | re.IGNORECASE)
_MOBILE = ("+2135", "+2136", "+2137")


def bare(cell: str) -> str:
    """The cell without what does not belong to its number."""
    if marked := _BEFORE.match(cell):
        cell = cell[marked.end() :]
    if number := _AS_AMOUNT.fullmatch(cell):
        return number[1]
    whole = _SCIENTIFIC.fullmatch(cell)
    return whole[1] + whole[2] if whole and len(whole[2]) == int(whole[3]) else cell


def two_in(cell: str) -> list[str]:
    """The two numbers of a cell that has exactly two; else empty."""
    for between, is_number in ((_BETWEEN, phones.e164_or_none), *((each, _is_mobile) for each in _WITHIN)):
        two = [phone.strip() for phone in between.split(cell, maxsplit=2)]
        if len(two) == 2 and all(map(is_number, two)):
            return two
    return []


def has_mobile(cell: str) -> bool:
    """Whether the cell has a mobile number."""
    cell = bare(cell)
    return any(map(_is_mobile, two_in(cell) or [cell]))


def _is_mobile(text: str) -> bool:
    """Whether it is a mobile number. A landline's eight digits may as well be a date, or another number."""
    return (phones.e164_or_none(text) or "").startswith(_MOBILE)
