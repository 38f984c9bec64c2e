"""A receiver must prove its name with a certificate that is valid and trusted, or it gets nothing."""

import asyncio
import contextlib
import itertools
import os
import select
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.background import PATIENCE, eventually
from tests.harness.receivers import Connection, Receiver, answer
from tests.webhooks.engine.posting import LATEST, post_all

from .certificates import Authority
from .tickets import TicketFlood

# Of each receiver: its host in the URL, and what becomes of the attempt.
EXPECTED = {
    "good": ("localhost", ""),
    "good-address": ("127.0.0.1", ""),
    "wrong-name": ("localhost", "tls"),
    "name-for-an-address": ("127.0.0.1", "tls"),
    "expired": ("localhost", "tls"),
    "self-signed": ("localhost", "tls"),
    "unknown-authority": ("localhost", "tls"),
    "old-protocol": ("localhost", "tls"),
    "plain-http": ("localhost", "tls"),
    "stalls": ("localhost", "timeout"),
    "trickles": ("localhost", "timeout"),
    "closes": ("localhost", "tls"),
}


def _old(context: ssl.SSLContext) -> ssl.SSLContext:
    with warnings.catch_warnings(action="ignore"):  # that it is old is the point
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


class Stub(Receiver):
    """Does with a raw connection what `greet` says."""

    def __init__(self, greet: Any) -> None:
        super().__init__(address=("localhost", 0))
        self.greet = greet

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await self.greet(writer)
        writer.close()


async def _stall(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def _trickle(writer: asyncio.StreamWriter) -> None:
    # A TLS record of a handshake that never becomes complete.
    writer.write(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
    while True:
        writer.write(b"\x03")
        await writer.drain()
        await asyncio.sleep(0.1)


async def _speak_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def went(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("certificates")
    ours, other = Authority(folder), Authority(folder, "other")
    receivers = {
        "good": Receiver(ours.context("localhost")),
        "good-address": Receiver(ours.context("127.0.0.1")),
        "wrong-name": Receiver(ours.context("receiver.example")),
        "name-for-an-address": Receiver(ours.context("localhost")),
        "expired": Receiver(ours.context("localhost", days=-1)),
        "self-signed": Receiver(ours.context("localhost", self_signed=True)),
        "unknown-authority": Receiver(other.context("localhost")),
        "old-protocol": Receiver(_old(ours.context("localhost"))),
        "plain-http": Stub(_speak_http),
        "stalls": Stub(_stall),
        "trickles": Stub(_trickle),
        "closes": Stub(_close),
    }
    with contextlib.ExitStack() as running:
        for receiver in receivers.values():
            running.enter_context(receiver)
        urls = {f"https://{host}:{receivers[name].address[1]}/{name}": name for name, (host, _) in EXPECTED.items()}
        with_ca = post_all(urls, allow_private=True, ca_file=str(ours.file))["outcomes"]
        yield {
            "outcomes": {name: with_ca[url] for url, name in urls.items()},
            "seen": {name: receiver.requests for name, receiver in receivers.items()},
            "good": next(url for url, name in urls.items() if name == "good"),
        }


@pytest.mark.parametrize("name", EXPECTED)
def test_only_a_valid_certificate_for_the_name_is_taken(went, name):
    outcome = went["outcomes"][name]
    assert outcome["failure"] == EXPECTED[name][1]
    assert outcome["own_seconds"] <= LATEST


@pytest.mark.parametrize("name", [name for name, (_, failure) in EXPECTED.items() if failure])
def test_a_receiver_that_does_not_prove_its_name_is_sent_nothing(went, name):
    assert went["seen"][name] == []


def test_an_authority_of_ours_is_trusted_only_when_its_file_is_given(went):
    (outcome,) = post_all([went["good"]], allow_private=True)["outcomes"].values()
    assert outcome["failure"] == "tls"


def test_the_systems_authorities_stay_trusted_beside_ours(tmp_path):
    systems, ours = Authority(tmp_path, "system"), Authority(tmp_path, "ours")
    environ = os.environ | {"SSL_CERT_FILE": str(systems.file)}
    with Receiver(systems.context("127.0.0.1")) as public, Receiver(ours.context("127.0.0.1")) as own:
        urls = [public.url(), own.url()]
        outcomes = post_all(urls, environ=environ, allow_private=True, ca_file=str(ours.file))["outcomes"]
    assert [outcomes[url]["failure"] for url in urls] == ["", ""]


def test_our_authority_is_trusted_by_a_python_without_files_in_memory_too(tmp_path, monkeypatch):
    """Pythons that are built for any Linux have no `os.memfd_create`."""
    from uuid import uuid4

    from webhooks.sender import Post, Sender

    monkeypatch.delattr(os, "memfd_create", raising=False)
    ours = Authority(tmp_path)
    with Receiver(ours.context("127.0.0.1")) as receiver:
        sender = Sender(width=10, allow_private=True, ca_file=str(ours.file))
        sender.start(Post(uuid4(), receiver.url(), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
        outcomes = []
        while not sender.is_idle:
            outcomes += sender.finished(1)
        sender.close()
    assert [outcome.failure for outcome in outcomes] == [""]


def test_http_is_not_spoken_where_private_addresses_are_not_allowed():
    with Receiver() as receiver:
        (outcome,) = post_all([receiver.url()])["outcomes"].values()
        assert outcome["failure"] == "blocked_address"  # whoever turned WEBHOOK_ALLOW_PRIVATE off learns why
        assert receiver.connections == 0


def test_connections_are_kept_for_the_next_post(tmp_path):
    from uuid import uuid4

    from webhooks.sender import Post, Sender

    authority = Authority(tmp_path)
    with Receiver(authority.context("127.0.0.1")) as receiver:
        sender = Sender(width=10, allow_private=True, ca_file=str(authority.file))
        for number in range(20):
            sender.start(Post(uuid4(), receiver.url(f"/{number}"), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
            (outcome,) = sender.finished(5)
            assert outcome.failure == ""
        sender.close()
        assert receiver.connections == 1


def test_a_connection_that_the_receiver_has_closed_meanwhile_does_not_fail_the_next_post():
    from uuid import uuid4

    from webhooks.sender import Post, Sender

    async def answer_and_close(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        connection.writer.close()

    with Receiver(default=answer_and_close) as receiver:
        sender = Sender(width=10, allow_private=True)
        for _ in range(10):
            sender.start(Post(uuid4(), receiver.url(), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
            (outcome,) = sender.finished(5)
            assert outcome.failure == ""
        sender.close()
        assert len(receiver.requests) == 10


def test_a_kept_connection_is_registered_once_and_another_with_its_number_anew(monkeypatch):
    from uuid import uuid4

    from webhooks.sender import Post, Sender

    registered = []
    with Receiver() as one, Receiver() as other:
        sender = Sender(width=1, allow_private=True)  # libcurl keeps one connection, and closes it for another
        selector = sender._loop._selector
        register = selector.register
        monkeypatch.setattr(selector, "register", lambda fd, *more: registered.append(fd) or register(fd, *more))
        counts = []
        for receiver in (one, one, one, other, one, one, other, one):
            sender.start(Post(uuid4(), receiver.url(), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
            (outcome,) = sender.finished(5)
            assert outcome.failure == ""
            counts.append(len(registered))
        sender.close()
    assert [count - counts[0] for count in counts] == [0, 0, 0, 1, 2, 2, 3, 4]
    assert len(set(registered)) < len(registered)


def test_a_certificate_that_expires_between_two_connections_is_refused(tmp_path):
    """Though the receiver would resume the session of before."""
    from uuid import uuid4

    from webhooks.sender import Post, Sender

    authority = Authority(tmp_path)
    context = authority.context("127.0.0.1")

    async def answer_and_close(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        connection.writer.close()

    with Receiver(context, default=answer_and_close) as receiver:
        sender = Sender(width=10, allow_private=True, ca_file=str(authority.file))
        failures = []
        for days in (1, -1):
            context.load_cert_chain(authority.certified("127.0.0.1", days=days))
            sender.start(Post(uuid4(), receiver.url(), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
            while not sender.is_idle:
                failures += [outcome.failure for outcome in sender.finished(5)]
        sender.close()
    assert failures == ["", "tls"]


@pytest.mark.parametrize("look_after", [0.1, 0.001])  # the second: again before libcurl can have come back
def test_a_receiver_that_sends_session_tickets_without_end_does_not_hold_up_the_others(
    tmp_path, monkeypatch, look_after
):
    from uuid import uuid4

    from webhooks import curl_loop, transfer
    from webhooks.sender import Post, Sender

    monkeypatch.setattr(curl_loop, "LOOK_AFTER", look_after)
    # Whom the flood holds up has no outcome in time; who waits for a processor has.
    monkeypatch.setattr(transfer, "DEADLINE_MS", 20_000)
    authority, worked = Authority(tmp_path), time.thread_time()
    with TicketFlood(authority, seconds=25) as flood, Receiver(default=answer(after=0.5)) as good:
        sender = Sender(width=10, allow_private=True, ca_file=str(authority.file))
        for url in (good.url("/0"), good.url("/1"), flood.url):
            sender.start(Post(uuid4(), url, "order.confirmed", b"{}", ["whsec_AAAA"], 1))
        outcomes = {}
        while not sender.is_idle:
            outcomes |= {outcome.post.url: outcome for outcome in sender.finished(1)}
        sender.close()
    assert time.thread_time() - worked < 2
    assert flood.sent > 10
    assert outcomes[flood.url].failure == "bad_answer"
    assert [outcomes[good.url(path)].failure for path in ("/0", "/1")] == ["", ""]


def test_of_many_such_connections_one_is_worked_on_before_others_are_looked_at_again(tmp_path, monkeypatch):
    from uuid import uuid4

    from webhooks import transfer
    from webhooks.sender import Post, Sender

    monkeypatch.setattr(transfer, "DEADLINE_MS", 60_000)
    authority, ended = Authority(tmp_path), []
    # At another address, as the receiver of somebody else is.
    good = Receiver(address=("127.0.0.2", 0), default=answer(after=0.5))
    with TicketFlood(authority, seconds=60, clients=10) as flood, good:
        sender = Sender(width=50, allow_private=True, ca_file=str(authority.file))
        for url in [flood.url] * 10 + [good.url()]:
            sender.start(Post(uuid4(), url, "order.confirmed", b"{}", ["whsec_AAAA"], 1))
        while not sender.is_idle:
            ended.append([(outcome.post.url, outcome.failure) for outcome in sender.finished(1)])
        sender.close()
    assert sorted(itertools.chain(*ended)) == sorted([(flood.url, "bad_answer")] * 10 + [(good.url(), "")])
    assert max(map(len, ended)) <= 3  # a flood that is cut off, one that had been when its work ended, and the good one


def test_no_address_is_noted_as_slow_because_another_thread_computes(monkeypatch):
    from uuid import uuid4

    from webhooks.sender import Post, Sender
    from webhooks.transfer import Transfer

    is_over, on_header = threading.Event(), Transfer.on_header

    def compute() -> None:
        while not is_over.is_set():
            pass

    def leave_the_interpreter(transfer, line):
        time.sleep(0.0001)  # libcurl's own work is often too short for the other thread to take it
        return on_header(transfer, line)

    monkeypatch.setattr(Transfer, "on_header", leave_the_interpreter)
    receivers = [Receiver(address=(f"127.0.0.{number}", 0)) for number in range(10, 20)]
    with contextlib.ExitStack() as running:
        for receiver in receivers:
            running.enter_context(receiver)
        sender, computing = Sender(width=10, allow_private=True), threading.Thread(target=compute, daemon=True)
        computing.start()
        for receiver in receivers:
            sender.start(Post(uuid4(), receiver.url(), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
        while not sender.is_idle:
            sender.finished(1)
        is_over.set()
        computing.join()
        noted = dict(sender._loop._long)
        sender.close()
    assert noted == {}


def test_of_connections_that_ended_in_the_same_turn_nothing_is_asked(monkeypatch):
    """Their numbers may belong to files that others have opened since."""
    from uuid import uuid4

    from webhooks import transfer
    from webhooks.sender import Post, Sender

    monkeypatch.setattr(transfer, "DEADLINE_MS", 300)
    may_end, asked = threading.Event(), list[bool]()
    with Receiver(default=answer(once=may_end)) as receiver:
        sender = Sender(width=10, allow_private=True)
        loop = sender._loop
        sender.start(Post(uuid4(), receiver.url(), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
        while not receiver.requests:
            sender.finished(0.01)
        time.sleep(0.3)  # past its deadline
        may_end.set()
        (fd,) = loop._peers
        assert select.select([fd], [], [], PATIENCE)[0]
        loop._long["127.0.0.2"] = time.monotonic()
        peer = loop._peer
        monkeypatch.setattr(loop, "_peer", lambda fd: asked.append(fd in loop._in_use) or peer(fd))
        (outcome,) = sender.finished(5)
        sender.close()
    assert (outcome.failure, asked) == ("timeout", [])


def test_an_address_is_noted_for_no_longer_than_it_comes_last():
    """Though no other is noted meanwhile."""
    from webhooks.curl_loop import LAST_FOR, CurlLoop

    loop, now = CurlLoop(connections=1), time.monotonic()
    loop._long |= {"127.0.0.1": now - LAST_FOR - 1, "127.0.0.2": now}
    loop.turn(now)
    assert loop._long == {"127.0.0.2": now}
    loop.close()


@pytest.mark.parametrize(("host", "network"), [("127.0.0.1", "127.0.0.1/32"), ("::1", "::/48")])
def test_with_an_ipv6_address_all_of_its_receivers_come_last(host, network):
    from webhooks.curl_loop import CurlLoop

    loop = CurlLoop(connections=1)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as listener,
        socket.create_connection(listener.getsockname()[:2]) as connection,
    ):
        assert loop._peer(connection.fileno()) == network
    loop.close()


def test_what_is_no_connection_has_no_address_and_stays_no_open_file():
    from webhooks.curl_loop import CurlLoop, _cut_off

    loop, (reading, writing), (one, other) = CurlLoop(connections=1), os.pipe(), socket.socketpair()
    opened = os.listdir("/proc/self/fd")
    assert [loop._peer(fd) for fd in (reading, reading, one.fileno())] == ["", "", ""]
    _cut_off(reading, os.fstat(reading).st_ino)
    assert os.listdir("/proc/self/fd") == opened
    loop.close()
    for each in (reading, writing):
        os.close(each)
    one.close()
    other.close()


@pytest.mark.parametrize("peace", [0, 0.3])
def test_nor_does_one_that_floods_a_connection_that_is_kept_for_its_next_post(tmp_path, peace):
    from uuid import uuid4

    from webhooks.sender import Post, Sender

    authority = Authority(tmp_path)
    with TicketFlood(authority, seconds=20, answers=peace) as flood, Receiver(default=answer(after=0.5)) as good:
        sender = Sender(width=10, allow_private=True, ca_file=str(authority.file))

        def post(*urls):
            for url in urls:
                sender.start(Post(uuid4(), url, "order.confirmed", b"{}", ["whsec_AAAA"], 1))
            outcomes = {}
            while not sender.is_idle:
                outcomes |= {outcome.post.url: outcome.failure for outcome in sender.finished(1)}
            return outcomes

        assert post(flood.url) == {flood.url: ""}
        eventually(lambda: flood.sent > 0)
        assert post(good.url("/0"), flood.url, good.url("/1")) == {
            good.url("/0"): "",
            flood.url: "unreachable",  # it listens no more
            good.url("/1"): "",
        }
        sender.close()
