"""How long uploads are kept, which hold customers' data."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.functions import Now

from codservice import postgresql
from codservice.uploads.models import Block, Piece, Upload

ABANDONED_AFTER = timedelta(days=2)  # files that never arrived whole, or whose columns nobody matched
REFUSED_KEPT = timedelta(days=30)  # rows to be corrected
KEPT = timedelta(days=400)  # the outcome of uploads, and how their columns were matched
BATCH = 1000  # rows

_STEPS = (
    # Name, table, and how long after the end of an upload its rows are deleted.
    ("upload_pieces", "uploads_piece", timedelta()),  # there are none, unless a version that left them ended it
    ("upload_blocks", "uploads_block", timedelta()),
    ("refused_rows", "uploads_refusedrow", REFUSED_KEPT),
)
_DELETE = """
DELETE FROM {table} WHERE id IN (
    SELECT r.id FROM uploads_upload u JOIN {table} r ON r.upload_id = u.id
    WHERE finished_at <= now() - %(age)s LIMIT %(batch)s FOR UPDATE OF r SKIP LOCKED)
"""
_COUNT = """
SELECT count(*) FROM uploads_upload u JOIN {table} r ON r.upload_id = u.id WHERE finished_at <= now() - %(age)s
    OR status IN ('arriving', 'matching') AND created_at < now() - %(abandoned)s
"""
_FORGET = """
DELETE FROM uploads_upload u WHERE created_at < now() - %(age)s AND finished_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM uploads_refusedrow r WHERE r.upload_id = u.id)
"""


def forget_uploads(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Stop abandoned uploads with their files, and delete old refused rows and finally old uploads.

    A sweep of `codservice.retention`. `before` is not used.
    """
    if dry_run:  # counts no uploads: they are deleted once their refused rows are
        for name, table, age in _STEPS:
            values = {"age": age, "abandoned": ABANDONED_AFTER}
            yield {name: postgresql.row(_COUNT.format(table=table), values)[0]}
        return
    yield from _stop_abandoned()
    for name, table, age in _STEPS:
        deleted = BATCH
        while deleted == BATCH:
            deleted = postgresql.execute(_DELETE.format(table=table), {"age": age, "batch": BATCH})
            yield {name: deleted}
    yield {"uploads": postgresql.execute(_FORGET, {"age": KEPT})}


def _stop_abandoned() -> Iterator[dict[str, int]]:
    """End each abandoned upload in a transaction of its own, but none that somebody holds just now."""
    status = Upload.Status
    abandoned = Upload.objects.filter(
        status__in=(status.ARRIVING, status.MATCHING), created_at__lt=Now() - ABANDONED_AFTER
    )
    for id_ in list(abandoned.values_list("id", flat=True)):
        with transaction.atomic():
            if not (upload := abandoned.select_for_update(no_key=True, skip_locked=True).filter(id=id_).first()):
                continue
            files = {"upload_pieces": Piece, "upload_blocks": Block}
            counts = {name: model.objects.filter(upload=upload).count() for name, model in files.items()}
            upload.end(status.STOPPED)
        yield counts
