"""Between the web server and Django: reads every request completely before it may hold a thread.

A server hands a WSGI application its request as soon as the headers are in, and clients that send or read slowly then
hold its threads. Here the event loop waits for clients, thousands at once. Only complete requests reach a thread, and
an answer that is too long to be handed over at once holds one only while its next piece is made.

It is an ordinary ASGI application. The server must provide `raw_path`, and a `send` that waits while the client does
not read (granian's ASGI interface since 2.8; its RSGI takes everything into memory).
"""

import asyncio
import json
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

from django.core.exceptions import PermissionDenied

from codservice import logs, metrics
from codservice.accounts.key_format import key_in, shows_test_key
from codservice.run.kernel import drop_connection
from codservice.run.threads import Threads
from codservice.run.wsgi_side import Answer, Application, Message, environ
from codservice.wire import MAX_BODY

logger = logging.getLogger("codservice.web")

BODY_SECONDS = 20.0
# From a request's complete head to its answer's first piece: a statement may take 30 s, and requests may wait for
# threads.
REQUEST_SECONDS = 60.0
# A body that is not kept is read to its end and dropped, up to this size: a client that is still sending when the
# connection is closed sees a reset instead of the answer.
MAX_DRAINED_BYTES = 32 << 20
# The memory for bodies of all requests of a process that are being read or wait for their answer. Keys that were found
# before may use all of it. Others find room until MOST_OF_STRANGERS of it is held, with a small body MOST_OF_SMALL, so
# that uploads by strangers leave room for merchants. No key may use more than MOST_OF_KEY.
MAX_HELD_BYTES = 64 << 20
MOST_OF_STRANGERS, MOST_OF_SMALL, MOST_OF_KEY = 1 / 2, 3 / 4, 1 / 4
SMALL_BODY_BYTES = 16 << 10
# granian itself refuses a head of 64 KiB or more than 100 headers, without a body; below that the refusal is ours to
# word. A URL with the most SKUs that the inventory's filter takes has 33 KB.
MAX_TARGET_BYTES = 40 << 10
MAX_HEADER_BYTES = 48 << 10
# Longer answers are sent in slices as fast as they are read; the server holds SERVER_SLICES and about two more. The
# connection is dropped if a client does not read for SLICE_SECONDS, or reads fewer bytes a second than LEAST_RATE for
# as long. Reads are refused while a process sends MAX_STREAMS such answers, or MAX_STREAMS_EACH to the same account or
# person. Changes are answered all the same, since a refusal would say that they were not made, but at most half of
# MAX_STREAMS to the same client; strangers together get no more either.
SLICE_BYTES = 32 << 10
SERVER_SLICES = 4
SLICE_SECONDS = 30.0
LEAST_RATE = 8 << 10
MAX_STREAMS = 128
MAX_STREAMS_EACH = 8
_ANSWER_LOST = (
    "This was carried out or refused, but its long answer cannot be sent while you have so many others "
    "unread. Read those, and check what became of it before you send it again."
)
_CUT_SHORT = "It took too long, and may have been carried out. Check what became of it before you send it again."
_READS = ("GET", "HEAD")
# The key in the WSGI environment under which the application says whom its answer is for.
HOLDER = "codservice.holder"
# Pages where anybody can have a password hashed, which takes as much CPU time as hundreds of calls. They are served one
# at a time. Requests that wait, at most MOST_AT_DOOR, hold no thread.
DOORS = (b"/account/login", b"/console/login/")
MOST_AT_DOOR = 20

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Gateway:
    """An ASGI application that runs a WSGI `application` in `threads` threads.

    The WSGI side sees a complete body of at most 1 MiB + 1 byte with its CONTENT_LENGTH, however it was sent (also
    chunked); the one extra byte tells it that the body was too large. Of such a form the last part, a file, is missing.
    It sees no body of API calls that have nothing like a key. `is_known` says whether a key was found before, without
    any query.

    Merchants' searches (`q` in the query) leave one thread to others if there are two. Logins go one by one.

    The application finds the request's id, which all answers and log lines name, in HTTP_X_REQUEST_ID.

    Answered here: 400 for an incomplete body, 408 for one that does not arrive within 20 s, 413 for more than 16 KiB to
    a page from a client that is not signed in, 414 and 431 for long URLs and headers, 429 and 503 when too much is held
    or sent already or too many want to sign in, 503 for a request that is not answered within 60 s.

    Once `is_leaving` is set, each answer tells the client that its connection ends.
    """

    def __init__(
        self, application: Application, threads: int, is_known: Callable[[str], bool] = lambda key: False
    ) -> None:
        self._application, self._is_known = application, is_known
        self.is_leaving = False
        self._in_thread = Threads(threads).run
        self._door = _Door()
        self._searches = asyncio.Semaphore(max(threads - 1, 1))
        self._bodies = _Room()
        self._streams: Counter[str] = Counter()  # by who reads them; strangers have no name

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        answer, body = Answer(), None
        logs.begin(_request_id(scope))  # of this task, which is this request's alone
        scope["method"] = scope["method"].upper()  # as Django does, so that a login by "post" is seen as one
        try:
            _check_head(scope)
            lane = self._lane(scope)
            async with asyncio.timeout(REQUEST_SECONDS):
                body = self._body(scope)
                request = environ(scope, await body.read(receive) if body else b"")
                request["HTTP_X_REQUEST_ID"] = logs.request_id()
                first = await self._in_lane(lane, answer.begin, self._application, request)
            if answer.is_whole and len(first) <= SLICE_BYTES:
                await send(self._start(answer.status, answer.headers))
                await send({"type": "http.response.body", "body": first})
            else:
                await self._stream(answer, first, request.get(HOLDER, ""), lane, scope, receive, send)
        except _Refused as refused:
            await self._refuse(refused, scope, send)
        except TimeoutError:
            logger.error("a request was not answered within %.0f s", REQUEST_SECONDS)
            is_left_open = answer.give_up()
            if not answer.is_asked:
                said = "It took too long, and nothing was done. Try again in a moment."
            elif scope["method"] in _READS:
                said = "It took too long. Try again in a moment."
            else:
                said = _CUT_SHORT
            await self._refuse(_Refused(503, "unavailable", said), scope, send)
            if is_left_open:
                await self._in_thread(answer.close)
        except Exception:
            logger.exception("the application failed before it answered")
            await self._refuse(_Refused(500, "server_error", "Something went wrong on our side."), scope, send)
        finally:
            if body:
                body.drop()

    def _lane(self, scope: Message) -> "_Lane | None":
        if scope["method"] == "POST" and unquote_to_bytes(scope["raw_path"]) in DOORS:
            return self._door
        return self._searches if _is_search(scope) else None

    async def _in_lane(self, lane: "_Lane | None", step: Callable[..., bytes], *arguments: Any) -> bytes:
        """Run a step in a thread. It holds its lane until it ends, also when nobody waits for it any more."""
        if lane is None:
            return await self._in_thread(step, *arguments)
        await lane.acquire()
        return await self._in_thread(step, *arguments, ended=lane.release)

    def _body(self, scope: Message) -> "_Body | None":
        """Return the request's body, which is still to be read, or None if it has none."""
        headers = dict(scope["headers"])
        declared = math.inf if b"transfer-encoding" in headers else int(headers.get(b"content-length", b"0"))
        if not declared:
            return None
        sender = _sender(scope, headers)
        if sender.key and self._is_known(sender.key):
            share = 1.0
        else:
            share = MOST_OF_SMALL if declared <= SMALL_BODY_BYTES else MOST_OF_STRANGERS
        return _Body(self._bodies, sender, declared, share)

    async def _stream(
        self,
        answer: Answer,
        piece: bytes,
        holder: str,
        lane: "_Lane | None",
        scope: Message,
        receive: Receive,
        send: Send,
    ) -> None:
        if refused := self._too_many_streams(holder, is_read=scope["method"] in _READS):
            await self._in_thread(answer.close)
            refused.headers = [(name, value) for name, value in answer.headers if name.startswith(b"x-ratelimit-")]
            raise refused
        self._streams[holder] += 1
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await send(self._start(answer.status, answer.headers))
            await self._send_in_slices(answer, piece, lane, gone, send)
        except Exception as error:
            if isinstance(error, TimeoutError):
                logger.warning("a client did not read a long answer")
            elif isinstance(error.__cause__, PermissionDenied):
                logger.warning("a download was broken off: %s", error.__cause__)
            else:
                logger.exception("the application failed while it was answering")
            # With a regular end the answer would seem complete, and nobody would miss the rest of a table.
            address, port = scope["client"]
            drop_connection((address, int(port)))
        finally:
            self._streams[holder] -= 1
            if not self._streams[holder]:
                del self._streams[holder]
            gone.cancel()
            await send({"type": "http.response.body"})
            await self._in_thread(answer.close)

    def _too_many_streams(self, holder: str, is_read: bool) -> "_Refused | None":
        if holder and is_read and self._streams[holder] >= MAX_STREAMS_EACH:
            return _Refused(429, "rate_limited", "Read the long answers that you asked for before you ask for more.")
        if self._streams[holder] >= MAX_STREAMS // 2 or (is_read and self._streams.total() >= MAX_STREAMS):
            said = "Too many long answers at once. Try again in a moment." if is_read else _ANSWER_LOST
            return _Refused(503, "unavailable", said)
        return None

    async def _send_in_slices(
        self,
        answer: Answer,
        piece: bytes,
        lane: "_Lane | None",
        gone: asyncio.Future[None],
        send: Send,
    ) -> None:
        """Send `piece` and all that follows as fast as the client reads, until all of it has left the server."""
        patience = SLICE_SECONDS
        while piece and not gone.done():
            for start in range(0, len(piece), SLICE_BYTES):
                patience = await _send_slice(piece[start : start + SLICE_BYTES], patience, send)
            piece = await self._in_lane(lane, answer.next)
        # Once it takes these, which are nothing to the client, the server holds no more slices.
        for _ in range(SERVER_SLICES):
            if not gone.done():
                patience = await _send_slice(b"", patience, send)

    def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> Message:
        """Return the message that begins an answer."""
        if self.is_leaving:
            headers = [*headers, (b"connection", b"close")]
        return {"type": "http.response.start", "status": status, "headers": headers}

    async def _refuse(self, refused: "_Refused", scope: Message, send: Send) -> None:
        metrics.REQUESTS.labels("other", "unread", str(refused.status)).inc()
        authorization = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(refused.body)).encode()),
            (b"cache-control", b"no-store"),
            (b"vary", b"Authorization"),
            (b"x-content-type-options", b"nosniff"),
            (b"x-request-id", logs.request_id().encode()),
            *refused.headers,
        ]
        if shows_test_key(authorization):
            headers.append((b"x-service-mode", b"test"))
        if refused.status in (429, 503):
            headers.append((b"retry-after", b"1"))
        await send(self._start(refused.status, headers))
        await send({"type": "http.response.body", "body": refused.body})


def _request_id(scope: Message) -> str:
    """Return the id that a client sent if it is acceptable, and the only one, else a new one."""
    sent = [value for name, value in scope["headers"] if name == b"x-request-id"]
    return logs.sane_request_id(b", ".join(sent).decode("latin-1"))


class _Sender(NamedTuple):
    """Who sends a body."""

    key: str  # of an API call; empty unless it has the right form
    limit: int  # how many bytes of the body are kept
    is_signed_out: bool = False  # at a page


def _sender(scope: Message, headers: dict[bytes, bytes]) -> _Sender:
    # Also by `//api/`, as in `codservice.api.error_answers`.
    if unquote_to_bytes(scope["raw_path"]).lstrip(b"/").startswith(b"api/"):
        key = key_in(headers.get(b"authorization", b"").decode("latin-1"))
        return _Sender(key, MAX_BODY + 1 if key else 0)
    if re.search(rb"sessionid=[0-9a-z]{32}", headers.get(b"cookie", b"")):
        return _Sender("", MAX_BODY + 1)
    return _Sender("", SMALL_BODY_BYTES, is_signed_out=True)


class _Door:
    """Lets one request pass at a time; at most MOST_AT_DOOR others wait."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(1)
        self._waiting = 0

    async def acquire(self) -> None:
        if self._waiting >= MOST_AT_DOOR:
            raise _Refused(503, "unavailable", "Too many people are signing in. Try again in a moment.")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1

    def release(self) -> None:
        self._free.release()


_Lane = asyncio.Semaphore | _Door


class _Room:
    """Counts the bytes that are held, in total and for each key."""

    def __init__(self) -> None:
        self._held = 0
        self._of: Counter[str] = Counter()

    def take(self, key: str, size: int, share: float) -> bool:
        """Take room for `size` more bytes unless more than `share` of all is held then. Returns whether it did."""
        if self._held + size > share * MAX_HELD_BYTES:
            return False
        if key and self._of[key] + size > MOST_OF_KEY * MAX_HELD_BYTES:
            return False
        self._held += size
        self._of[key] += size
        return True

    def give_back(self, key: str, size: int) -> None:
        self._held -= size
        self._of[key] -= size
        if not self._of[key]:
            del self._of[key]


class _Body:
    """A request's body, of `declared` bytes (infinite if chunked). It holds the room for what is kept until `drop`."""

    __slots__ = ("_declared", "_has_room", "_held", "_kept", "_room", "_sender", "_share")

    def __init__(self, room: _Room, sender: _Sender, declared: float, share: float) -> None:
        self._room, self._sender, self._declared, self._share = room, sender, declared, share
        self._kept, self._held, self._has_room = bytearray(), 0, True

    async def read(self, receive: Receive) -> bytes:
        """Read it to its end, once. Returns as much of it as is kept. Raises _Refused."""
        seen = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while seen < self._declared and seen <= MAX_DRAINED_BYTES:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Refused(400, "bad_request", "The body is incomplete.")
                    piece = message.get("body", b"")
                    seen += len(piece)
                    self._add(piece)
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise _Refused(408, "request_timeout", f"The body did not arrive within {BODY_SECONDS:.0f} s.") from None
        if not self._has_room:
            raise _Refused(503, "unavailable", "Too many requests at once. Try again in a moment.")
        if self._sender.is_signed_out and seen > self._sender.limit:
            raise _Refused(413, "payload_too_large", "Sign in before you send so much.")
        whole = bytes(self._kept)
        self._kept.clear()  # not in memory twice
        return whole

    def _add(self, piece: bytes) -> None:
        """Keep a piece up to the sender's limit. Once there is no room for one, keep nothing."""
        piece = piece[: self._sender.limit - self._held]
        if not piece or not self._has_room:
            return
        size = len(piece)
        if self._room.take(self._sender.key, size, self._share):
            self._kept += piece
            self._held += size
        else:
            self._has_room = False
            self.drop()

    def drop(self) -> None:
        """Keep nothing, and give the room back."""
        if self._held:
            self._room.give_back(self._sender.key, self._held)
            self._held = 0
        self._kept.clear()


def _is_search(scope: Message) -> bool:
    """Whether it is a search by merchants or strangers; the console's searches have their own indexes."""
    if scope["raw_path"].startswith(b"/console/"):
        return False
    query = scope["query_string"].decode("latin-1")
    return any(name == "q" for name, _ in parse_qsl(query, encoding="latin-1"))


def _check_head(scope: Message) -> None:
    """Refuse an address or headers that are longer than anything that makes sense."""
    if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_TARGET_BYTES:
        raise _Refused(414, "uri_too_long", f"The address is longer than {MAX_TARGET_BYTES >> 10} KiB.")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
        raise _Refused(431, "headers_too_large", f"The headers are longer than {MAX_HEADER_BYTES >> 10} KiB.")


class _Refused(Exception):
    """An answer that is made without Django, in the form of the API's errors."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = json.dumps({"error": code, "message": message}).encode()


async def _send_slice(data: bytes, patience: float, send: Send) -> float:
    """Wait at most `patience` seconds until the server takes a slice. Returns the patience for the next one."""
    began = time.monotonic()
    async with asyncio.timeout(patience):
        await send({"type": "http.response.body", "body": data, "more_body": True})
    return min(patience - (time.monotonic() - began) + len(data) / LEAST_RATE, SLICE_SECONDS)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
