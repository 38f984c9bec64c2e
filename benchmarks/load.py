"""A load client that uses little processor time: raw sockets, prepared bytes, one thread per client."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from urllib.parse import urlsplit

DONE = (200, 201)


@dataclass
class Result:
    """The results: requests per second, latencies in seconds, and the number of answers by status."""

    rate: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def p50(self) -> float:
        return percentile(self.latencies, 0.5)

    @property
    def p99(self) -> float:
        return percentile(self.latencies, 0.99)


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def request_bytes(method: str, url: str, key: str, body: bytes = b"") -> bytes:
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    head = f"{method} {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def drive(
    url: str,
    requests: Callable[[int], Iterator[bytes]],
    *,
    clients: int,
    seconds: float,
    rate: float = 0.0,
    expected: Collection[int] = DONE,
) -> Result:
    """Let each client send what `requests(client)` yields, one after the other, for `seconds`.

    With a `rate`, of all clients together in requests a second, each request has a planned time and is timed from then:
    waiting behind a slow one counts too. A request without an answer, or with a status that is not `expected`, ends the
    run.
    """
    address = urlsplit(url).hostname, urlsplit(url).port

    def client(number: int) -> Result:
        result, source, connection = Result(), requests(number), connections[number]
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = began + number / rate if rate else time.perf_counter()
        while sent < began + seconds:
            time.sleep(max(sent - time.perf_counter(), 0.0))
            connection.sendall(next(source))
            result.statuses[_read(connection)] += 1
            result.latencies.append(time.perf_counter() - sent)
            sent = sent + clients / rate if rate else time.perf_counter()
        return result

    with ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address)) for _ in range(clients)]
        pool = stack.enter_context(ThreadPoolExecutor(clients))
        began = time.perf_counter()
        results = list(pool.map(client, range(clients)))
        took = time.perf_counter() - began
    statuses = sum((result.statuses for result in results), Counter())
    if unexpected := set(statuses) - set(expected):
        raise SystemExit(f"{url} was answered with {min(unexpected)}: {dict(statuses)}")
    latencies = [latency for result in results for latency in result.latencies]
    return Result(len(latencies) / took, latencies, statuses)


def _read(connection: socket.socket) -> int:
    """Read one answer with a Content-Length, and return its status."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += _some(connection, 65536)
    head = data[:end].lower()
    at = head.find(b"content-length:")
    length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    missing = end + 4 + length - len(data)
    while missing > 0:
        missing -= len(_some(connection, missing))
    return int(data[9:12])


def _some(connection: socket.socket, most: int) -> bytes:
    if not (data := connection.recv(most)):
        raise ConnectionError("The server closed the connection.")
    return data
