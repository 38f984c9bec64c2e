"""Pruning the answers that are kept for idempotency keys."""

from collections.abc import Iterator
from datetime import datetime

from codservice.api.models import KEPT_FOR
from codservice.retention import delete_old


def idempotency_keys(before: datetime | None = None, *, dry_run: bool = False) -> Iterator[dict[str, int]]:
    """Delete answers older than KEPT_FOR, in batches: a sweep of `codservice.retention`. `before` is not used."""
    return delete_old("api_idempotencyrecord", "idempotency_keys", KEPT_FOR, at="created_at", dry_run=dry_run)
