"""How many orders accounts have, by sums of `OrderCount` and no count of orders; whether that is so, and setting it
right where it is not."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Sum

from orders.models import OrderCount

_RECOUNTING = 0x636E7473  # the advisory lock of whoever recounts

# By one snapshot: the triggers write the counts in the transactions that write the orders.
_WRONG = """
SELECT account_id, status, COALESCE(there.n, 0) - COALESCE(counted.n, 0) AS missing
FROM (SELECT account_id, status, sum(delta) AS n FROM orders_ordercount GROUP BY account_id, status) AS counted
FULL JOIN (SELECT account_id, status, count(*) AS n FROM orders_order GROUP BY account_id, status) AS there
    USING (account_id, status)
WHERE COALESCE(there.n, 0) <> COALESCE(counted.n, 0)
"""


def by_status(**whose: Any) -> dict[str, int]:
    """How many orders there are in each status that any has, of the accounts that these conditions name."""
    return dict(OrderCount.objects.filter(**whose).values_list("status").annotate(Sum("delta")))


def total(account_id: UUID, statuses: Sequence[str]) -> int:
    """How many orders of the account have one of the statuses."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(sum(delta), 0)::bigint FROM orders_ordercount WHERE account_id = %s AND status = ANY(%s)",
            [account_id, list(statuses)],
        )
        return cursor.fetchone()[0]


# One statement: whoever sums meanwhile sees all of the old rows or the one new. What another fold holds is skipped.
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
    """Fold the deltas of each account that has gathered `at_least` of them; how many accounts it were."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT account_id FROM orders_ordercount GROUP BY account_id HAVING count(*) >= %s", [at_least])
        accounts = cursor.fetchall()
        for (account_id,) in accounts:
            cursor.execute(_FOLD, [account_id])
    return len(accounts)


def problem() -> str:
    """What is wrong with the counts, for `check_service`; empty when nothing is."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(DISTINCT account_id) FROM ({_WRONG}) AS wrong")  # noqa: S608  (our own text)
        count = cursor.fetchone()[0]
    if not count:
        return ""
    return f"totals of lists are not what their orders add up to (accounts: {count}): run `manage.py recount_orders`"


def recount() -> int:
    """Add to each count what it lacks; how many were wrong. Beside whatever is being imported: deltas add up.

    One at a time: what another has added and not committed would be added once more.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_RECOUNTING])
        cursor.execute(f"INSERT INTO orders_ordercount (account_id, status, delta) {_WRONG}")
        return cursor.rowcount
