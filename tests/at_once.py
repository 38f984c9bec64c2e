"""Doing the same thing many times at once, each time on a database connection of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


def at_once(count: int, call: Callable[[int], T]) -> list[T]:
    """The results of `call(0)` to `call(count - 1)`, which start at the same moment."""
    barrier = Barrier(count)

    def run(number: int) -> T:
        try:
            barrier.wait(30)
            return call(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
