import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from celery import shared_task
from django.db import DatabaseError

from codservice import stops
from orders import counts, day_sums, metrics, trigrams

ROUND = 20  # seconds; then it is other tasks' turn


@shared_task
def fold_order_counts(at_least: int = 100) -> int:
    """Fold the order counts of each account that has at least `at_least` rows. Returns how many accounts have."""
    return counts.fold(at_least)


@shared_task
def sum_up_days() -> int:
    """Sum up what has happened or changed, over all accounts and for each. Returns the number of steps."""
    by_account = {f"account {account_id}": partial(day_sums.sum_up, account_id) for account_id in day_sums.due()}
    return _go_round(day_sums.OVER_ALL | by_account)


@shared_task
def count_pending_orders() -> None:
    """Count the orders that wait for confirmation, for /metrics."""
    metrics.count_pending()


@shared_task
def index_texts() -> int:
    """Index the texts that `q` searches, for accounts with many orders. Returns the number of steps."""
    steps = _go_round({f"account {account_id}": partial(trigrams.index, account_id) for account_id in trigrams.due()})
    trigrams.clean_pending_list()
    return steps


def _go_round(work: Mapping[str, Callable[[], bool]]) -> int:
    """Repeat the steps in turn, each until it says that no more is left, for a ROUND in all or until this worker is to
    stop. Returns their number.

    A step that fails is not repeated, and does not stop the others. The first such error is raised at the end.
    """
    steps, end, failed = 0, time.monotonic() + ROUND, None
    turns = deque(work.items())
    while turns and time.monotonic() < end and not stops.stopping.is_set():
        name, step = turns.popleft()
        try:
            if step():
                turns.append((name, step))
            steps += 1
        except DatabaseError as error:
            error.add_note(f"This was a step of {name}.")
            failed = failed or error
    if failed:
        raise failed
    return steps
