"""HTTP(S) receivers that record all requests, on raw sockets so that they can misbehave."""

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from .background import PATIENCE, Listening


@dataclass
class Request:
    """A request as it came in, to the byte, and when (`time.monotonic`)."""

    path: str
    head: bytes
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def delivery(self) -> str:
        return self.headers["x-service-delivery"]


@dataclass
class Connection:
    """A receiver's side of one connection, which behaviours get."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    request: Request
    receiver: "Receiver"

    async def send(self, data: bytes) -> None:
        """Send, and wait until the data has left this process. Raises if the other side has gone."""
        self.writer.write(data)
        await self.writer.drain()
        self.receiver.sent[self.request.path] += len(data)

    async def trickle(self, data: bytes, pause: float = 0.2) -> None:
        for byte in data:
            await self.send(bytes([byte]))
            await asyncio.sleep(pause)

    async def flood(self, data: bytes) -> None:
        while True:
            await self.send(data)

    def reset(self) -> None:
        """Close with a RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Behaviour = Callable[[Connection], Awaitable[object]]


def answer(
    status: str = "200 OK",
    *,
    body: bytes = b"ok",
    headers: str = "",
    after: float = 0.0,
    once: threading.Event | None = None,
) -> Behaviour:
    """An ordinary answer, `after` seconds after the event `once` (if any) is set. The connection stays open."""

    async def behave(connection: Connection) -> None:
        while once and not once.is_set():
            await asyncio.sleep(0.01)
        if after:
            await asyncio.sleep(after)
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        await connection.send(head.encode() + body)

    return behave


async def hang(connection: Connection) -> None:
    await asyncio.sleep(3600)


@dataclass
class Receiver(Listening):
    """Listens in a thread of its own until stopped. Paths behave as `behaviours` says, all others as `default`."""

    tls: ssl.SSLContext | None = None
    default: Behaviour = field(default_factory=answer)
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    address: tuple[str, int] = ("127.0.0.1", 0)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    _arrived: threading.Condition = field(default_factory=threading.Condition)

    def url(self, path: str = "/", host: str | None = None) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{host or self.address[0]}:{self.address[1]}{path}"

    def of(self, path: str) -> list[Request]:
        return [request for request in list(self.requests) if request.path == path]

    def wait_for(self, count: int, seconds: float = PATIENCE) -> list[Request]:
        """The requests, once there are `count` of them."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, seconds), (
                f"{len(self.requests)} of {count} requests after {seconds} s"
            )
            return list(self.requests)

    async def listen(self) -> list[asyncio.Server]:
        server = await asyncio.start_server(
            self._serve, *self.address, ssl=self.tls, backlog=1024, ssl_handshake_timeout=10 if self.tls else None
        )
        self.address = server.sockets[0].getsockname()[:2]
        return [server]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                request = await self._read(reader)
                with self._arrived:
                    self.requests.append(request)
                    self._arrived.notify_all()
                behave = self.behaviours.get(request.path, self.default)
                await behave(Connection(reader, writer, request, self))
        with contextlib.suppress(OSError):
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        head = await reader.readuntil(b"\r\n\r\n")
        at = time.monotonic()
        request_line, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Request(request_line.split()[1], head, headers, body, at)
