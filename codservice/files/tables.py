"""CSV and XLSX files as rows of text, for commands that take files in; and CSV that is safe to open in a spreadsheet.

A spreadsheet runs what begins with `= + - @` as a formula, also behind blanks, and takes a comma for a border of cells
where another country's expects a semicolon. In what we write an apostrophe stands before each such beginning, as people
put it there themselves; `Table` takes it away again, so that a file of ours that comes back says what it said.
"""

import csv
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import python_calamine

BOM = "\ufeff"  # by which Excel knows that a CSV file is UTF-8

_SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
# Where some spreadsheet begins a cell; what it runs there. The wide forms are those of East Asian keyboards.
_BEGINS = r"(?:^|(?<=[,;\t\r\n]))"
_FORMULA = r"(?=[\s']*[=+\-@＝＋－＠\t\r\n])"
_escape = re.compile(_BEGINS + _FORMULA).sub
_unescape = re.compile(f"{_BEGINS}'{_FORMULA}").sub
_may_be_formula = re.compile(r"[=+\-@＝＋－＠\t\r\n]").search


class Row(NamedTuple):
    """A row: its line number (the header is line 1) and its cells by column name, trimmed.

    `surplus` are the cells that stand right of the last column: a row that has any is not what its writer meant.
    """

    line: int
    cells: dict[str, str]
    surplus: list[str]


class UnreadableTable(ValueError):
    """The file is no table that we can read; the message says what to do."""


class Table:
    """The rows of a CSV or XLSX file, in constant memory for CSV; empty rows are passed over.

    CSV is UTF-8, with commas, semicolons or tabs as the header has them. Of an XLSX file the first sheet is read. A
    number comes as people see it: 2 and not 2.0. Raises UnreadableTable, also when a `required` column is missing, and
    while it is read where the file breaks off; FileNotFoundError.
    """

    def __init__(self, path: Path, required: Sequence[str] = ()) -> None:
        self.path, self.delimiter = path, ","
        self._sheet = _sheet(path) if path.suffix.lower() in _SHEETS else None
        header = next(self._records(), (1, []))[1]
        if not any(header):
            raise UnreadableTable(f"{path} is empty; its first line must name the columns.")
        self.header = header
        self.names = [unicodedata.normalize("NFC", name).lower().replace(" ", "_") for name in header]
        if missing := [name for name in required if name not in self.names]:
            raise UnreadableTable(f"{path} has no column {', '.join(missing)}; its first line must name the columns.")
        if twice := [name for name in self.names if name and self.names.count(name) > 1]:
            raise UnreadableTable(f"{path} has two columns {twice[0]}; which one is meant?")

    def __len__(self) -> int:
        """About how many rows there are, for a progress bar; much quicker than reading them."""
        if self._sheet is not None:
            return max(self._sheet.height - 1, 0)
        with self.path.open("rb") as file:
            lines = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
        return max(lines - 1, 1)

    def __iter__(self) -> Iterator[Row]:
        records, names, width = self._records(), self.names, len(self.names)
        next(records, None)
        for line, cells in records:
            if any(cells):
                surplus = [cell for cell in cells[width:] if cell] if len(cells) > width else []
                yield Row(line, dict(zip(names, cells, strict=False)), surplus)

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        if self._sheet is not None:
            for line, cells in enumerate(self._sheet.iter_rows(), start=1):
                yield line, [_original(_text(cell)) for cell in cells]
            return
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                header = file.readline()
                self.delimiter = max(",;\t", key=header.count)
                file.seek(0)
                reader = csv.reader(file, delimiter=self.delimiter, strict=True)
                line = 1
                for cells in reader:
                    yield line, [_original(cell.strip()) for cell in cells]
                    line = reader.line_num + 1
        except UnicodeDecodeError:
            raise UnreadableTable(f"{self.path} is not UTF-8. Save it as “CSV UTF-8”.") from None
        except csv.Error as error:
            raise UnreadableTable(f"{self.path} is no CSV file: {error}.") from None


def _sheet(path: Path) -> python_calamine.CalamineSheet:
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        return python_calamine.CalamineWorkbook.from_path(path).get_sheet_by_index(0)
    except (python_calamine.CalamineError, OSError) as error:
        raise UnreadableTable(f"{path} is no spreadsheet that we can read: {error}.") from None


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def _original(cell: str) -> str:
    return _unescape("", cell) if "'" in cell else cell


class SafeWriter:
    """Writes rows as CSV (RFC 4180) that runs no formula where it is opened."""

    def __init__(self, file: TextIO, delimiter: str = ",") -> None:
        self._write = csv.writer(file, delimiter=delimiter).writerow

    def write(self, cells: Iterable[Any]) -> None:
        """None is an empty cell."""
        self._write([_safe("" if cell is None else str(cell)) for cell in cells])


def _safe(cell: str) -> str:
    return _escape("'", cell) if _may_be_formula(cell) else cell


ADDED = ("line", "refused")  # what a report says of its rows


@contextmanager
def refused_rows(path: Path | None, table: Table) -> Iterator[Callable[[Row, str], None]]:
    """Gives a function that adds a row of `table` and the reason to the report at `path`, or does nothing without one.

    The report has the table's own columns, so that it can be mended and read like the table. It is there, in place of
    an earlier one, when all is written; after an exception it is not. Raises OSError.
    """
    if path is None:
        yield lambda row, reason: None
        return
    columns = [
        (title, name) for title, name in zip(table.header, table.names, strict=True) if name and name not in ADDED
    ]
    partial = path.with_name(f"{path.name}.part")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            file.write(BOM)
            writer = SafeWriter(file, table.delimiter)
            writer.write([*ADDED, *(title for title, _ in columns)])
            yield lambda row, reason: writer.write(
                [row.line, reason, *(row.cells.get(name) for _, name in columns), *row.surplus]
            )
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
