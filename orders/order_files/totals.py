"""Totals: rows with the sums of other rows, which are neither orders nor lines."""

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache

from codservice import values
from codservice.files.headings import key
from codservice.files.intake import Entry
from codservice.files.tables import Row, words_in
from orders.order_files.cells import with_constants
from orders.order_files.columns import COLUMNS, DETAILS, PRODUCT, WHOSE, says_customer, says_product

_ALL_BUT_NOTES = [column.name for column in COLUMNS if column.name != "notes"]
# What people write beside the sums at the foot of a list: the headings of the column of totals, and more. Without
# `COD`, which a line may have as its payment.
_TO_PAY = next(column for column in COLUMNS if column.name == "total_amount")
_TOTALS = {
    key(words)
    for words in (
        *_TO_PAY.headings, *_TO_PAY.vague, "totals", "grand total", "subtotal", "sub total", "sum", "order total",
        "total amount", "amount due", "totaux", "sous total", "total HT", "total DA", "total DZD",
        "montant total TTC", "somme", "المجموع العام", "الإجمالي الكلي",
    )
    if words != "cod"
}  # fmt: skip
_LONGEST = 60  # characters that such a word or an amount may have; a cell may have a megabyte
_TAXES = {key(words) for words in ("TVA", "TVA 19 %", "TVA 9 %")}  # rows between totals

QuantityAndPrice = tuple[Decimal, Decimal]  # of a row
_ZERO = Decimal()


class Sums:
    """The sums of a file's lines, or of an order's lines and fee, as far as quantity and price can be read."""

    def __init__(self, cells_of_order: Mapping[str, str] | None = None) -> None:
        fee = _amount(cells_of_order, "shipping_fee") if cells_of_order else None
        self.fee, self.quantities, self.prices, self.amounts = fee or _ZERO, _ZERO, _ZERO, _ZERO

    def add(self, figures: QuantityAndPrice | None) -> None:
        if figures:
            quantity, price = figures
            self.quantities, self.prices = self.quantities + quantity, self.prices + price
            self.amounts += price * quantity

    def are(self, figures: QuantityAndPrice | None) -> bool:
        """Whether a row's figures are these sums, or a quantity of one at the price of everything."""
        if figures is None:
            return False
        quantity, price = figures
        costs = (self.amounts, self.amounts + self.fee)
        return (quantity == 1 and price in costs) or (quantity == self.quantities and price in (self.prices, *costs))


def quantity_and_price(cells: Mapping[str, str]) -> QuantityAndPrice | None:
    """The row's quantity and price; None if one of the two cannot be read."""
    quantity, price = _amount(cells, "quantity"), _amount(cells, "unit_price")
    return None if quantity is None or price is None else (quantity, price)


def is_total(row: Row, *, is_foot: bool = False) -> bool:
    """Whether a row is a total, and names neither an order nor a customer.

    A word for a total may be in any of its cells. If the row names a product, and is not the sum of all that is above
    it in the file (`is_foot`), the word counts only in an order's columns, except its notes: in another column, such as
    `Paiement`, it may be about a line.
    """
    cells = row.cells
    whose = [cell for name in WHOSE if (cell := cells.get(name))]
    if len(whose) > 1 or not all(key(cell) in _TOTALS for cell in whose):
        return False
    is_line = not is_foot and any(map(cells.get, (*PRODUCT, *DETAILS)))
    words = words_in([cells.get(name, "") for name in _ALL_BUT_NOTES]) if is_line else row.words
    return any(map(_is_word_of_total, words))


def total_among(entry: Entry, constants: Mapping[str, str]) -> int | None:
    """The index of a row that is a total although it has the order's number or a product; None if there is none.

    Its product has a word for a total as its name, and it costs no less than the dearest line above, with whatever fee,
    tax or discount the file does not mention. In other cells such a word may be a brand or a payment: it counts only if
    the row has the sums of the lines above and no customer, and if the order's first row has no such word.
    """
    if len(entry) == 1:
        return None
    dearest, sums = _ZERO, Sums(with_constants(constants, entry[0].cells))
    for index, row in enumerate(entry):
        cells = with_constants(constants, row.cells)
        price, figures = _amount(cells, "unit_price"), quantity_and_price(cells)
        if index and price is not None and price >= dearest:
            called = [cell for name in PRODUCT if (cell := row.cells.get(name))]
            if sums.are(figures) and not says_customer(row.cells) and not any(map(_is_word_of_total, entry[0].words)):
                called += row.words
            if any(map(_is_word_of_total, called)):
                return index
        dearest = max(dearest, price or _ZERO)
        sums.add(figures)
    return None


def is_line(row: Row, constants: Mapping[str, str]) -> bool:
    """Whether a row below a total is a line, or a further cost such as delivery, and not another row of the foot."""
    cells = row.cells
    is_of_foot = is_total(row) or key(cells.get("product_name", "")) in _TAXES
    is_said = says_product(cells) and any(map(cells.get, ("quantity", "unit_price")))
    return (is_said or is_priced(with_constants(constants, cells))) and not is_of_foot


def is_priced(cells: Mapping[str, str]) -> bool:
    """Whether a row has all that a line needs: a product, a quantity, and a price or a product of the catalog.

    `TVA` at the foot of a list has no quantity.
    """
    names = [cell for name in ("unit_price", "product_id", "sku") if (cell := cells.get(name))]
    return says_product(cells) and bool(cells.get("quantity")) and any(key(cell) not in _TOTALS for cell in names)


def _is_word_of_total(word: str) -> bool:
    return len(word) <= _LONGEST and _is_known_total(word)


@lru_cache(10_000)
def _is_known_total(word: str) -> bool:
    return key(word) in _TOTALS


def _amount(cells: Mapping[str, str], name: str) -> Decimal | None:
    """The amount in a cell; None if none can be read."""
    if not (cell := cells.get(name)):
        return None
    if len(cell) < 16 and cell.replace(".", "", 1).isdecimal():  # like most; the other way takes 20 times as long
        return Decimal(cell)
    try:
        return values.amount(values.plain_amount(cell)) if len(cell) <= _LONGEST else None
    except ValueError:
        return None
