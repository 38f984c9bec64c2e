"""Claims that have run out name a customer's phone; nobody needs them on the next day."""

from collections.abc import Iterator
from datetime import datetime

from django.db import connection

_COUNT = "SELECT 1 FROM agents_claim WHERE expires_at < now() - interval '1 day'"
_FORGET = "DELETE FROM agents_claim WHERE expires_at < now() - interval '1 day'"


def forget_claims(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Delete them; there is about one for each agent. A sweep of `codservice.retention`; `before` is not asked."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT if dry_run else _FORGET)
        yield {"claims": cursor.rowcount}
