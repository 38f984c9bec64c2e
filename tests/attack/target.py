"""The attacked service: the whole service with a data folder of its own, filled with people, orders and pages."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tests.harness.background import PATIENCE
from tests.harness.onebox import OneBox
from tests.harness.processes import CHECKOUT

T = TypeVar("T")
CLIENTS = 4
PATIENT = 400  # tries, 0.05 s apart


@dataclass(frozen=True)
class Target:
    """A service to attack. `people` are the cookies of those who are signed in, `pages` (who, path) pairs to open."""

    url: str
    folder: Path
    key: str = ""
    ids: dict[str, str] = field(default_factory=dict)
    products: list[tuple[str, str]] = field(default_factory=list)
    people: dict[str, str] = field(default_factory=dict)
    pages: list[tuple[str, str]] = field(default_factory=list)
    _connections: Any = field(default_factory=threading.local)

    def send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body, over this thread's connection. Tries again while the answer is 429."""
        for _ in range(PATIENT):
            answer = self._send(method, path, body, headers or {})
            if answer[0] != 429:
                break
            time.sleep(0.05)
        return answer

    def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = getattr(self._connections, "open", None)
        if connection is None:
            connection = self._connections.open = HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
        was_kept = connection.sock is not None
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException) as error:  # a connection that ends without an answer becomes a 599
            connection.close()
            if was_kept and isinstance(error, ConnectionError):  # the server closed it for being idle
                return self._send(method, path, body, headers)
            return 599, repr(error).encode()

    def call(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Call the API with the merchant's key."""
        return self.send(method, path, body, {"Authorization": f"Bearer {self.key}", **headers})

    def open(self, who: str, path: str) -> tuple[int, bytes]:
        """Open a page as one of the people."""
        return self.send("GET", path, headers={"Cookie": self.people.get(who, "")})


def many(call: Callable[[T], str], things: Iterable[T], seconds: float) -> tuple[str, list[str]]:
    """Try `things` with several clients until the time is over. Returns how many were tried, and what was found.

    The order is shuffled, but always the same.
    """
    everything = list(things)
    Random(1).shuffle(everything)
    over = time.monotonic() + seconds
    with ThreadPoolExecutor(CLIENTS) as pool:
        said = list(pool.map(lambda thing: call(thing) if time.monotonic() < over else None, everything))
    tried = [each for each in said if each is not None]
    return f"{len(tried)} of {len(everything)}", [problem for problem in tried if problem]


@contextmanager
def attacked_service(*, few: bool = False) -> Iterator[Target]:
    """Run a service with a product for each naughty string, or with `few` rows of each kind."""
    with tempfile.TemporaryDirectory(prefix="codservice-attack-") as name:
        folder = Path(name)
        service = OneBox(
            folder / "data", folder / "output", "codservice.onebox", [], sys.executable, PAGE_RATE_LIMIT="1000000"
        )
        try:
            service.wait_until_up()
            stage = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", "tests.attack.stage", *["few"] * few],
                cwd=CHECKOUT, env=service.environment, check=True, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            yield Target(f"http://127.0.0.1:{service.port}", folder, **json.loads(stage.stdout))
        finally:
            service.stop()


@contextmanager
def planted_faults() -> Iterator[tuple[Target, Target]]:
    """Run the services of `planted.py`, in which every judge must find something: for many clients, and for one."""
    with tempfile.TemporaryDirectory(prefix="codservice-attack-") as name:
        command = [sys.executable, "-m", "tests.attack.planted"]
        with subprocess.Popen(
            command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout
            try:
                many, one = [
                    Target(f"http://127.0.0.1:{port}", Path(name), "key") for port in process.stdout.readline().split()
                ]
                yield many, one
            finally:
                process.terminate()
