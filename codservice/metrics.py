"""Metrics for Prometheus: the counters of all processes of this host, and figures from the database.

With PROMETHEUS_MULTIPROC_DIR in the environment (`codservice.run` sets it) each process counts in files of that folder,
and the process that answers adds them up; without it, a process reports only its own. Rooms define counters beside what
they count, and register figures of the database when they are ready. Labels have few values: never an id or a path.
"""

import errno
import hmac
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from glob import glob
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from mmap import mmap
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse

_FOLDER = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
if _FOLDER:  # needed as soon as a counter is made
    try:
        Path(_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"PROMETHEUS_MULTIPROC_DIR {_FOLDER} cannot be used: {error.strerror}.") from None

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values  # noqa: E402
from prometheus_client.exposition import CONTENT_TYPE_LATEST, ThreadingWSGIServer  # noqa: E402
from prometheus_client.metrics_core import GaugeMetricFamily, Metric  # noqa: E402
from prometheus_client.mmap_dict import MmapedDict  # noqa: E402
from prometheus_client.multiprocess import MultiProcessCollector  # noqa: E402

__all__ = ["Counter", "Gauge", "add_figure", "count_request", "exposition", "may_ask", "method_of", "route_of", "serve"]

logger = logging.getLogger("codservice.metrics")

# --- The counters -------------------------------------------------------------------------------------------------

_FILE_BYTES = 16 << 10  # to begin with, as the files of dead processes stay; a full one is doubled


class _CounterFile(MmapedDict):
    """prometheus-client's file of counters, but with disk space allocated before it is mapped.

    prometheus-client maps sparse files: when the disk is full at a write, the kernel ends the process (SIGBUS). Here a
    process that finds no space counts in its own memory, which no /metrics shows.
    """

    _is_on_disk = True

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        if read_mode or _make_room(filename, _FILE_BYTES):
            super().__init__(filename, read_mode)
        else:
            self._f, self._fname = open(os.devnull, "rb"), filename  # noqa: SIM115  (to be closed as if it were the file)
            self._m, self._capacity, self._is_on_disk = mmap(-1, _FILE_BYTES), _FILE_BYTES, False
            self._used, self._positions = 8, {}  # as in a file without any

    def _init_value(self, key: str) -> None:
        # 32: what a key takes besides itself for its length, padding, value and time.
        is_full = self._used + len(key.encode()) + 32 > self._capacity
        if is_full and not (self._is_on_disk and _make_room(f"/proc/self/fd/{self._f.fileno()}", 2 * self._capacity)):
            self._grow_in_memory()
        super()._init_value(key)

    def _grow_in_memory(self) -> None:
        memory = mmap(-1, 2 * self._capacity)
        memory[: self._capacity] = self._m[:]
        self._m, self._capacity, self._is_on_disk = memory, 2 * self._capacity, False


def _make_room(file: str, size: int) -> bool:
    """Allocate `size` bytes of a file, and return whether the disk had them. Linux only; a no-op elsewhere."""
    if sys.platform != "linux":
        return True
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.errno not in (errno.ENOSPC, errno.EDQUOT)
    return True


values.MmapedDict = _CounterFile  # type: ignore[misc]

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
# Buckets for requests, from what an API call takes here to when callers give up.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

REQUESTS = Counter("codservice_http_requests", "Requests that were answered.", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "codservice_http_request_duration_seconds", "How long answers took.", ["method", "route"], buckets=_SECONDS
)
REFUSALS = Counter("codservice_rate_limit_refusals", "Requests over a limit.", ["limit"])
for _limit in ("api-key", "api-address"):  # a series that appears with its first refusal would show no rate for it
    REFUSALS.labels(_limit)
RATE_LIMIT_OPEN = Counter("codservice_rate_limit_opened", "Times that Redis was away and nothing was limited.")


def route_of(request: HttpRequest) -> str:
    """Return the URL's pattern, or one word for files and one for requests that match none or were refused before."""
    if request.resolver_match:
        return request.resolver_match.route
    return "static" if request.path.startswith(settings.STATIC_URL) else "unmatched"


def method_of(request: HttpRequest) -> str:
    return request.method if request.method in _METHODS else "other"


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    requests, durations = _series(method, route, status)
    requests.inc()
    durations.observe(seconds)


@cache
def _series(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    """Cached, because looking labels up costs time at each call. There are only as many as there are routes."""
    return REQUESTS.labels(method, route, str(status)), REQUEST_SECONDS.labels(method, route)


# --- Figures of the database -------------------------------------------------------------------------------------

Reading = Iterable[tuple[tuple[str, ...], float]]
_figures: dict[str, tuple[str, Sequence[str], Callable[[], Reading]]] = {}


def add_figure(name: str, meaning: str, read: Callable[[], Reading], *, labels: Sequence[str] = ()) -> None:
    """Show on /metrics what `read` returns: the values of the labels, and a figure for each.

    `read` must be cheap, however much is stored, and the same on every host. After a DatabaseError this figure and all
    that follow are left out.
    """
    _figures[name] = meaning, labels, read


class _Figures:
    def collect(self) -> Iterator[Metric]:
        is_up = True
        for name, (meaning, labels, read) in _figures.items():
            family = GaugeMetricFamily(name, meaning, labels=labels)
            try:
                for values, value in read() if is_up else ():
                    family.add_metric(values, value)
            except DatabaseError:
                is_up = False  # the others would only wait for the database too
            yield family
        yield GaugeMetricFamily("codservice_database_up", "Whether the figures could be read.", value=is_up)


class _Processes(MultiProcessCollector):
    """The counters of all processes, including dead ones: what they counted has happened."""

    def collect(self) -> Iterable[Metric]:
        files = []
        for file in glob(os.path.join(self._path, "*.db")):
            # A process that was killed may leave an empty file, or a gauge of what it was doing.
            if "gauge_live" in file and not _is_alive(int(Path(file).stem.rpartition("_")[2])):
                Path(file).unlink(missing_ok=True)
            elif os.path.getsize(file):
                files.append(file)
        return self.merge(files)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


# --- The exposition ----------------------------------------------------------------------------------------------


def exposition(request: HttpRequest) -> HttpResponse:
    """Answer `/metrics` with counters and figures, to requests from this host or with METRICS_TOKEN."""
    status, kind, body = _tell(request.META, _Figures())
    return HttpResponse(body, status=status, content_type=kind)


def serve(host: str, port: int) -> None:
    """Serve this host's counters at /metrics from a thread of this process, for hosts without web processes.

    Raises OSError, or UnicodeError if `host` cannot be a name."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, *_, address = min(found, key=lambda each: each[0])  # of a name with both, the address of IPv4
    kind: Any = type("Server", (_Server,), {"address_family": family})
    server = make_server(str(address[0]), port, _application, server_class=kind, handler_class=_Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def _tell(environ: dict[str, Any], *collectors: Any) -> tuple[HTTPStatus, str, bytes]:
    if not may_ask(environ):
        return HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", _REFUSAL
    registry = CollectorRegistry()
    if _FOLDER:
        _Processes(registry, _FOLDER)
    else:
        registry.register(REGISTRY)
    for collector in collectors:
        registry.register(collector)
    return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)


_REFUSAL = b"Ask from this host itself, without a proxy, or send Authorization: Bearer METRICS_TOKEN.\n"
_PROXIED = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PROTO", "HTTP_X_REAL_IP",
            "HTTP_FORWARDED", "HTTP_VIA")  # fmt: skip


def may_ask(environ: dict[str, Any]) -> bool:
    """Whether a request sends METRICS_TOKEN or, if it sends none, comes from a loopback address and by no proxy."""
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if settings.METRICS_TOKEN and scheme.lower() == "bearer":
        return hmac.compare_digest(token.encode("utf-8", "replace"), settings.METRICS_TOKEN.encode())
    # Behind a proxy on this host, every client has this host's address.
    return _is_loopback(environ.get("REMOTE_ADDR", "")) and not any(name in environ for name in _PROXIED)


def _is_loopback(address: str) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return ((isinstance(ip, IPv6Address) and ip.ipv4_mapped) or ip).is_loopback


def _application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    status, kind, body = HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b""
    if environ["PATH_INFO"] == "/metrics":
        try:
            status, kind, body = _tell(environ)
        except Exception:  # wsgiref would print it
            logger.exception("the figures could not be told")
            status = HTTPStatus.INTERNAL_SERVER_ERROR
    start_response(f"{status.value} {status.phrase}", [("Content-Type", kind)])
    return [body]


class _Server(ThreadingWSGIServer):
    """Answers a few at once, none for longer than `patience` seconds: a connection holds threads of this process, and a
    file that deliveries may need. Says nothing of clients that are slow, silent or gone.
    """

    patience = 10.0
    _free = threading.Semaphore(20)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        # Not the socket's timeout, which begins anew with each byte.
        deadline = threading.Timer(self.patience, _cut, [request])
        deadline.daemon = True
        try:
            deadline.start()
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            logger.exception("a request for the figures failed")


def _cut(connection: socket.socket) -> None:
    """End a connection, so that whoever reads from it or writes to it finds it closed."""
    with suppress(OSError):  # it has just ended by itself
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:
        pass
