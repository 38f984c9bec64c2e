"""Writes CSV that is safe to open in a spreadsheet.

A spreadsheet runs text that begins with `= + - @` as a formula, even after blanks, and depending on the country it
takes a comma or a semicolon for the border of a cell. We write an apostrophe before each such beginning, as people do
themselves. `Table` removes it again, so that a file of ours can come back unchanged.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from io import StringIO
from typing import Any, TextIO

BOM = "\ufeff"  # by which Excel knows that a CSV file is UTF-8
_PIECE = 64 << 10

# Where some spreadsheet begins a cell, and the signs with which it then runs a formula; the wide ones are those of East
# Asian keyboards. Blanks may precede a sign. They contain no border of cells, so that nothing is looked at twice,
# whatever a cell is full of. Quotation marks count as blanks: at a border that we did not mean, a spreadsheet takes
# them away, closed or not.
_BEGINS = r"(?:^|(?<=[,;\t\r\n]))"
_BLANKS = r"['\" \v\f\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*"
_FORMULA = rf"(?={_BLANKS}[=+\-@＝＋－＠\t\r\n])"
_escape = re.compile(_BEGINS + _FORMULA).sub
_unescape = re.compile(f"{_BEGINS}'{_FORMULA}").sub
# Most cells have no such sign at all, or begin with a letter or digit and have no border of cells. Checking that first
# is quicker than looking at each place.
_has_sign = re.compile(r"[=+\-@＝＋－＠\t\r\n]").search
_begins_plainly = re.compile(r"[^\W_][^,;\t\r\n]*+\Z").match


def unescaped(cell: str) -> str:
    """The text of a cell that `SafeWriter` or a person has escaped."""
    return _unescape("", cell) if "'" in cell else cell


def escaped(cell: str) -> str:
    """A text for a cell that no spreadsheet runs, escaped where `Table` would otherwise take an apostrophe away."""
    return _escape("'", cell) if unescaped(cell) != cell else cell


class SafeWriter:
    """Writes rows as CSV (RFC 4180) that runs no formula when a spreadsheet opens it.

    With semicolons, numbers have a decimal comma, as the spreadsheets that expect them do: `4500.50` would be text.
    """

    def __init__(self, file: TextIO, delimiter: str = ",") -> None:
        self._write = csv.writer(file, delimiter=delimiter).writerow
        self._text = _with_comma if delimiter == ";" else str

    def write(self, cells: Iterable[Any]) -> None:
        """Write a row. None is an empty cell."""
        texts = [cell if cell is None or type(cell) is str else self._text(cell) for cell in cells]
        self._write(
            [_escape("'", text) if text and _has_sign(text) and not _begins_plainly(text) else text for text in texts]
        )


def _with_comma(cell: Any) -> str:
    return str(cell).replace(".", ",") if isinstance(cell, Decimal | float) else str(cell)


def csv_pieces(header: Sequence[str], rows: Iterable[Sequence[Any]], *, delimiter: str = ",") -> Iterator[bytes]:
    """The bytes of a CSV file of the header and these rows, as SafeWriter writes them, about 64 KiB at a time."""
    piece = StringIO(newline="")
    piece.write(BOM)
    writer = SafeWriter(piece, delimiter)
    writer.write(header)
    for row in rows:
        writer.write(row)
        if piece.tell() >= _PIECE:
            yield piece.getvalue().encode("utf-8", "replace")
            piece.seek(0)
            piece.truncate()
    yield piece.getvalue().encode("utf-8", "replace")
