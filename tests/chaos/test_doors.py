"""Each trouble that a door can make does what its name says."""

import contextlib
import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tests.harness.background import PATIENCE, Background, eventually
from tests.harness.receivers import Connection, Receiver

from .doors import Door, Doors

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def doors(receiver: Receiver) -> Iterator[Doors]:
    with Doors(front=receiver.address) as doors:
        yield doors


@pytest.fixture
def door(doors: Doors) -> Door:
    return doors["front"]


def ask(door: Door) -> int:
    """The status of the answer through the door, or 0 without one."""
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=PATIENCE)
    try:
        connection.request("GET", "/", headers={"X-Service-Delivery": "one"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def test_an_open_door_passes_on_everything(door: Door, receiver: Receiver) -> None:
    assert ask(door) == 200
    assert len(receiver.requests) == 1


def test_a_closed_door_refuses_and_can_be_opened_again(doors: Doors, door: Door, receiver: Receiver) -> None:
    door.is_closed = True
    assert ask(door) == 0
    assert receiver.requests == []
    doors.open_all()
    assert ask(door) == 200


def test_a_held_door_lets_nothing_pass_until_it_is_let_go(door: Door, receiver: Receiver) -> None:
    door.is_held = True
    waiting = Background(lambda: ask(door))
    eventually(lambda: receiver.connections)
    assert not waiting.is_over
    assert receiver.requests == []
    door.open()
    assert waiting.result() == 200


def test_answers_are_lost_after_the_request_has_arrived(door: Door, receiver: Receiver) -> None:
    door.loses_answers = True
    assert ask(door) == 0
    assert len(receiver.requests) == 1


def test_a_slow_door_takes_its_time(door: Door) -> None:
    door.delay = 0.3
    began = time.monotonic()
    assert ask(door) == 200
    assert time.monotonic() - began >= 0.6  # there and back


def test_connections_are_cut(door: Door, receiver: Receiver) -> None:
    door.is_held = True
    waiting = Background(lambda: ask(door))
    eventually(lambda: receiver.connections)
    eventually(lambda: door.cut() or waiting.is_over)  # the door may know of the connection after the receiver does
    assert waiting.result() == 0


def test_a_side_that_vanishes_is_told_to_the_other(door: Door, receiver: Receiver) -> None:
    """A process that is killed before it has read everything does the same: its system resets the connection."""
    closed = threading.Event()

    async def flood(connection: Connection) -> None:
        try:
            await connection.flood(b"x" * 65536)
        finally:
            closed.set()

    receiver.default = flood
    with socket.create_connection(("127.0.0.1", door.port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"GET / HTTP/1.1\r\nX-Service-Delivery: one\r\n\r\n")
        assert client.recv(1)
    assert closed.wait(PATIENCE)


def test_a_reset_is_passed_on_while_nobody_speaks(door: Door, receiver: Receiver) -> None:
    ended = threading.Event()

    async def wait(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\n")
        with contextlib.suppress(OSError):
            await connection.reader.read()
        ended.set()

    receiver.default = wait
    with socket.create_connection(("127.0.0.1", door.port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"GET / HTTP/1.1\r\nX-Service-Delivery: one\r\n\r\n")
        assert client.recv(1)
    assert ended.wait(PATIENCE)
