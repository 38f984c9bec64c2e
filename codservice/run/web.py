"""The web processes: `python -m codservice.run.web`. Settings: HOST, PORT, WEB_WORKERS, WEB_THREADS.

How they stop, in time: the process above them is told to, and tells each of them by SIGUSR1 (`Server.shutdown`). From
then on a web process answers nobody who asks for a connection, and takes leave of each client that it has (`leave`).
LAST_SECONDS later an alarm lets the signals through that it has held back so far, whoever sent them, and granian
finishes the requests in flight, for STOP_SECONDS at most.
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
# An orphan of a killed predecessor may need a moment to let go of the port.
PORT_SECONDS = 3.0
# Between the last connection that is taken and the end: what has come by then is accepted, and its request arrives.
LAST_SECONDS = 1.0
# Connections that a process holds at once, slow and idle ones included; an idle one costs some kilobytes.
CONNECTIONS = 4096


@dataclass(frozen=True)
class Web:
    """Where the web processes listen and how many there are."""

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
        """The IP address of HOST, once we may listen at its PORT: `alone`, or beside others that share the port, as
        granian does. Raises `CannotStart` when we may not within PORT_SECONDS."""
        deadline = time.monotonic() + PORT_SECONDS
        while True:
            try:
                return self._listen_once(alone=alone)
            except socket.gaierror as error:
                raise CannotStart(f"HOST {self.host} is no address of this machine: {error.strerror}.") from error
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    raise CannotStart(f"HOST {self.host} is no address of this machine.") from error
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"Port {self.port} on {self.host} cannot be used ({(error.strerror or '').lower()}); stop what"
                        " listens there or set PORT to another number."
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
                    # A name may have an address of a kind that this machine has turned off.
                    if error.errno != errno.EADDRNOTAVAIL or address is found[-1][4]:
                        raise
                else:
                    return str(address[0])
        raise AssertionError("a name has an address, or is none")

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        host = {"0.0.0.0": "localhost", "::": "localhost", "127.0.0.1": "localhost"}.get(self.host, self.host)  # noqa: S104  (read, not bound)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET, by hand: the supervisor stays small. (0, "") when nobody answers."""
        # All addresses are those of IPv4 too, and these alone where IPv6 is turned off.
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
    """Raises `CannotStart` where a web of another database listens at our port, with which we would share its requests.

    Who cannot be asked is none, as one of an older version, or while the database is away.
    """
    if not web.answers():
        return
    _load(APPLICATION)
    from django.db import DatabaseError, connection

    from codservice.health import identity

    try:
        if web.get(f"/readyz?database={identity()}")[0] == HTTPStatus.MISDIRECTED_REQUEST:
            raise CannotStart(
                f"At port {web.port} on {web.host} a service with another database listens: set PORT to another number."
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
    """Load everything once, before the web processes are forked, so that they share the memory of it."""
    import granian.server.mp  # noqa: F401
    from django.conf import settings
    from django.urls import get_resolver

    from codservice.run import gateway  # noqa: F401

    _load(application)
    if settings.configured:
        get_resolver().url_patterns  # noqa: B018 - imports every view, which requests would do in each process
    return_memory()
    gc.freeze()  # what is frozen is not written to by the garbage collector, which would copy it


def _gateway(application: str, threads: int, parent: int) -> Any:
    """Runs in each web process: the application is already in memory where processes are forked."""
    from django.conf import settings

    from codservice.run.gateway import Gateway

    # A terminal and systemd tell all processes of a service to stop. Here that waits, in all threads, until the first
    # one has taken leave of the clients. Where processes are forked it has waited since then.
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
        """Before its processes stop they take no more connections, and hear out those that they have."""

        def _spawn_worker(self, *args: Any, **kwargs: Any) -> Any:
            worker = super()._spawn_worker(*args, **kwargs)
            worker.start = stops_held_back()(worker.start)  # type: ignore[method-assign]
            # A thread of granian's collects a process that has ended. Until that thread is told, granian says that the
            # process refuses to stop, and kills whoever has its number by then.
            worker.is_alive = lambda: not wait([worker.inner.sentinel], timeout=0)  # type: ignore[method-assign]
            return worker

        def shutdown(self, exit_code: int = 0) -> None:
            for worker in self.wrks:
                worker.interrupt_by_parent = True  # whoever tells it to stop: that it ends is no accident any more
                with suppress(ProcessLookupError):
                    os.kill(worker.inner.pid, signal.SIGUSR1)
            threading.Event().wait(LAST_SECONDS)
            try:
                super().shutdown(exit_code)
            except SystemExit:
                if not self.interrupt_signal:  # who was told to stop has not failed by a process that ended just before
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
        log_dictconfig={"formatters": {}, "handlers": {}, "loggers": {}},  # its lines are for our handler
        respawn_failed_workers=True,
        respawn_interval=0.1,
        workers_kill_timeout=STOP_SECONDS,
    )
    # A terminal that is closed tells to stop, unless nohup does not let it. granian would start its processes anew,
    # which do not stop by its signal alone.
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    hang_up = signal.SIG_IGN if ignored else server.signal_handler_interrupt
    server.on_startup(lambda: signal.signal(signal.SIGHUP, hang_up))
    # It would be the end of a process that does not listen to it yet: there it waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    server.serve(target_loader=partial(_gateway, application, web.threads, os.getpid()), wrap_loader=False)


if __name__ == "__main__":
    from django.core.exceptions import ImproperlyConfigured  # not for who only asks whether it answers

    try:
        with counters.folder():
            web = Web.from_environ()
            keep_out_of_anothers(web)
            serve(web)
    except (CannotStart, ImproperlyConfigured) as error:
        sys.exit(f"codservice: {error}")
