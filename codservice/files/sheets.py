"""Reads a spreadsheet's first visible sheet as lines of text, in a process of its own with bounded memory.

A file of 1 kB can name a cell so far away that the sheet up to it fills all memory, and no check beforehand finds every
such trick in four formats. So `read` runs this file as a program, whose limits the kernel enforces.
"""

import errno
import os
import re
import resource
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from decimal import Decimal
from typing import IO

import msgspec
import python_calamine

SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")  # .xls is refused

# The limits of reading. A sheet of 200 000 rows and 20 columns takes half of the memory.
MAX_MEMORY = 1 << 30
MAX_CPU_SECONDS = 120
MAX_SECONDS = 180  # however little of the processor it got; less than `uploads.processing.READING_LEASE`
MAX_WRITTEN = 1 << 30
# Beyond these a file is refused with a sentence that says why.
MAX_UNZIPPED = 256 << 20
MAX_ROWS = MAX_UNZIPPED  # bytes of all rows: a file of 20 kB held a gigabyte, as cells can share one text
MAX_COLUMNS = 500
MAX_CELL = 32_767  # characters, as in Excel: many cells may share one text of the file
MAX_ROW = 1 << 20  # bytes
MAX_NAME = 100  # characters of a sheet's name that are shown; Excel allows 31
_SHOWN = (python_calamine.SheetTypeEnum.WorkSheet, python_calamine.SheetVisibleEnum.Visible)
_KNOWN_TO_IT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")  # all it gets of the environment, which holds secrets
_REFUSED = 3  # exit status, with the reason on stderr; otherwise stderr has the sheet's name
_DISK_IS_FULL = 4
_PIECE = 1 << 20
_TOO_LARGE = "is too large a spreadsheet to be read. Save it as “CSV UTF-8”."
_NO_ZIP = (
    "is not a spreadsheet that we can read: it may be an .xls or have a password. Save it as XLSX, without a password."
)
# Cells of an XLSX sheet whose formula failed, and whose formula has no result, not even an empty text.
_FAILED = re.compile(rb"(<(?:\w+:)?c\s[^<>]*?\bt=[\"'])e(?=[\"'])")
# The same in an ODS file, as LibreOffice writes them: the empty text hides the error that people see in the cell. Its
# type is looked for once a tag: from each empty text on, a tag that is full of them would take minutes.
_FAILED_ODS = re.compile(rb"(<(?=[^<>]*\bcalcext:value-type=[\"']error[\"'])[^<>]*?)\boffice:string-value=([\"'])\2")
_MARKS = (b't="e"', b"t='e'", b'calcext:value-type="error"', b"calcext:value-type='error'")
_WITHOUT_RESULT = re.compile(
    rb"<((?:\w+:)?)c(?=[\s>])(?![^<>]*\st=[\"'][^n])([^<>]*)>\s*(<\1f(?=[\s/>])(?:[^<>]*/>|[^<>]*>[^<]*</\1f>))\s*"
    rb"(?:<\1v\s*/>\s*|<\1v>\s*</\1v>\s*)?(?=</\1c>)"
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # of terminals, line ends and text direction


class UnreadableSheet(ValueError):
    """The sheet cannot be read. The message says why, and continues a sentence that begins with the file's name."""


def shown(text: str) -> str:
    """A text from a file that is safe in a message: without control characters, and no longer than MAX_NAME."""
    return _CONTROLS.sub("\ufffd", text[:MAX_NAME])


def read(file: IO[bytes]) -> tuple[IO[bytes], str]:
    """A file of the rows, each a JSON list of texts on a line, and the sheet's name if other sheets are visible.

    Raises UnreadableSheet, OSError.
    """
    rows = tempfile.TemporaryFile()  # noqa: SIM115 - the caller reads it
    file.seek(0)
    try:
        done = subprocess.run(  # noqa: S603  (our own program)
            [sys.executable, "-P", "-W", "ignore", __file__],
            stdin=file,
            stdout=rows,
            stderr=subprocess.PIPE,
            env={name: os.environ[name] for name in _KNOWN_TO_IT if name in os.environ},
            timeout=MAX_SECONDS,
        )
    except subprocess.TimeoutExpired:  # it has been killed
        raise UnreadableSheet(_TOO_LARGE) from None
    # It may hold a sheet's name, and what Calamine says as it breaks down, of any length.
    said = _CONTROLS.sub("\ufffd", done.stderr[:4096].decode(errors="replace").strip())
    if done.returncode == _REFUSED:
        raise UnreadableSheet(said)
    if done.returncode == _DISK_IS_FULL:
        raise OSError(errno.ENOSPC, f"no space is left in {tempfile.gettempdir()}")
    if done.returncode:
        raise UnreadableSheet(_TOO_LARGE)
    return rows, said


def _write_rows(file: IO[bytes]) -> None:
    # In .xls, Calamine reads errors as empty cells, and we cannot tell them. `is_zipfile` finds the ZIP files within.
    file.seek(0)
    if file.read(4) != b"PK\3\4":
        raise UnreadableSheet(_NO_ZIP)
    with zipfile.ZipFile(file) as parts:
        size = sum(part.file_size for part in parts.infolist())
    if size > MAX_UNZIPPED:
        raise UnreadableSheet(f"unpacks to {size >> 20} MiB. It can have at most {MAX_UNZIPPED >> 20}.")
    file = _with_errors(file)
    file.seek(0)
    book = python_calamine.CalamineWorkbook.from_filelike(file)
    visible = [each.name for each in book.sheets_metadata if (each.typ, each.visible) == _SHOWN]
    sheet = book.get_sheet_by_name(visible[0]) if visible else book.get_sheet_by_index(0)
    if sheet.width > MAX_COLUMNS:
        raise UnreadableSheet(f"has {sheet.width} columns. It can have at most {MAX_COLUMNS}.")
    encode, written = msgspec.json.Encoder().encode, 0
    for number, row in enumerate(sheet.iter_rows(), start=1):
        cells = [_text(cell) for cell in row]
        if max(map(len, cells), default=0) > MAX_CELL or len(line := encode(cells)) > MAX_ROW:
            raise UnreadableSheet(f"has too much text in row {number}.")
        written += len(line)
        if written > MAX_ROWS:
            raise UnreadableSheet(f"has more than {MAX_ROWS >> 20} MiB of text. Send it in parts.")
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
    if len(visible) > 1:
        sys.stderr.buffer.write(visible[0][:MAX_NAME].encode())


def _with_errors(file: IO[bytes]) -> IO[bytes]:
    """The same XLSX or ODS file, with the errors of failed formulas, such as `#N/A`, as texts.

    A formula without a result, as programs write it that do not calculate, becomes `#CALC!`. Calamine reads both as
    empty cells, which would mean that the value was left out.
    """
    with zipfile.ZipFile(file) as parts:
        names = {name for name in parts.namelist() if _is_sheet(name)}
        if not any(_has_error(piece) for name in names for piece in _pieces(parts, name)):
            return file
        told = tempfile.TemporaryFile()  # noqa: SIM115 - the caller reads it
        with zipfile.ZipFile(told, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as copy:
            for name in parts.namelist():
                with copy.open(name, "w") as written:
                    for piece in _pieces(parts, name):
                        written.write(_told(piece) if name in names else piece)
        return told


def _is_sheet(name: str) -> bool:
    """Whether a part has sheets, by its name. Calamine accepts XLSX parts in any case, and with backslashes."""
    return name.replace("\\", "/").lower().startswith("xl/worksheets/") or name == "content.xml"


def _has_error(piece: bytes) -> bool:
    """Whether a piece has a failed formula. Plain searches clear most sheets in a tenth of the time."""
    if any(mark in piece for mark in _MARKS):
        return True
    return (b"<f" in piece or b":f" in piece) and _WITHOUT_RESULT.search(piece) is not None


def _told(piece: bytes) -> bytes:
    return _WITHOUT_RESULT.sub(_not_calculated, _FAILED.sub(rb"\1str", _FAILED_ODS.sub(rb"\1", piece)))


def _not_calculated(cell: re.Match[bytes]) -> bytes:
    prefix, attributes, formula = cell.groups()
    attributes = attributes.replace(b' t="n"', b"").replace(b" t='n'", b"")
    return b'<%bc%b t="str">%b<%bv>#CALC!</%bv>' % (prefix, attributes, formula, prefix, prefix)


def _pieces(parts: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """A part of a file, in pieces that end where a row does. What has no such end within _PIECE is given as it is."""
    rest = b""
    with parts.open(name) as part:
        while read := part.read(_PIECE):
            piece, end, rest = (rest + read).rpartition(b"row>")
            yield piece + end
            if len(rest) > _PIECE:
                yield rest
                rest = b""
    yield rest


def _text(cell: object) -> str:
    # Spreadsheets keep 15 digits. Of a longer number we would say digits that nobody wrote, the same for two of them.
    if isinstance(cell, float) and abs(cell) >= 10**15:
        return f"{cell:.5E}"  # as they show it, which is refused as shortened (`intake.SHORTENED`)
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, float):
        return f"{Decimal(f'{cell:.15g}'):f}"  # as spreadsheets show it; they compute with two digits more
    return str(cell).strip()


def main() -> int:
    for kind, most in (
        (resource.RLIMIT_AS, MAX_MEMORY),
        (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
        (resource.RLIMIT_FSIZE, MAX_WRITTEN),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    try:
        _write_rows(sys.stdin.buffer)
    except UnreadableSheet as error:
        said = str(error)
    except (python_calamine.CalamineError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            os._exit(_DISK_IS_FULL)  # Python would try again to write what is left, and end with a status of its own
        said = f"is not a spreadsheet that we can read: {shown(str(error))}."  # it may quote the file
    else:
        return 0
    sys.stderr.write(said)
    return _REFUSED


if __name__ == "__main__":
    sys.exit(main())
