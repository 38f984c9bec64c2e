"""The threads in which the gateway has the application work."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
_Step = tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...], Callable[[], object]]


class Threads:
    """Runs steps in `count` threads, which last as long as the process.

    Each thread waits at a queue of its own: one that several wait at wakes a second thread for each step, in vain. So
    does the pool of concurrent.futures, which takes 35 µs more per step besides.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[_Step]] = []  # the threads that wait for a step, by their queues
        self._waiting: deque[_Step] = deque()  # the steps that wait for a thread
        for number in range(count):
            threading.Thread(target=self._work, name=f"web-{number}", daemon=True).start()

    async def run(self, step: Callable[..., T], *arguments: Any, ended: Callable[[], object] = lambda: None) -> T:
        """Run a step and return its result. `ended` is called once it is over, even if nobody waits for it any more."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        given = (done, step, arguments, ended)
        with self._lock:
            if self._idle:
                self._idle.pop().put(given)
            else:
                self._waiting.append(given)
        try:
            return await done
        except asyncio.CancelledError:
            if self._withdraw(given):
                ended()
            raise

    def _withdraw(self, given: _Step) -> bool:
        """Forget a step that still waits for a thread: with all threads held, it would be kept for as long, with its
        arguments. Returns whether it did; else a thread has taken the step, and ends it."""
        with self._lock:
            if is_waiting := given in self._waiting:
                self._waiting.remove(given)
        return is_waiting

    def _work(self) -> None:
        given: queue.SimpleQueue[_Step] = queue.SimpleQueue()
        while True:
            with self._lock:
                if self._waiting:
                    given.put(self._waiting.popleft())
                else:
                    self._idle.append(given)
            _run_step(*given.get())


def _run_step(
    done: asyncio.Future[Any], step: Callable[..., Any], arguments: tuple[Any, ...], ended: Callable[[], object]
) -> None:
    """Run a step, unless nobody waits for it any more, and hand its result to the loop.

    In a function of its own, so that a waiting thread keeps no request alive in its variables.
    """
    result = error = None
    try:
        if not done.cancelled():
            result = step(*arguments)
    except BaseException as raised:  # also SystemExit, or a panic in Rust, which would end the thread
        error = RuntimeError(f"a request ended with {type(raised).__name__}")
        error.__cause__ = raised
    with suppress(RuntimeError):  # the loop has ended, and nobody waits
        done.get_loop().call_soon_threadsafe(_settle, done, result, error, ended)


def _settle(done: asyncio.Future[Any], result: Any, error: Exception | None, ended: Callable[[], object]) -> None:
    ended()
    if done.cancelled():
        return
    if error:
        done.set_exception(error)
    else:
        done.set_result(result)
