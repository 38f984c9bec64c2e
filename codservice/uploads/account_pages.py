"""The account's pages for uploads: a file arrives, its columns are matched, its rows are taken in.

Rooms mount `new` and `example` for the kinds of files that they accept.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.translation import get_language, gettext, override
from django.views.decorators.http import require_POST, require_safe

from codservice import values, wording
from codservice.accounts import security_log
from codservice.accounts.account_page import account_page, confirmation
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.accounts.sessions import by_itself
from codservice.accounts.team import Right
from codservice.errors import Refused
from codservice.files.downloads import table_answer
from codservice.files.reports import ADDED, is_of_report
from codservice.long_lists import NewestFirst
from codservice.uploads import arrival
from codservice.uploads.kinds import KINDS
from codservice.uploads.match_form import MatchForm
from codservice.uploads.models import RefusedRow, Upload
from codservice.wire import MAX_BODY

Status = Upload.Status
SHOWN_ROWS = 3  # while a file's columns are matched
SHOWN_REFUSED = 50
SHOWN_SIGNS = 200  # of a refused row
SHOWN_SIGNS_OF_CELL = 60  # while a file's columns are matched


# --- Uploading a file ------------------------------------------------------------------------------------------------


@account_page(look=Right.WRITE)
def new(request: HttpRequest, account: Account, kind: str) -> HttpResponse:
    """Accept a file: announced by name and size with pieces to follow, or whole from a browser without scripts."""
    if request.method != "POST":
        return _page(request, account, kind)
    if "size" in request.POST:
        return _announced(request, account, kind)
    sent = request.FILES.get("file")
    if not sent and int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BODY:  # cut by `run.gateway`, within the file
        too_large = gettext(
            "Without scripts a file can have at most 900 KB. Load the page again, or send the file in parts."
        )
        return _page(request, account, kind, error=too_large)
    name, size = (sent.name or "", sent.size or 0) if sent else ("", 0)
    try:
        upload = arrival.begin(account, kind, name=name, size=size, user=request.user)  # type: ignore[arg-type]
    except Refused as refused:
        return _page(request, account, kind, error=refused.message)
    # Not by `chunks`, which returns an in-memory file in one piece.
    for number, data in enumerate(iter(lambda: sent.read(arrival.PIECE_BYTES), b"")):  # type: ignore[union-attr]
        arrival.take_piece(upload.id, account, number=number, data=data)
    return redirect("account-upload", id=upload.id)


def _announced(request: HttpRequest, account: Account, kind: str) -> JsonResponse:
    name, size = request.POST.get("name", ""), values.digits_or_none(request.POST["size"], most=2**53) or 0
    try:
        upload = arrival.begin(account, kind, name=name, size=size, user=request.user)  # type: ignore[arg-type]
    except Refused as refused:
        return JsonResponse({"error": refused.message}, status=422)
    address, pieces = (reverse(page, args=[upload.id]) for page in ("account-upload", "account-upload-piece"))
    return JsonResponse({"address": address, "pieces": pieces, "bytes": arrival.PIECE_BYTES})


def _page(request: HttpRequest, account: Account, kind: str, error: str = "") -> HttpResponse:
    uploads = Upload.objects.filter(account=account, kind__in=KINDS).order_by("-created_at", "-id")
    is_open = Q(status__in=Upload.OPEN)  # of every kind known here, and age: they keep further files out
    ended = NewestFirst(uploads.filter(~is_open, kind=kind), before=request.GET.get("before", ""))
    shown = [*uploads.filter(is_open), *ended.rows]
    context = {
        "kind": KINDS[kind],
        "columns": [column.label for column in KINDS[kind].intake.columns],
        "error": error,
        "uploads": [(upload, _counts(upload)) for upload in shown],
        "older": ended.older,
        "most": arrival.MAX_BYTES >> 20,
    }
    return render(request, "uploads/new.html", context, status=422 if error else 200)


@account_page(look=Right.WRITE)
@require_safe
def example(request: HttpRequest, account: Account, kind: str) -> HttpResponseBase:
    """A file to begin with: the columns that most files need, named in the page's language, and some rows."""
    intake = KINDS[kind].intake
    columns = [column for column in intake.columns if column.name in intake.example[0]]
    rows = [[row.get(column.name) for column in columns] for row in intake.example]
    return table_answer(request, f"{kind}.xlsx", [str(column.label) for column in columns], rows)


@account_page(look=Right.WRITE)
@require_POST
def piece(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    number, sent = values.digits_or_none(request.POST.get("number", "")), request.FILES.get("data")
    get_object_or_404(Upload, id=id, account=account)
    try:
        data = sent.read() if sent else b""
        is_whole = arrival.take_piece(id, account, number=-1 if number is None else number, data=data)
    except Refused as refused:
        return JsonResponse({"error": refused.message}, status=422)
    return JsonResponse({"whole": is_whole})


# --- An upload's page ------------------------------------------------------------------------------------------------


@account_page()
def upload(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Show how far an upload is, or the form that matches its columns, which a POST sends.

    The page says when the same file was sent before. A POST from a page that did not say so yet gets that question
    first, because two colleagues may send the same file at the same time.
    """
    shown = _find(account, id)
    if request.method != "POST" or shown.status != Status.MATCHING:
        return render(request, "uploads/upload.html", _context(shown))
    form = MatchForm(shown, request.POST)
    if not form.is_valid():
        return render(request, "uploads/upload.html", _context(shown, form), status=422)
    if (same := _same(shown)) and request.POST.get("seen") != str(same.id):
        return render(request, "uploads/upload.html", _context(shown, form) | {"is_asked": True}, status=422)
    waiting = Upload.objects.filter(id=id, account=account, status=Status.MATCHING)
    with transaction.atomic():
        if waiting.update(
            status=Status.RUNNING, fingerprint=form.fingerprint, mapping=form.mapping(), constants=form.constants()
        ):
            security_log.note(Action.UPLOADED, target=shown.name, target_id=id, account_id=account.id)
    return redirect("account-upload", id=id)


@account_page()
@by_itself
@require_safe
def progress(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    return render(request, "uploads/progress.html", _context(_find(account, id)))


@account_page(look=Right.WRITE)
def stop(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Ask (GET), then stop the upload (POST): the rest of the file is discarded, what is imported stays."""
    shown = _find(account, id)
    if shown.status not in Upload.OPEN:
        return redirect("account-upload", id=id)
    if request.method != "POST":
        if shown.status in Upload.AT_WORK:
            title, text, button = (
                gettext("Stop this upload?"),
                gettext("What is already imported stays. The rest of the file is discarded."),
                gettext("Stop the upload"),
            )
        else:
            title, text, button = (
                gettext("Discard this file?"),
                gettext("Nothing of it is imported yet."),
                gettext("Discard the file"),
            )
        back = reverse("account-upload", args=[id])
        return confirmation(request, title=title, text=text, button=button, back=back)
    with transaction.atomic():
        mine = Upload.objects.filter(id=id, account=account, status__in=Upload.OPEN)
        if still_open := mine.select_for_update(no_key=True).first():
            still_open.end(Status.STOPPED)
            security_log.note(Action.UPLOAD_STOPPED, target=shown.name, target_id=id, account_id=account.id)
    if still_open:
        messages.success(request, gettext("The upload is stopped."))
    return redirect("account-upload", id=id)


def _find(account: Account, id: UUID) -> Upload:
    return get_object_or_404(Upload, id=id, account=account, kind__in=KINDS)


def _context(upload: Upload, form: MatchForm | None = None) -> dict[str, Any]:
    """What the page shows. Takes at most seven SQL statements, however large the file is, unless its rows are long."""
    context: dict[str, Any] = {
        "upload": upload,
        "kind": KINDS[upload.kind],
        "is_at_work": upload.status in Upload.AT_WORK,
        "is_open": upload.status in Upload.OPEN,
        "problem": wording.in_words(upload.problem) if upload.problem else "",
        "counts": _counts(upload),
    }
    if upload.status == Status.MATCHING:
        context |= _to_match(upload, form or MatchForm(upload))
    elif upload.status not in Upload.OPEN:
        context |= _refused_shown(upload)
    return context


def _to_match(upload: Upload, form: MatchForm) -> dict[str, Any]:
    """What is shown beside the form that matches the columns."""
    read = {str(field.value()) for field, *_constants in form.pairs()}
    known = ("", *ADDED) if is_of_report(dict.fromkeys(upload.titles, "")) else ("",)
    columns = [(place, title, str(place) in read) for place, title in enumerate(upload.titles) if title not in known]
    return {
        "form": form,
        "columns": columns,
        "has_unread": not all(is_read for *_, is_read in columns),
        "sample": [_titled(cells, upload) for cells in form.rows[:SHOWN_ROWS]],
        "to_check": form.to_check(),
        "same": _same(upload),
    }


def _refused_shown(upload: Upload) -> dict[str, Any]:
    """The first refused rows of an upload that has ended."""
    said = _Reasons(upload)
    rows = islice(upload.read_refused(), SHOWN_REFUSED + 1)
    shown = [(row.line, _first(_own(upload, row)), said.of(row)) for row in rows]
    return {"refused": shown[:SHOWN_REFUSED], "has_more": len(shown) > SHOWN_REFUSED}


def _first(cells: Sequence[str]) -> list[str]:
    """What stands in a row, as far as there is room for it."""
    shown, room = [], SHOWN_SIGNS
    for cell in filter(None, cells):
        if room <= 0:
            break
        shown.append(values.shortened(cell, room))
        room -= len(cell)
    return shown


def _same(upload: Upload) -> Upload | None:
    """The latest other upload of the identical file, unless it came to nothing."""
    same = Upload.objects.filter(account_id=upload.account_id, kind=upload.kind, digest=upload.digest)
    nothing = Q(status__in=(Status.FAILED, Status.STOPPED), rows_done=0)
    return same.exclude(id=upload.id).exclude(nothing).order_by("-created_at", "-id").first()


def _titled(cells: list[str], upload: Upload) -> list[tuple[str, str]]:
    """A cell for each column, after its title."""
    titled = zip_longest(upload.titles, cells[: len(upload.titles)], fillvalue="")
    return [(title, values.shortened(cell, SHOWN_SIGNS_OF_CELL)) for title, cell in titled]


def _counts(upload: Upload) -> list[tuple[Any, int]]:
    intake = KINDS[upload.kind].intake
    names = {**intake.counted, "refused": intake.refused}
    return [(label, upload.counts[name]) for name, label in names.items() if type(upload.counts.get(name)) is int]


# --- Refused rows ----------------------------------------------------------------------------------------------------


class _Reasons:
    """Says why a row was refused, in the active language and with the file's headings."""

    def __init__(self, upload: Upload) -> None:
        intake = KINDS[upload.kind].intake
        self._names = {column.name: str(column.label) for column in intake.columns}
        places = {name: place for name, place in upload.mapping.items() if place < len(upload.titles)}
        self._names |= {name: upload.titles[place] for name, place in places.items() if upload.titles[place]}

    def of(self, row: RefusedRow) -> list[tuple[str, str]]:
        """What is wrong: pairs of a heading, which may be empty, and a sentence."""
        return [
            (self._names.get(column, ""), " ".join(wording.in_words(each) for each in sentences))
            for column, sentences in row.faults
        ]

    def __call__(self, row: RefusedRow) -> str:
        # Translators: between a name and what is said of it.
        colon = gettext(":")
        return " ".join(f"{title}{colon} {sentence}" if title else sentence for title, sentence in self.of(row))


@account_page()
@require_safe
def refused(request: HttpRequest, account: Account, id: UUID, form: str) -> HttpResponseBase:
    """The refused rows as they were in the file, each with its reason, to be corrected and sent again."""
    upload = _find(account, id)
    if upload.status in Upload.OPEN:
        raise Http404
    header = [*ADDED, *(title for title in upload.titles if title not in ADDED)]
    return table_answer(request, f"refused.{form}", header, _refused_rows(upload, get_language() or "en"))


def _refused_rows(upload: Upload, language: str) -> Iterator[list[Any]]:
    with override(language):
        said = _Reasons(upload)
    for row in upload.read_refused():
        with override(language):
            reason = said(row)
        yield [row.line, reason, *_own(upload, row)]


def _own(upload: Upload, row: RefusedRow) -> list[str]:
    """The row's cells, without those that we put in front when it was refused before."""
    width = len(upload.titles)
    titled = zip_longest(upload.titles, row.cells[:width], fillvalue="")
    return [cell for title, cell in titled if title not in ADDED] + row.cells[width:]


@account_page(look=Right.WRITE)
def discard(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Ask (GET), then delete the refused rows (POST), which nobody wants to correct."""
    shown = _find(account, id)
    rows = RefusedRow.objects.filter(upload=shown)
    if shown.status in Upload.OPEN or not rows.exists():
        return redirect("account-upload", id=id)
    if request.method != "POST":
        return confirmation(
            request,
            title=gettext("Discard the refused rows?"),
            text=gettext("They can no longer be downloaded and no longer appear on Home."),
            button=gettext("Discard the rows"),
            back=reverse("account-upload", args=[id]),
        )
    with transaction.atomic():
        # Those of earlier files about the same: they count again as soon as these are gone.
        earlier = RefusedRow.objects.filter(account=account, upload__lt=id, upload__kind=shown.kind)
        earlier.filter(name__in=rows.exclude(name="").values("name")).delete()
        if rows.delete()[0]:
            security_log.note(Action.ROWS_DISCARDED, target=shown.name, target_id=id, account_id=account.id)
    messages.success(request, gettext("The refused rows are discarded."))
    return redirect("account-upload", id=id)


urlpatterns = [
    path("uploads/<uuid:id>", upload, name="account-upload"),
    path("uploads/<uuid:id>/piece", piece, name="account-upload-piece"),
    path("uploads/<uuid:id>/progress", progress, name="account-upload-progress"),
    path("uploads/<uuid:id>/stop", stop, name="account-upload-stop"),
    path("uploads/<uuid:id>/discard", discard, name="account-upload-discard"),
    path("uploads/<uuid:id>/refused.csv", refused, {"form": "csv"}, name="account-upload-refused-csv"),
    path("uploads/<uuid:id>/refused.xlsx", refused, {"form": "xlsx"}, name="account-upload-refused-xlsx"),
]
