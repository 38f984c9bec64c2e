"""What a web process holds for its clients, and for whom it keeps room: the gateway alone, without a server."""

import asyncio
import io
import json
import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.exceptions import PermissionDenied

from codservice import logs
from codservice.accounts.key_format import make_key
from codservice.run import gateway
from codservice.run.gateway import Gateway
from codservice.run.kernel import drop_connection
from codservice.run.threads import Threads
from tests.harness.background import PATIENCE

KEY, OTHERS_KEY = make_key(), make_key()
MIB = 1 << 20
SIGNED_IN = [(b"cookie", b"csrftoken=x; sessionid=" + b"a" * 32)]


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    environ[gateway.HOLDER] = environ.get("HTTP_X_HOLDER", "")
    start_response("200 OK", [("X-RateLimit-Limit", "60")])
    size = int(environ["QUERY_STRING"] or 0)
    return [b"x" * size] if size else [str(len(environ["wsgi.input"].read())).encode()]


def bearer(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {key}".encode())]


class Client:
    """One request. The test decides how far its body comes and its answer is taken."""

    def __init__(
        self,
        served: Gateway,
        path: str = "/api/v1/orders",
        headers: Any = (),
        body: bytes = b"",
        *,
        declared: int | None = None,
        query: bytes = b"",
        takes: int = 1 << 30,
        method: str = "POST",
    ) -> None:
        length = len(body) if declared is None else declared
        self.scope = {
            "method": method,
            "raw_path": path.encode(),
            "query_string": query,
            "headers": [*headers, (b"content-length", str(length).encode())],
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 9),
            "http_version": "1.1",
            "scheme": "http",
        }
        self.status, self.answer, self.headers = 0, b"", dict[bytes, bytes]()
        self._body, self._is_whole, self._takes = body, len(body) == length, takes
        self._rest, self._room = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(served(self.scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            body, self._body = self._body, b""
            return {"type": "http.request", "body": body, "more_body": not self._is_whole}
        await self._rest.wait()  # never comes
        raise AssertionError

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
            return
        self.answer += message.get("body", b"")
        if len(self.answer) > self._takes and message.get("more_body"):
            await self._room.wait()  # the client reads no further

    async def settle(self) -> None:
        """Let it run until its answer is there, or what it sent has been read."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def done(self) -> "Client":
        await asyncio.wait_for(self._task, PATIENCE)
        return self

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def pass_time(seconds: float) -> None:
    """Set the loop's clock ahead, at which timeouts end."""
    loop = asyncio.get_running_loop()
    usual = loop.time
    loop.time = lambda: usual() + seconds  # type: ignore[method-assign]


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():
            await asyncio.sleep(0.001)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    def run(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gateway, "MAX_HELD_BYTES", 8 * MIB)
        asyncio.run(test(monkeypatch) if test.__code__.co_argcount else test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_loop
async def test_nothing_is_kept_of_a_call_of_the_api_that_shows_no_key() -> None:
    served = Gateway(application, 1)
    wrong = KEY[:-1] + ("0" if KEY[-1] != "0" else "1")
    for headers in ([], bearer("x"), bearer(wrong), [(b"authorization", KEY.encode())], SIGNED_IN):
        half = [Client(served, headers=headers, body=b"x" * MIB, declared=MIB + 1) for _ in range(20)]
        for client in half:
            await client.settle()
        assert served._bodies._held == 0
        whole = await Client(served, headers=headers, body=b"x" * MIB).done()
        assert (whole.status, whole.answer) == (200, b"0")  # the application answers 401, without the body
        for client in half:
            await client.leave()
    assert (await Client(served, headers=bearer(KEY), body=b"x" * MIB).done()).answer == str(MIB).encode()


@in_loop
async def test_of_a_page_little_is_kept_before_login() -> None:
    served = Gateway(application, 1)
    small, large = b"x" * gateway.SMALL_BODY_BYTES, b"x" * (gateway.SMALL_BODY_BYTES + 1)
    assert (await Client(served, "/account/login", body=small).done()).answer == str(len(small)).encode()
    refused = await Client(served, "/account/login", body=large).done()
    assert (refused.status, b"payload_too_large" in refused.answer) == (413, True)
    assert (await Client(served, "/account/orders", SIGNED_IN, large).done()).answer == str(len(large)).encode()
    assert served._bodies._held == 0


@in_loop
async def test_strangers_leave_room_for_known_keys() -> None:
    """Anybody can make up a key of the right form."""
    served = Gateway(application, 1, is_known=lambda key: key == KEY)
    made_up = [Client(served, headers=bearer(make_key()), body=b"x" * MIB, declared=MIB + 1) for _ in range(20)]
    pages = [Client(served, "/account/", SIGNED_IN, b"x" * MIB, declared=MIB + 1) for _ in range(20)]
    for client in [*made_up, *pages]:
        await client.settle()
    assert served._bodies._held == 4 * MIB
    refused = await Client(served, headers=bearer(OTHERS_KEY), body=b"x" * MIB).done()
    assert (refused.status, refused.headers[b"retry-after"]) == (503, b"1")
    assert (await Client(served, headers=bearer(OTHERS_KEY), body=b"x" * 2000).done()).status == 200
    assert (await Client(served, "/account/", SIGNED_IN, b"x" * 2000).done()).status == 200
    assert (await Client(served, headers=bearer(KEY), body=b"x" * MIB).done()).status == 200
    for client in [*made_up, *pages]:
        await client.leave()
    assert served._bodies._held == 0


@in_loop
async def test_no_key_takes_the_room_of_the_others() -> None:
    served = Gateway(application, 1, is_known=lambda key: True)
    greedy = [Client(served, headers=bearer(KEY), body=b"x" * MIB, declared=MIB + 1) for _ in range(20)]
    for client in greedy:
        await client.settle()
    assert served._bodies._held == 2 * MIB
    assert (await Client(served, headers=bearer(KEY), body=b"x" * 2000).done()).status == 503
    assert (await Client(served, headers=bearer(OTHERS_KEY), body=b"x" * MIB).done()).status == 200
    for client in greedy:
        await client.leave()
    assert served._bodies._of == {}


@in_loop
async def test_an_address_or_headers_that_are_too_long_are_refused_in_json() -> None:
    served = Gateway(application, 1)
    for client, status, code in (
        (Client(served, "/" + "a" * gateway.MAX_TARGET_BYTES), 414, b"uri_too_long"),
        (Client(served, query=b"a" * gateway.MAX_TARGET_BYTES), 414, b"uri_too_long"),
        (Client(served, headers=[(b"x", b"a" * gateway.MAX_HEADER_BYTES)]), 431, b"headers_too_large"),
    ):
        answer = await client.done()
        assert (answer.status, code in answer.answer) == (status, True)


# --- Answers that are read slowly -----------------------------------------------------------------------------------


@in_loop
async def test_what_waits_to_be_read_is_bounded_for_each_and_for_all(monkeypatch: Any) -> None:
    monkeypatch.setattr(gateway, "MAX_STREAMS", 6)
    monkeypatch.setattr(gateway, "MAX_STREAMS_EACH", 2)
    served = Gateway(application, 1)

    async def ask(holder: str, method: str = "GET") -> Client:
        client = Client(served, "/", [(b"x-holder", holder.encode())], query=b"%d" % MIB, takes=1, method=method)
        while not client.status:
            await asyncio.sleep(0.001)
        await client.settle()
        return client

    asked = [await ask("alice") for _ in range(3)]
    assert [client.status for client in asked] == [200, 200, 429]
    refusal = {b"retry-after": b"1", b"x-ratelimit-limit": b"60", b"vary": b"Authorization"}
    assert refusal.items() <= asked[2].headers.items()
    assert max(len(client.answer) for client in asked) <= gateway.SLICE_BYTES
    asked += [await ask("") for _ in range(4)]
    assert [client.status for client in asked[3:]] == [200, 200, 200, 503]  # strangers get half
    asked += [await ask("charlie") for _ in range(2)]
    assert [client.status for client in asked[7:]] == [200, 503]
    asked.append(await ask("charlie", "POST"))  # a change that was made must not seem refused
    assert asked[-1].status == 200
    for client in asked:
        client._room.set()
        assert (await client.done()).status != 200 or len(client.answer) == MIB
    assert served._streams == {}
    asked = [await ask("alice", method) for method in ["GET", "GET", "HEAD", "POST", "PUT"]]
    assert [client.status for client in asked] == [200, 200, 429, 200, 503]
    assert b"carried out or refused" in asked[-1].answer  # a 503 alone would mean that the change was not made
    asked.append(await ask("alice"))
    assert asked[-1].status == 429, "which it is theirs to end"
    for client in asked:
        await client.leave()


@in_loop
async def test_whoever_refuses_a_request_it_has_one_id(monkeypatch: Any) -> None:
    """Django logs under it what it did, before the gateway answers instead."""
    monkeypatch.setattr(gateway, "MAX_STREAMS_EACH", 1)
    lines, seen, over = io.StringIO(), dict[str, str](), threading.Event()
    to_lines = logging.StreamHandler(lines)
    to_lines.setFormatter(logs.formatter(readable=False))
    gateway.logger.addHandler(to_lines)

    def noting(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        seen[path := environ["PATH_INFO"]] = environ.get("HTTP_X_REQUEST_ID", "")
        if path == "/slow":
            over.wait(PATIENCE)
        if path == "/fails":
            raise ValueError
        return application(environ, start_response)

    def ask(path: str, ids: Any = (), query: bytes = b"") -> Client:
        headers = [(b"x-holder", b"alice"), *((b"x-request-id", value) for value in ids)]
        return Client(served, path, headers, query=query, takes=1, method="GET")

    served = Gateway(noting, 2)
    slow = ask("/slow")
    await until(lambda: "/slow" in seen)
    pass_time(gateway.REQUEST_SECONDS)
    refused = {"/slow": await slow.done(), "/fails": await ask("/fails").done()}
    unread = ask("/big", query=b"%d" % MIB)
    await until(lambda: unread.status)
    refused |= {
        path: await ask(path, ids, query).done()
        for path, ids, query in (
            ("/too-many", (), b"%d" % MIB),
            ("/own", (b"mine",), b"%d" % MIB),
            ("/two", (b"first", b"second"), b"%d" % MIB),
        )
    }
    over.set()
    await unread.leave()
    gateway.logger.removeHandler(to_lines)
    assert [client.status for client in refused.values()] == [503, 500, 429, 429, 429]
    answered = {path: client.headers[b"x-request-id"].decode() for path, client in refused.items()}
    assert answered == {path: seen[path] for path in refused}
    assert answered["/own"] == "mine"
    assert len(set(answered.values())) == 5
    assert len(answered["/two"]) == 36
    logged = [json.loads(line)["request_id"] for line in lines.getvalue().splitlines()]
    assert logged == [answered["/slow"], answered["/fails"]]


@in_loop
async def test_who_does_not_read_is_disconnected(monkeypatch: Any) -> None:
    monkeypatch.setattr(gateway, "SLICE_SECONDS", 0.05)
    dropped: list[Any] = []
    monkeypatch.setattr(gateway, "drop_connection", dropped.append)
    served = Gateway(application, 1)
    await Client(served, "/", query=b"%d" % MIB, takes=1).done()
    assert (dropped, served._streams) == ([("127.0.0.1", 9)], {})


@in_loop
async def test_who_reads_a_little_now_and_then_is_disconnected_too(monkeypatch: Any) -> None:
    """Each slice comes in time, but all of them together would take hours."""
    monkeypatch.setattr(gateway, "SLICE_SECONDS", 1.0)
    monkeypatch.setattr(gateway, "LEAST_RATE", 1 << 30)
    dropped: list[Any] = []
    monkeypatch.setattr(gateway, "drop_connection", dropped.append)
    client = Client(Gateway(application, 1), "/", query=b"%d" % MIB)
    sent = client._send

    async def slowly(message: dict[str, Any]) -> None:
        await asyncio.sleep(0.2)
        await sent(message)

    await client.leave()
    client._task = asyncio.create_task(Gateway(application, 1)(client.scope, client._receive, slowly))
    await client.done()
    assert dropped
    assert len(client.answer) < MIB // 2


@pytest.mark.parametrize("proc", ["with /proc", "without"])
def test_a_connection_is_dropped_whoever_holds_it(monkeypatch: Any, proc: str) -> None:
    if proc == "without":
        monkeypatch.setattr(os, "listdir", Mock(side_effect=FileNotFoundError))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one, other = (socket.create_connection(listener.getsockname(), timeout=PATIENCE) for _ in range(2))
        held = [listener.accept()[0] for _ in range(2)]
        drop_connection(one.getsockname())
        assert one.recv(1) == b""
        held[1].sendall(b"x")
        assert other.recv(1) == b"x"
        for each in (one, other, *held):
            each.close()


# --- Threads ----------------------------------------------------------------------------------------------------------


@contextmanager
def held_searches() -> Iterator[tuple[Callable[..., list[bytes]], threading.Event]]:
    """An application whose searches take until the event is set."""
    over = threading.Event()

    def searching(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        start_response("200 OK", [])
        if environ["QUERY_STRING"]:
            over.wait(PATIENCE)
        return [b"ok"]

    try:
        yield searching, over
    finally:
        over.set()


@in_loop
async def test_searches_leave_a_thread_to_the_others() -> None:
    with held_searches() as (searching, over):
        served = Gateway(searching, 2)
        searches = [Client(served, "/", query=query) for query in (b"q=zzzz", b"%71=%C3%A9", b"a=\xff&q=z") * 3]
        for client in searches:
            await client.settle()
        for _ in range(10):
            assert (await Client(served, "/").done()).answer == b"ok"
        assert not any(client.status for client in searches)
        over.set()
        for client in searches:
            assert (await client.done()).answer == b"ok"


@in_loop
async def test_a_search_that_is_given_up_keeps_its_thread_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "REQUEST_SECONDS", 0.1)
    with held_searches() as (searching, over):
        begun = []

        def noted(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
            begun.append(environ["QUERY_STRING"])
            return searching(environ, start_response)

        served = Gateway(noted, 2)
        for _ in range(3):
            assert (await Client(served, "/", query=b"q=z").done()).status == 503
        assert len(begun) <= 1
        monkeypatch.setattr(gateway, "REQUEST_SECONDS", PATIENCE)
        assert (await Client(served, "/").done()).answer == b"ok"
        next_one = Client(served, "/", query=b"q=z")
        over.set()
        assert (await next_one.done()).answer == b"ok"


@in_loop
async def test_whatever_a_request_raises_it_is_answered_and_its_thread_takes_the_next() -> None:
    class PanicException(BaseException):
        """As extensions in Rust raise it."""

    kinds = {kind.__name__: kind for kind in (SystemExit, PanicException, StopIteration, TimeoutError)}

    def raising(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        if kind := kinds.get(environ["PATH_INFO"][1:]):
            raise kind
        return application(environ, start_response)

    served = Gateway(raising, 1)
    for name in kinds:
        failed = await Client(served, f"/{name}").done()
        assert (failed.status, b"server_error" in failed.answer) == (500, True)
        assert (await Client(served, "/").done()).status == 200


@in_loop
async def test_a_download_of_somebody_shut_out_is_broken_off_and_is_no_fault_of_ours(monkeypatch: Any) -> None:
    dropped: list[Any] = []
    said: list[str] = []
    monkeypatch.setattr(gateway, "drop_connection", dropped.append)
    monkeypatch.setattr(gateway, "logger", SimpleNamespace(warning=lambda text, *_: said.append(text)))

    def download(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield from [b"x" * MIB] * 2
        raise PermissionDenied

    assert (await Client(Gateway(download, 1), "/").done()).answer
    assert (said, len(dropped)) == (["a download was broken off: %s"], 1)


class Streamed:
    """An answer that does not end. It calls `wait` before its first piece, and counts how often it is closed."""

    def __init__(self, wait: Callable[[], Any]) -> None:
        self.closed, self._wait = 0, wait

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> "Streamed":
        start_response("200 OK", [])
        return self

    def __iter__(self) -> Iterator[bytes]:
        self._wait()
        while True:
            yield b"x" * MIB

    def close(self) -> None:
        self.closed += 1

    async def is_closed(self) -> None:
        await until(lambda: self.closed)


@in_loop
async def test_a_long_answer_given_up_while_its_first_piece_is_made_is_closed_after_that() -> None:
    has_begun, over = threading.Event(), threading.Event()
    streamed = Streamed(lambda: has_begun.set() or over.wait(PATIENCE))
    client = Client(Gateway(streamed, 1), "/")
    await until(has_begun.is_set)
    pass_time(gateway.REQUEST_SECONDS)
    assert (await client.done()).status == 503
    assert streamed.closed == 0  # another thread is in it
    over.set()
    await streamed.is_closed()


@in_loop
async def test_a_long_answer_whose_first_piece_comes_when_the_time_ends_is_closed() -> None:
    """The loop is busy meanwhile: it finds the piece and the end of the time at once."""
    loop, is_busy = asyncio.get_running_loop(), threading.Event()

    def be_busy() -> None:
        is_busy.set()
        time.sleep(0.7)
        pass_time(gateway.REQUEST_SECONDS)

    def wait() -> None:
        loop.call_soon_threadsafe(be_busy)
        is_busy.wait(PATIENCE)

    streamed = Streamed(wait)
    assert (await Client(Gateway(streamed, 1), "/").done()).status == 503
    await streamed.is_closed()
    assert streamed.closed == 1


def slept(thread: threading.Thread) -> int:
    """How often a thread has begun to wait, by the kernel's count."""
    return int(_status(thread, "voluntary_ctxt_switches"))


def _status(thread: threading.Thread, name: str) -> str:
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return status.partition(f"\n{name}:")[2].split()[0]


async def all_sleep(threads: set[threading.Thread]) -> dict[threading.Thread, int]:
    """Wait until all of them sleep on, and return how often each has slept."""
    before, now = dict[threading.Thread, int](), {thread: slept(thread) for thread in threads}
    async with asyncio.timeout(PATIENCE):
        while before != now or any(_status(thread, "State") != "S" for thread in threads):
            await asyncio.sleep(0.02)  # in which one that waits for the interpreter gets it
            before, now = now, {thread: slept(thread) for thread in threads}
    return now


@in_loop
async def test_a_request_wakes_one_thread_and_the_others_sleep_on() -> None:
    others = set(threading.enumerate())
    served = Gateway(application, 8)
    threads = set(threading.enumerate()) - others
    before = await all_sleep(threads)
    for _ in range(50):
        assert (await Client(served, "/").done()).status == 200
    assert len(threads) == 8
    assert sum(slept(thread) > before[thread] for thread in threads) <= 3  # the last may still be on its way to sleep


@in_loop
async def test_a_thread_that_waits_holds_nothing_of_its_last_request() -> None:
    """The thread that waited last is given the next request: another might not get one for hours."""
    bodies: weakref.WeakSet[Any] = weakref.WeakSet()

    def remembering(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        bodies.add(environ["wsgi.input"])
        return application(environ, start_response)

    assert (await Client(Gateway(remembering, 1), "/", SIGNED_IN, b"x" * MIB).done()).answer == str(MIB).encode()
    async with asyncio.timeout(PATIENCE):
        while bodies:
            await asyncio.sleep(0.01)


@in_loop
async def test_a_request_that_is_given_up_while_it_waits_for_a_thread_is_not_kept() -> None:
    """While PostgreSQL hangs, so do all threads: what waits for one may not pile up."""
    over, bodies, ended = threading.Event(), weakref.WeakSet[Any](), list[int]()
    run = Threads(1).run

    async def ask(number: int) -> None:
        body = io.BytesIO(b"x")
        bodies.add(body)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await run(body.read, body, ended=lambda: ended.append(number))

    held = asyncio.create_task(run(over.wait, PATIENCE))
    await asyncio.sleep(0)
    await asyncio.gather(*map(ask, range(50)))
    assert (list(bodies), sorted(ended)) == ([], list(range(50)))
    over.set()
    assert await held
    assert await run(lambda: "ok") == "ok"
    assert len(ended) == 50


def test_a_thread_whose_step_outlasts_its_loop_takes_the_next() -> None:
    threads, begun, over = Threads(1), threading.Event(), threading.Event()

    async def give_up() -> None:
        held = asyncio.create_task(threads.run(lambda: begun.set() or over.wait(PATIENCE)))
        await asyncio.to_thread(begun.wait, PATIENCE)
        held.cancel()

    async def ask() -> str:
        async with asyncio.timeout(PATIENCE):
            return await threads.run(lambda: "ok")

    asyncio.run(give_up())
    over.set()
    assert asyncio.run(ask()) == "ok"
