"""Searches of an account by others."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from codservice.accounts.models import Account
from codservice.searches import one_at_a_time

from .background import PATIENCE, Background


@contextmanager
def search_under_way(account: Account) -> Iterator[None]:
    """A search in another session, as if in another process."""
    begun, over = threading.Event(), threading.Event()

    def search() -> None:
        with one_at_a_time(account.id):
            begun.set()
            over.wait(PATIENCE)

    other = Background(search)
    assert begun.wait(PATIENCE)
    try:
        yield
    finally:
        over.set()
        other.result()
