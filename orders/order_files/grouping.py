"""Which rows of a file are one order, and why they may not be one."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any

from codservice import values
from codservice.errors import Errors
from codservice.files.intake import MAX_TEXT, Entry, altered, failure, text_in
from codservice.files.reports import is_of_report
from codservice.files.tables import Row, UnreadableTable
from orders import phones, serializers
from orders.order_files import totals
from orders.order_files.cells import with_constants
from orders.order_files.columns import (
    AMOUNTS,
    COLUMNS,
    DETAILS,
    OF_ORDER,
    PHONES,
    WHOSE,
    WORDS,
    number_of,
    says_customer,
    says_product,
    without_nothing,
)
from orders.serializers import SENT_OF_LINE

MAX_ROWS = 1000  # rows that are held as one order, many more than the lines it may have
_NAMES = [column.name for column in COLUMNS]
_EACH = (
    "Enter the order number in each of the order's rows: in a file of refused rows, nothing else shows that "
    "they belong together."
)
_BEHIND = "May be a line of the order above. If so, enter that order's number here. If not, enter a number of its own."
_NOBODYS = "May be a line of the order above. If so, enter that order's number here. If not, enter the customer."
_TOTAL = "Is a total of the rows above, not an order."
_OWN_TOTAL = "May be a total of the rows above. Leave it out or, if it is a product, give it a longer name."
_TOTAL_OR_LINE = (
    "One of the order's rows may be a total or a product. If it is a total, leave it out. If it is a product, "
    "enter the order number in each of the rows."
)


def orders_of(rows: Iterator[Row], constants: Mapping[str, str]) -> Iterator[Entry]:
    """Group rows into orders. A row is one line; successive rows with the same order number are one order.

    A row below them that has a line, but neither number nor customer, belongs to them too: of merged cells, only the
    first has the text. An empty row ends an order, and so does a total at the foot of a list, which is refused. What an
    order's first row says of the customer holds for its other rows, and none may contradict it.

    Where it is not certain that a row belongs to the order above, both are refused together:

    - a row without a number in a report, whose rows have their orders' numbers because others between may be missing;
    - a row whose number cannot be used, and may be what the order's number was before that was corrected;
    - a line with another number and no customer;
    - a total that may be a product: it has a quantity and a price that are not the sums of the order's or the file's
      lines above, or lines follow it.
    """
    held = _Held(constants)
    for row, below in itertools.pairwise(itertools.chain(rows, [Row(0, {}, [])])):
        if ended := held.take(row, below):
            yield ended
    if held.rows:
        yield held.rows


class _Total(Enum):
    """Whose sums a row of totals has."""

    OF_ORDER = auto()
    OF_FILE = auto()
    UNKNOWN = auto()


class _Held:
    """The rows of the present order so far, and the sums of the lines above."""

    def __init__(self, constants: Mapping[str, str]) -> None:
        self.constants = constants
        self.rows: list[Row] = []
        self.number = ""  # of the first row, if it has one
        self.first: Mapping[str, str] = {}  # cells of the first row
        self.is_open = False  # whether a row below may belong to the order without its number
        self.text = 0  # characters
        self.of_order, self.of_file = totals.Sums(), totals.Sums()

    def take(self, row: Row, below: Row) -> Entry:
        """Add a row to the order, or begin the next one with it. Returns the order that has ended, or nothing."""
        figures = totals.quantity_and_price(row.cells)
        total = self._total_in(row, figures)
        goes_on = self._goes_on(row, below, total)
        ended: Entry = []
        if not goes_on or len(self.rows) == MAX_ROWS:
            ended, self.rows, self.text = self.rows, [], 0
        if not goes_on:
            self.number, self.first = number_of(row.cells), row.cells
            self.is_open = any(map(row.cells.get, WHOSE)) and total is None
            self.of_order = totals.Sums(with_constants(self.constants, row.cells))
        if total not in (_Total.OF_ORDER, _Total.OF_FILE):
            self.of_file.add(figures)
            self.of_order.add(figures)
        self.rows.append(row)
        self.text += text_in(row)
        if self.text > MAX_TEXT:
            raise UnreadableTable(f"The file has too much text in row {row.line}.")
        return ended

    def _total_in(self, row: Row, figures: totals.QuantityAndPrice | None) -> _Total | None:
        """Which total the row is, if it is one. At a file's first order, that is the order's rather than the file's."""
        total = _Total.UNKNOWN
        if not is_of_report(row.cells):  # rows are missing there, so that no sums are right
            said = figures or totals.quantity_and_price(with_constants({"quantity": "1"}, row.cells))
            if self.of_order.are(said):
                total = _Total.OF_ORDER
            elif self.of_file.are(said):
                total = _Total.OF_FILE
        return total if totals.is_total(row, is_foot=total is _Total.OF_FILE) else None

    def _goes_on(self, row: Row, below: Row, total: _Total | None) -> bool:
        """Whether the row belongs to the order, too."""
        number = number_of(row.cells)
        if number and number == self.number:
            return True
        if not self.is_open or row.is_apart:
            return False
        if total is None:
            return _is_left_behind(row.cells, self.first) if number else _continues(row.cells)
        if total is _Total.UNKNOWN and totals.is_priced(row.cells):
            return True
        # A total of the order, if the row below it belongs to the order. Rows below the file's foot belong to none.
        if number_below := number_of(below.cells):
            return number_below == self.number
        if total is _Total.OF_FILE or below.is_apart:
            return False
        return _continues(below.cells) and totals.is_line(below, self.constants)


def doubts(entry: Entry, constants: Mapping[str, str]) -> Errors:
    """Why these rows may not be one order."""
    first, below = entry[0].cells, entry[1:]
    if totals.is_total(entry[0]):
        return {"": [_TOTAL]}
    if any(map(totals.is_total, below)):
        return {"external_id": [_TOTAL_OR_LINE]}
    if (index := totals.total_among(entry, constants)) is not None:
        return {f"items.{index}.product_name": [_OWN_TOTAL]}
    if failed := {
        f"items.{index}.{name}": [said]
        for index, row in enumerate(entry)
        for cells in [row.cells | {"external_id": number_of(row.cells)}]
        for name in _NAMES
        if (said := failure(cells.get(name, ""), is_words=name in WORDS))
    }:
        return failed
    if said := altered(number_of(first)):
        return {"external_id": [said]}
    if any(is_of_report(row.cells) and not row.cells.get("external_id") for row in below):
        return {"external_id": [_EACH]}
    if left_behind := {
        f"items.{index}.external_id": _behind(row.cells)
        for index, row in enumerate(below, start=1)
        if number_of(row.cells) not in ("", number_of(first))
    }:
        return left_behind
    return {
        f"items.{index}.{name}": [f"Line {entry[0].line} of the same order has a different value."]
        for index, row in enumerate(below, start=1)
        for cells in [without_nothing(row.cells)]
        for name in OF_ORDER
        if cells.get(name) and not _is_same(name, cells, first)
    }


def _behind(cells: Mapping[str, str]) -> list[str]:
    """What is wrong with a row that has another number than the order's first."""
    if _can_be_used(cells):
        return [_NOBODYS]
    if said := altered(number := number_of(cells)):
        return [said, _BEHIND]
    return [*serializers.read_order({"external_id": number})[1]["external_id"], _BEHIND]


def to_report(entry: Entry, errors: Errors) -> tuple[Entry, Errors]:
    """A refused order for the report: each of its rows gets the order number, or an error for lacking it."""
    number, below = number_of(entry[0].cells), range(1, len(entry))
    if below and not number:
        errors = {"external_id": [_EACH]} | errors
    if said := errors.get("external_id"):
        return entry, errors | {f"items.{index}.external_id": said for index in below}
    for index in below:
        if not number_of(entry[index].cells):
            entry[index].cells["external_id"] = number
    return entry, errors


def _continues(cells: Mapping[str, str]) -> bool:
    """Whether a row has a line, but neither number nor customer, and so continues the order above."""
    return not any(map(cells.get, WHOSE)) and any(map(cells.get, (*SENT_OF_LINE, "sku", *DETAILS)))


def _is_left_behind(cells: Mapping[str, str], first: Mapping[str, str]) -> bool:
    """Whether a row with another number may belong to the order above all the same.

    It cannot be an order of its own: either its number cannot be used, perhaps because the order's was corrected only
    in the first row, and it names no other customer; or it names a product and no customer.
    """
    if not _can_be_used(cells):
        return all(_is_same(name, cells, first) for name in WHOSE[1:] if cells.get(name))
    return says_customer(first) and not says_customer(cells) and says_product(cells)


def _can_be_used(cells: Mapping[str, str]) -> bool:
    """Whether the row's number can be an order's."""
    number = number_of(cells)
    known = serializers.external_id({"external_id": number})
    return not (failure(number) or altered(number) or known is None)


def _is_same(name: str, cells: Mapping[str, str], others: Mapping[str, str]) -> bool:
    said, before = cells[name], others.get(name, "")
    return said == before or _plain(name, said) == _plain(name, before)


def _plain(name: str, text: str) -> Any:
    """The cell's value in a form that does not depend on how it is written."""
    with contextlib.suppress(ValueError):
        if name in AMOUNTS:
            return values.amount(values.plain_amount(text))
        if name in PHONES:
            return phones.to_e164(text)
    return " ".join(values.visible_part(text).casefold().split())
