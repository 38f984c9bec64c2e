"""Reads CSV and XLSX files as rows of text. Cells that `safe_csv` has escaped are as they were before."""

import csv
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import StringIO, TextIOWrapper
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, NamedTuple, TextIO

import msgspec

from codservice.files import sheets
from codservice.files.encodings import encoding_of
from codservice.files.headings import MOST_READ, Column, meant
from codservice.files.safe_csv import unescaped

# Characters of a row of a CSV file: after an open quotation mark, or without line ends, a row would be the whole file.
MAX_RECORD = sheets.MAX_ROW
csv.field_size_limit(MAX_RECORD)  # with its default the reader fails earlier, with a message that nobody understands
HEAD = 1 << 18  # characters, of which the delimiter is guessed
MAX_ABOVE = 1000  # rows above the header: a file of empty rows is not read to its end
MAX_TITLES = 10  # of these, the rows of one cell, such as a sheet's title or date
SHORT = 60  # characters of a cell
SURE = 3  # a row that names so many of our columns is certainly a header
_SEPARATOR = re.compile('"?sep=([,;\t|])"?[^\\S\r\n]*(?:[\r\n]|$)', re.IGNORECASE)
_is_heading = re.compile(r"[^\s\d]").match
_NOT_UTF_8 = "{} is not UTF-8. Save it as “CSV UTF-8”."
_row_of = msgspec.json.Decoder(list[str]).decode


class Row(NamedTuple):
    """A row: the line in which it begins (the file's first is 1) and its trimmed cells by column name.

    `surplus` are the filled cells to the right of the last column: a row that has any is not what its writer meant.
    `end` is the line in which the row ends, as a cell may hold several lines, or 0 if unknown. `is_apart` says that
    more empty rows precede it than some earlier row: a file may have an empty one below each of its rows. `words` are
    the `words_in` all its cells, even in columns that nobody asks for.
    """

    line: int
    cells: dict[str, str]
    surplus: list[str]
    end: int = 0
    is_apart: bool = False
    words: Sequence[str] = ()


def words_in(cells: Sequence[str]) -> list[str]:
    """The cells that are filled and SHORT. Others may hold a long text, and a whole batch of rows is in memory."""
    return [cell for cell in cells if 0 < len(cell) <= SHORT]


class UnreadableTable(ValueError):
    """The file is not a table that we can read. The message says what to do."""


class Table:
    """The rows of a CSV or XLSX file, in constant memory. Empty rows are skipped, above the header too.

    A row that repeats the header, as where lists are joined, counts as an empty one.

    The header is the first row with two or more filled cells, if only a few rows of one cell, titles, precede it;
    otherwise the first row. A row with two or more filled cells gives way in these cases:

    - It names none of `columns` and has a number, and a title names one and is as wide: then the title is the header,
      and the other columns are unnamed.
    - It names at most one of `columns`, such as a period or a shop's name, and a row a little below names SURE of them:
      then that row is the header.
    - It names two or more of `columns`, and the next row has more filled cells and names more of them, at least SURE:
      then the next row is the header. The row above it names groups, such as `Client` above a name and a phone, and
      gives its names to the columns that the header leaves unnamed.

    CSV may be in UTF-8 or another encoding that is certain (`encodings`), with the commas, semicolons, tabs or bars
    that give the likeliest header, or as a line `sep=;` above it says. Of an XLSX file the first visible sheet is read,
    and `sheet` has its name if there are others. A number comes as people see it: 2 and not 2.0. Raises
    UnreadableTable, also when a `required` column is missing, and during reading where the file breaks off; and
    FileNotFoundError.

    `columns` are recognised by their usual headings besides their names. With `by_place` headings may be anything, and
    the caller takes cells by their place from `records`. With `file` that is read instead of the path, whose suffix
    then only tells the kind of file.
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
        self.path, self.delimiter, self.sheet = path, ",", ""
        self._name, self._file = (str(path) if file is None else "The file"), file
        self._is_sheet = path.suffix.lower() in sheets.SUFFIXES
        with self._open() as data:
            if self._is_sheet:
                try:
                    self._file, self.sheet = sheets.read(data)
                except sheets.UnreadableSheet as error:
                    raise UnreadableTable(f"{self} {error}") from None
            elif encoding := encoding_of(data):
                self._encoding = encoding
                self.delimiter, self._before = _delimiter(data, encoding, columns)
            else:
                raise UnreadableTable(_NOT_UTF_8.format(self))
        self._above, header = _find_header((cells for *_, cells in self._all_records()), columns)
        self.header = header
        if not any(header):
            which = f" has an empty sheet in front, {self.sheet}" if self.sheet else " is empty"
            raise UnreadableTable(f"{self}{which}. Its first line must name the columns.")
        if by_place:
            return
        # A longer heading is none of ours, and sorting its marks might take hours.
        names = [unicodedata.normalize("NFC", name) if len(name) <= MOST_READ else name for name in header]
        names = [name.lower().replace(" ", "_") for name in names]
        self.names = [known or name for known, name in zip(meant(header, columns), names, strict=True)]
        if missing := [name for name in required if name not in self.names]:
            raise UnreadableTable(f"{self} has no column {', '.join(missing)}. Its first line must name the columns.")
        if twice := [name for name in self.names if name and self.names.count(name) > 1]:
            raise UnreadableTable(f"{self} has two columns {sheets.shown(twice[0])}. Which one is meant?")

    def __str__(self) -> str:
        return self._name

    def line_count(self) -> int:
        """The number of lines of the file, for a progress bar. Much quicker than reading the rows."""
        with self._open() as file:
            file.seek(0)
            last, lines = b"", 0
            for piece in iter(lambda: file.read(1 << 20), b""):
                last, lines = piece[-2:].rstrip(b"\0"), lines + piece.count(b"\n")
        return lines + (not last.endswith(b"\n"))  # the last line may have no line end

    def __iter__(self) -> Iterator[Row]:
        names, width = self.names, len(self.names)
        for line, end, cells, is_apart in self.records():
            surplus = [cell for cell in cells[width:] if cell] if len(cells) > width else []
            yield Row(line, dict(zip(names, cells, strict=False)), surplus, end, is_apart, words_in(cells))

    def records(self) -> Iterator[tuple[int, int, list[str], bool]]:
        """For each row, the lines in which it begins and ends, all its cells, and whether it `is_apart`."""
        empty, fewest = 0, sys.maxsize
        for line, end, cells in islice(self._all_records(), self._above + 1, None):
            if any(cells) and not self._repeats_header(cells):
                fewest = min(fewest, empty)
                yield line, end, cells, empty > fewest
                empty = 0
            else:
                empty += 1

    def _repeats_header(self, cells: list[str]) -> bool:
        return all(cell in ("", title) for cell, title in zip_longest(cells, self.header, fillvalue=""))

    def _open(self) -> AbstractContextManager[IO[bytes]]:
        return self.path.open("rb") if self._file is None else nullcontext(self._file)

    def _all_records(self) -> Iterator[tuple[int, int, list[str]]]:
        """For each row of the file, the lines in which it begins and ends, and its cells."""
        return self._records_of_sheet() if self._is_sheet else self._records_of_csv()

    def _records_of_sheet(self) -> Iterator[tuple[int, int, list[str]]]:
        with self._open() as rows:
            rows.seek(0)
            for line, row in enumerate(rows, start=1):
                yield line, line, [unescaped(cell) for cell in _row_of(row)]

    def _records_of_csv(self) -> Iterator[tuple[int, int, list[str]]]:
        line = 1 + self._before
        try:
            with self._open() as data, _decoded(data, self._encoding) as file:
                lines = _Lines(file)
                for _ in range(self._before):
                    next(lines)
                reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
                for cells in reader:
                    end = self._before + reader.line_num
                    if len(cells) > (most := sheets.MAX_COLUMNS):
                        if any(map(str.strip, cells[most:])):
                            raise UnreadableTable(f"{self} has {len(cells)} columns. It can have at most {most}.")
                        del cells[most:]  # empty ones: a row of a file can have half a million
                    # Rows within a cell: Google quotes nothing in .tsv, so a quotation mark is part of a text.
                    if end > line and self.path.suffix.lower() == ".tsv" and any("\t" in cell for cell in cells):
                        raise _Endless
                    yield line, end, [unescaped(cell.strip()) for cell in cells]
                    line, lines.taken = end + 1, 0
        except _Endless:
            raise UnreadableTable(
                f"{self} has a row at line {line} that does not end. Is a quotation mark left open?"
            ) from None
        except UnicodeDecodeError:
            raise UnreadableTable(_NOT_UTF_8.format(self)) from None
        except csv.Error as error:
            raise UnreadableTable(f"{self} is not a CSV file: line {line}: {error}.") from None


def _find_header(rows: Iterator[list[str]], columns: tuple[Column, ...]) -> tuple[int, list[str]]:
    """How many rows precede the header, and its cells: those without a title have that of their group above it."""
    numbered = enumerate(islice(rows, MAX_ABOVE + 1))
    titles: dict[int, list[str]] = {}
    for above, cells in numbered:
        if _count_filled(cells) > 1:
            break
        if any(cells):
            titles[above] = cells
        if len(titles) > MAX_TITLES:
            return min(titles.items())
    else:
        return min(titles.items(), default=(0, []))
    if title := _title_in_its_place(titles, cells, columns):
        return title
    if len(columns) < SURE:
        return above, cells
    # Rows with two cells begin here: with the header, or with what stands above it.
    if (named := _count_named(cells, columns)) > 1:
        _, below = next(numbered, (0, []))
        names_more = _count_named(below, columns) >= max(SURE, named + 1)
        if names_more and _count_filled(below) > _count_filled(cells):
            return above + 1, [title or group for title, group in zip_longest(below, cells, fillvalue="")]
        return above, cells
    sure = ((lower, below) for lower, below in islice(numbered, MAX_TITLES) if _count_named(below, columns) >= SURE)
    return next(sure, (above, cells))


def _count_filled(cells: list[str]) -> int:
    return sum(map(bool, cells))


def _count_named(cells: list[str], columns: tuple[Column, ...]) -> int:
    """The number of these columns that a row names."""
    return sum(map(bool, meant(cells, columns)))


def _title_in_its_place(
    titles: dict[int, list[str]], cells: list[str], columns: tuple[Column, ...]
) -> tuple[int, list[str]] | None:
    """The title above these cells that is the header, and its place, if they are data: as wide, and naming a column."""
    if not any(cell[:1].isdigit() for cell in cells) or _count_named(cells, columns):
        return None
    wide = ((above, title) for above, title in titles.items() if len(title) >= len(cells))
    return next(((above, title) for above, title in wide if _count_named(title, columns)), None)


@contextmanager
def _decoded(file: IO[bytes], encoding: str, errors: str = "strict") -> Iterator[TextIO]:
    """The file as text, from its beginning. The binary file stays open."""
    file.seek(0)
    text = TextIOWrapper(file, encoding, errors, newline="")
    try:
        yield text
    finally:
        text.detach()


def _delimiter(file: IO[bytes], encoding: str, columns: tuple[Column, ...]) -> tuple[str, int]:
    """The delimiter, and how many lines precede the rows: a first line may name the delimiter, as in Excel."""
    with _decoded(file, encoding, "replace") as text:  # who reads the rows refuses what is none
        head = text.read(HEAD)
    if said := _SEPARATOR.match(head):
        return said[1], 1
    return max(",;\t|", key=lambda delimiter: _likelihood(head, delimiter, columns)), 0


def _likelihood(head: str, delimiter: str, columns: tuple[Column, ...]) -> tuple[int, ...]:
    """How likely this is the delimiter of a file that begins with `head`: the greatest tuple is the likeliest.

    In this order it tells whether the header names so many of our columns that it is one for SURE; whether the row
    below it is parted too, unlike that below a title; how many of our columns it names; whether it has headings, unlike
    a text or an amount whose signs have a blank or a digit behind them; that few rows stand above it; and how many
    cells it has.
    """
    reader = csv.reader(StringIO(head, newline=""), delimiter=delimiter)
    rows = [cells[: sheets.MAX_COLUMNS] for cells in islice(reader, MAX_ABOVE + MAX_TITLES)]
    above, header = _find_header(([cell.strip() for cell in cells] for cells in rows), columns)
    if len(header) < 2:  # it parts nothing, or else all cells are empty
        return () if header else (0,)
    below = next((cells for cells in rows[above + 1 :] if any(map(str.strip, cells))), [])
    headings, named = list(filter(_is_heading, rows[above])), _count_named(header, columns)
    return named >= SURE, len(below) > 1, named, len(headings) > 1, -above, _count_filled(header)


class _Endless(Exception):
    pass


class _Lines:
    """The lines of a file. Raises _Endless when those since `taken` was set to 0 are longer than a row may be."""

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
