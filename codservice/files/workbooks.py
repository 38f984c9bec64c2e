"""XLSX workbooks that are written while they are sent, in constant memory.

Cells are texts, numbers and times, never formulas: nothing in such a workbook runs when it is opened.
"""

import html
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from codservice.files.safe_csv import escaped

CONTENT_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# What spreadsheets accept: rows of a sheet, characters of a cell.
MAX_ROWS = 1_048_576
MAX_CELL = 32_767
# Beyond 2 GiB a part of an archive needs ZIP64, which not every spreadsheet reads: a new sheet begins well before.
MAX_SHEET_BYTES = 1 << 30
PIECE = 16 << 10  # bytes given at a time, about; compressed, so they hold many more bytes of rows

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_SHEET_TYPE = CONTENT_TYPE.removesuffix("sheet") + "worksheet+xml"
_BOOK_TYPE = CONTENT_TYPE + ".main+xml"
_STYLES_TYPE = CONTENT_TYPE.removesuffix("sheet") + "styles+xml"
_DAY_0, _DAY = datetime(1899, 12, 30), timedelta(days=1)  # noqa: DTZ001 - a spreadsheet's times have no zone
_COLUMNS = '<cols><col min="1" max="{}" width="20" customWidth="1"/></cols>'  # a narrower column does not show a time
_FROM_RIGHT = '<sheetViews><sheetView rightToLeft="1" workbookViewId="0"/></sheetViews>'
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><fonts count="1"><font><sz val="11"/><name val="Calibri"/><family val="2"/></font>'
    '</fonts><fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/>'
    '</fill></fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="2">'
    '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>'
    '<xf numFmtId="22" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'  # as countries do
    '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)


class Sink:
    """A write-only file that cannot seek. `take` removes and returns what was written."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        taken, self._pieces, self.size = b"".join(self._pieces), [], 0
        return taken


def pieces(header: Sequence[str], rows: Iterable[Sequence[Any]], *, is_from_right: bool = False) -> Iterator[bytes]:
    """The bytes of a workbook of the header and these rows, which go on in another sheet when one is full.

    The first column is the leftmost one, or the rightmost if `is_from_right`.

    None is an empty cell, int and Decimal are numbers, and a datetime without a zone is a time. All else is text, cut
    off where a spreadsheet would refuse it.
    """
    sink, sheets, rest = Sink(), 0, iter(rows)
    layout = (_FROM_RIGHT if is_from_right else "") + _COLUMNS.format(len(header))
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as book:  # type: ignore[call-overload]
        is_over = False
        while not is_over:
            sheets += 1
            with book.open(f"xl/worksheets/sheet{sheets}.xml", "w") as sheet:
                begin = f'{_HEAD}<worksheet xmlns="{_MAIN}">{layout}<sheetData>{_row(header)}'
                size = sheet.write(begin.encode())
                count = 1
                while count < MAX_ROWS and size < MAX_SHEET_BYTES:
                    row = next(rest, None)
                    if is_over := row is None:
                        break
                    size += sheet.write(_row(row).encode())
                    count += 1
                    if sink.size >= PIECE:
                        yield sink.take()
                sheet.write(b"</sheetData></worksheet>")
        for name, part in _parts(sheets).items():
            book.writestr(name, _HEAD + part)
    yield sink.take()


def _row(cells: Iterable[Any]) -> str:
    return f"<row>{''.join(map(_cell, cells))}</row>"


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "<c/>"
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return f"<c><v>{value}</v></c>"
    if isinstance(value, datetime):
        return f'<c s="1"><v>{(value - _DAY_0) / _DAY:.10f}</v></c>'
    text = _NOT_IN_XML.sub("\ufffd", escaped(str(value)))[:MAX_CELL]
    return f'<c t="inlineStr"><is><t xml:space="preserve">{html.escape(text, quote=False)}</t></is></c>'


def _parts(sheets: int) -> dict[str, str]:
    numbers = range(1, sheets + 1)
    types = "".join(f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{_SHEET_TYPE}"/>' for n in numbers)
    names = "".join(f'<sheet name="{n}" sheetId="{n}" r:id="rId{n}"/>' for n in numbers)
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n in numbers
    )
    relationships = f'<Relationships xmlns="{_PACKAGE}/relationships">'
    return {
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'{relationships}{links}<Relationship Id="styles" Type="{_OFFICE}/styles" '
        'Target="styles.xml"/></Relationships>',
        "xl/styles.xml": _STYLES,
        "_rels/.rels": f'{relationships}<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_BOOK_TYPE}"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{_STYLES_TYPE}"/>{types}</Types>',
    }
