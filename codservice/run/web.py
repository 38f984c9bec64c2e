"""The web processes: `python -m codservice.run.web`. Settings: HOST, PORT, WEB_WORKERS, WEB_THREADS."""

import errno
import gc
import os
import re
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pkgutil import resolve_name

from codservice.errors import CannotStart
from codservice.run import counters
from codservice.run.kernel import return_memory

APPLICATION = "codservice.wsgi:application"
STOP_SECONDS = 20
# An orphan of a killed predecessor may need a moment to release the port.
PORT_SECONDS = 3.0


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

    def address(self) -> str:
        """Return the IP address of HOST once we can listen at its PORT beside others that share it, as granian does.

        Raises `CannotStart` if we cannot within PORT_SECONDS."""
        with self._bound(shared=True) as probe:
            return str(probe.getsockname()[0])

    def hold(self) -> socket.socket:
        """Take PORT while nobody else has it. Until the returned socket is closed, only web processes can share it.

        Raises `CannotStart` if somebody has it for PORT_SECONDS. Where the system is not Linux, nothing is held."""
        held = self._bound(shared=False)
        if sys.platform == "linux":
            # It has bound alone, and from now on lets in those who share. As it does not listen, it gets no connection.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            # Before about 6.8 the kernel keeps with the port that its first socket allowed reuse, and lets a second one
            # in by that, as another `hold`, without looking at the first again. A socket without reuse ends that.
            with suppress(OSError), socket.socket(held.family) as again:
                again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                again.bind(held.getsockname())
        else:  # BSD may choose it for connections all the same
            held.close()
        return held

    def _bound(self, *, shared: bool) -> socket.socket:
        deadline = time.monotonic() + PORT_SECONDS
        while True:
            try:
                return self._bound_once(shared=shared)
            except socket.gaierror as error:
                raise CannotStart(f"HOST {self.host} is not an address of this machine: {error.strerror}.") from error
            except UnicodeError as error:  # `.example` or `a..b`
                raise CannotStart(f"HOST {self.host} is not an address of this machine: it is not a name.") from error
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    raise CannotStart(f"HOST {self.host} is not an address of this machine.") from error
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"Port {self.port} on {self.host} cannot be used ({(error.strerror or '').lower()})."
                        " Stop what listens there, or set PORT to another number."
                    ) from error
                time.sleep(0.1)

    def _bound_once(self, *, shared: bool) -> socket.socket:
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for family, kind, number, _, address in found:
            bound = socket.socket(family, kind, number)
            try:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared))
                bound.bind(address)
            except OSError as error:
                bound.close()
                # A name may have an address of a family that is turned off on this machine.
                if error.errno != errno.EADDRNOTAVAIL or address is found[-1][4]:
                    raise
            else:
                return bound
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
    resolve_name(APPLICATION)
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
    # Python reads no number of thousands of digits.
    if not (re.fullmatch("[0-9]{1,9}", given) and 1 <= int(given) <= most):
        raise CannotStart(f"{name} must be a whole number from 1 to {most}, not {given[:50]!r}.")
    return int(given)


def preload(application: str = APPLICATION) -> None:
    """Load everything once before the web processes are forked, so that they share its memory."""
    from django.conf import settings
    from django.urls import get_resolver

    from codservice.run import server  # noqa: F401

    resolve_name(application)
    if settings.configured:
        get_resolver().url_patterns  # noqa: B018 - imports every view, which requests would do in each process
    return_memory()
    gc.freeze()  # the garbage collector does not write to frozen objects, so their pages stay shared


def serve(web: Web, application: str = APPLICATION) -> None:
    """Serve a WSGI application (`module:name`) until SIGTERM or SIGINT; requests in flight are finished."""
    from codservice.run.server import Server

    if sys.platform == "linux":  # elsewhere processes are not forked
        preload(application)
    Server(web, application, stop_seconds=STOP_SECONDS).run()


if __name__ == "__main__":
    from django.core.exceptions import ImproperlyConfigured  # not needed by those who only import `Web`

    try:
        with counters.folder():
            web = Web.from_environ()
            keep_out_of_anothers(web)
            serve(web)
    except (CannotStart, ImproperlyConfigured) as error:
        sys.exit(f"codservice: {error}")
