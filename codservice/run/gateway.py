"""Between the web server and Django: reads every request whole before it may hold a thread.

A server hands a WSGI application its request as soon as the headers are in, and its threads are then held by clients
that send or read slowly. Here the event loop waits for clients, thousands at once: only complete requests reach a
thread, and an answer that is too long to be handed over whole holds one only while its next piece is made.

It is an ordinary ASGI application. Of the server it needs `raw_path`, and a `send` that waits while the client does not
read (granian's ASGI interface since 2.8; its RSGI takes everything into memory).
"""

import asyncio
import io
import json
import logging
import queue
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from codservice import logs, metrics

logger = logging.getLogger("codservice.web")

MAX_BODY_BYTES = 1 << 20
BODY_SECONDS = 20.0
# From a request's first byte to its answer's: a statement may take 30 s, and threads may be waited for.
REQUEST_SECONDS = 60.0
# A body that is too large is read to its end and dropped, up to here: a client that is still sending when the
# connection is closed sees a reset instead of the answer.
MAX_DRAINED_BYTES = 32 << 20
# What the bodies of all requests of a process may fill that are being read or wait for their answer. A quarter is
# kept for small ones that show a key of ours, so that large uploads by anybody leave the API its room.
MAX_HELD_BYTES = 64 << 20
SMALL_BODY_BYTES = 16 << 10
# Longer answers are sent in pieces of about this size; each has to be taken in this time. The server holds a few.
PIECE_BYTES = 128 << 10
PIECE_SECONDS = 30.0
MAX_STREAMS = 64

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[..., Iterable[bytes]]


class Gateway:
    """An ASGI application that runs a WSGI `application` in `threads` threads.

    The WSGI side sees a complete body of at most 1 MiB + 1 byte with its CONTENT_LENGTH, however it was sent
    (chunked too); one byte too many is how it learns that the body was too large. Answered here: 400 to an incomplete
    body, 408 to one that does not arrive within 20 s, 503 when too much is held already or a request finds no answer
    within 60 s.
    """

    def __init__(self, application: Application, threads: int) -> None:
        self._application = application
        # concurrent.futures' pool does the same for 35 µs more a step.
        self._steps: queue.SimpleQueue[tuple[asyncio.Future[bytes], Callable[..., bytes], Any]] = queue.SimpleQueue()
        for number in range(threads):
            threading.Thread(target=self._work, name=f"web-{number}", daemon=True).start()
        self._held_bytes = 0
        self._streams = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        answer, body = _Answer(), b""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                body = await self._read(scope, receive)
                first = await self._in_thread(answer.begin, self._application, environ(scope, body))
            if not answer.is_whole:
                await self._stream(answer, first, receive, send)
                return
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            await send({"type": "http.response.body", "body": first})
        except _Refused as refused:
            await _refuse(refused, scope, send)
        except TimeoutError:
            logger.error("a request found no answer within %.0f s", REQUEST_SECONDS)
            answer.is_given_up = True
            await _refuse(_Refused(503, "unavailable", "It took too long; try again in a moment."), scope, send)
        except Exception:
            logger.exception("the application failed before its answer")
            await _refuse(_Refused(500, "server_error", "Something went wrong on our side."), scope, send)
        finally:
            self._held_bytes -= len(body)

    async def _read(self, scope: Message, receive: Receive) -> bytes:
        """The body, or its first MAX_BODY_BYTES + 1 bytes; from here on counted in `_held_bytes`."""
        headers = dict(scope["headers"])
        is_chunked = b"transfer-encoding" in headers
        declared = 0 if is_chunked else int(headers.get(b"content-length", b"0"))
        if not declared and not is_chunked:
            return b""
        is_preferred = declared <= SMALL_BODY_BYTES and headers.get(b"authorization", b"").startswith(b"Bearer cod_")
        room = MAX_HELD_BYTES if is_preferred and not is_chunked else MAX_HELD_BYTES * 3 // 4
        body, limit, seen = bytearray(), MAX_BODY_BYTES + 1, 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while (is_chunked or seen < declared) and seen <= MAX_DRAINED_BYTES:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Refused(400, "bad_request", "The body is incomplete.")
                    piece = message.get("body", b"")
                    seen += len(piece)
                    kept = piece[: limit - len(body)]
                    if self._held_bytes + len(kept) > room:
                        self._held_bytes -= len(body)
                        body, kept, limit = bytearray(), b"", 0
                    body += kept
                    self._held_bytes += len(kept)
                    if not message.get("more_body"):
                        break
            if not limit:
                raise _Refused(503, "unavailable", "Too many requests at once; try again in a moment.")
        except BaseException as error:
            self._held_bytes -= len(body)
            if isinstance(error, TimeoutError):
                said = f"The body did not arrive within {BODY_SECONDS:.0f} s."
                raise _Refused(408, "request_timeout", said) from None
            raise
        return bytes(body)

    async def _stream(self, answer: "_Answer", piece: bytes, receive: Receive, send: Send) -> None:
        if self._streams >= MAX_STREAMS:
            await self._in_thread(answer.close)
            raise _Refused(503, "unavailable", "Too many long answers at once; try again in a moment.")
        self._streams += 1
        gone = asyncio.ensure_future(_disconnected(receive))
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        try:
            while piece and not gone.done():
                async with asyncio.timeout(PIECE_SECONDS):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = await self._in_thread(answer.next)
        except TimeoutError:
            logger.warning("a long answer was not read for %.0f s", PIECE_SECONDS)
        except Exception:
            logger.exception("the application failed amid its answer")
        finally:
            self._streams -= 1
            gone.cancel()
            await send({"type": "http.response.body"})
            await self._in_thread(answer.close)

    async def _in_thread(self, step: Callable[..., bytes], *arguments: Any) -> bytes:
        done = asyncio.get_running_loop().create_future()
        self._steps.put((done, step, arguments))
        return await done

    def _work(self) -> None:
        while True:
            done, step, arguments = self._steps.get()
            if done.cancelled():
                continue
            result, error = b"", None
            try:
                result = step(*arguments)
            except Exception as raised:
                error = raised
            done.get_loop().call_soon_threadsafe(_settle, done, result, error)


def _settle(done: asyncio.Future[bytes], result: bytes, error: Exception | None) -> None:
    if done.cancelled():
        return
    if error:
        done.set_exception(error)
    else:
        done.set_result(result)


class _Answer:
    """What a WSGI application answers, taken piece by piece, each in whichever thread is free."""

    status: int
    headers: list[tuple[bytes, bytes]]

    def __init__(self) -> None:
        self.is_whole = False
        self.is_given_up = False
        self._answered: Iterable[bytes] = ()
        self._pieces: Iterator[bytes] = iter(())

    def begin(self, application: Application, environ: dict[str, Any]) -> bytes:
        self._answered = application(environ, self._start)
        self._pieces = iter(self._answered)
        first = self.next()
        if self.is_given_up:
            self.close()
        return first

    def _start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        self.status = int(status[:3])
        self.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]

    def next(self) -> bytes:
        """The next pieces joined, PIECE_BYTES or more unless they are the last; empty at the end."""
        gathered, size = [], 0
        try:
            for piece in self._pieces:
                gathered.append(piece)
                size += len(piece)
                if size >= PIECE_BYTES:
                    break
            else:
                self.is_whole = True
                self.close()
        except BaseException:
            self.close()
            raise
        return gathered[0] if len(gathered) == 1 else b"".join(gathered)

    def close(self) -> bytes:
        """Does nothing the second time."""
        answered, self._answered, self._pieces = self._answered, (), iter(())
        if hasattr(answered, "close"):
            answered.close()
        return b""


def environ(scope: Message, body: bytes) -> dict[str, Any]:
    """The WSGI environment of a complete request."""
    host, port = scope["server"]
    result: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": "HTTP/" + scope["http_version"],
        "REMOTE_ADDR": scope["client"][0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, sent in scope["headers"]:
        # A name with an underscore would become the twin of one with a dash that a proxy checked.
        if b"_" in name:
            continue
        key, value = "HTTP_" + name.decode("latin-1").upper().replace("-", "_"), sent.decode("latin-1")
        if key in result:
            value = result[key] + ("; " if key == "HTTP_COOKIE" else ",") + value
        result[key] = value
    if not result.get("HTTP_HOST"):  # HTTP/1.0 needs none, and granian then makes an empty one
        result.pop("HTTP_HOST", None)
    result.pop("HTTP_TRANSFER_ENCODING", None)
    declared = result.pop("HTTP_CONTENT_LENGTH", None)
    if body or declared:
        result["CONTENT_LENGTH"] = str(len(body))
    if (kind := result.pop("HTTP_CONTENT_TYPE", None)) is not None:
        result["CONTENT_TYPE"] = kind
    return result


class _Refused(Exception):
    """An answer that Django knows nothing of, in the form of the API's errors."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.body = json.dumps({"error": code, "message": message}).encode()


async def _refuse(refused: _Refused, scope: Message, send: Send) -> None:
    metrics.REQUESTS.labels("other", "unread", str(refused.status)).inc()
    sent = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(refused.body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-request-id", logs.sane_request_id(sent).encode()),
    ]
    if refused.status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": refused.body})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
