"""Engines in processes of their own, which may post to this machine."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness.background import PATIENCE
from webhooks import transfer
from webhooks.engine import WINDOW

from .worker import Worker


@pytest.fixture(autouse=True)
def _private_addresses(settings: Any) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True


@pytest.fixture
def may_end(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event for answers that wait for it (`once`). Only they end attempts: no deadline does, even in a slow test."""
    monkeypatch.setattr(transfer, "DEADLINE_MS", int(PATIENCE * 1000))
    return threading.Event()


@pytest.fixture
def make_workers() -> Iterator[Callable[..., list[Worker]]]:
    """Make engines in processes of their own, ready to be started."""
    made: list[Worker] = []

    def make(count: int, *, window: int = WINDOW, most_files: int = 0) -> list[Worker]:
        workers = [Worker(window, most_files) for _ in range(count)]
        made.extend(workers)
        return [worker.wait_until_ready() for worker in workers]

    yield make
    for worker in made:
        if worker.popen.poll() is None:
            worker.kill()
        for stream in (worker.popen.stdin, worker.popen.stdout):
            if stream:
                stream.close()
