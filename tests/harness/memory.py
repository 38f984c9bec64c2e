"""How much memory a call takes."""

import tracemalloc
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def most_memory(call: Callable[[], T]) -> tuple[T, int]:
    """Return the result of `call`, and how many bytes of its own Python held at most until it returned."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
