"""Pruning the answers that are kept for idempotency keys."""

from codservice.api.models import KEPT_FOR
from codservice.retention import old_rows

idempotency_keys = old_rows("api_idempotencyrecord", "idempotency_keys", KEPT_FOR, at="created_at")
