"""Forgetting claims. Those that have run out name a customer's phone; nobody needs them on the next day."""

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


# Another merchant's order may wait for a call of the same customer.
_FORGET_CUSTOMER = """
DELETE FROM agents_claim c WHERE phone_e164 = %s AND NOT EXISTS (
    SELECT FROM orders_order o WHERE o.phone_e164 = c.phone_e164 AND o.status = 'pending_confirmation'
      AND o.call_state <> 'test')
"""


def forget_customer(phone: str) -> None:
    """Delete the claim of a customer whom nobody is to call any more; of `orders.customer_data`."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_CUSTOMER, [phone])
