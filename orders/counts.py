"""How many orders accounts have, as sums of `OrderCount` instead of counting rows; checks and repairs these sums."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from codservice import postgresql
from orders.models import OrderCount

_RECOUNTING = 0x636E7473  # the advisory lock held while recounting

# One statement, and so one snapshot: triggers write the counts in the transactions that write the orders.
_WRONG = """
SELECT account_id, status, COALESCE(there.n, 0) - COALESCE(counted.n, 0) AS missing
FROM (SELECT account_id, status, sum(delta) AS n FROM orders_ordercount GROUP BY account_id, status) AS counted
FULL JOIN (SELECT account_id, status, count(*) AS n FROM orders_order GROUP BY account_id, status) AS there
    USING (account_id, status)
WHERE COALESCE(there.n, 0) <> COALESCE(counted.n, 0)
"""


def by_status(**whose: Any) -> dict[str, int]:
    """How many orders there are in each status, over the counts that match these conditions."""
    return dict(OrderCount.objects.filter(**whose).values_list("status").annotate(Sum("delta")))


def total(account_id: UUID, statuses: Sequence[str]) -> int:
    """How many of the account's orders have one of the statuses."""
    (count,) = postgresql.row(
        "SELECT coalesce(sum(delta), 0)::bigint FROM orders_ordercount WHERE account_id = %s AND status = ANY(%s)",
        [account_id, list(statuses)],
    )
    return count


# One statement, so that a concurrent sum sees either all the old rows or the new one. Rows that another fold has
# locked are skipped.
_FOLD = """
WITH folded AS (
    DELETE FROM orders_ordercount WHERE id IN (
        SELECT id FROM orders_ordercount WHERE account_id = %s ORDER BY id LIMIT 20000 FOR UPDATE SKIP LOCKED
    ) RETURNING account_id, status, delta
)
INSERT INTO orders_ordercount (account_id, status, delta)
SELECT account_id, status, sum(delta) FROM folded GROUP BY account_id, status HAVING sum(delta) <> 0
"""


def fold(at_least: int) -> int:
    """Fold the deltas of each account that has at least `at_least` of them. Returns how many accounts have."""
    accounts = postgresql.rows(
        "SELECT account_id FROM orders_ordercount GROUP BY account_id HAVING count(*) >= %s", [at_least]
    )
    for (account_id,) in accounts:
        postgresql.execute(_FOLD, [account_id])
    return len(accounts)


def problem() -> str:
    """What is wrong with the counts, for `check_service`; empty if nothing is."""
    with transaction.atomic():
        postgresql.take_time()
        (count,) = postgresql.row(f"SELECT count(DISTINCT account_id) FROM ({_WRONG}) AS wrong")  # noqa: S608  (our own text)
    if not count:
        return ""
    return f"the totals of order lists are wrong (accounts: {count}). Run `manage.py recount_orders`."


def recount() -> int:
    """Correct the counts, and return how many were wrong. Imports may go on meanwhile, since deltas add up.

    Only one recount runs at a time: a second would add once more what the first has not committed yet.
    """
    with transaction.atomic():
        postgresql.take_time()
        postgresql.execute("SELECT pg_advisory_xact_lock(%s)", [_RECOUNTING])
        return postgresql.execute(f"INSERT INTO orders_ordercount (account_id, status, delta) {_WRONG}")
