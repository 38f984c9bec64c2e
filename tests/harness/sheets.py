"""Writes the smallest XLSX and ODS files that spreadsheets read, with inline texts, and reads CSV files."""

import csv
import zipfile
from collections.abc import Mapping
from io import BytesIO, StringIO
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

Rows = list[list[str | float | bool]]

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_OPEN = "urn:oasis:names:tc:opendocument:xmlns"
_ODS_TYPE = "application/vnd.oasis.opendocument.spreadsheet"
_CALCEXT = "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"


def write_xlsx(path: Path, rows: Rows) -> None:
    path.write_bytes(workbook({"Products": rows}))


def workbook(sheets: Mapping[str, Rows]) -> bytes:
    """An XLSX file with these sheets, by name."""
    types = names = links = ""
    parts = {}
    for number, (name, rows) in enumerate(sheets.items(), start=1):
        path = f"worksheets/sheet{number}.xml"
        types += f'<Override PartName="/xl/{path}" ContentType="{_TYPE}.worksheet+xml"/>'
        names += f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="rId{number}"/>'
        links += f'<Relationship Id="rId{number}" Target="{path}" Type="{_OFFICE}/worksheet"/>'
        body = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
        parts[f"xl/{path}"] = f'<worksheet xmlns="{_MAIN}"><sheetData>{body}</sheetData></worksheet>'
    parts |= {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>{types}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Target="xl/workbook.xml" Type="{_OFFICE}/officeDocument"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{links}</Relationships>',
    }
    return _zipped(parts)


def ods(sheets: Mapping[str, Rows]) -> bytes:
    """The same as an ODS file, with texts and errors as LibreOffice writes them."""
    spaces = " ".join(f'xmlns:{name}="{_OPEN}:{name}:1.0"' for name in ("office", "table", "text"))
    body = "".join(
        f"<table:table table:name={quoteattr(name)}>"
        + "".join(f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets.items()
    )
    return _zipped(
        {
            "mimetype": _ODS_TYPE,
            "content.xml": f'<office:document-content {spaces} xmlns:calcext="{_CALCEXT}"><office:body>'
            f"<office:spreadsheet>{body}</office:spreadsheet></office:body></office:document-content>",
            "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="{_OPEN}:manifest:1.0"><manifest:file-entry '
            f'manifest:full-path="/" manifest:media-type="{_ODS_TYPE}"/></manifest:manifest>',
        }
    )


def _zipped(parts: Mapping[str, str]) -> bytes:
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)
    return data.getvalue()


def read_csv(data: bytes, delimiter: str = ",") -> list[list[str]]:
    """The rows of a CSV file, with or without a byte order mark."""
    return list(csv.reader(StringIO(data.decode("utf-8-sig"), newline=""), delimiter=delimiter))


def read_records(data: bytes, delimiter: str = ",") -> list[dict[str, str]]:
    """The rows below a CSV file's header, by column name."""
    return list(csv.DictReader(StringIO(data.decode("utf-8-sig"), newline=""), delimiter=delimiter))


class Failed(str):
    """The error of a cell whose formula failed."""


def _cell(value: str | float | bool) -> str:
    if isinstance(value, Failed):
        return f'<c t="e"><f>NA()</f><v>{value}</v></c>'
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f"<c><v>{value}</v></c>"


def _ods_cell(value: str | float | bool) -> str:
    failed = ' table:formula="of:=NA()" office:string-value="" calcext:value-type="error"'
    of = failed if isinstance(value, Failed) else ""
    return f'<table:table-cell office:value-type="string"{of}><text:p>{escape(str(value))}</text:p></table:table-cell>'
