"""CSV and XLSX files as rows of text, for what takes files in; and CSV that is safe to open in a spreadsheet.

A spreadsheet runs what begins with `= + - @` as a formula, also behind blanks, and takes a comma for a border of cells
where another country's expects a semicolon. In what we write an apostrophe stands before each such beginning, as people
put it there themselves; `Table` takes it away again, so that a file of ours that comes back says what it said.
"""

import csv
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from decimal import Decimal
from io import StringIO, TextIOWrapper
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO

import msgspec

from codservice.files import sheets
from codservice.files.encodings import encoding_of
from codservice.files.headings import Column, meant

BOM = "\ufeff"  # by which Excel knows that a CSV file is UTF-8

# Characters of a row of a CSV file: an open quotation mark, or a file without lines, would take in the whole of it.
MAX_RECORD = sheets.MAX_ROW
csv.field_size_limit(MAX_RECORD)  # or the reader gives up before, and says what nobody understands
MAX_ABOVE = 1000  # rows above the header: a file of empty ones is not read to its end
MAX_TITLES = 10  # of these the rows of one cell, as a sheet's title or its date are
SHORT = 60  # characters of a cell
SURE = 3  # of the columns that are looked for: a row that names so many of them is a header and nothing else
_SEPARATOR = re.compile('"?sep=([,;\t|])"?\\s*', re.IGNORECASE)
_EMPTY = re.compile(r'(?:[\s,;]++|"")++')
_PIECE = 64 << 10
_NOT_UTF_8 = "{} is not UTF-8. Save it as “CSV UTF-8”."
_row_of = msgspec.json.Decoder(list[str]).decode

# Where some spreadsheet begins a cell; what it runs there. The wide forms are those of East Asian keyboards. What may
# stand before it ends where the next cell would begin: nothing is looked at twice, whatever a cell is full of. Among it
# are quotation marks: at a border that we have not meant a spreadsheet takes them away, closed or not.
_BEGINS = r"(?:^|(?<=[,;\t\r\n]))"
_BLANKS = r"['\" \v\f\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*"
_FORMULA = rf"(?={_BLANKS}[=+\-@＝＋－＠\t\r\n])"
_escape = re.compile(_BEGINS + _FORMULA).sub
_unescape = re.compile(f"{_BEGINS}'{_FORMULA}").sub
# Most cells have no such sign anywhere, or begin with a letter or digit and hold no other beginning; to see that is
# quicker than to look at each place.
_has_sign = re.compile(r"[=+\-@＝＋－＠\t\r\n]").search
_begins_plainly = re.compile(r"[^\W_][^,;\t\r\n]*+\Z").match


class Row(NamedTuple):
    """A row: the line in which it begins (the file's first is 1) and its cells by column name, trimmed.

    `surplus` are the cells that stand right of the last column: a row that has any is not what its writer meant.
    `end` is the line in which it ends, 0 where that was not kept: a cell may hold several. `is_apart` says that more
    empty rows stand above it than above some row before it: a file may have one below each of its rows. `words` are
    the `words_in` all its cells, those of columns that nobody asks for too.
    """

    line: int
    cells: dict[str, str]
    surplus: list[str]
    end: int = 0
    is_apart: bool = False
    words: Sequence[str] = ()


def words_in(cells: Sequence[str]) -> list[str]:
    """Those that say something, and shortly: a batch of rows is held, and any cell may hold a long text."""
    return [cell for cell in cells if 0 < len(cell) <= SHORT]


class UnreadableTable(ValueError):
    """The file is no table that we can read; the message says what to do."""


class Table:
    """The rows of a CSV or XLSX file, in constant memory; empty rows are passed over, above the header too.

    The header is the first row with two cells or more, if only titles of one cell stand above it; else the first row.
    There are three exceptions. A title is the header if it names one of `columns` and is as wide as the row with two
    cells, which names none and has a number: the other columns then have no names. A row that names at most one of
    `columns`, such as a period or a shop's name, is not the header if a row a little below names SURE of them. And one
    of groups, such as `Client` above a name and a phone, is not if the next row has more cells and names more: there it
    names the columns of which that row says nothing.

    CSV is in UTF-8, or in another encoding that is certain (`encodings`), with commas, semicolons, tabs or bars as the
    header has them, or a line `sep=;` above it says. Of an XLSX file the first sheet that is shown is read, and named
    by `sheet` where there are others. A number comes as people see it: 2 and not 2.0. Raises UnreadableTable, also when
    a `required` column is missing, and while it is read where the file breaks off; FileNotFoundError.

    The usual headings of `columns` are known, beside their names. With `by_place` headings may be anything, and the
    caller takes cells by their place from `records`. With `file` this is read in place of the path, whose name then
    only says what kind of file it is.
    """

    def __init__(
        self,
        path: Path,
        required: Sequence[str] = (),
        columns: tuple[Column, ...] = (),
        *,
        file: IO[bytes] | None = None,
        by_place: bool = False,
    ) -> None:
        self.path, self.delimiter, self._file = path, ",", file
        self.sheet = ""
        self._rows: IO[bytes] | None = None
        with self._open() as data:
            if path.suffix.lower() in sheets.SUFFIXES:
                try:
                    self._rows, self.sheet = sheets.read(data)
                except sheets.UnreadableSheet as error:
                    raise UnreadableTable(f"{self} {error}") from None
            elif encoding := encoding_of(data):
                self._encoding = encoding
            else:
                raise UnreadableTable(_NOT_UTF_8.format(self))
        self._above, groups = self._rows_above(columns)
        header = next(islice(self._all_records(), self._above, None), (1, 1, []))[2]
        self.header = header = [title or group for title, group in zip_longest(header, groups, fillvalue="")]
        if not any(header):
            which = f" has an empty sheet in front, {self.sheet}" if self.sheet else " is empty"
            raise UnreadableTable(f"{self}{which}. Its first line must name the columns.")
        if by_place:
            return
        names = [unicodedata.normalize("NFC", name).lower().replace(" ", "_") for name in header]
        self.names = [known or name for known, name in zip(meant(header, columns), names, strict=True)]
        if missing := [name for name in required if name not in self.names]:
            raise UnreadableTable(f"{self} has no column {', '.join(missing)}. Its first line must name the columns.")
        if twice := [name for name in self.names if name and self.names.count(name) > 1]:
            raise UnreadableTable(f"{self} has two columns {sheets.shown(twice[0])}. Which one is meant?")

    def __str__(self) -> str:
        return str(self.path) if self._file is None else "The file"

    def line_count(self) -> int:
        """In how many lines its rows stand, for a progress bar; much quicker than reading them."""
        with nullcontext(self._rows) if self._rows else self._open() as file:
            file.seek(0)
            last, lines = b"", 0
            for piece in iter(lambda: file.read(1 << 20), b""):
                last, lines = piece[-2:].rstrip(b"\0"), lines + piece.count(b"\n")
        return lines + (not last.endswith(b"\n"))  # the last line needs no end

    def __iter__(self) -> Iterator[Row]:
        names, width = self.names, len(self.names)
        for line, end, cells, is_apart in self.records():
            surplus = [cell for cell in cells[width:] if cell] if len(cells) > width else []
            yield Row(line, dict(zip(names, cells, strict=False)), surplus, end, is_apart, words_in(cells))

    def records(self) -> Iterator[tuple[int, int, list[str], bool]]:
        """The lines in which each row begins and ends, its cells, as many as there are, and whether it `is_apart`."""
        empty, fewest = 0, sys.maxsize
        for line, end, cells in islice(self._all_records(), self._above + 1, None):
            if any(cells):
                fewest = min(fewest, empty)
                yield line, end, cells, empty > fewest
                empty = 0
            else:
                empty += 1

    def _cut(self, cells: list[str]) -> None:
        """Leave as many as a spreadsheet's row may have: a CSV file of one row could name half a million columns."""
        if any(map(str.strip, cells[sheets.MAX_COLUMNS :])):
            raise UnreadableTable(f"{self} has {len(cells)} columns. It can have at most {sheets.MAX_COLUMNS}.")
        del cells[sheets.MAX_COLUMNS :]

    def _open(self) -> AbstractContextManager[IO[bytes]]:
        return self.path.open("rb") if self._file is None else nullcontext(self._file)

    def _rows_above(self, columns: tuple[Column, ...]) -> tuple[int, list[str]]:
        """How many rows stand above the header, and what the last of them says of groups of columns, if it does."""
        titles: dict[int, list[str]] = {}
        first: int | None = None  # the first row with two cells, while it may say a period, a shop's name or groups
        groups: list[str] = []
        for above, (_, _, cells) in enumerate(islice(self._all_records(), MAX_ABOVE + 1)):
            filled = sum(map(bool, cells))
            if first is not None:
                named = _count_named(cells, columns)
                if groups:
                    is_more = named > _count_named(groups, columns) and filled > sum(map(bool, groups))
                    return (above, groups) if named >= SURE and is_more else (first, [])
                if named >= SURE:
                    return above, []
                if above - first >= MAX_TITLES:
                    break
            elif filled > 1:
                if (title := _title_in_its_place(titles, cells, columns)) is not None:
                    return title, []
                if len(columns) < SURE:
                    return above, []
                first, groups = above, cells if _count_named(cells, columns) > 1 else []
            elif filled:
                titles[above] = cells
                if len(titles) > MAX_TITLES:
                    break
        return next(iter(titles), 0) if first is None else first, []

    def _all_records(self) -> Iterator[tuple[int, int, list[str]]]:
        """The lines in which each row of the file begins and ends, and its cells."""
        if self._rows is not None:
            self._rows.seek(0)
            for line, row in enumerate(self._rows, start=1):
                yield line, line, [_original(cell) for cell in _row_of(row)]
            return
        line = 1
        try:
            with self._open() as data, _decoded(data, self._encoding) as file:
                self.delimiter, before = _delimiter(file)
                file.seek(0)
                lines = _Lines(file)
                for _ in range(before):
                    next(lines)
                line += before
                reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
                for cells in reader:
                    end = before + reader.line_num
                    if len(cells) > sheets.MAX_COLUMNS:
                        self._cut(cells)
                    # Rows in a cell: Google quotes nothing there, and texts have quotation marks of their own.
                    if end > line and self.path.suffix.lower() == ".tsv" and any("\t" in cell for cell in cells):
                        raise _Endless
                    yield line, end, [_original(cell.strip()) for cell in cells]
                    line, lines.taken = end + 1, 0
        except _Endless:
            raise UnreadableTable(
                f"{self} has a row at line {line} that does not end. Is a quotation mark left open?"
            ) from None
        except UnicodeDecodeError:
            raise UnreadableTable(_NOT_UTF_8.format(self)) from None
        except csv.Error as error:
            raise UnreadableTable(f"{self} is not a CSV file: line {line}: {error}.") from None


def _count_named(cells: list[str], columns: tuple[Column, ...]) -> int:
    """How many of these columns a row names."""
    return sum(map(bool, meant(cells, columns)))


def _title_in_its_place(titles: dict[int, list[str]], cells: list[str], columns: tuple[Column, ...]) -> int | None:
    """Which of the titles above these cells is the header, where they are data: one as wide that names a column."""
    if not any(cell[:1].isdigit() for cell in cells) or _count_named(cells, columns):
        return None
    wide = ((above, title) for above, title in titles.items() if len(title) >= len(cells))
    return next((above for above, title in wide if _count_named(title, columns)), None)


@contextmanager
def _decoded(file: IO[bytes], encoding: str) -> Iterator[TextIO]:
    """The file as text, from its beginning; the file below is left open."""
    file.seek(0)
    text = TextIOWrapper(file, encoding, newline="")
    try:
        yield text
    finally:
        text.detach()


def _delimiter(file: TextIO) -> tuple[str, int]:
    """The sign between cells, and how many lines stand before the header: in Excel's manner a first line may name it.

    A sign within quotation marks, between which several lines may stand, parts nothing.
    """
    first = line = file.readline(MAX_RECORD)
    if said := _SEPARATOR.fullmatch(first):
        return said[1], 1
    above = 0
    while _EMPTY.fullmatch(line) and above < MAX_ABOVE:
        line, above = file.readline(MAX_RECORD), above + 1
        first = line or first
    outside = _outside_quotes(file, line)
    for _title in range(MAX_TITLES + 1):
        if not line or any(sign in outside for sign in ",;\t"):
            break
        line, bars = file.readline(MAX_RECORD), outside.count("|")
        outside = _outside_quotes(file, line)
        if bars and (outside.count("|") == bars or (bars >= SURE and ("|" in outside or not line))):
            return "|", 0  # alone, some may stand in a title
    return max(",;\t", key=lambda each: (outside.count(each), first.count(each))), 0


def _outside_quotes(file: TextIO, line: str) -> str:
    """What no quotation marks enclose, of the row that begins with this line; the file stands behind the row then."""
    outside, is_open, left = "", False, MAX_RECORD
    while line:
        parts = line.split('"')
        outside += "".join(parts[is_open::2])
        is_open ^= len(parts) % 2 == 0
        left -= len(line)
        line = file.readline(left) if is_open and left else ""
    return outside


class _Endless(Exception):
    pass


class _Lines:
    """The lines of a file, until those since `taken` was set to 0 are longer than a row may be."""

    def __init__(self, file: TextIO) -> None:
        self._read, self.taken = file.readline, 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._read(MAX_RECORD + 1)
        if not line:
            raise StopIteration
        self.taken += len(line)
        if self.taken > MAX_RECORD:
            raise _Endless
        return line


def _original(cell: str) -> str:
    return _unescape("", cell) if "'" in cell else cell


def escaped(cell: str) -> str:
    """A text for a cell that no spreadsheet runs anyhow, such that `Table` reads it as it is."""
    return _escape("'", cell) if _original(cell) != cell else cell


class SafeWriter:
    """Writes rows as CSV (RFC 4180) that runs no formula where it is opened.

    A spreadsheet that expects semicolons does so for the comma in its numbers: `4500.50` would be a text there.
    """

    def __init__(self, file: TextIO, delimiter: str = ",") -> None:
        self._write = csv.writer(file, delimiter=delimiter).writerow
        self._text = _with_comma if delimiter == ";" else str

    def write(self, cells: Iterable[Any]) -> None:
        """None is an empty cell."""
        texts = [cell if cell is None or type(cell) is str else self._text(cell) for cell in cells]
        self._write(
            [_escape("'", text) if text and _has_sign(text) and not _begins_plainly(text) else text for text in texts]
        )


def _with_comma(cell: Any) -> str:
    return str(cell).replace(".", ",") if isinstance(cell, Decimal | float) else str(cell)


def csv_pieces(header: Sequence[str], rows: Iterable[Sequence[Any]], *, delimiter: str = ",") -> Iterator[bytes]:
    """The bytes of a CSV file with these rows, the header first, as SafeWriter writes them; about 64 KiB at a time."""
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


ADDED = ("line", "refused")  # columns of a report of refused rows, which were not in the file


def is_of_report(cells: Mapping[str, str]) -> bool:
    """Whether a row comes from such a report, where rows that stood above it in the file may be missing."""
    return all(name in cells for name in ADDED)
