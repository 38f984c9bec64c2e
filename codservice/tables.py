"""CSV and XLSX files as rows of text, for the importing commands."""

import csv
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import python_calamine

Row = tuple[int, dict[str, str]]


class UnreadableTable(ValueError):
    """The file is no table that we can read; the message says what to do."""


def read_rows(path: Path) -> Iterator[Row]:
    """Each row's line number (the header is line 1) and its cells by column name; empty rows are passed over.

    CSV is UTF-8, with commas, semicolons or tabs as the header has them. Of an XLSX file the first sheet is read. A
    number comes as people see it: 2 and not 2.0. Raises UnreadableTable.
    """
    if path.suffix.lower() in (".xlsx", ".xlsm", ".xls", ".ods"):
        yield from _read_sheet(path)
    else:
        yield from _read_csv(path)


def _read_csv(path: Path) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            if not header.strip():
                raise UnreadableTable(f"{path} is empty; its first line must name the columns.")
            delimiter = max(",;\t", key=header.count)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            names = _names(next(reader))
            line = reader.line_num + 1
            for cells in reader:
                row = dict(zip(names, (cell.strip() for cell in cells), strict=False))
                if any(row.values()):
                    yield line, row
                line = reader.line_num + 1
    except UnicodeDecodeError:
        raise UnreadableTable(f"{path} is not UTF-8. Save it as “CSV UTF-8”.") from None
    except csv.Error as error:
        raise UnreadableTable(f"{path} is no CSV file: {error}.") from None


def _read_sheet(path: Path) -> Iterator[Row]:
    try:
        rows = iter(python_calamine.CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python())
    except (python_calamine.CalamineError, OSError) as error:
        raise UnreadableTable(f"{path} is no spreadsheet that we can read: {error}.") from None
    header = next(rows, None)
    if not header:
        raise UnreadableTable(f"{path} is empty; its first row must name the columns.")
    names = _names([_text(cell) for cell in header])
    for line, cells in enumerate(rows, start=2):
        row = dict(zip(names, (_text(cell) for cell in cells), strict=False))
        if any(row.values()):
            yield line, row


def _names(header: list[str]) -> list[str]:
    return [unicodedata.normalize("NFC", name).strip().lower().replace(" ", "_") for name in header]


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()
