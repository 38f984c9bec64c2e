"""Downloads of pages, sent while they are made: any file, and tables as CSV or XLSX."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import get_language

from codservice.files import workbooks
from codservice.files.safe_csv import csv_pieces


def table_answer(
    request: HttpRequest, filename: str, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    """A download of a table, CSV or XLSX by the suffix of `filename`.

    `rows` are iterated while the file is sent, possibly in another thread. CSV has semicolons in French and Arabic,
    because spreadsheets expect them there in Algeria.
    """
    if filename.endswith(".xlsx"):
        kind, pieces = workbooks.CONTENT_TYPE, workbooks.pieces(header, rows)
    else:
        delimiter = "," if get_language() == "en" else ";"
        kind, pieces = "text/csv; charset=utf-8", csv_pieces(header, rows, delimiter=delimiter)
    return file_answer(filename, kind, pieces if request.method != "HEAD" else ())


def file_answer(filename: str, content_type: str, pieces: Iterable[bytes]) -> StreamingHttpResponse:
    """A download."""
    disposition = {"Content-Disposition": f'attachment; filename="{filename}"'}
    return StreamingHttpResponse(pieces, content_type=content_type, headers=disposition)
