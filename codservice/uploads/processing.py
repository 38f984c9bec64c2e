"""A worker's part of an upload: it reads the file, and takes its rows in once its columns are matched.

Rows are taken in by batches. A batch, its outcome and the progress in the file are committed in one transaction that
locks the upload's row. So a worker may be killed at any time: the next one goes on after the last batch, and no row is
taken in twice, whether it has a number or not. A claim says which worker has the upload. It runs out, and only the
current claim may write. During an upgrade workers of two versions may claim a file: one that does not know its kind, or
all of its columns, leaves it alone and lets its claim run out, and gives it up only after MOST_TRIES.

When the same person sends a file again while it is under way, the earlier upload ends once the later one has come as
far. What the earlier has taken in stays, and the later begins at the first row: orders that have a number count as
already there, those without one come twice.
"""

import contextlib
import hashlib
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import IO
from uuid import UUID, uuid4

import msgspec
from django.db import Error, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from codservice import stops
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account
from codservice.errors import Errors
from codservice.files import headings
from codservice.files.intake import MAX_TEXT, Blame, Entry, Intake, batches, blame, see_line
from codservice.files.reports import ADDED
from codservice.files.tables import Row, Table, UnreadableTable, words_in
from codservice.uploads.kinds import KINDS
from codservice.uploads.models import Block, FileRow, Piece, RefusedRow, Upload

logger = logging.getLogger(__name__)

SECONDS = 20.0  # of work on one upload before another has its turn
LEASE = timedelta(seconds=30)
READING_LEASE = timedelta(minutes=4)  # the process that reads a spreadsheet reports nothing for `sheets.MAX_SECONDS`
MOST_TRIES = 20  # without completing a batch
MAX_ROWS = 200_000
MAX_COLUMNS = 120  # Shopify's orders have about 80
_BLOCK_BYTES = 128 << 10

_GIVEN_UP = "We could not continue with this file. What came before is done, as counted here."
_SENT_AGAIN = "The file was sent again: the newer one takes its place."
_encode = msgspec.json.Encoder().encode
Status = Upload.Status

# Takes the upload that has waited longest, a new one since it was begun: otherwise somebody who sends file after file
# would leave no turn to those under way. No two workers get the same upload. A claim that lasts longer than any lease
# was made before the clock was set back. Columns by name: a prepared `*` fails for good once a migration adds a column.
_CLAIM = f"""
UPDATE uploads_upload SET claim = %(claim)s, claimed_until = clock_timestamp() + %(lease)s, tries = tries + 1
WHERE id = (
    SELECT id FROM uploads_upload
    WHERE status IN ('reading', 'running') AND (
        claimed_until IS NULL OR claimed_until < clock_timestamp() OR claimed_until > clock_timestamp() + %(longest)s)
    ORDER BY coalesce(claimed_until, created_at) LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
) RETURNING {", ".join(str(field.column) for field in Upload._meta.concrete_fields)}
"""  # noqa: S608  (our own columns)


class _Lost(Exception):
    """Another worker has the upload by now, or it was stopped, or this worker is stopping."""


class _SentAgain(Exception):
    """A later upload of the same file has come as far and takes this one's place."""


class _OfAnotherVersion(Exception):
    """A newer version knows this kind of file, or has matched columns that it knows. Its workers will take it in."""


def go_on() -> int:
    """Work on the uploads in turn until nothing is left, or the worker stops. Returns the number of turns."""
    turns = 0
    while not stops.stopping.is_set() and (upload := _claim()):
        turns += 1
        claimed = Upload.objects.filter(id=upload.id, claim=upload.claim)
        try:
            _work_at(upload)
        except _Lost:
            logger.info("upload %s was stopped, or another worker has taken it over", upload.id)
        except Exception:  # it is tried again, and after READING_LEASE only if this cannot be written
            with contextlib.suppress(Error):  # such as the one that is told
                claimed.update(claimed_until=Now() + LEASE)
            raise
        claimed.update(claim=None, claimed_until=Now())
    return turns


def _claim() -> Upload | None:
    parameters = {"claim": uuid4(), "lease": LEASE, "longest": max(LEASE, READING_LEASE)}
    return next(iter(Upload.objects.raw(_CLAIM, parameters)), None)


def _work_at(upload: Upload) -> None:
    try:
        if upload.tries > MOST_TRIES:
            _end(upload, Status.FAILED, _GIVEN_UP)
        elif _is_closed(upload.account_id):
            _end(upload, Status.STOPPED)
        elif upload.kind not in KINDS:
            raise _OfAnotherVersion(f"upload {upload.id} is of a kind unknown here: {upload.kind}")
        else:
            _need_newest(upload)
            if upload.status == Status.READING:
                _read(upload)
            else:
                _take_in(upload)
    except _SentAgain:
        _end(upload, Status.STOPPED, _SENT_AGAIN)
    except UnreadableTable as error:
        _end(upload, Status.FAILED, str(error))


def _is_closed(account_id: UUID) -> bool:
    """Whether the account, or its live one, is closed. Then its files are not taken in, as its keys do not work."""
    works = Q(live=None, holder__is_active=True) | Q(live__is_active=True, live__holder__is_active=True)
    return not Account.objects.filter(works, id=account_id, is_active=True).exists()


def _uploads_of_same_file(upload: Upload) -> QuerySet[Upload]:
    """All uploads of the identical file by the same person, of those that have been read."""
    same = {name: getattr(upload, name) for name in ("account_id", "kind", "user_id", "digest")}
    return Upload.objects.filter(**same).exclude(digest="")


def _need_newest(upload: Upload) -> None:
    """Raise _SentAgain if a later try has come as far. Until then this one goes on, as that may never be matched."""
    as_far = [Status.RUNNING, Status.DONE, *([Status.MATCHING] if upload.status == Status.READING else [])]
    if _uploads_of_same_file(upload).filter(id__gt=upload.id, status__in=as_far).exists():
        raise _SentAgain


def give_way(earlier: QuerySet[Upload]) -> None:
    """End these earlier tries of a file, which no worker has claimed. One whose row is locked just now goes on."""
    for upload in earlier.select_for_update(no_key=True, skip_locked=True):
        upload.end(Status.STOPPED, _SENT_AGAIN)


@contextlib.contextmanager
def _held(upload: Upload) -> Iterator[None]:
    """A transaction that locks the upload's row. Raises _Lost if its claim or status has changed."""
    same = {name: getattr(upload, name) for name in ("id", "claim", "status")}
    with transaction.atomic():
        if not list(Upload.objects.select_for_update(no_key=True).filter(**same).values_list("id")):
            raise _Lost
        yield


def _end(upload: Upload, status: Upload.Status, problem: str = "") -> None:
    with _held(upload):
        upload.end(status, problem)


# --- Reading the file ------------------------------------------------------------------------------------------------


def _read(upload: Upload) -> None:
    """Turn the file's pieces into blocks of rows."""
    with _held(upload):
        upload.change(claimed_until=Now() + READING_LEASE)
    with tempfile.TemporaryFile() as file:  # unnamed, so that a killed worker leaves nothing behind
        upload.digest = _fetch(upload, file)
        _need_newest(upload)
        table = Table(Path(upload.name), columns=KINDS[upload.kind].intake.columns, file=file, by_place=True)
        with _held(upload):
            Block.objects.filter(upload=upload).delete()  # of an earlier try
            upload.change(sheet=table.sheet, claimed_until=Now() + READING_LEASE)
        header = table.header
        while len(header) > MAX_COLUMNS and not header[-1]:
            header.pop()
        if len(header) > MAX_COLUMNS:
            raise UnreadableTable(f"The file has {len(header)} columns. It can have at most {MAX_COLUMNS}.")
        row_count = _write_blocks(upload, table)
    if not row_count:
        raise UnreadableTable("The file has no rows below its first line.")
    with _held(upload):
        Account.lock(upload.account_id)  # another worker may have read the same file meanwhile
        _need_newest(upload)
        give_way(_uploads_of_same_file(upload).filter(id__lt=upload.id, status=Status.MATCHING))
        Piece.objects.filter(upload=upload).delete()
        upload.change(
            status=Status.MATCHING,
            digest=upload.digest,
            titles=[title[:200].replace("\0", "\ufffd") for title in header],
            fingerprint=_fingerprint(header),
            row_count=row_count,
            tries=0,
            claim=None,  # a worker that is killed now holds up nothing
            claimed_until=Now(),
        )


def _fetch(upload: Upload, file: IO[bytes]) -> str:
    """Write the file's bytes, a piece at a time, and return their digest."""
    digest = hashlib.sha256()
    for number in Piece.objects.filter(upload=upload).order_by("number").values_list("number", flat=True):
        data = bytes(Piece.objects.values_list("data", flat=True).get(upload=upload, number=number))
        digest.update(data)
        file.write(data)
    file.flush()
    return digest.hexdigest()


def _write_blocks(upload: Upload, table: Table) -> int:
    block: list[FileRow] = []
    size = count = 0
    for line, _end, cells, is_apart in table.records():
        # PostgreSQL's texts cannot hold NUL: replace it with a character that the rules refuse just the same.
        block.append(FileRow(line, [cell.replace("\0", "\x01") for cell in cells], is_apart))
        size, count = size + sum(map(len, cells)) + len(cells), count + 1
        if count > MAX_ROWS:
            raise UnreadableTable(f"The file has more than {MAX_ROWS} rows. Send it in parts.")
        if size > _BLOCK_BYTES:
            _write_block(upload, block)
            block, size = [], 0
            if stops.stopping.is_set():
                raise _Lost
    if block:
        _write_block(upload, block)
    return count


def _write_block(upload: Upload, rows: list[FileRow]) -> None:
    with _held(upload):
        Block.objects.create(account_id=upload.account_id, upload=upload, last_line=rows[-1].line, data=_encode(rows))


def _fingerprint(titles: list[str]) -> str:
    """A digest of the headings in any order. A report of refused rows has the same one as its file."""
    keys = sorted({headings.key(title) for title in titles if title not in ADDED})
    return hashlib.sha256(_encode(keys)).hexdigest()


# --- Taking in its rows ----------------------------------------------------------------------------------------------


def _take_in(upload: Upload) -> None:
    intake_class = KINDS[upload.kind].intake
    if unknown := {*upload.mapping, *upload.constants} - {column.name for column in intake_class.columns}:
        raise _OfAnotherVersion(f"upload {upload.id} has columns unknown here: {', '.join(sorted(unknown))}")
    actor = Actor(Role.MERCHANT, upload.actor, upload.user_id)
    intake = intake_class(upload.account_id, actor=actor, constants=upload.constants or _proposed(upload))
    entries = _after(upload.position, intake.entries(by_column(upload, upload.rows(), upload.mapping)), intake)
    until = time.monotonic() + SECONDS
    for batch in batches(entries, intake.batch):
        _take_batch(upload, intake, batch)
        if stops.stopping.is_set() or time.monotonic() > until or _is_closed(upload.account_id):
            return
        _need_newest(upload)
    if upload.rows_done == upload.row_count:
        _end(upload, Status.DONE)
    else:  # some of its rows are gone
        _end(upload, Status.FAILED, _GIVEN_UP)


def _proposed(upload: Upload) -> dict[str, str]:
    """The constants of a file that was matched by the version without constants, which assumed these."""
    columns = KINDS[upload.kind].intake.columns
    return {each.name: each.constant for each in columns if each.constant and each.name not in upload.mapping}


def by_column(upload: Upload, rows: Iterable[FileRow], mapping: dict[str, int]) -> Iterator[Row]:
    """Rows of the file by our columns: those that are matched, and those that a report added."""
    places = {title: place for place, title in enumerate(upload.titles) if title in ADDED} | mapping
    for row in rows:
        cells = {name: row.cells[place] for name, place in places.items() if place < len(row.cells)}
        surplus = [*filter(None, row.cells[len(upload.titles) :])]
        yield Row(row.line, cells, surplus, is_apart=row.is_apart, words=words_in(row.cells))


def _after(position: int, entries: Iterator[Entry], intake: Intake) -> Iterator[Entry]:
    """The entries that are not taken in yet. The intake notes those before."""
    for entry in entries:
        if entry[-1].line > position:
            yield entry
        else:
            intake.note(entry)


def _take_batch(upload: Upload, intake: Intake, batch: list[Entry]) -> None:
    with _held(upload):
        taken = intake.take_in(batch)
        _note_refused(upload, intake, taken.refused)
        counts = Counter(upload.counts)
        counts.update(taken.counts)
        upload.change(
            position=batch[-1][-1].line,
            rows_done=upload.rows_done + sum(map(len, batch)),
            counts=dict(counts),
            tries=0,
            claimed_until=Now() + LEASE,
        )


def _note_refused(upload: Upload, intake: Intake, refused: list[tuple[Entry, Errors]]) -> None:
    """Store the refused rows, with about MAX_TEXT characters of them in memory at once."""
    some: list[RefusedRow] = []
    text = 0
    for row in _refused_rows(upload, intake, refused):
        some.append(row)
        text += sum(map(len, row.cells))
        if text > MAX_TEXT:
            RefusedRow.objects.bulk_create(some)
            some, text = [], 0
    RefusedRow.objects.bulk_create(some)


def _refused_rows(upload: Upload, intake: Intake, refused: list[tuple[Entry, Errors]]) -> Iterator[RefusedRow]:
    """The refused rows as they are in the file, unmatched columns included, with the reasons.

    Cells that the intake filled from other rows stay filled, because those may be missing when the rows are sent again.
    """
    if not refused:
        return
    reasons: dict[int, Blame] = {}
    known: dict[int, dict[str, str]] = {}
    names: dict[int, str] = {}
    for entry, errors in refused:
        wrong = blame(entry, errors, intake)
        reasons |= {row.line: wrong.get(row.line, [("", [see_line(wrong)])]) for row in entry}
        known |= {row.line: row.cells for row in entry}
        names |= dict.fromkeys((row.line for row in entry), intake.name_of(entry) or "")
    rows = (row for row in upload.rows(after=min(reasons) - 1) if row.line in reasons)
    for row in islice(rows, len(reasons)):
        yield RefusedRow(
            account_id=upload.account_id,
            upload=upload,
            line=row.line,
            name=names[row.line],
            cells=_filled(row.cells, known[row.line], upload.mapping),
            faults=reasons[row.line],
        )


def _filled(cells: list[str], known: Mapping[str, str], places: Mapping[str, int]) -> list[str]:
    """The row's cells, with what the intake knows in the places of matched columns."""
    for name, place in places.items():
        if said := known.get(name):
            cells += [""] * (place + 1 - len(cells))
            cells[place] = said
    return cells
