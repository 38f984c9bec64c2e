"""The web processes: `python -m codservice.run.web`. Settings: HOST, PORT, WEB_WORKERS, WEB_THREADS.

How they stop: their parent is told to, and sends each of them SIGUSR1 (`Server.shutdown`). From then on a web process
accepts no new connections, and tells its clients that theirs end (`leave`). LAST_SECONDS later an alarm unblocks the
stop signals, whoever sent them, and granian finishes the requests in flight, for at most STOP_SECONDS.
"""

import errno
import gc
import importlib
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from codservice.errors import CannotStart
from codservice.run import counters
from codservice.run.kernel import (
    STOPS,
    allow_open_files,
    die_with_parent,
    return_memory,
    stops_held_back,
    take_no_more_connections,
)

APPLICATION = "codservice.wsgi:application"
HEADER_MILLISECONDS = 10_000
HEADER_BYTES = 64 << 10
STOP_SECONDS = 20
# An orphan of a killed predecessor may need a moment to release the port.
PORT_SECONDS = 3.0
# Between the last new connection and the end, so that waiting connections are accepted and their requests arrive.
LAST_SECONDS = 1.0
# Connections that a process holds at once, including slow and idle ones; an idle one costs some kilobytes.
CONNECTIONS = 4096


@dataclass(frozen=True)
class Web:
    """Where the web processes listen, and how many there are."""

    host: str
    port: int
    workers: int
    threads: int

    @classmethod
    def from_environ(cls) -> "Web":
        """Raises `CannotStart` with a sentence that names the variable."""
        return cls(
            host=os.environ.get("HOST", "").strip() or "127.0.0.1",
            port=_number("PORT", 8000, most=65535),
            workers=_number("WEB_WORKERS", 2, most=64),
            threads=_number("WEB_THREADS", 2, most=64),
        )

    def address(self, *, alone: bool = False) -> str:
        """Return the IP address of HOST once we can listen at its PORT.

        Either `alone`, or beside others that share the port, as granian does. Raises `CannotStart` if we cannot within
        PORT_SECONDS."""
        deadline = time.monotonic() + PORT_SECONDS
        while True:
            try:
                return self._listen_once(alone=alone)
            except socket.gaierror as error:
                raise CannotStart(f"HOST {self.host} is not an address of this machine: {error.strerror}.") from error
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    raise CannotStart(f"HOST {self.host} is not an address of this machine.") from error
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"Port {self.port} on {self.host} cannot be used ({(error.strerror or '').lower()})."
                        " Stop what listens there, or set PORT to another number."
                    ) from error
                time.sleep(0.1)

    def _listen_once(self, *, alone: bool) -> str:
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for family, kind, number, _, address in found:
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if not alone:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                try:
                    probe.bind(address)
                except OSError as error:
                    # A name may have an address of a family that is turned off on this machine.
                    if error.errno != errno.EADDRNOTAVAIL or address is found[-1][4]:
                        raise
                else:
                    return str(address[0])
        raise AssertionError("a name has an address, or is none")

    @property
    def url(self) -> str:
        """The URL for a browser on this machine."""
        host = {"0.0.0.0": "localhost", "::": "localhost", "127.0.0.1": "localhost"}.get(self.host, self.host)  # noqa: S104  (read, not bound)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a GET, or (0, "") without an answer. Loads no HTTP client, to keep small."""
        # `::` includes IPv4 addresses, and has only these if IPv6 is turned off.
        asked = {"0.0.0.0": ["127.0.0.1"], "::": ["::1", "127.0.0.1"]}.get(self.host, [self.host])  # noqa: S104  (read, not bound)
        for host in asked:
            with suppress(OSError, IndexError, ValueError):
                with socket.create_connection((host, self.port), timeout=2.0) as connection:
                    connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                    with connection.makefile("rb") as answer:
                        head, _, body = answer.read(65536).partition(b"\r\n\r\n")
                return int(head.split()[1]), body.decode(errors="replace")
        return 0, ""

    def answers(self) -> bool:
        """Whether the application answers at all."""
        return self.get("/healthz")[0] != 0


def keep_out_of_anothers(web: Web) -> None:
    """Raises `CannotStart` if web processes of another database listen at our port, whose requests would be mixed up.

    Processes that cannot tell pass, such as those of an older version, or while the database is away.
    """
    if not web.answers():
        return
    _load(APPLICATION)
    from django.db import DatabaseError, connection

    from codservice.health import identity

    try:
        if web.get(f"/readyz?database={identity()}")[0] == HTTPStatus.MISDIRECTED_REQUEST:
            raise CannotStart(
                f"A service with another database listens at port {web.port} on {web.host}. Set PORT to another number."
            )
    except DatabaseError:
        return
    finally:
        connection.close()


def _number(name: str, default: int, *, most: int) -> int:
    given = os.environ.get(name, "").strip() or str(default)
    if not (given.isascii() and given.isdigit() and 1 <= int(given) <= most):
        raise CannotStart(f"{name} must be a whole number from 1 to {most}, not {given!r}.")
    return int(given)


def _load(application: str) -> Any:
    module, _, name = application.partition(":")
    return getattr(importlib.import_module(module), name)


def preload(application: str = APPLICATION) -> None:
    """Load everything once before the web processes are forked, so that they share its memory."""
    import granian.server.mp  # noqa: F401
    from django.conf import settings
    from django.urls import get_resolver

    from codservice.run import gateway  # noqa: F401

    _load(application)
    if settings.configured:
        get_resolver().url_patterns  # noqa: B018 - imports every view, which requests would do in each process
    return_memory()
    gc.freeze()  # the garbage collector does not write to frozen objects, so their pages stay shared


def _gateway(application: str, threads: int, parent: int) -> Any:
    """Make the gateway, in each web process. Where processes are forked, the application is already in memory."""
    from django.conf import settings

    from codservice.run.gateway import Gateway

    # A terminal and systemd tell all processes of a service to stop. Here that waits, in all threads, until the clients
    # have been told. Forked processes have blocked these signals since the fork.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    if sys.platform == "linux":
        die_with_parent(signal.SIGKILL, parent)
    wsgi = _load(application)
    if settings.configured:
        from codservice.accounts.authentication import is_known

        gateway = Gateway(wsgi, threads, is_known)
    else:
        gateway = Gateway(wsgi, threads)

    def leave(*_: object) -> None:
        take_no_more_connections()
        gateway.is_leaving = True
        signal.setitimer(signal.ITIMER_REAL, LAST_SECONDS)

    signal.signal(signal.SIGALRM, lambda *_: signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS))
    signal.signal(signal.SIGUSR1, leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    return gateway


def serve(web: Web, application: str = APPLICATION) -> None:
    """Serve a WSGI application (`module:name`) until SIGTERM or SIGINT; requests in flight are finished."""
    from multiprocessing.connection import wait

    from granian.constants import HTTPModes, Interfaces, Loops
    from granian.http import HTTP1Settings
    from granian.log import LogLevels
    from granian.server.mp import MPServer

    class Server(MPServer):
        """A server whose processes, before they stop, accept no more connections and finish those that they have."""

        def _spawn_worker(self, *args: Any, **kwargs: Any) -> Any:
            worker = super()._spawn_worker(*args, **kwargs)
            worker.start = stops_held_back()(worker.start)  # type: ignore[method-assign]
            # A thread of granian collects ended processes. Until that thread is told, granian thinks that the process
            # refuses to stop, and kills whichever process has its number by then.
            worker.is_alive = lambda: not wait([worker.inner.sentinel], timeout=0)  # type: ignore[method-assign]
            return worker

        def shutdown(self, exit_code: int = 0) -> None:
            for worker in self.wrks:
                worker.interrupt_by_parent = True  # from now on its end is expected, whoever tells it to stop
                with suppress(ProcessLookupError):
                    os.kill(worker.inner.pid, signal.SIGUSR1)
            threading.Event().wait(LAST_SECONDS)
            try:
                super().shutdown(exit_code)
            except SystemExit:
                if not self.interrupt_signal:  # if told to stop, a process that ended just before is no failure
                    raise

    allow_open_files(2 * CONNECTIONS)
    if sys.platform == "linux":  # elsewhere processes are not forked
        preload(application)
    server = Server(
        application,
        address=web.address(),
        port=web.port,
        interface=Interfaces.ASGINL,
        loop=Loops.uvloop,
        workers=web.workers,
        backpressure=CONNECTIONS,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_MILLISECONDS, max_buffer_size=HEADER_BYTES),
        websockets=False,
        log_level=LogLevels.warning,
        log_dictconfig={"formatters": {}, "handlers": {}, "loggers": {}},  # its lines go to our handler
        respawn_failed_workers=True,
        respawn_interval=0.1,
        workers_kill_timeout=STOP_SECONDS,
    )
    # Closing the terminal means to stop, unless nohup prevents it. granian would restart its processes, which do not
    # stop by its signal alone.
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    hang_up = signal.SIG_IGN if ignored else server.signal_handler_interrupt
    server.on_startup(lambda: signal.signal(signal.SIGHUP, hang_up))
    # SIGUSR1 would end a process that has no handler for it yet, so it is blocked until then.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    server.serve(target_loader=partial(_gateway, application, web.threads, os.getpid()), wrap_loader=False)


if __name__ == "__main__":
    from django.core.exceptions import ImproperlyConfigured  # not needed by those who only import `Web`

    try:
        with counters.folder():
            web = Web.from_environ()
            keep_out_of_anothers(web)
            serve(web)
    except (CannotStart, ImproperlyConfigured) as error:
        sys.exit(f"codservice: {error}")
