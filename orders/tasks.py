import time
from functools import partial

from celery import shared_task
from django.db import connection

from orders import daily, metrics, trigrams

SUM_UP_FOR = 20  # seconds; then other tasks have their turn
INDEX_FOR = 20

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


@shared_task
def fold_order_counts(at_least: int = 100) -> int:
    """Fold the order counts of each account that has gathered `at_least` rows; how many accounts it were."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT account_id FROM orders_ordercount GROUP BY account_id HAVING count(*) >= %s", [at_least])
        accounts = cursor.fetchall()
        for (account_id,) in accounts:
            cursor.execute(_FOLD, [account_id])
    return len(accounts)


@shared_task
def sum_up_days() -> int:
    """Sum up the days that are over or have changed, of accounts and over all of them; how many steps it were."""
    steps, end = 0, time.monotonic() + SUM_UP_FOR
    for step in [*daily.OVER_ALL.values(), *(partial(daily.sum_up, account_id) for account_id in daily.due())]:
        more = True
        while more and time.monotonic() < end:
            more = step()
            steps += 1
    return steps


@shared_task
def count_pending_orders() -> None:
    """Count what waits for confirmation, for /metrics."""
    metrics.count_pending()


@shared_task
def index_texts() -> int:
    """Index what `q` searches, of the accounts that have many orders; how many steps it were."""
    steps, end = 0, time.monotonic() + INDEX_FOR
    for account_id in trigrams.due():
        more = True
        while more and time.monotonic() < end:
            more = trigrams.index(account_id)
            steps += 1
    trigrams.settle()
    return steps
