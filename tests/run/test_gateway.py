"""Requests as clients really send them, through the web processes."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness.background import PATIENCE, eventually
from tests.harness.processes import CHECKOUT, descendants, free_port


@pytest.fixture(scope="module")
def web() -> Iterator[tuple[int, int]]:
    """Its port and its process."""
    number = free_port()
    web = subprocess.Popen(
        [sys.executable, "-m", "tests.run.stub", "web"], cwd=CHECKOUT, env={**os.environ, "PORT": str(number)}
    )
    eventually(lambda: socket.socket().connect_ex(("127.0.0.1", number)) == 0)
    yield number, web.pid
    web.terminate()
    assert web.wait(PATIENCE) == 0


@pytest.fixture(scope="module")
def port(web: tuple[int, int]) -> int:
    return web[0]


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def answer(connection: socket.socket) -> tuple[int, dict]:
    status, data = whole_answer(connection)
    return status, json.loads(data.partition(b"\r\n\r\n")[2])


def whole_answer(connection: socket.socket) -> tuple[int, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), head + b"\r\n\r\n" + body


def ask(port: int, head: str, body: bytes = b"", *, half_close: bool = False) -> tuple[int, dict]:
    with connect(port) as connection:
        connection.sendall(f"{head}\r\nHost: localhost\r\n\r\n".encode("latin-1") + body)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return answer(connection)


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [1, 500, 16 << 10, (16 << 10) + 1, 1 << 20])
def test_bodies_arrive_whole_however_they_are_sent(port, size):
    body = b"x" * size
    expected = (200, {"CONTENT_LENGTH": str(size), "PATH_INFO": "/", "REMOTE_ADDR": "127.0.0.1", "read": size})
    assert ask(port, f"POST / HTTP/1.1\r\nContent-Length: {size}", body) == expected
    assert ask(port, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked", chunked(body, 4096)) == expected


def test_no_body(port):
    assert ask(port, "GET /a%2Fb HTTP/1.1")[1] == {"PATH_INFO": "/a/b", "REMOTE_ADDR": "127.0.0.1", "read": 0}
    assert ask(port, "POST / HTTP/1.1\r\nContent-Length: 0")[1]["CONTENT_LENGTH"] == "0"


@pytest.mark.parametrize("size", [(1 << 20) + 1, 3 << 20])
def test_too_large_a_body_is_cut_one_byte_above_the_limit(port, size):
    for framing, body in (
        (f"Content-Length: {size}", b"x" * size),
        ("Transfer-Encoding: chunked", chunked(b"x" * size, 65536)),
    ):
        status, got = ask(port, f"POST / HTTP/1.1\r\n{framing}", body)
        assert (status, got["read"], got["CONTENT_LENGTH"]) == (200, (1 << 20) + 1, str((1 << 20) + 1))


@pytest.mark.parametrize(
    ("framing", "sent"),
    [
        ("Content-Length: 100", b"abc"),
        ("Content-Length: 100000", b"abc"),
        ("Transfer-Encoding: chunked", b"3\r\nabc\r\n"),
        ("Transfer-Encoding: chunked", b"zz\r\nabc\r\n"),
    ],
)
def test_half_a_body_never_reaches_the_application(port, framing, sent):
    status, got = ask(port, f"POST / HTTP/1.1\r\n{framing}", sent, half_close=True)
    assert (status, got["error"]) == (400, "bad_request")


def test_slow_clients_hold_no_thread(port):
    slow = []
    for number in range(120):
        connection = connect(port)
        framing = ("Content-Length: 90000", "Transfer-Encoding: chunked")[number % 2]
        connection.sendall(f"POST / HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode() + b"1\r\nx\r\n")
        slow.append(connection)
    for _ in range(2):  # and readers of a large answer that do not read
        connection = connect(port)
        connection.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        slow.append(connection)
    began = time.monotonic()
    for _ in range(20):
        assert ask(port, "POST / HTTP/1.1\r\nContent-Length: 3", b"abc")[0] == 200
    assert time.monotonic() - began < 2
    for connection in slow[:120]:
        status, got = answer(connection)
        assert (status, got["error"]) == (408, "request_timeout")
        connection.close()


def test_large_bodies_that_wait_for_a_thread_are_bounded(port):
    """8 MiB a process: a quarter of it is kept for small bodies with a key."""
    body = b"x" * (1 << 20)
    head = (
        f"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nX-Request-Id: abc\r\n\r\n".encode()
    )
    with ThreadPoolExecutor(40) as clients:

        def send() -> tuple[int, bytes]:
            with connect(port) as connection:
                connection.sendall(head + body)
                return whole_answer(connection)

        sent = [clients.submit(send) for _ in range(40)]
        time.sleep(0.5)
        assert ask(port, "POST / HTTP/1.1\r\nAuthorization: Bearer cod_live_x\r\nContent-Length: 3", b"abc")[0] == 200
        answers = [one.result() for one in sent]
    refused = [head.lower() for status, head in answers if status == 503]
    assert {status for status, _ in answers} == {200, 503}
    assert 20 <= len(refused) <= 34
    assert all(b"retry-after: 1" in head and b"x-request-id: abc" in head for head in refused)
    # What was held is given back.
    assert ask(port, f"POST / HTTP/1.1\r\nContent-Length: {len(body)}", body)[0] == 200


def test_request_that_takes_too_long_is_ended(port):
    began = time.monotonic()
    status, got = ask(port, "GET /stuck HTTP/1.1")
    assert (status, got["error"]) == (503, "unavailable")
    assert 3.5 < time.monotonic() - began < 5.5


def test_readers_that_do_not_read_hold_no_thread_and_little_memory(web):
    port, pid = web
    before = megabytes(pid)
    readers = []
    for _ in range(60):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET /bigger HTTP/1.1\r\nHost: localhost\r\n\r\n")
        readers.append(connection)
    statuses = [connection.recv(12)[9:] for connection in readers]
    assert set(statuses) == {b"200", b"503"}  # 20 a process, and no more
    assert statuses.count(b"200") <= 40
    for _ in range(20):
        assert ask(port, "POST / HTTP/1.1\r\nContent-Length: 3", b"abc")[0] == 200
    assert megabytes(pid) - before < 120
    for connection in readers:
        connection.close()
    eventually(lambda: ask_bigger(port) == 200)


def ask_bigger(port: int) -> int:
    with connect(port) as connection:
        connection.sendall(b"GET /bigger HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return int(connection.recv(12)[9:])


def megabytes(pid: int) -> float:
    """Of the processes below; what they share counts once."""
    found = [Path(f"/proc/{child}/smaps_rollup").read_text() for child in descendants(pid)]
    lines = [line for text in found for line in text.splitlines() if line.startswith("Pss:")]
    return sum(int(line.split()[1]) for line in lines) / 1024


def test_streamed_answer_is_complete(port):
    with connect(port) as connection:
        connection.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = 0
        while piece := connection.recv(1 << 20):
            received += piece.count(b"x")
    assert received >= 8 << 20


def test_streamed_answer_that_fails_on_the_way_ends(port):
    with connect(port) as connection:
        connection.sendall(b"GET /broken HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = 0
        while piece := connection.recv(1 << 20):
            received += piece.count(b"x")
    assert 1 << 20 <= received <= 2 << 20


def test_answer_that_fails_before_anything_is_sent_is_an_error(port):
    status, got = ask(port, "GET /broken/early HTTP/1.1")
    assert (status, got["error"]) == (500, "server_error")


def test_file_is_sent_whole(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/file", timeout=PATIENCE) as got:
        assert got.read() == (CHECKOUT / "tests" / "run" / "stub.py").read_bytes()


def test_headers(port):
    got = ask(port, "GET / HTTP/1.1\r\nX-Name: a\r\nX-Name: b\r\nX_Forwarded_For: 1.2.3.4")[1]
    assert got["HTTP_X_NAME"] == "a,b"
    assert "HTTP_X_FORWARDED_FOR" not in got
