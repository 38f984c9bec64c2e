"""Uploads hold customers' data: what is kept of them for how long."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection

ABANDONED_AFTER = timedelta(days=2)  # files that never arrived whole, or whose columns nobody matched
REFUSED_KEPT = timedelta(days=30)  # rows to be mended
KEPT = timedelta(days=400)  # what became of them, and how the columns were matched
BATCH = 1000  # rows

_OPEN = "status IN ('arriving', 'matching') AND created_at < now() - %(age)s"
_STEPS = (
    # What it is called, its rows, of which uploads, how old.
    ("upload_pieces", "uploads_piece", _OPEN, ABANDONED_AFTER),
    ("upload_blocks", "uploads_block", _OPEN, ABANDONED_AFTER),
    ("refused_rows", "uploads_refusedrow", "finished_at < now() - %(age)s", REFUSED_KEPT),
)
_DELETE = """
DELETE FROM {table} WHERE id IN (
    SELECT r.id FROM uploads_upload u JOIN {table} r ON r.upload_id = u.id WHERE {old} LIMIT %(batch)s
    FOR UPDATE OF r SKIP LOCKED)
"""
_COUNT = "SELECT count(*) FROM uploads_upload u JOIN {table} r ON r.upload_id = u.id WHERE {old}"
_STOP = "UPDATE uploads_upload SET status = 'stopped', finished_at = now() WHERE {old}"
_FORGET = """
DELETE FROM uploads_upload u WHERE created_at < now() - %(age)s AND finished_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM uploads_refusedrow r WHERE r.upload_id = u.id)
"""


def forget_uploads(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Delete files that were left lying, then refused rows, in the end all of an upload.

    A sweep of `codservice.retention`, whose `before` is not asked.
    """
    for name, table, old, age in _STEPS:
        with connection.cursor() as cursor:
            if dry_run:
                cursor.execute(_COUNT.format(table=table, old=old), {"age": age})
                yield {name: cursor.fetchone()[0]}
                continue
            deleted = BATCH
            while deleted == BATCH:
                cursor.execute(_DELETE.format(table=table, old=old), {"age": age, "batch": BATCH})
                deleted = cursor.rowcount
                yield {name: deleted}
    if not dry_run:  # what the rows leave behind cannot be seen while they are there
        with connection.cursor() as cursor:
            cursor.execute(_STOP.format(old=_OPEN), {"age": ABANDONED_AFTER})
            cursor.execute(_FORGET, {"age": KEPT})
            yield {"uploads": cursor.rowcount}
