"""Whatever a receiver does, an attempt ends within its three seconds, costs next to nothing and is judged rightly."""

import asyncio
import contextlib
import gzip
import socket
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.harness.background import eventually
from tests.harness.processes import free_port
from tests.harness.receivers import Behaviour, Connection, Receiver, answer, hang
from tests.webhooks.engine.posting import LATEST, post_all
from webhooks.posts import Post
from webhooks.sender import Sender

MEGABYTES = 20.0
KEPT = 2048

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ACKNOWLEDGED = ("", 200)


def raw(data: bytes, *, then: str = "close") -> Behaviour:
    """Send these bytes, then close, reset or hang."""

    async def behave(connection: Connection) -> None:
        await connection.send(data)
        if then == "hang":
            await hang(connection)
        elif then == "reset":
            await asyncio.sleep(0.05)  # so that the bytes are read before
            connection.reset()
        connection.writer.close()

    return behave


def trickle(at_once: bytes, slowly: bytes) -> Behaviour:
    async def behave(connection: Connection) -> None:
        await connection.send(at_once)
        await connection.trickle(slowly)

    return behave


def flood(first: bytes, again: bytes) -> Behaviour:
    async def behave(connection: Connection) -> None:
        await connection.send(first)
        await connection.flood(again)

    return behave


async def continue_slowly(connection: Connection) -> None:
    while True:
        await connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(0.1)


BOMB = gzip.compress(bytes(1 << 20))
MUCH = b"x" * 65536
TEN_THOUSAND_HEADERS = b"".join(b"X-Header-%d: %d\r\n" % (number, number) for number in range(10_000))

# By name: what the receiver does, and which failure and which status are noted.
CASES: dict[str, tuple[Behaviour, tuple[str, int | None]]] = {
    # In time is what counts, and the status line is what has to be.
    "silence": (hang, ("timeout", None)),
    "trickled-status-line": (trickle(b"", HEAD * 3), ("timeout", None)),
    "half-a-status-line": (raw(b"HTTP/1.1 200 OK", then="hang"), ("timeout", None)),
    "trickled-headers": (trickle(HEAD, b"X-Slow: " + b"z" * 1000), ACKNOWLEDGED),
    "trickled-body": (trickle(HEAD + b"Content-Length: 1000\r\n\r\n", b"z" * 1000), ACKNOWLEDGED),
    "trickled-body-of-a-500": (trickle(b"HTTP/1.1 500 No\r\n\r\n", b"z" * 1000), ("status", 500)),
    "only-a-status-line": (raw(HEAD, then="hang"), ACKNOWLEDGED),
    "a-late-answer": (answer(after=3.5), ("timeout", None)),
    "an-answer-in-time": (answer(after=2.0), ACKNOWLEDGED),
    "trickled-continues": (continue_slowly, ("timeout", 100)),
    "a-flood-of-continues": (flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), ("bad_answer", 100)),
    "three-continues": (raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + HEAD + b"Content-Length: 0\r\n\r\n"), ACKNOWLEDGED),
    # Too much of anything.
    "endless-body": (flood(HEAD + b"\r\n", MUCH), ACKNOWLEDGED),
    "endless-body-of-a-500": (flood(b"HTTP/1.1 500 No\r\n\r\n", MUCH), ("status", 500)),
    "a-body-of-a-terabyte": (flood(HEAD + b"Content-Length: 1099511627776\r\n\r\n", MUCH), ACKNOWLEDGED),
    "gzip-bomb": (flood(HEAD + b"Content-Encoding: gzip\r\n\r\n", BOMB), ACKNOWLEDGED),
    "deflate-bomb": (flood(HEAD + b"Content-Encoding: deflate, br\r\n\r\n", BOMB), ACKNOWLEDGED),
    "endless-chunks": (flood(CHUNKED, b"1000\r\n" + MUCH[:4096] + b"\r\n"), ACKNOWLEDGED),
    "endless-chunk-size": (flood(CHUNKED, b"1" * 4096), ACKNOWLEDGED),
    "endless-trailers": (flood(CHUNKED + b"0\r\n", b"X: y\r\n" * 500), ACKNOWLEDGED),
    "a-header-without-end": (flood(HEAD + b"X-Long: ", MUCH), ACKNOWLEDGED),
    "a-header-without-end-of-a-500": (flood(b"HTTP/1.1 500 No\r\nX-Long: ", MUCH), ("status", 500)),
    "a-status-line-without-end": (flood(b"HTTP/1.1 200 ", MUCH), ("bad_answer", None)),
    "headers-without-end": (flood(HEAD, b"X-Again: and again\r\n" * 500), ACKNOWLEDGED),
    "ten-thousand-headers": (raw(HEAD + TEN_THOUSAND_HEADERS + b"\r\n"), ACKNOWLEDGED),
    "ten-thousand-headers-of-a-404": (raw(b"HTTP/1.1 404 No\r\n" + TEN_THOUSAND_HEADERS + b"\r\n"), ("status", 404)),
    "endless-bytes": (flood(b"", MUCH), ("bad_answer", None)),
    # No HTTP.
    "empty-reply": (raw(b""), ("bad_answer", None)),
    "reset": (raw(b"", then="reset"), ("bad_answer", None)),
    "reset-after-the-status": (raw(HEAD, then="reset"), ACKNOWLEDGED),
    "reset-after-a-500": (raw(b"HTTP/1.1 500 No\r\n", then="reset"), ("status", 500)),
    "http-0.9": (raw(b"<html>hello</html>"), ("bad_answer", None)),
    "http-2-preface": (raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"), ("bad_answer", None)),
    "http-2-settings": (raw(b"\0\0\0\4\0\0\0\0\0"), ("bad_answer", None)),
    "status-of-letters": (raw(b"HTTP/1.1 abc OK\r\n\r\n"), ("bad_answer", None)),
    "no-status": (raw(b"HTTP/1.1 \r\n\r\n"), ("bad_answer", None)),
    "status-of-two-digits": (raw(b"HTTP/1.1 20 OK\r\n\r\n"), ("bad_answer", None)),
    "status-of-four-digits": (raw(b"HTTP/1.1 2000 OK\r\n\r\n"), ("bad_answer", None)),
    "negative-status": (raw(b"HTTP/1.1 -200 OK\r\n\r\n"), ("bad_answer", None)),
    "http-of-the-future": (raw(b"HTTP/9.1 200 OK\r\n\r\n"), ("bad_answer", None)),
    "another-protocol": (raw(b"220 mail.example ESMTP\r\n"), ("bad_answer", None)),
    "a-length-that-is-none": (raw(HEAD + b"Content-Length: -5\r\n\r\nhello"), ACKNOWLEDGED),
    "two-lengths": (raw(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhello"), ACKNOWLEDGED),
    "fewer-bytes-than-said": (raw(HEAD + b"Content-Length: 500\r\n\r\nhello"), ACKNOWLEDGED),
    "a-nul-in-a-header": (raw(HEAD + b"X: \0\r\n\r\n"), ACKNOWLEDGED),
    "other-line-ends": (raw(b"HTTP/1.1 200 OK\n\nok"), ACKNOWLEDGED),
}  # fmt: skip
OK_STATUSES = [200, 201, 202, 203, 204, 205, 206, 207, 226, 250, 299]
OTHER_STATUSES = [300, 301, 302, 303, 304, 305, 307, 308, 310, 399, 400, 401, 403, 404, 407, 408, 410, 418, 425, 429,
                  451, 499, 500, 501, 502, 503, 504, 511, 599, 600, 999]  # fmt: skip
LOW_STATUSES = [0, 99, 101, 103, 199]


@contextlib.contextmanager
def full_backlog() -> Iterator[str]:
    """The URL of a socket that listens, whose queue is full, so that nothing answers a connection."""
    with contextlib.ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = open_sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@pytest.fixture(scope="module")
def went() -> Iterator[dict[str, Any]]:
    """How posts to all of them, under way at once, went: outcomes by name; the receiver; the memory they took."""
    statuses = [*OK_STATUSES, *OTHER_STATUSES, *LOW_STATUSES]
    with Receiver() as target, full_backlog() as nobody:
        away = target.url("/target")
        names = {f"http://127.0.0.1:{free_port()}/": "refused", nobody: "not-accepted"}
        receiver = Receiver(
            behaviours={
                **{f"/{name}": behave for name, (behave, _) in CASES.items()},
                **{
                    f"/{status}": answer(f"{status:03} Text", headers=f"Location: {away}\r\nSet-Cookie: a=b\r\n")
                    for status in statuses
                },
            }
        )
        with receiver:
            names |= {receiver.url(f"/{name}"): name for name in [*CASES, *map(str, statuses)]}
            result = post_all(names, allow_private=True)
            outcomes = {names[url]: outcome for url, outcome in result["outcomes"].items()}
            yield {**result, "outcomes": outcomes, "receiver": receiver, "target": target}


def test_every_attempt_ends_in_time(went):
    late = {name: outcome for name, outcome in went["outcomes"].items() if outcome["own_seconds"] > LATEST}
    assert late == {}


def test_attempts_that_end_together_are_all_told_of_at_once():
    with Receiver(default=hang) as receiver:
        outcomes = post_all([receiver.url(f"/{n}") for n in range(4)], allow_private=True)["outcomes"]
    assert max(outcome["own_seconds"] for outcome in outcomes.values()) <= LATEST


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, (_, expected) in CASES.items()])
def test_what_counts_is_a_2xx_status_line_in_time_and_nothing_else(went, name, expected):
    outcome = went["outcomes"][name]
    assert (outcome["failure"], outcome["status"]) == expected


@pytest.mark.parametrize("name", ["refused", "not-accepted"])
def test_a_port_that_refuses_is_not_told_from_one_that_is_filtered(went, name):
    outcome = went["outcomes"][name]
    assert outcome["seconds"] >= 3.0, "told of when the attempt's time is over"
    assert outcome | {"seconds": 0, "own_seconds": 0} == {
        "failure": "unreachable", "status": None, "kept": 0, "seconds": 0, "own_seconds": 0, "noted_seconds": 3.0,
    }  # fmt: skip


def test_silence_on_a_connection_that_was_kept_is_told_from_no_connection():
    with Receiver() as receiver:
        receiver.behaviours["/hang"] = hang
        sender = Sender(width=10, allow_private=True)
        failures = []
        for path in ("/", "/hang"):
            sender.start(Post(uuid4(), receiver.url(path), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
            failures += [outcome.failure for outcome in sender.finished(10)]
        sender.close()
        assert receiver.connections == 1
    assert failures == ["", "timeout"]


@pytest.mark.parametrize(("then", "expected"), [("close", ("bad_answer", None)), ("answer", ("", 200))])
def test_a_post_whose_kept_connection_is_closed_is_sent_once_more_whatever_other_connections_are_kept(then, expected):
    posts = [Post(uuid4(), "", "order.confirmed", b"{}", ["whsec_AAAA"], 1) for _ in range(9)]

    async def close(connection: Connection) -> None:
        if len(connection.receiver.of("/close")) > 1 and then == "answer":
            await answer()(connection)
        connection.writer.close()

    with Receiver(default=answer(after=0.2), behaviours={"/close": close}) as receiver:
        sender = Sender(width=10, allow_private=True)
        outcomes = []
        for path, some in (("/", posts[:8]), ("/close", posts[8:])):
            for post in some:
                post.url = receiver.url(path)
                sender.start(post)
            while not sender.is_idle:
                outcomes += sender.finished(10)
        sender.close()
        assert receiver.connections == 9
        first, second = receiver.of("/close")
    assert (outcomes[-1].failure, outcomes[-1].status_code) == expected
    assert first.delivery == second.delivery
    assert first.headers["x-service-attempt"] == second.headers["x-service-attempt"] == "1"
    assert first.body == second.body


def test_a_busy_receiver_that_moves_is_followed(monkeypatch):
    """A connection that is always in use leads to its first address, whatever its name means by now."""
    for module in ("webhooks.lookups.KEPT", "webhooks.transfer.NAMES_KEPT"):
        monkeypatch.setattr(module, 1.0)
    addresses = ["127.0.0.1"]
    monkeypatch.setattr("webhooks.lookups.addresses_of", lambda name: [*addresses])
    with Receiver() as old, Receiver(address=("127.0.0.2", old.address[1])) as new:
        sender = Sender(width=10, allow_private=True)

        def has_moved():
            sender.start(Post(uuid4(), old.url(host="shop.test"), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
            while not sender.is_idle:
                assert {outcome.failure for outcome in sender.finished(10)} <= {""}
            return bool(new.requests)

        try:
            assert not has_moved()
            addresses[:] = ["127.0.0.2"]
            eventually(has_moved)
        finally:
            sender.close()


@pytest.mark.parametrize("status", OK_STATUSES)
def test_every_2xx_acknowledges(went, status):
    assert (went["outcomes"][str(status)]["failure"], went["outcomes"][str(status)]["status"]) == ("", status)


@pytest.mark.parametrize("status", OTHER_STATUSES)
def test_no_other_status_acknowledges(went, status):
    assert (went["outcomes"][str(status)]["failure"], went["outcomes"][str(status)]["status"]) == ("status", status)


@pytest.mark.parametrize("status", LOW_STATUSES)
def test_no_status_below_200_acknowledges(went, status):
    assert went["outcomes"][str(status)]["failure"] in ("bad_answer", "timeout")


def test_redirects_are_not_followed(went):
    assert went["target"].requests == []
    assert went["target"].connections == 0


def test_each_is_posted_to_once(went):
    paths = [request.path for request in went["receiver"].requests]
    assert len(paths) == len(set(paths))


def test_all_of_them_together_take_no_memory_worth_the_name(went):
    print(
        "MB",
        went["megabytes"],
        went["receiver"].sent.most_common(20),
        max(o["seconds"] for o in went["outcomes"].values()),
    )
    assert went["megabytes"] < MEGABYTES


def test_little_of_an_answer_is_kept(went):
    assert max(outcome["kept"] for outcome in went["outcomes"].values()) <= KEPT
    assert went["outcomes"]["endless-body"]["kept"] == KEPT


def test_a_receiver_cannot_send_much_more_than_the_system_buffers_for_it(went):
    # Sockets of both sides hold some hundred kilobytes each; what is read of them is what the sender decides.
    sent = {name: went["receiver"].sent[f"/{name}"] for name in CASES}
    assert max(sent.values()) < 8e6, sent


def test_a_flood_is_left_at_once(went):
    for name, (behave, _) in CASES.items():
        if behave.__qualname__.startswith("flood"):
            assert went["outcomes"][name]["own_seconds"] < 2.0, name


def test_requests_carry_nothing_that_earlier_answers_set(went):
    names = {name for request in went["receiver"].requests for name in request.headers}
    assert names == {
        "host", "content-type", "content-length", "user-agent", "accept", "x-service-event", "x-service-event-id",
        "x-service-delivery",
        "x-service-attempt", "x-service-signature", "webhook-id", "webhook-timestamp", "webhook-signature",
    }  # fmt: skip
