"""Signals that tell a process to stop, and what must not be left half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

stopping = threading.Event()
"""Set for good once this worker is told to stop: tasks end after their current batch, and leave the rest to others."""


@contextmanager
def stops_wait() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP wait for the end of the block, where they take effect.

    For what must not be left half done, and for forks, amid which Python drops what a signal's handler raises. The
    block has to be short.
    """
    told: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if is_main else ()
    handlers = {each: handler for each in numbers if callable(handler := signal.getsignal(each))}
    for each in handlers:
        signal.signal(each, lambda number, frame: told.append(number))
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        if told:
            signal.raise_signal(told[0])
