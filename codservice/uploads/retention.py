"""Uploads hold customers' data: what is kept of them for how long."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection

ABANDONED_AFTER = timedelta(days=2)  # files that never arrived whole, or whose columns nobody matched
REFUSED_KEPT = timedelta(days=30)  # rows to be mended
KEPT = timedelta(days=400)  # what became of them, and how the columns were matched
BATCH = 1000  # rows

_STEPS = (
    # What it is called, its rows, how long after the end of an upload they go.
    ("upload_pieces", "uploads_piece", timedelta()),
    ("upload_blocks", "uploads_block", timedelta()),
    ("refused_rows", "uploads_refusedrow", REFUSED_KEPT),
)
_STOP = """
UPDATE uploads_upload SET status = 'stopped', finished_at = now() WHERE id IN (
    SELECT id FROM uploads_upload WHERE status IN ('arriving', 'matching') AND created_at < now() - %(abandoned)s
    FOR NO KEY UPDATE SKIP LOCKED)
"""
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
    """Stop uploads that were left lying; delete what is left of files that are over, refused rows, in the end all of an
    upload. Its rows go only once it is stopped: nobody matches the columns of a file that has none.

    A sweep of `codservice.retention`, whose `before` is not asked.
    """
    with connection.cursor() as cursor:
        if dry_run:  # what the rows leave behind cannot be seen while they are there
            for name, table, age in _STEPS:
                cursor.execute(_COUNT.format(table=table), {"age": age, "abandoned": ABANDONED_AFTER})
                yield {name: cursor.fetchone()[0]}
            return
        cursor.execute(_STOP, {"abandoned": ABANDONED_AFTER})
        for name, table, age in _STEPS:
            deleted = BATCH
            while deleted == BATCH:
                cursor.execute(_DELETE.format(table=table), {"age": age, "batch": BATCH})
                deleted = cursor.rowcount
                yield {name: deleted}
        cursor.execute(_FORGET, {"age": KEPT})
        yield {"uploads": cursor.rowcount}
