"""Forgetting the answers that are kept for idempotency keys."""

from collections.abc import Iterator
from datetime import datetime

from django.db import connection

from codservice.api.models import KEPT_FOR

_BATCH = 1000  # answers that a statement deletes


def idempotency_keys(before: datetime | None = None, *, dry_run: bool = False) -> Iterator[dict[str, int]]:
    """Delete answers older than KEPT_FOR, in batches: a sweep of `codservice.retention`. `before` is not asked."""
    with connection.cursor() as cursor:
        if dry_run:
            cursor.execute("SELECT count(*) FROM api_idempotencyrecord WHERE created_at < now() - %s", [KEPT_FOR])
            yield {"idempotency_keys": cursor.fetchone()[0]}
            return
        deleted = _BATCH
        while deleted == _BATCH:
            cursor.execute(
                "DELETE FROM api_idempotencyrecord WHERE id = ANY(ARRAY(SELECT id FROM api_idempotencyrecord"
                " WHERE created_at < now() - %s ORDER BY created_at LIMIT %s FOR UPDATE SKIP LOCKED))",
                [KEPT_FOR, _BATCH],
            )
            deleted = cursor.rowcount
            yield {"idempotency_keys": deleted}
