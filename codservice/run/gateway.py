"""Between granian and Django: read every request whole before it may hold a thread.

granian hands a WSGI application its request as soon as the headers are in; two threads per process are then held
by two clients that send their bodies slowly. Here bodies are read by the event loop, which waits for thousands at
once, and only complete requests reach Django's threads. Answers are handed back whole, so slow readers hold no
thread either.
"""

import asyncio
import io
import itertools
import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from granian.rsgi import ProtocolClosed, ProtocolError

from codservice import metrics

logger = logging.getLogger("codservice.web")

MAX_BODY_BYTES = 1 << 20
BODY_SECONDS = 20.0
# A body that is too large is read to its end and dropped, up to here: a client that is still sending when the
# connection is closed sees a reset instead of the 413.
MAX_DRAINED_BYTES = 32 << 20
# What large bodies that are being read may fill in one process; small ones always pass.
MAX_BUFFERED_BYTES = 64 << 20
SMALL_BODY_BYTES = 16 << 10
# A streamed answer is sent in pieces of this size; each has to be taken in this time.
PIECE_BYTES = 1 << 20
PIECE_SECONDS = 30.0

Environ = dict[str, Any]
Application = Callable[..., Iterable[bytes]]


class Gateway:
    """An RSGI application that runs a WSGI `application` in `threads` threads.

    The WSGI side sees a complete body of at most 1 MiB + 1 byte with its CONTENT_LENGTH, however it was sent
    (chunked too); one byte too many is how it learns that the body was too large. Bodies that do not arrive
    within 20 s are answered with 408 here.
    """

    def __init__(self, application: Application, threads: int) -> None:
        self._application = application
        self._threads = threads
        self._complete: queue.SimpleQueue[tuple[Any, Any, bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._reading: dict[asyncio.Task[Any], float] = {}
        self._buffered = 0
        self._loop: asyncio.AbstractEventLoop

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.call_soon(self._cancel_overdue)
        for number in range(self._threads):
            threading.Thread(target=self._work, name=f"web-{number}", daemon=True).start()

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        body = b""
        headers = scope.headers
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            try:
                body = await self._read(headers, proto)
            except _Refused as refused:
                _count(refused.status)
                proto.response_bytes(refused.status, refused.headers, refused.body)
                return
        done = self._loop.create_future()
        self._complete.put((scope, proto, body, done))
        await done

    async def _read(self, headers: Any, proto: Any) -> bytes:
        declared = headers.get("content-length")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are a coroutine
        self._reading[task] = time.monotonic() + BODY_SECONDS
        try:
            if declared and int(declared) <= SMALL_BODY_BYTES:
                return await proto()
            return await self._read_large(proto)
        except asyncio.CancelledError:
            raise _Refused(408, "request_timeout", f"The body did not arrive within {BODY_SECONDS:.0f} s.") from None
        except (ProtocolClosed, ProtocolError):
            raise _Refused(400, "bad_request", "The body is incomplete.") from None
        finally:
            del self._reading[task]

    async def _read_large(self, proto: Any) -> bytes:
        """The body, or its first MAX_BODY_BYTES + 1 bytes."""
        kept: list[bytes] = []
        kept_bytes = seen_bytes = empty_pieces = 0
        try:
            async for piece in proto:
                seen_bytes += len(piece)
                empty_pieces += not piece
                if kept_bytes <= MAX_BODY_BYTES:
                    piece = piece[: MAX_BODY_BYTES + 1 - kept_bytes]
                    kept.append(piece)
                    kept_bytes += len(piece)
                    self._buffered += len(piece)
                    if self._buffered > MAX_BUFFERED_BYTES:
                        raise _Refused(503, "unavailable", "Too many large requests at once; try again in a moment.")
                if seen_bytes > MAX_DRAINED_BYTES:
                    break
            # granian ends with one empty piece, and puts another in the place of what it could not read: a client
            # that went away, no proper chunk (or a trailer, which nobody sends).
            if empty_pieces > 1:
                raise _Refused(400, "bad_request", "The body is incomplete.")
            return b"".join(kept)
        finally:
            self._buffered -= kept_bytes

    def _cancel_overdue(self) -> None:
        """One look per second at all reads: cheaper than a timer for every request."""
        now = time.monotonic()
        for task, deadline in self._reading.items():
            if deadline < now:
                task.cancel()
        self._loop.call_later(1.0, self._cancel_overdue)

    def _work(self) -> None:
        while True:
            scope, proto, body, done = self._complete.get()
            try:
                self._answer(scope, proto, body)
            except Exception:
                logger.exception("a request failed outside of Django")
            self._loop.call_soon_threadsafe(done.set_result, None)

    def _answer(self, scope: Any, proto: Any, body: bytes) -> None:
        started: list[tuple[int, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            started[:] = [(int(status[:3]), headers)]

        try:
            pieces = self._application(environ(scope, body), start_response)
        except Exception:
            _fail(proto)
            return
        try:
            status, headers = started[0]
            if isinstance(pieces, _File) and (path := pieces.path):
                proto.response_file(status, headers, path)
            else:
                self._send(proto, status, headers, iter(pieces))
        finally:
            if hasattr(pieces, "close"):
                pieces.close()

    def _send(self, proto: Any, status: int, headers: list[tuple[str, str]], pieces: Any) -> None:
        try:
            first = _gather(pieces)
        except Exception:
            _fail(proto)
            return
        if len(first) < PIECE_BYTES:
            proto.response_bytes(status, headers, first)
            return
        transport = proto.response_stream(status, headers)
        try:
            for piece in itertools.chain([first], iter(lambda: _gather(pieces), b"")):
                # This thread waits for the reader. It has to: the pieces come from a query of this thread.
                sent = asyncio.run_coroutine_threadsafe(_sent(transport, piece), self._loop)
                sent.result(PIECE_SECONDS)
        finally:
            # The answer ends when nobody holds the transport: the traceback of a failure would, and the reader waited.
            del transport


def _fail(proto: Any) -> None:
    logger.exception("the application failed before its answer")
    failure = _Refused(500, "server_error", "Something went wrong on our side.")
    _count(failure.status)
    proto.response_bytes(failure.status, failure.headers, failure.body)


def _count(status: int) -> None:
    """An answer that Django knows nothing of."""
    metrics.REQUESTS.labels("other", "unread", str(status)).inc()


async def _sent(transport: Any, piece: bytes) -> None:
    await transport.send_bytes(piece)


def _gather(pieces: Any) -> bytes:
    """The next pieces joined, up to PIECE_BYTES or the end; empty only at the end."""
    gathered, size = [], 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            break
    return gathered[0] if len(gathered) == 1 else b"".join(gathered)


def environ(scope: Any, body: bytes) -> Environ:
    """The WSGI environment of a complete request."""
    host, _, port = scope.server.rpartition(":")
    result: Environ = {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": scope.path.encode().decode("latin-1"),
        "QUERY_STRING": scope.query_string,
        "SERVER_NAME": host,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": "HTTP/" + scope.http_version,
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.file_wrapper": _File,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope.headers.items():
        # A name with an underscore would become the twin of one with a dash that a proxy checked.
        if "_" in name:
            continue
        key = "HTTP_" + name.upper().replace("-", "_")
        if key in result:
            value = result[key] + ("; " if key == "HTTP_COOKIE" else ",") + value
        result[key] = value
    if authority := scope.authority:
        result.setdefault("HTTP_HOST", authority)
    result.pop("HTTP_TRANSFER_ENCODING", None)
    declared = result.pop("HTTP_CONTENT_LENGTH", None)
    if body or declared:
        result["CONTENT_LENGTH"] = str(len(body))
    if (kind := result.pop("HTTP_CONTENT_TYPE", None)) is not None:
        result["CONTENT_TYPE"] = kind
    return result


class _File:
    """A file as an answer: the event loop sends it from the disk, in no thread and without holding it in memory."""

    def __init__(self, file: Any, block_size: int = 65536) -> None:
        self._file = file
        self._block_size = block_size
        self.close = file.close

    @property
    def path(self) -> str | None:
        """Where the whole file is; None for part of a file, or one without a name."""
        file = self._file
        if isinstance(file, io.BufferedReader) and isinstance(file.name, str) and file.tell() == 0:
            return file.name
        return None

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self._file.read(self._block_size), b"")


class _Refused(Exception):
    """An answer given before Django has seen the request, in the form of the API's errors."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.body = json.dumps({"error": code, "message": message}).encode()
        self.headers = [("content-type", "application/json"), ("cache-control", "no-store")]
        if status == 503:
            self.headers.append(("retry-after", "1"))
