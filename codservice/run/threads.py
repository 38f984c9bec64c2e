"""The threads in which the gateway has the application work."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_Step = tuple[asyncio.Future[bytes], Callable[..., bytes], Any]


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

    async def run(self, step: Callable[..., bytes], *arguments: Any) -> bytes:
        done = asyncio.get_running_loop().create_future()
        with self._lock:
            put = self._idle.pop().put if self._idle else self._waiting.append
            put((done, step, arguments))
        return await done

    def _work(self) -> None:
        given: queue.SimpleQueue[_Step] = queue.SimpleQueue()
        while True:
            with self._lock:
                if self._waiting:
                    given.put(self._waiting.popleft())
                else:
                    self._idle.append(given)
            _take(*given.get())


def _take(done: asyncio.Future[bytes], step: Callable[..., bytes], arguments: Any) -> None:
    """Take a step, and tell the loop what came of it. A thread that waits holds no request: this call has ended."""
    if done.cancelled():
        return
    result, error = b"", None
    try:
        result = step(*arguments)
    except BaseException as raised:  # also SystemExit, or a panic in Rust, which would end the thread
        error = RuntimeError(f"a request ended with {type(raised).__name__}")
        error.__cause__ = raised
    done.get_loop().call_soon_threadsafe(_settle, done, result, error)


def _settle(done: asyncio.Future[bytes], result: bytes, error: Exception | None) -> None:
    if done.cancelled():
        return
    if error:
        done.set_exception(error)
    else:
        done.set_result(result)
