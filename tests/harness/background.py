"""Runs calls and servers in threads of their own, each with its own database connection, and waits for them.

Waits are always for something; `PATIENCE` is only how long a busy machine may need for it.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from django.db import connections, transaction

T = TypeVar("T")

PATIENCE = 90.0  # seconds


def at_once(count: int, call: Callable[[int], T]) -> list[T]:
    """The results of `call(0)` to `call(count - 1)`, all started at the same moment."""
    barrier = threading.Barrier(count)

    def run(number: int) -> T:
        try:
            barrier.wait(PATIENCE)
            return call(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def eventually(check: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The result of `check`, once it is true."""
    deadline = time.monotonic() + seconds
    while not (result := check()):
        assert time.monotonic() < deadline, f"did not come true within {seconds} s"
        time.sleep(0.05)
    return result


def asleep() -> float:
    """The seconds, from an arbitrary start, that this thread has slept: neither worked nor waited for a processor."""
    worked, queued, _ = map(int, Path("/proc/thread-self/schedstat").read_text().split())
    return time.monotonic() - (worked + queued) / 1e9


class Background:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        finally:
            connections.close_all()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self, seconds: float = PATIENCE) -> Any:
        self._thread.join(seconds)
        assert self.is_over, f"still at it after {seconds} s"
        if self._error:
            raise self._error
        return self._result


@contextmanager
def open_transaction(begin: Callable[[], T]) -> Iterator[T]:
    """Yield the result of `begin`, run in another thread's transaction that stays open while the block runs."""
    began, end, given = threading.Event(), threading.Event(), list[T]()

    def hold() -> None:
        with transaction.atomic():
            given.append(begin())
            began.set()
            end.wait(PATIENCE)

    held = Background(hold)
    try:
        assert began.wait(PATIENCE)
        yield given[0]
    finally:
        end.set()
        held.result()


def held_up(begin: Callable[[], Any]) -> AbstractContextManager[Any]:
    """Hold the locks of what `begin` writes while the block runs, then roll it back: other writers wait and go on."""

    def write_and_undo() -> None:
        begin()
        transaction.set_rollback(True)

    return open_transaction(write_and_undo)


class Listening:
    """Runs the servers that `listen` makes, in an event loop of another thread, while the block runs."""

    async def listen(self) -> list[asyncio.Server]:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        # Hanging connections are abandoned with the loop, and need no message.
        self._loop.set_exception_handler(lambda loop, context: None)
        is_listening = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(is_listening,), daemon=True)
        self._thread.start()
        assert is_listening.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def _run(self, is_listening: threading.Event) -> None:
        servers = self._loop.run_until_complete(self.listen())
        is_listening.set()
        self._loop.run_forever()
        for server in servers:
            server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
