"""Which rows of a file are one order, and why they may be none."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from codservice import values
from codservice.errors import Errors
from codservice.files.headings import key
from codservice.files.intake import FAILED, MAX_TEXT, NO_NUMBER, SHORTENED, Entry, has_failed, text_in
from codservice.files.tables import Row, UnreadableTable, is_of_report, words_in
from orders import phones, serializers
from orders.order_files.cells import with_constants
from orders.order_files.columns import AMOUNTS, COLUMNS, DETAILS, OF_ORDER, PHONES, PRODUCT, WHOSE
from orders.serializers import SENT_OF_LINE

MAX_ROWS = 1000  # that are held as one order; of the lines that it may have there are too many already
_NAMES = [column.name for column in COLUMNS]
_EACH = "Write the order's number in each of its rows: in a file of refused rows nothing else holds them together."
_BEHIND = "May be a line of the order above: write that order's number here then, and otherwise one of its own."
_NOBODYS = "May be a line of the order above: write that order's number here then, and otherwise who the customer is."
_TOTAL = "Is a total of rows above, and no order."
_OWN_TOTAL = "May be a total of the rows above: leave it out, or, where it is a product, write more than that word."
_TOTAL_OR_LINE = (
    "One of the order's rows may be a total or a product: leave it out, or, where it is a product, write the order's "
    "number in each of the rows."
)
# What people write at the foot of a list, beside its sums: what heads a column of what is to pay, and more; but for
# `COD`, which a line may say of its payment.
_TO_PAY = next(column for column in COLUMNS if column.name == "total_amount")
_TOTALS = {
    key(words)
    for words in (
        *_TO_PAY.headings, *_TO_PAY.vague, "totals", "grand total", "subtotal", "sub total", "sum", "order total",
        "total amount", "amount due", "totaux", "total général", "sous total", "total HT", "total DA", "total DZD",
        "montant total TTC", "somme", "المجموع الكلي", "المجموع العام", "الإجمالي الكلي",
    )
    if words != "cod"
}  # fmt: skip
_LONGEST = 60  # characters that a word of these and an amount may have here: a cell may have a megabyte
_TAXES = {key(words) for words in ("TVA", "TVA 19 %", "TVA 9 %")}  # and between these


def orders_of(rows: Iterator[Row], constants: Mapping[str, str]) -> Iterator[Entry]:
    """A row is one line of an order; rows that follow each other with the same order number are one order.

    A row below them that says a line and not whose is theirs too: of merged cells only the first has the text. In a
    report that is not certain, for rows that were between others are missing: there each has its order's number, and
    one without is refused together with the order above. So is, in any file, one whose number cannot be used and may be
    the order's before it was mended, and one that says a line with another number and no customer. An empty row ends
    them, and so does a total at the foot of a list, which is refused. One that may be a product is refused together
    with the order above: it says a quantity and a price, which are not the sums of the order's or the file's lines
    above, or lines stand below it. What an order's first row says of the customer holds for its other rows, and none
    may say otherwise.
    """
    entry: list[Row] = []
    number = ""  # that the order began with, if with any
    first: Mapping[str, str] = {}  # cells of its first row
    is_open = False  # whether a row below may be of it without its number
    of_file, of_order, text = _Sums(), _Sums(), 0
    for row, below in itertools.pairwise(itertools.chain(rows, [Row(0, {}, [])])):
        cells, named, figures = row.cells, _number(row), _figures(row.cells)
        # In a report, which lacks rows, a row's figures are the sums of none.
        said = None if is_of_report(cells) else figures or _figures(with_constants({"quantity": "1"}, cells))
        is_of_order = of_order.are(said)
        is_of_file = not is_of_order and of_file.are(said)  # and what stands below it is of no order
        is_total = _is_total(row, is_foot=is_of_file)
        are_sums = is_total and (is_of_order or is_of_file)
        if named and named == number:
            goes_on = True
        elif not is_open or row.is_apart:
            goes_on = False
        elif is_total:
            is_line = _is_priced(cells) and not are_sums
            is_above = not is_of_file and not below.is_apart and _goes_on(below.cells)
            has_line = is_above and _is_line(below, constants)
            goes_on = is_line or has_line or _number(below) == number != ""
        else:
            goes_on = _is_left_behind(cells, first) if named else _goes_on(cells)
        if not goes_on:
            of_order = _Sums(_amount(with_constants(constants, cells), "shipping_fee"))
        if not are_sums:
            of_file.add(figures)
            of_order.add(figures)
        if entry and (not goes_on or len(entry) == MAX_ROWS):
            yield entry
            entry, text = [], 0
        if not goes_on:
            number, first, is_open = named, cells, any(map(cells.get, WHOSE)) and not is_total
        entry.append(row)
        text += text_in(row)
        if text > MAX_TEXT:
            raise UnreadableTable(f"The file has too much text in row {row.line}.")
    if entry:
        yield entry


def _is_line(row: Row, constants: Mapping[str, str]) -> bool:
    """Whether a row below a total is a line, or costs besides as a delivery does, and no other row of a foot."""
    cells = row.cells
    is_of_foot = _is_total(row) or key(cells.get("product_name", "")) in _TAXES
    is_said = _says_product(cells) and any(map(cells.get, ("quantity", "unit_price")))
    return (is_said or _is_priced(with_constants(constants, cells))) and not is_of_foot


def doubts(entry: Entry, constants: Mapping[str, str]) -> Errors:
    """Why these rows may not be one order."""
    first, below = entry[0].cells, entry[1:]
    if _is_total(entry[0]):
        return {"": [_TOTAL]}
    if any(map(_is_total, below)):
        return {"external_id": [_TOTAL_OR_LINE]}
    if (index := _own_total(entry, constants)) is not None:
        return {f"items.{index}.product_name": [_OWN_TOTAL]}
    if failed := [
        f"items.{index}.{name}"
        for index, row in enumerate(entry)
        for name in _NAMES
        if has_failed(row.cells.get(name, ""))
    ]:
        return {path: [FAILED] for path in failed}
    if SHORTENED.fullmatch(first.get("external_id", "")):
        return {"external_id": [NO_NUMBER]}
    if any(is_of_report(row.cells) and not row.cells.get("external_id") for row in below):
        return {"external_id": [_EACH]}
    if left_behind := {
        f"items.{index}.external_id": _behind(row.cells)
        for index, row in enumerate(below, start=1)
        if _number(row) not in ("", _number(entry[0]))
    }:
        return left_behind
    return {
        f"items.{index}.{name}": [f"Line {entry[0].line} of the same order says otherwise."]
        for index, row in enumerate(below, start=1)
        for name in OF_ORDER
        if row.cells.get(name) and not _is_same(name, row.cells, first)
    }


def _own_total(entry: Entry, constants: Mapping[str, str]) -> int | None:
    """Which row is a total all the same, with the order's number or a product: its product is called so, and it costs
    no less than the dearest line above it, be it with a fee, a tax or a discount of which the file says nothing.

    The word may stand in any of its cells where it says the sums of the lines above it and no customer: a brand or a
    payment may be called so too. Where the order's first row has it as well, as in `Paiement`, it says nothing.
    """
    if len(entry) == 1:
        return None
    dearest, sums = _ZERO, _Sums(_amount(with_constants(constants, entry[0].cells), "shipping_fee"))
    for index, row in enumerate(entry):
        cells = with_constants(constants, row.cells)
        price, figures = _amount(cells, "unit_price"), _figures(cells)
        if index and price is not None and price >= dearest:
            called = [cell for name in PRODUCT if (cell := row.cells.get(name))]
            if sums.are(figures) and not says_customer(row.cells) and not any(map(_is_word_of_total, entry[0].words)):
                called += row.words
            if any(map(_is_word_of_total, called)):
                return index
        dearest = max(dearest, price or _ZERO)
        sums.add(figures)
    return None


def _is_word_of_total(word: str) -> bool:
    return len(word) <= _LONGEST and _is_known_total(word)


@lru_cache(10_000)
def _is_known_total(word: str) -> bool:
    return key(word) in _TOTALS


def _behind(cells: Mapping[str, str]) -> list[str]:
    """What is wrong with a row that is left behind."""
    if _can_be_used(cells):
        return [_NOBODYS]
    if SHORTENED.fullmatch(cells["external_id"]):
        return [NO_NUMBER, _BEHIND]
    return [*serializers.read_order({"external_id": cells["external_id"]})[1]["external_id"], _BEHIND]


def to_report(entry: Entry, errors: Errors) -> tuple[Entry, Errors]:
    """A refused order, such that each of its rows has the number in the report, or is blamed for it."""
    number, below = _number(entry[0]), range(1, len(entry))
    if below and not number:
        errors = {"external_id": [_EACH]} | errors
    if said := errors.get("external_id"):
        return entry, errors | {f"items.{index}.external_id": said for index in below}
    for index in below:
        if not _number(entry[index]):
            entry[index].cells["external_id"] = number
    return entry, errors


def _goes_on(cells: Mapping[str, str]) -> bool:
    """Whether a row says a line of the order above."""
    return not any(map(cells.get, WHOSE)) and any(map(cells.get, (*SENT_OF_LINE, "sku", *DETAILS)))


def _is_left_behind(cells: Mapping[str, str], first: Mapping[str, str]) -> bool:
    """Whether a row with another number may be of the order above all the same.

    It can be no order of its own: its number cannot be used, perhaps since that order's was mended in the first row
    alone, and it says no other customer; or it says a line and no customer.
    """
    if not _can_be_used(cells):
        return all(_is_same(name, cells, first) for name in WHOSE[1:] if cells.get(name))
    return says_customer(first) and not says_customer(cells) and _says_product(cells)


def _can_be_used(cells: Mapping[str, str]) -> bool:
    """Whether a row's number may be that of an order."""
    number = cells["external_id"]
    return not (has_failed(number) or SHORTENED.fullmatch(number) or serializers.external_id(cells) is None)


def says_customer(cells: Mapping[str, str]) -> bool:
    return any(map(cells.get, WHOSE[1:]))


def _says_product(cells: Mapping[str, str]) -> bool:
    return any(map(cells.get, PRODUCT))


def _is_counted(cells: Mapping[str, str]) -> bool:
    """Whether a row says how many of which product, as a line does, and `TVA` at the foot of a list does not."""
    return _says_product(cells) and bool(cells.get("quantity"))


def _is_priced(cells: Mapping[str, str]) -> bool:
    """Whether a row says besides what one of them costs, or which of the catalog it is: all that a line needs."""
    names = [cell for name in ("unit_price", "product_id", "sku") if (cell := cells.get(name))]
    return _is_counted(cells) and any(key(cell) not in _TOTALS for cell in names)


Figures = tuple[Decimal, Decimal]  # a row's quantity and price
_ZERO = Decimal()


class _Sums:
    """Of those lines of a file whose quantity and price can be read, or of an order, whose fee may be among them."""

    def __init__(self, fee: Decimal | None = None) -> None:
        self.fee, self.quantities, self.prices, self.amounts = fee or _ZERO, Decimal(), Decimal(), Decimal()

    def add(self, figures: Figures | None) -> None:
        if figures:
            quantity, price = figures
            self.quantities, self.prices = self.quantities + quantity, self.prices + price
            self.amounts += price * quantity

    def are(self, figures: Figures | None) -> bool:
        """Whether a row says the sums, or one time what all costs together."""
        if figures is None:
            return False
        quantity, price = figures
        costs = (self.amounts, self.amounts + self.fee)
        return (quantity == 1 and price in costs) or (quantity == self.quantities and price in (self.prices, *costs))


def _figures(cells: Mapping[str, str]) -> Figures | None:
    quantity, price = _amount(cells, "quantity"), _amount(cells, "unit_price")
    return None if quantity is None or price is None else (quantity, price)


def _amount(cells: Mapping[str, str], name: str) -> Decimal | None:
    """None where none can be read."""
    if not (cell := cells.get(name)):
        return None
    try:
        return _figure(cell)
    except ValueError:
        return None


def _figure(cell: str) -> Decimal:
    if len(cell) < 16 and cell.replace(".", "", 1).isdecimal():  # as most are: the other way takes 20 times as long
        return Decimal(cell)
    if len(cell) > _LONGEST:
        raise ValueError("Is no amount.")
    return values.amount(values.plain_amount(cell))


def _is_total(row: Row, *, is_foot: bool = False) -> bool:
    """Whether a row says the sums of a list and not whose they are.

    The word may stand in any of its cells; where the row says a product, and not all that the file has above, in one of
    an order's columns but its notes: in another, such as `Paiement`, it may be said of a line.
    """
    cells = row.cells
    whose = [cell for name in WHOSE if (cell := cells.get(name))]
    if len(whose) > 1 or not all(key(cell) in _TOTALS for cell in whose):
        return False
    is_line = not is_foot and any(map(cells.get, (*PRODUCT, *DETAILS)))
    words = words_in([cells.get(name, "") for name in _NAMES if name != "notes"]) if is_line else row.words
    return any(map(_is_word_of_total, words))


def _number(row: Row) -> str:
    return row.cells.get("external_id", "")


def _is_same(name: str, cells: Mapping[str, str], others: Mapping[str, str]) -> bool:
    said, before = cells[name], others.get(name, "")
    return said == before or _plain(name, said) == _plain(name, before)


def _plain(name: str, text: str) -> Any:
    """The same however it is written."""
    with contextlib.suppress(ValueError):
        if name in AMOUNTS:
            return values.amount(values.plain_amount(text))
        if name in PHONES:
            return phones.to_e164(text)
    return " ".join(text.casefold().split())
