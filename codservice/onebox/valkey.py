"""The embedded Valkey: the broker for wake-ups, and the counters of rate limits."""

import socket
import time

from codservice.data_folder import Layout
from codservice.errors import CannotStart
from codservice.onebox.binaries import find_valkey
from codservice.onebox.postgres import make_runtime, server_user
from codservice.onebox.process import Process

ORPHAN_SECONDS = 10.0


def valkey(layout: Layout) -> Process:
    """Return the broker as a process to supervise. Raises `CannotStart` if no server program runs on this machine.

    It writes nothing to disk: deliveries and orders are rows in PostgreSQL, workers look at the queue also without a
    wake-up, and a lost counter starts a new minute. When memory is short it drops counters and cached values (which
    expire anyway), never messages.
    """
    user = server_user(layout)

    def before_start() -> None:
        make_runtime(layout, user, layout.valkey_socket)
        _stop_orphan(layout)

    make_runtime(layout, user, layout.valkey_socket)
    program = find_valkey(user=user, copies=layout.runtime / "bin")
    settings = {
        "port": "0",
        "unixsocket": str(layout.valkey_socket),
        "unixsocketperm": "700",
        "dir": str(layout.valkey_socket.parent),
        "save": "",
        "appendonly": "no",
        "maxmemory": "128mb",
        "maxmemory-policy": "volatile-ttl",
        "loglevel": "warning",
    }
    return Process(
        name="broker",
        command=[str(program), *(word for name, value in settings.items() for word in (f"--{name}", value))],
        before_start=before_start,
        is_ready=lambda: _ask(layout, b"PING") == b"+PONG\r\n",
        start_seconds=30.0,
        options={"cwd": "/", **user.options()},
        log=layout.data / "valkey.log",
    )


def _ask(layout: Layout, command: bytes) -> bytes:
    """Send one command and return the first bytes of the answer, or nothing if there is no server."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)
            connection.connect(str(layout.valkey_socket))
            connection.sendall(command + b"\r\n")
            return connection.recv(64)
    except OSError:
        return b""


def _stop_orphan(layout: Layout) -> None:
    """Stop a server that outlived its supervisor. The caller holds the data folder's lock."""
    deadline = time.monotonic() + ORPHAN_SECONDS
    while _ask(layout, b"PING"):
        _ask(layout, b"SHUTDOWN NOSAVE")
        if time.monotonic() > deadline:
            raise CannotStart(f"An earlier Valkey still listens on {layout.valkey_socket} and does not stop. End it.")
        time.sleep(0.05)
