"""Requests as clients really send them, through the web processes."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.harness.background import PATIENCE, eventually
from tests.harness.processes import CHECKOUT, free_port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    number = free_port()
    web = subprocess.Popen(
        [sys.executable, "-m", "tests.run.stub", "web"], cwd=CHECKOUT, env={**os.environ, "PORT": str(number)}
    )
    eventually(lambda: socket.socket().connect_ex(("127.0.0.1", number)) == 0)
    yield number
    web.terminate()
    assert web.wait(PATIENCE) == 0


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def answer(connection: socket.socket) -> tuple[int, dict]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), json.loads(body)


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
