"""CSV and XLSX files as rows of text, for the importing commands."""

import csv
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import python_calamine

Row = tuple[int, dict[str, str]]


class UnreadableTable(ValueError):
    """The file is no table that we can read; the message says what to do."""


def read_rows(path: Path, required: Sequence[str] = ()) -> Iterator[Row]:
    """Each row's line number (the header is line 1) and its cells by column name; empty rows are passed over.

    CSV is UTF-8, with commas, semicolons or tabs as the header has them. Of an XLSX file the first sheet is read. A
    number comes as people see it: 2 and not 2.0. Raises UnreadableTable, also when a `required` column is missing.
    """
    if _is_sheet(path):
        yield from _read_sheet(path, required)
    else:
        yield from _read_csv(path, required)


def count_rows(path: Path) -> int:
    """About how many rows `read_rows` will give, for a progress bar; much quicker than reading them."""
    if _is_sheet(path):
        return max(_sheet(path).height - 1, 0)
    with path.open("rb") as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))


def _is_sheet(path: Path) -> bool:
    return path.suffix.lower() in (".xlsx", ".xlsm", ".xls", ".ods")


def _read_csv(path: Path, required: Sequence[str]) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            if not header.strip():
                raise UnreadableTable(f"{path} is empty; its first line must name the columns.")
            delimiter = max(",;\t", key=header.count)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            names = _names(next(reader), path, required)
            line = reader.line_num + 1
            for cells in reader:
                row = dict(zip(names, map(str.strip, cells), strict=False))
                if any(row.values()):
                    yield line, row
                line = reader.line_num + 1
    except UnicodeDecodeError:
        raise UnreadableTable(f"{path} is not UTF-8. Save it as “CSV UTF-8”.") from None
    except csv.Error as error:
        raise UnreadableTable(f"{path} is no CSV file: {error}.") from None


def _read_sheet(path: Path, required: Sequence[str]) -> Iterator[Row]:
    rows = iter(_sheet(path).to_python())
    header = next(rows, None)
    if not header:
        raise UnreadableTable(f"{path} is empty; its first row must name the columns.")
    names = _names([_text(cell) for cell in header], path, required)
    for line, cells in enumerate(rows, start=2):
        row = dict(zip(names, (_text(cell) for cell in cells), strict=False))
        if any(row.values()):
            yield line, row


def _sheet(path: Path) -> python_calamine.CalamineSheet:
    try:
        return python_calamine.CalamineWorkbook.from_path(path).get_sheet_by_index(0)
    except (python_calamine.CalamineError, OSError) as error:
        raise UnreadableTable(f"{path} is no spreadsheet that we can read: {error}.") from None


def _names(header: list[str], path: Path, required: Sequence[str]) -> list[str]:
    names = [unicodedata.normalize("NFC", name).strip().lower().replace(" ", "_") for name in header]
    if missing := [name for name in required if name not in names]:
        raise UnreadableTable(f"{path} has no column {', '.join(missing)}; its first line must name the columns.")
    return names


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()
