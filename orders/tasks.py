import time
from collections.abc import Callable, Mapping
from functools import partial

from celery import shared_task
from django.db import DatabaseError

from orders import counts, day_sums, metrics, trigrams

ROUND = 20  # seconds; then other tasks have their turn


@shared_task
def fold_order_counts(at_least: int = 100) -> int:
    """Fold the order counts of each account that has gathered `at_least` rows; how many accounts it were."""
    return counts.fold(at_least)


@shared_task
def sum_up_days() -> int:
    """Sum up the days that are over or have changed, over all accounts and of each; how many steps it were."""
    by_account = {f"account {account_id}": partial(day_sums.sum_up, account_id) for account_id in day_sums.due()}
    return _go_round(day_sums.OVER_ALL | by_account)


@shared_task
def count_pending_orders() -> None:
    """Count what waits for confirmation, for /metrics."""
    metrics.count_pending()


@shared_task
def index_texts() -> int:
    """Index what `q` searches, of the accounts that have many orders; how many steps it were."""
    steps = _go_round({f"account {account_id}": partial(trigrams.index, account_id) for account_id in trigrams.due()})
    trigrams.clean_pending_list()
    return steps


def _go_round(work: Mapping[str, Callable[[], bool]]) -> int:
    """For a ROUND, let each take its steps until one says that no more is left; how many steps it were.

    What fails keeps nobody after it from theirs. The first such error is raised in the end.
    """
    steps, end, failed = 0, time.monotonic() + ROUND, None
    for name, step in work.items():
        more = True
        try:
            while more and time.monotonic() < end:
                more = step()
                steps += 1
        except DatabaseError as error:
            error.add_note(f"This was a step of {name}.")
            failed = failed or error
    if failed:
        raise failed
    return steps
