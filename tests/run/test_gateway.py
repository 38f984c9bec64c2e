"""Requests as clients really send them, through the web processes."""

import http.client
import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from codservice.accounts.key_format import make_key
from codservice.run.web import Web
from tests.harness.background import PATIENCE, eventually
from tests.harness.processes import CHECKOUT, descendants, free_port, is_alive

# A page that somebody is signed in to takes up to 1 MiB.
SIGNED_IN = "Cookie: sessionid=" + "a" * 32
FRAMINGS = ("Content-Length: 90000", "Transfer-Encoding: chunked")  # of a body that is longer than what is sent of it


@contextmanager
def running_web(
    hang_up: signal.Handlers = signal.SIG_DFL, most_files: int = 0, **environ: str
) -> Iterator[tuple[int, int]]:
    """Run web, give its port and process, and end it in good order. `nohup make test` has everything ignore SIGHUP."""
    number = free_port()

    def prepare() -> None:
        signal.signal(signal.SIGHUP, hang_up)
        if most_files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))

    web = subprocess.Popen(
        [sys.executable, "-m", "tests.run.stub", "web"],
        cwd=CHECKOUT,
        env={**os.environ, "PORT": str(number), **environ},
        start_new_session=True,
        preexec_fn=prepare,
    )
    try:
        eventually(lambda: socket.socket().connect_ex(("127.0.0.1", number)) == 0)
        yield number, web.pid
        web.terminate()
        assert web.wait(PATIENCE) == 0
    finally:
        web.kill()
        web.wait()


@pytest.fixture(scope="module")
def web() -> Iterator[tuple[int, int]]:
    with running_web() as running:
        yield running


@pytest.fixture(scope="module")
def port(web: tuple[int, int]) -> int:
    return web[0]


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of web processes that wait 2 s for a body and 4 s for anything else, and the folder of what is held."""
    held = tmp_path_factory.mktemp("held")
    with running_web(GIVES_UP_AFTER="2", HELD=str(held)) as (number, _):
        yield number, held


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


def ask_whole(port: int, head: str) -> tuple[int, bytes]:
    with connect(port) as connection:
        connection.sendall(f"{head}\r\nHost: localhost\r\n\r\n".encode())
        return whole_answer(connection)


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
    assert ask(port, f"POST / HTTP/1.1\r\n{SIGNED_IN}\r\nContent-Length: {size}", body) == expected
    chunks = chunked(body, 4096)
    assert ask(port, f"POST / HTTP/1.1\r\n{SIGNED_IN}\r\nTransfer-Encoding: chunked", chunks) == expected


def test_no_body(port):
    assert ask(port, "GET /a%2Fb HTTP/1.1")[1] == {"PATH_INFO": "/a/b", "REMOTE_ADDR": "127.0.0.1", "read": 0}
    assert ask(port, "POST / HTTP/1.1\r\nContent-Length: 0")[1]["CONTENT_LENGTH"] == "0"


@pytest.mark.parametrize("size", [(1 << 20) + 1, 3 << 20])
def test_too_large_a_body_is_cut_one_byte_above_the_limit(port, size):
    for framing, body in (
        (f"Content-Length: {size}", b"x" * size),
        ("Transfer-Encoding: chunked", chunked(b"x" * size, 65536)),
    ):
        status, got = ask(port, f"POST / HTTP/1.1\r\n{SIGNED_IN}\r\n{framing}", body)
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


def begin_body(connection: socket.socket, framing: str) -> None:
    connection.sendall(f"POST / HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode() + b"1\r\nx\r\n")


def test_slow_clients_hold_no_thread(port):
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(port)) for _ in range(122)]
        for connection, framing in zip(slow, FRAMINGS * 60, strict=False):
            begin_body(connection, framing)
        for connection in slow[120:]:  # and readers of a large answer that do not read it
            connection.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(20):
            assert ask(port, "POST / HTTP/1.1\r\nContent-Length: 3", b"abc")[0] == 200
        assert select.select(slow[:120], [], [], 0)[0] == []  # no answer has ended one of them


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_body_that_does_not_arrive_in_time_is_refused(hasty, framing):
    with connect(hasty[0]) as connection:
        begin_body(connection, framing)
        status, got = answer(connection)
    assert (status, got["error"]) == (408, "request_timeout")


def test_where_few_files_may_be_open_connections_leave_some_to_the_application():
    with running_web(most_files=200, WEB_WORKERS="1") as (port, _), ExitStack() as held:
        first = held.enter_context(connect(port))
        for ask_for in ("/", "/slow", "/file"):
            first.sendall(f"GET {ask_for} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert whole_answer(first)[0] == 200
            for _ in range(200 if ask_for == "/" else 0):
                held.enter_context(connect(port)).sendall(b"GET / HTTP/1.1\r\n")


def test_large_bodies_that_wait_for_their_answer_are_bounded(tmp_path):
    """8 MiB a process: half for anybody, another quarter for small bodies with a key."""
    large = f"{SIGNED_IN}\r\nContent-Length: {1 << 20}\r\nX-Request-Id: abc"
    small = f"POST /api/ HTTP/1.1\r\nAuthorization: Bearer {make_key()}\r\nContent-Length: 3"
    with (
        running_web(WEB_WORKERS="1", WEB_THREADS="5", HELD=str(tmp_path)) as (port, _),
        ThreadPoolExecutor() as clients,
    ):

        def send() -> tuple[int, bytes]:
            with connect(port) as connection:
                connection.sendall(f"POST /held HTTP/1.1\r\nHost: localhost\r\n{large}\r\n\r\n".encode())
                connection.sendall(b"x" * (1 << 20))
                return whole_answer(connection)

        held = [clients.submit(send) for _ in range(4)]
        eventually(lambda: len(list(tmp_path.iterdir())) == 4)
        for _ in range(3):
            status, head = send()
            assert status == 503
            assert b"retry-after: 1" in head.lower()
            assert b"x-request-id: abc" in head.lower()
        assert ask(port, small, b"abc")[0] == 200
        (tmp_path / "go").touch()
        assert {one.result()[0] for one in held} == {200}
        assert {send()[0] for _ in range(9)} == {200}  # what was reserved is given back


def test_request_that_takes_too_long_is_ended(hasty):
    port, held = hasty
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(ask_whole, port, f"{method} /held HTTP/1.1") for method in ("GET", "POST")]
    assert time.monotonic() - began > 3.5
    ids = []
    for each, said in zip(asked, (b"Try again in a moment.", b"may have been carried out."), strict=True):
        status, got = each.result()
        assert status == 503
        assert b'"error": "unavailable"' in got
        assert said in got
        ids += re.findall(rb"x-request-id: (\S+)", got.lower())
    # Under these ids Django has logged what it did.
    assert sorted(ids) == sorted(file.read_bytes() for file in held.iterdir())
    (held / "go").touch()


def test_a_change_that_no_thread_took_in_time_is_not_made_and_its_client_knows(tmp_path):
    with (
        running_web(WEB_WORKERS="1", WEB_THREADS="1", GIVES_UP_AFTER="2", HELD=str(tmp_path)) as (port, _),
        ThreadPoolExecutor() as pool,
    ):
        taken = pool.submit(ask_whole, port, "POST /held HTTP/1.1")
        (request,) = eventually(lambda: list(tmp_path.iterdir()))
        status, got = ask_whole(port, "POST /held HTTP/1.1")
        assert status == 503
        assert b"nothing was done. Try again in a moment." in got
        assert b"may have been carried out." in taken.result()[1]
        (tmp_path / "go").touch()
        assert ask(port, "GET / HTTP/1.1")[0] == 200  # by the only thread, which has passed over the other
        assert set(tmp_path.iterdir()) == {request, tmp_path / "go"}


def test_readers_that_do_not_read_hold_no_thread_and_little_memory(web):
    port, pid = web
    before = megabytes(pid)
    readers = []
    for _ in range(60):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET /bigger HTTP/1.1\r\nHost: localhost\r\n\r\n")
        readers.append(connection)
    statuses = [connection.recv(12)[9:] for connection in readers]
    assert set(statuses) == {b"200", b"503"}  # at most 20 a process
    assert statuses.count(b"200") <= 40
    for _ in range(20):
        assert ask(port, "POST / HTTP/1.1\r\nContent-Length: 3", b"abc")[0] == 200
    assert megabytes(pid) - before < 120
    for connection in readers:
        connection.close()
    eventually(lambda: ask_bigger(port) == 200)


def test_who_does_not_read_for_long_is_disconnected(hasty):
    port, _ = hasty
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET /bigger HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(12)[9:] == b"200"
        eventually(lambda: has_no_connection_from(connection.getsockname()[1]))


def has_no_connection_from(port: int) -> bool:
    """Whether the kernel has no open connection from this port on the service's side."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return not any(line.split()[2].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


def test_long_addresses_and_headers_are_refused_in_json(port):
    """granian itself refuses anything longer, without a body."""
    for head, code in (
        (f"GET /{'a' * (42 << 10)} HTTP/1.1", (414, "uri_too_long")),
        (f"GET / HTTP/1.1\r\nX-Name: {'a' * (50 << 10)}", (431, "headers_too_large")),
    ):
        status, got = ask(port, head)
        assert (status, got["error"]) == code
        assert got["message"].endswith(".")


@pytest.mark.parametrize(
    ("head", "statuses"),
    [
        ("nonsense", {400}),
        (f"GET /{'a' * (128 << 10)} HTTP/1.1", {414, 431}),
        (f"GET / HTTP/1.1\r\nX-Name: {'a' * (128 << 10)}", {431}),
        ("GET / HTTP/1.1" + "\r\nX-Name: a" * 100, {431}),
    ],
)
def test_what_the_server_itself_refuses_has_no_body(port, head, statuses):
    """granian has no option for it. Once it has one, docs/errors.md may promise more."""
    with connect(port) as connection:
        connection.sendall(f"{head}\r\nHost: localhost\r\n\r\n".encode())
        received = b""
        while data := connection.recv(65536):
            received += data
    said, _, body = received.partition(b"\r\n\r\n")
    assert int(said.split()[1]) in statuses
    assert body == b""


def test_headers_that_only_one_of_both_may_refuse_are_refused_with_its_body_or_without(port):
    """granian looks at how much it holds before it reads on: it takes up to 128 KiB of what comes in one piece."""
    status, whole = ask_whole(port, f"GET / HTTP/1.1\r\nX-Name: {'a' * (70 << 10)}")
    body = whole.partition(b"\r\n\r\n")[2]
    assert status == 431
    assert body == b"" or json.loads(body)["error"] == "headers_too_large"


@pytest.mark.parametrize("mode", ["live", "test"])
def test_what_is_refused_here_names_the_mode_of_a_test_key_too(port, mode):
    with connect(port) as connection:
        head = (
            f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {make_key(mode)}\r\nX-Name: {'a' * (50 << 10)}"
        )
        connection.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while data := connection.recv(65536):
            received += data
    assert b" 431 " in received
    assert (b"x-service-mode: test" in received.lower()) == (mode == "test")


@pytest.mark.parametrize(
    ("tell", "stop"), [(os.kill, signal.SIGTERM), (os.killpg, signal.SIGTERM), (os.killpg, signal.SIGHUP)]
)
@pytest.mark.parametrize("application", ["application", "late"])
def test_whoever_has_a_connection_when_the_webs_stop_is_heard_out(application, tell, stop, tmp_path):
    """Even if one has not begun yet, and if all are told to stop, as by systemd and by a terminal that is closed."""
    environ = {"LAST_SECONDS": "5", "APPLICATION": application, "LATE": str(tmp_path / "late")}
    with running_web(**environ) as (port, pid), ExitStack() as stack:
        connections = [stack.enter_context(connect(port)) for _ in range(8)]
        tell(pid, stop)
        time.sleep(0.1)
        for connection in connections:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for connection in connections:
            status, data = whole_answer(connection)
            assert status == 200
            assert b"\r\nconnection: close\r\n" in data.lower()


def test_whoever_waits_for_an_answer_when_the_webs_stop_hears_that_the_connection_ends(tmp_path):
    """Otherwise the next request of a proxy may come when it has ended. A POST is not sent again: it would fail."""
    with (
        running_web(LAST_SECONDS="5", WEB_WORKERS="1", HELD=str(tmp_path)) as (port, pid),
        connect(port) as waiting,
        connect(port) as other,
    ):
        waiting.sendall(b"GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: any(tmp_path.iterdir()))
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: ends_with_its_answer(other))
        (tmp_path / "go").touch()
        assert ends_with_its_answer(waiting, is_asked=True)


def ends_with_its_answer(connection: socket.socket, *, is_asked: bool = False) -> bool:
    if not is_asked:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    status, data = whole_answer(connection)
    assert status == 200
    return b"\r\nconnection: close\r\n" in data.lower()


def test_a_web_process_that_is_told_to_stop_while_it_is_forked_stops():
    """It leaves only when the process above tells it to, and does not use the handler inherited from there."""
    with running_web(TOLD_AT_FORK="", LAST_SECONDS="0.1") as (_, pid):
        told = min(eventually(lambda: descendants(pid)))
        os.kill(told, signal.SIGUSR1)
        eventually(lambda: not is_alive(told))


def test_web_processes_are_forked_whatever_pythons_own_way_is():
    """Since Python 3.14 it is `forkserver`. Others would load everything again, and not hold the folder of counters."""
    with running_web(STARTED_BY="forkserver") as (_, pid):
        started = set(eventually(lambda: descendants(pid)).values())
    assert started == {f"{sys.executable} -m tests.run.stub web "}


# granian's thread that collects an ended process is held before it knows of that end, until all are being stopped.
COLLECTED_AND_NOT_KNOWN = """
import os, threading
from multiprocessing.popen_fork import Popen
from granian.server.common import AbstractServer
from codservice.run.web import Web, serve

collected, is_over = threading.Event(), threading.Event()
ask, stop = Popen.poll, AbstractServer._stop_workers

def poll(self, flag=os.WNOHANG):
    if threading.current_thread() is threading.main_thread():
        collected.wait(30)
        return ask(self, flag)
    status = os.waitpid(self.pid, flag)[1]
    collected.set()
    is_over.wait(30)
    self.returncode = os.waitstatus_to_exitcode(status)
    return self.returncode

def stop_all(self):
    stop(self)
    is_over.set()

Popen.poll, AbstractServer._stop_workers = poll, stop_all
serve(Web.from_environ(), "tests.run.stub:application")
"""


def test_a_web_process_that_has_stopped_is_not_said_to_refuse_it():
    port = free_port()
    environ = os.environ | {"PORT": str(port), "WEB_WORKERS": "1"}
    command = [sys.executable, "-c", COLLECTED_AND_NOT_KNOWN]
    with subprocess.Popen(command, env=environ, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as popen:
        eventually(Web("127.0.0.1", port, 1, 2).answers)
        popen.terminate()
        assert (popen.communicate(timeout=PATIENCE)[1], popen.returncode) == ("", 0)


# It is told to stop after it has noticed that a process ended, and before it has started another.
ENDED_AND_TOLD = """
import os, signal
from granian.server.common import AbstractServer
from codservice.run.web import Web, serve

run = AbstractServer._serve_loop

def loop(self, *arguments):
    self.main_loop_interrupt.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    return run(self, *arguments)

AbstractServer._serve_loop = loop
serve(Web.from_environ(), "tests.run.stub:application")
"""


def test_web_processes_told_to_stop_when_one_has_just_ended_stop_in_good_order():
    port = free_port()
    environ = os.environ | {"PORT": str(port), "WEB_WORKERS": "1"}
    with subprocess.Popen([sys.executable, "-c", ENDED_AND_TOLD], env=environ, cwd=CHECKOUT) as web:
        eventually(Web("127.0.0.1", port, 1, 2).answers)
        os.kill(min(descendants(web.pid)), signal.SIGKILL)
        assert web.wait(PATIENCE) == 0


def test_behind_nohup_a_terminal_that_is_closed_stops_nothing():
    with running_web(signal.SIG_IGN) as (_, pid):
        eventually(lambda: ignores(pid, signal.SIGHUP) and len(descendants(pid)) == 2)
        assert all(ignores(each, signal.SIGHUP) for each in descendants(pid))


def ignores(pid: int, signum: int) -> bool:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn:")]
    return bool(int(line.split()[1], 16) >> (signum - 1) & 1)


def ask_bigger(port: int) -> int:
    with connect(port) as connection:
        connection.sendall(b"GET /bigger HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return int(connection.recv(12)[9:])


def megabytes(pid: int) -> float:
    """Return the megabytes of the processes below, counting shared memory once."""
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


def test_streamed_answer_that_fails_on_the_way_ends_and_is_seen_not_to_be_whole(port):
    with connect(port) as connection:
        connection.sendall(b"GET /broken HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received, last = 0, b""
        while piece := connection.recv(1 << 20):
            received, last = received + piece.count(b"x"), (last + piece)[-5:]
    assert 1 << 20 <= received <= 2 << 20
    assert last != b"0\r\n\r\n"
    with (
        urllib.request.urlopen(f"http://127.0.0.1:{port}/broken", timeout=PATIENCE) as got,
        pytest.raises(http.client.IncompleteRead),
    ):
        got.read()


def test_answer_that_fails_before_anything_is_sent_is_an_error(port):
    status, got = ask(port, "GET /broken/early HTTP/1.1")
    assert (status, got["error"]) == (500, "server_error")


def test_file_is_sent_whole(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/file", timeout=PATIENCE) as got:
        assert got.read() == (CHECKOUT / "tests" / "run" / "stub.py").read_bytes()


def test_headers(port):
    got = ask(port, "GET / HTTP/1.1\r\nX-Name: a\r\nX-Name: b\r\nX_Forwarded_For: 1.2.3.4")[1]
    assert got["HTTP_X_NAME"] == "a, b"
    assert "HTTP_X_FORWARDED_FOR" not in got


def test_one_person_at_a_time_signs_in_and_the_others_hold_no_thread(tmp_path):
    """With one process of two threads. As many wait as may; who comes then is refused at once. To Django a method is
    the same in small letters."""
    login = "POST /account/login HTTP/1.1\r\nContent-Length: 1"
    with (
        running_web(WEB_WORKERS="1", HELD=str(tmp_path)) as (port, _),
        ThreadPoolExecutor(60) as people,
    ):
        logins = [people.submit(ask, port, each, b"x") for each in (login, login.replace("POST", "post")) * 30]
        eventually(lambda: sum(each.done() for each in logins) == 54)
        assert {ask(port, "GET / HTTP/1.1")[0] for _ in range(20)} == {200}
        (tmp_path / "go").touch()
        answers = [each.result() for each in logins]
        assert [got["at_once"] for status, got in answers if status == 200] == [1] * 6
        assert {got["error"] for status, got in answers if status != 200} == {"unavailable"}
        assert ask(port, login, b"x") == (200, {"at_once": 1})
