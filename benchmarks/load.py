"""A load client that costs little itself: raw sockets, prepared bytes, one thread per client."""

import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Result:
    """What came back: requests per second, each latency in seconds, how many of each status."""

    rate: float
    latencies: list[float]
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def p50(self) -> float:
        return statistics.median(self.latencies)


def request_bytes(method: str, url: str, key: str, body: bytes = b"") -> bytes:
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    head = f"{method} {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def drive(
    url: str, requests: Callable[[int], Iterator[bytes]], *, clients: int, seconds: float, rate: float = 0.0
) -> Result:
    """Let `clients` send what `requests(client)` yields, one after the other, for `seconds`.

    At a `rate`, of all together in requests a second, each is sent when its time has come and timed from then on: what
    waits behind a slow one counts too.
    """
    parts = urlsplit(url)
    results = [Result(0.0, []) for _ in range(clients)]
    start = threading.Barrier(clients + 1)

    def client(number: int) -> None:
        result, source = results[number], requests(number)
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start.wait()
            sent = (begin := time.perf_counter()) + (number / rate if rate else 0.0)
            while sent < begin + seconds:
                time.sleep(max(sent - time.perf_counter(), 0.0))
                connection.sendall(next(source))
                result.statuses[_read(connection)] += 1
                result.latencies.append(time.perf_counter() - sent)
                sent = sent + clients / rate if rate else time.perf_counter()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    latencies = [latency for result in results for latency in result.latencies]
    statuses = sum((result.statuses for result in results), Counter())
    return Result(len(latencies) / (time.perf_counter() - began), latencies, statuses)


def _read(connection: socket.socket) -> int:
    """Read one answer with a Content-Length; its status."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        if not (more := connection.recv(65536)):
            raise ConnectionError("The server closed the connection.")
        data += more
    head = data[:end].lower()
    at = head.find(b"content-length:")
    length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    missing = end + 4 + length - len(data)
    while missing > 0:
        missing -= len(connection.recv(missing))
    return int(data[9:12])
