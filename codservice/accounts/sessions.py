"""Sessions that have run out."""

from collections.abc import Iterator
from datetime import datetime

from django.db import connection

_BATCH = 1000  # sessions that a statement deletes


def forget_expired(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Delete those that nobody can use any more. A sweep of `codservice.retention`, whose `before` is not asked."""
    with connection.cursor() as cursor:
        if dry_run:
            cursor.execute("SELECT count(*) FROM django_session WHERE expire_date < now()")
            yield {"sessions": cursor.fetchone()[0]}
            return
        deleted = _BATCH
        while deleted == _BATCH:
            cursor.execute(
                "DELETE FROM django_session WHERE session_key = ANY(ARRAY(SELECT session_key FROM django_session"
                " WHERE expire_date < now() ORDER BY expire_date LIMIT %s FOR UPDATE SKIP LOCKED))",
                [_BATCH],
            )
            deleted = cursor.rowcount
            yield {"sessions": deleted}
