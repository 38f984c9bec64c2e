"""Downloads of pages, sent while they are made: any file, and tables as CSV or XLSX."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import get_language, get_language_bidi

from codservice.accounts import team
from codservice.accounts.models import User
from codservice.files import workbooks
from codservice.files.safe_csv import csv_pieces

ASKED_EVERY = 5  # seconds, whether the person may still have the file


def table_answer(
    request: HttpRequest, filename: str, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    """A download of a table, CSV or XLSX by the suffix of `filename`.

    `rows` are iterated while the file is sent, possibly in another thread. CSV has semicolons in French and Arabic,
    because spreadsheets expect them there in Algeria. XLSX begins on the right in Arabic.
    """
    if filename.endswith(".xlsx"):
        pieces = workbooks.pieces(header, rows, is_from_right=get_language_bidi())
        kind = workbooks.CONTENT_TYPE
    else:
        delimiter = "," if get_language() == "en" else ";"
        kind, pieces = "text/csv; charset=utf-8", csv_pieces(header, rows, delimiter=delimiter)
    return file_answer(request, filename, kind, pieces if request.method != "HEAD" else ())


def file_answer(
    request: HttpRequest, filename: str, content_type: str, pieces: Iterable[bytes]
) -> StreamingHttpResponse:
    """A download for the person who is signed in.

    It breaks off, so that no browser takes it for the whole file, once they may no longer sign in, have left the
    account whose page this is or, in the console, our staff.
    """
    account_id = request.seat.account.id if hasattr(request, "seat") else None
    return StreamingHttpResponse(
        _while_allowed(request.user.pk, account_id, pieces),
        content_type=content_type,
        headers={"Content-Disposition": f'attachment; filename="{filename}"'},
    )


def _while_allowed(user_id: UUID, account_id: UUID | None, pieces: Iterable[bytes]) -> Iterator[bytes]:
    asked_at = time.monotonic()
    for piece in pieces:
        if time.monotonic() - asked_at >= ASKED_EVERY:
            if not _is_allowed(user_id, account_id):
                raise PermissionDenied("The person who downloads this has been shut out.")
            asked_at = time.monotonic()
        yield piece


def _is_allowed(user_id: UUID, account_id: UUID | None) -> bool:
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None or account_id is None:
        return user is not None and user.is_staff
    seat = team.seat_of(user)
    return seat is not None and seat.account.id == account_id
