"""Sign and post deliveries, many at once from one thread. Knows no ORM.

libcurl's multi interface carries the posts: its deadline covers connecting, TLS, sending and waiting in one, and it
asks us before it opens a socket, so that the address is checked that is really dialled. Names are looked up before
(`webhooks.names`), within the same deadline.
"""

import contextlib
import logging
import re
import selectors
import socket
import ssl
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pycurl

from codservice import __version__
from webhooks import signing
from webhooks.addresses import is_public
from webhooks.names import KEPT as NAMES_KEPT
from webhooks.names import Names

logger = logging.getLogger(__name__)

DEADLINE = 3000  # milliseconds for an attempt, all in all (contract, section 9)
MAX_READ = 16 * 1024  # bytes of an answer, its head included
KEPT = 2048  # bytes of its body for the log
MANY_NAMES = 10_000

# Why an attempt is no acknowledgement, for the log. One word for all that the network did: to tell refused from
# filtered would make us somebody's port scanner.
FAILURES = TIMEOUT, UNREACHABLE, BLOCKED, TLS, BAD_ANSWER, STATUS, NO_SECRET = (
    "timeout", "unreachable", "blocked_address", "tls", "bad_answer", "status", "unreadable_secret")  # fmt: skip
_FAILURES = {
    pycurl.E_OPERATION_TIMEDOUT: TIMEOUT,
    pycurl.E_SSL_CONNECT_ERROR: TLS,
    pycurl.E_PEER_FAILED_VERIFICATION: TLS,
    pycurl.E_SSL_CERTPROBLEM: TLS,
    pycurl.E_SSL_CIPHER: TLS,
    pycurl.E_SSL_ISSUER_ERROR: TLS,
    pycurl.E_FTP_WEIRD_SERVER_REPLY: BAD_ANSWER,  # of HTTP servers too
    pycurl.E_UNSUPPORTED_PROTOCOL: BAD_ANSWER,
    pycurl.E_WRITE_ERROR: BAD_ANSWER,
    100: BAD_ANSWER,  # CURLE_TOO_LARGE: a line of the head without end
    pycurl.E_OUT_OF_MEMORY: BAD_ANSWER,  # the same in other releases
    pycurl.E_GOT_NOTHING: BAD_ANSWER,
    pycurl.E_RECV_ERROR: BAD_ANSWER,
    pycurl.E_PARTIAL_FILE: BAD_ANSWER,
}


_STATUS_LINE = re.compile(rb"HTTP/[0-9.]+ [0-9]{3}[ \r\n]")  # libcurl takes 2000 for 200
_SELECTOR_EVENTS = {
    pycurl.POLL_IN: selectors.EVENT_READ,
    pycurl.POLL_OUT: selectors.EVENT_WRITE,
    pycurl.POLL_INOUT: selectors.EVENT_READ | selectors.EVENT_WRITE,
}
_CURL_EVENTS = {
    selectors.EVENT_READ: pycurl.CSELECT_IN,
    selectors.EVENT_WRITE: pycurl.CSELECT_OUT,
    selectors.EVENT_READ | selectors.EVENT_WRITE: pycurl.CSELECT_IN | pycurl.CSELECT_OUT,
}


@dataclass(slots=True)
class Post:
    """One attempt to be made: the delivery's id and event, the very bytes, the secrets that sign them."""

    delivery_id: UUID
    url: str
    event: str
    body: bytes
    # As shown to the merchant, the newest first. None when it cannot be read.
    secrets: Sequence[str] = field(repr=False)
    attempt: int
    request_id: str = ""  # of the request that made the change, for the log


@dataclass(slots=True)
class Outcome:
    """How an attempt went. `failure` is empty when it is acknowledged."""

    post: Post
    failure: str
    status_code: int | None
    milliseconds: int
    response: bytes


def headers(post: Post, now: float) -> list[str]:
    """All headers of an attempt at `now` (seconds since 1970)."""
    delivery_id, timestamp = str(post.delivery_id), int(now)
    standard = " ".join(
        signing.standard_signature(secret, delivery_id, timestamp, post.body) for secret in post.secrets
    )
    lines = [
        "Content-Type: application/json",
        f"User-Agent: codservice/{__version__}",
        f"X-Service-Event: {post.event}",
        f"X-Service-Delivery: {delivery_id}",
        f"X-Service-Attempt: {post.attempt}",
        f"X-Service-Signature: {signing.signature(post.secrets[0], post.body)}",
        f"webhook-id: {delivery_id}",
        f"webhook-timestamp: {timestamp}",
        f"webhook-signature: {standard}",
        "Accept: */*",
        "Expect:",  # curl would wait for a 100 before a larger body
    ]
    lines += [f"X-Service-Signature-Previous: {signing.signature(secret, post.body)}" for secret in post.secrets[1:]]
    return lines


@dataclass(slots=True)
class _Transfer:
    post: Post
    started: float
    is_blocked: bool = False
    is_no_http: bool = False
    read: int = 0
    response: bytearray = field(default_factory=bytearray)

    @property
    def deadline(self) -> float:
        return self.started + DEADLINE / 1000

    def on_header(self, line: bytes) -> int | None:
        self.read += len(line)
        if line.startswith(b"HTTP/") and not _STATUS_LINE.match(line):
            self.is_no_http = True
            return -1
        return None if self.read <= MAX_READ else -1

    def on_body(self, data: bytes) -> int | None:
        self.response += data[: KEPT - len(self.response)]
        self.read += len(data)
        return None if self.read <= MAX_READ else -1


def _trusted_roots(ca_file: str | None) -> Any:
    """An open file that has a name: the system's certificates, and those of `ca_file` besides."""
    system = open(ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt", "rb")  # noqa: SIM115
    if ca_file is None:
        return system
    # libcurl takes one file of them, and folders only in OpenSSL's own form.
    both = tempfile.NamedTemporaryFile(prefix="codservice-roots-", suffix=".pem")  # noqa: SIM115
    with system:
        both.write(system.read() + b"\n" + Path(ca_file).read_bytes())
    both.flush()
    return both


class Sender:
    """Posts under way. `start` adds one, `finished` waits for some to end. For one thread."""

    def __init__(self, *, width: int, allow_private: bool = False, ca_file: str | None = None) -> None:
        self.width = width
        self._allow_private = allow_private
        self._roots = _trusted_roots(ca_file)
        self._free: list[Any] = []
        self._running: dict[Any, _Transfer] = {}
        self._waiting: dict[int, _Transfer] = {}  # for their name, in the order in which their time is over
        self._waiting_for: dict[str, list[_Transfer]] = {}
        self._told: dict[tuple[str, int], float] = {}  # when libcurl was told a name's addresses
        self._ended: list[Outcome] = []  # without libcurl
        self._selector = selectors.DefaultSelector()
        self._timer: float | None = None  # when libcurl wants to be called, in time.monotonic()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, width)  # kept open for the next posts to the same receivers
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._names = Names(self.wake_up)

    @property
    def room(self) -> int:
        """How many more can be started."""
        return self.width - len(self._running) - len(self._waiting)

    @property
    def is_idle(self) -> bool:
        return not (self._running or self._waiting or self._ended)

    def start(self, post: Post) -> None:
        """Begin an attempt. It ends in an outcome whatever is wrong with it."""
        transfer = _Transfer(post, time.monotonic())
        if not post.secrets:
            logger.error("the secret of %s's webhook is under none of ENCRYPTION_KEYS", post.delivery_id)
            self._end_unsent(transfer, NO_SECRET)
            return
        try:
            name, _ = _name_and_port(post.url)
            if not name or self._names.known(name):
                self._send(transfer)
            else:
                self._waiting[id(transfer)] = transfer
                self._waiting_for.setdefault(name, []).append(transfer)
                self._names.ask(name)
        except ValueError:  # no URL that urllib can take apart
            self._end_unsent(transfer, UNREACHABLE)

    def _send(self, transfer: _Transfer) -> None:
        try:
            self._give_to_curl(transfer)
        except Exception:  # one that cannot be sent shall not stop the others
            logger.exception("delivery %s cannot be posted", transfer.post.delivery_id)
            self._end_unsent(transfer, UNREACHABLE)

    def _give_to_curl(self, transfer: _Transfer) -> None:
        post = transfer.post
        curl = self._free.pop() if self._free else self._new_handle()
        if address := self._address_to_tell(post.url):
            curl.setopt(pycurl.RESOLVE, [address])
        curl.setopt(pycurl.TIMEOUT_MS, max(DEADLINE - round((time.monotonic() - transfer.started) * 1000), 1))
        curl.setopt(pycurl.URL, post.url)
        curl.setopt(pycurl.HTTPHEADER, headers(post, time.time()))
        curl.setopt(pycurl.POSTFIELDS, post.body)
        curl.setopt(pycurl.HEADERFUNCTION, transfer.on_header)
        curl.setopt(pycurl.WRITEFUNCTION, transfer.on_body)
        if not self._allow_private:
            curl.setopt(pycurl.OPENSOCKETFUNCTION, lambda purpose, address: _open(transfer, address))
        self._multi.add_handle(curl)
        self._running[curl] = transfer

    def _address_to_tell(self, url: str) -> str:
        """A name's addresses as libcurl takes them, unless it has them already."""
        name, port = _name_and_port(url)
        if not name or not (answer := self._names.known(name)):
            return ""
        looked_up, addresses = answer
        now, told = time.monotonic(), self._told.get((name, port), 0.0)
        if told < looked_up:
            if len(self._told) >= MANY_NAMES:
                self._told = {key: at for key, at in self._told.items() if now - at < NAMES_KEPT}
            self._told[name, port] = now
        elif now - told > 1.0:  # by then the first post has begun
            return ""
        return f"+{name}:{port}:" + ",".join(f"[{each}]" if ":" in each else each for each in addresses)

    def _send_named(self) -> None:
        """Send what has waited for a name that is known by now; end what has waited too long."""
        for name, addresses in self._names.answers():
            is_allowed = self._allow_private or all(map(is_public, addresses))
            for transfer in self._waiting_for.pop(name):
                if self._waiting.pop(id(transfer), None) is None:
                    continue  # its time was over
                if not addresses:
                    self._end_unsent(transfer, UNREACHABLE)
                elif not is_allowed:
                    self._end_unsent(transfer, BLOCKED)
                else:
                    self._send(transfer)
        while self._waiting and (first := next(iter(self._waiting.values()))).deadline <= time.monotonic():
            del self._waiting[id(first)]
            self._end_unsent(first, TIMEOUT)

    def _end_unsent(self, transfer: _Transfer, failure: str) -> None:
        milliseconds = round((time.monotonic() - transfer.started) * 1000)
        self._ended.append(Outcome(transfer.post, failure, None, milliseconds, b""))

    def finished(self, timeout: float) -> list[Outcome]:
        """What has ended; waits up to `timeout` seconds for the first to end or for `wake_up`."""
        until = time.monotonic() + timeout
        while True:
            now = time.monotonic()
            next_call = until
            if self._timer is not None:
                if self._timer <= now:
                    self._timer = None
                    self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
                    next_call = now  # what it has ended must not wait for others
                else:
                    next_call = min(next_call, self._timer)
            if self._waiting:
                next_call = min(next_call, next(iter(self._waiting.values())).deadline)
            if self._ended:
                next_call = now
            is_woken = False
            for key, mask in self._selector.select(max(next_call - now, 0)):
                if key.fileobj is self._ear:
                    is_woken = True
                    self._ear.recv(4096)
                else:
                    self._multi.socket_action(key.fd, _CURL_EVENTS[mask])
            self._send_named()
            outcomes = self._collect()
            if outcomes or is_woken or time.monotonic() >= until:
                return outcomes

    def wake_up(self) -> None:
        """End a wait in `finished`; may be called from another thread."""
        with contextlib.suppress(BlockingIOError):  # the bell is ringing already
            self._bell.send(b"!")

    def close(self) -> None:
        for curl in self._running:
            self._multi.remove_handle(curl)
            curl.close()
        for curl in self._free:
            curl.close()
        self._multi.close()
        self._selector.close()
        self._bell.close()
        self._ear.close()
        self._roots.close()

    def _watch(self, what: int, fd: int, multi: Any, data: Any) -> None:
        """libcurl's wish to be told of a socket's events, or no longer."""
        if what == pycurl.POLL_REMOVE:
            with contextlib.suppress(KeyError):
                self._selector.unregister(fd)
        elif fd in self._selector.get_map():
            self._selector.modify(fd, _SELECTOR_EVENTS[what])
        else:
            self._selector.register(fd, _SELECTOR_EVENTS[what])

    def _set_timer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def _collect(self) -> list[Outcome]:
        outcomes, self._ended = self._ended, []
        more = 1
        while more:
            more, good, bad = self._multi.info_read()
            outcomes += [self._end(curl, 0) for curl in good]
            outcomes += [self._end(curl, error) for curl, error, _ in bad]
        return outcomes

    def _end(self, curl: Any, error: int) -> Outcome:
        transfer = self._running.pop(curl)
        milliseconds = round((time.monotonic() - transfer.started) * 1000)
        code = curl.getinfo(pycurl.RESPONSE_CODE)
        self._multi.remove_handle(curl)
        self._free.append(curl)
        if transfer.is_blocked:
            failure, code = BLOCKED, 0
        elif transfer.is_no_http:
            failure, code = BAD_ANSWER, 0
        elif 200 <= code < 300:
            failure = ""  # the status line was in time; what came after it does not matter
        elif error and code < 200:
            failure = _FAILURES.get(error, UNREACHABLE)
        else:
            failure = STATUS
        return Outcome(transfer.post, failure, code or None, milliseconds, bytes(transfer.response))

    def _new_handle(self) -> Any:
        curl = pycurl.Curl()
        curl.setopt(pycurl.POST, 1)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, DEADLINE)
        curl.setopt(pycurl.DNS_CACHE_TIMEOUT, 2 * round(NAMES_KEPT))  # it is told anew before that
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.BUFFERSIZE, MAX_READ)
        curl.setopt(pycurl.PROXY, "")  # none, whatever the environment says
        curl.setopt(pycurl.NETRC, 0)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTPS | (pycurl.PROTO_HTTP if self._allow_private else 0))
        curl.setopt(pycurl.CAINFO, self._roots.name)
        curl.setopt(pycurl.SSL_VERIFYPEER, 1)
        curl.setopt(pycurl.SSL_VERIFYHOST, 2)
        curl.setopt(pycurl.TCP_NODELAY, 1)
        return curl


@lru_cache(maxsize=10_000)
def _name_and_port(url: str) -> tuple[str, int]:
    """The name that has to be looked up for `url`, empty when it is an address, and the port."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        ip_address(host)
    except ValueError:
        return host, port
    return "", port


def _open(transfer: _Transfer, address: Any) -> Any:
    """libcurl's question before it dials: a socket for `address`, or no. One bad address ends the attempt."""
    family, kind, protocol, peer = address
    if transfer.is_blocked or not is_public(peer[0]):
        transfer.is_blocked = True
        return pycurl.SOCKET_BAD
    return socket.socket(family, kind, protocol)
