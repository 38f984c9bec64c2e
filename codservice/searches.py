"""How much an account may search at a time. A search for a part of a text, or for a few rows among many, may look at
every row of the account.
"""

import time
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, repeat
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.utils.translation import gettext as _
from psycopg.errors import QueryCanceled

from codservice.errors import Invalid, Refused

SEARCH_SECONDS = 2  # of a statement; all others have 30 and more
PATIENCE = 5.0  # seconds for which a file that is being sent waits for another search to be over


class StillSearching(Refused):
    """Another search of the account is under way."""

    code, status = "rate_limited", 429

    def __init__(self) -> None:
        super().__init__(_("Another search of this account is running. Try again when it is done."))


@contextmanager
def one_at_a_time(account_id: UUID, *, patience: float = 0, by: str = "q") -> Iterator[None]:
    """A search of the account by a parameter, in a transaction, whose statements take SEARCH_SECONDS at most.

    Raises StillSearching while there is another one, in whatever process, for more than `patience` seconds, and Invalid
    when it takes too long.
    """
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                deadline = time.monotonic() + patience
                while True:
                    cursor.execute(
                        "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0)),"
                        " set_config('statement_timeout', %s, true),"
                        # How many rows a text is in decides the way to them: a plan for any text is one for none.
                        " set_config('plan_cache_mode', 'force_custom_plan', true)",
                        [f"search {account_id}", f"{SEARCH_SECONDS}s"],
                    )
                    (is_ours, *_settings) = cursor.fetchone()
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
    """`one_at_a_time` where the parameters that are given have the one that a search is by; else nothing."""
    return one_at_a_time(account_id, by=by) if by is not None and by in given else nullcontext()


def batch_by_batch(account_id: UUID, given: Container[str]) -> Callable[[], AbstractContextManager[None]]:
    """`searching` for each batch of a file: the first is refused while there is another search, and those after it,
    when half of the file is sent, wait for its end."""
    if "q" not in given:
        return nullcontext
    patience = chain([0.0], repeat(PATIENCE))
    return lambda: one_at_a_time(account_id, patience=next(patience))
