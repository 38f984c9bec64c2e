"""Limits on an account's searches: a search for part of a text, or for a few rows among many, may read every row of
the account.
"""

import time
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, repeat
from uuid import UUID

from django.db import OperationalError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from psycopg.errors import QueryCanceled

from codservice import postgresql
from codservice.errors import Invalid, Refused

SEARCH_SECONDS = 2  # per statement; all others have 30 and more
PATIENCE = 5.0  # seconds that an answer that is being sent waits for another search to end


class StillSearching(Refused):
    """Another search of the account is under way."""

    code, status = "rate_limited", 429
    message = gettext_lazy("Another search of this account is running. Try again when it is done.")


@contextmanager
def one_at_a_time(account_id: UUID, *, patience: float = 0, by: str = "q") -> Iterator[None]:
    """Search in a transaction, by the parameter `by`, with statements of at most SEARCH_SECONDS.

    Raises StillSearching if another search of the account, in any process, goes on for more than `patience` seconds,
    and Invalid if this one takes too long.
    """
    try:
        with transaction.atomic():
            deadline = time.monotonic() + patience
            while True:
                (is_ours, *_settings) = postgresql.row(
                    "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0)),"
                    " set_config('statement_timeout', %s, true),"
                    # The best plan depends on how many rows have the text, so no generic plan is good.
                    " set_config('plan_cache_mode', 'force_custom_plan', true)",
                    [f"search {account_id}", f"{SEARCH_SECONDS}s"],
                )
                if is_ours:
                    break
                if time.monotonic() >= deadline:
                    raise StillSearching
                time.sleep(0.05)
            yield
    except OperationalError as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        if by == "q":
            said = _("The search takes too long. Type more of the word, or choose fewer days or statuses.")
        else:
            said = _("The search takes too long. Choose fewer days.")
        raise Invalid({by: [said]}) from None


def searching(account_id: UUID, given: Container[str], *, by: str | None = "q") -> AbstractContextManager[None]:
    """Return `one_at_a_time` if the parameter `by`, which makes it a search, is among those given; else do nothing."""
    return one_at_a_time(account_id, by=by) if by is not None and by in given else nullcontext()


def batch_by_batch(account_id: UUID, given: Container[str]) -> Callable[[], AbstractContextManager[None]]:
    """Return a function that gives `searching` for each batch of a file or a list.

    The first batch is refused during another search. Later ones, with part of it already sent, wait for its end.
    """
    if "q" not in given:
        return nullcontext
    patience = chain([0.0], repeat(PATIENCE))
    return lambda: one_at_a_time(account_id, patience=next(patience))
