"""One attempt in libcurl: how its handle is set up, what is read of the answer, and its outcome."""

import os
import re
import socket
import ssl
import tempfile
import time
from dataclasses import dataclass, field
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any

import pycurl

from webhooks.addresses import is_public
from webhooks.posts import BAD_ANSWER, BLOCKED, STATUS, TIMEOUT, TLS, UNREACHABLE, Outcome, Post, headers
from webhooks.resolver import KEPT as NAMES_KEPT

DEADLINE_MS = 3000  # for a whole attempt (docs/webhooks.md)
MAX_READ = 16 * 1024  # bytes of an answer, including its head
KEPT_BYTES = 2048  # of its body, for the log
KEPT_TARGET = 500  # bytes of a redirect's target

# A kept connection was closed before anything came back. Usually the receiver closed it as idle and has not read the
# post, but it may have.
LOST = pycurl.E_SEND_FAIL_REWIND

_FAILURES = {
    pycurl.E_OPERATION_TIMEDOUT: TIMEOUT,
    pycurl.E_SSL_CONNECT_ERROR: TLS,
    pycurl.E_PEER_FAILED_VERIFICATION: TLS,
    pycurl.E_SSL_CERTPROBLEM: TLS,
    pycurl.E_SSL_CIPHER: TLS,
    pycurl.E_SSL_ISSUER_ERROR: TLS,
    pycurl.E_FTP_WEIRD_SERVER_REPLY: BAD_ANSWER,  # for HTTP servers too
    pycurl.E_UNSUPPORTED_PROTOCOL: BAD_ANSWER,
    pycurl.E_WRITE_ERROR: BAD_ANSWER,
    100: BAD_ANSWER,  # CURLE_TOO_LARGE: an endless header line
    pycurl.E_OUT_OF_MEMORY: BAD_ANSWER,  # the same in other releases
    pycurl.E_GOT_NOTHING: BAD_ANSWER,
    pycurl.E_SEND_ERROR: BAD_ANSWER,
    pycurl.E_RECV_ERROR: BAD_ANSWER,
    pycurl.E_PARTIAL_FILE: BAD_ANSWER,
    LOST: BAD_ANSWER,
}
# The parts of an address that may hold secrets.
_LOGIN = re.compile(rb"(?<=//)[^/?#]*@")
_QUERY = re.compile(rb"(?<=[?#]).+")
# The charsets of one byte for each character that old shops answer in. Anything else is read as UTF-8.
_CHARSET = re.compile(rb"charset=[\"']?((?:iso-8859-(?:1[013-6]?|[2-9])|windows-125[0-8])\b)", re.IGNORECASE)
_STATUS_LINE = re.compile(rb"HTTP/[0-9.]+ [0-9]{3}[ \r\n]")  # libcurl would read 2000 as 200


@dataclass(slots=True)
class Transfer:
    """A post from its start to its outcome. Its time includes the lookup of its name, not a renewal of its claim."""

    post: Post
    started: float  # by time.monotonic
    failure: str = ""  # one that we have seen ourselves, whatever libcurl says: BLOCKED or BAD_ANSWER
    is_repeat: bool = False  # begun anew, on a new connection
    read_bytes: int = 0
    response: bytearray = field(default_factory=bytearray)
    target: bytes = b""  # of a redirect
    charset: str = "utf-8"

    @property
    def deadline(self) -> float:
        return self.started + DEADLINE_MS / 1000

    def load(self, curl: Any, addresses: str, *, allow_private: bool) -> None:
        """Set up a handle from `new_handle` for this attempt; `addresses` is from `Lookups.addresses_to_tell`."""
        post = self.post
        if addresses:
            curl.setopt(pycurl.RESOLVE, [addresses])
        curl.setopt(pycurl.TIMEOUT_MS, max(round((self.deadline - time.monotonic()) * 1000), 1))
        curl.setopt(pycurl.URL, post.url)
        curl.setopt(pycurl.HTTPHEADER, headers(post, post.offset + time.monotonic()))
        # Read by a function, so that libcurl cannot rewind it. A body that it has as a whole, it sends up to six times,
        # as one kept connection after another breaks.
        curl.setopt(pycurl.READFUNCTION, BytesIO(post.body).read)
        curl.setopt(pycurl.POSTFIELDSIZE, len(post.body))
        curl.setopt(pycurl.FRESH_CONNECT, self.is_repeat)
        curl.setopt(pycurl.HEADERFUNCTION, self.on_header)
        curl.setopt(pycurl.WRITEFUNCTION, self.on_body)
        if not allow_private:
            curl.setopt(pycurl.OPENSOCKETFUNCTION, self.open_socket)

    def on_header(self, line: bytes) -> int | None:
        self.read_bytes += len(line)
        if line.startswith(b"HTTP/") and not _STATUS_LINE.match(line):
            self.failure = self.failure or BAD_ANSWER
            return -1
        if line[:9].lower() == b"location:":
            target = _LOGIN.sub(b"", line[9:].strip())[:KEPT_TARGET]
            self.target = _QUERY.sub("…".encode(), target)
        if line[:13].lower() == b"content-type:" and (named := _CHARSET.search(line)):
            self.charset = named[1].decode()
        return None if self.read_bytes <= MAX_READ else -1

    def on_body(self, data: bytes) -> int | None:
        self.response += data[: KEPT_BYTES - len(self.response)]
        self.read_bytes += len(data)
        return None if self.read_bytes <= MAX_READ else -1

    def open_socket(self, _purpose: int, address: Any) -> Any:
        """Called by libcurl before it dials: return a socket for `address`, or refuse. One refusal ends the attempt."""
        family, kind, protocol, peer = address
        if self.failure == BLOCKED or not is_public(peer[0]):
            self.failure = BLOCKED
            return pycurl.SOCKET_BAD
        return socket.socket(family, kind, protocol)

    def outcome(self, curl: Any, error: int) -> Outcome:
        """Return the outcome once the handle has ended with libcurl's `error`, which is 0 for none."""
        code = curl.getinfo(pycurl.RESPONSE_CODE)  # 0 when there was none
        if self.charset != "utf-8":
            self.response = bytearray(self.response.decode(self.charset, "replace").encode())[:KEPT_BYTES]
        if self.failure:
            return self.outcome_with(self.failure)
        if 200 <= code < 300:
            return self.outcome_with("", code)  # the status line came in time; errors after it do not matter
        if error and code < 200:
            # libcurl gives no connect time for a connection that it reused; then the bytes sent tell that it was made.
            is_connected = curl.getinfo(pycurl.CONNECT_TIME) > 0 or curl.getinfo(pycurl.REQUEST_SIZE) > 0
            is_reached = is_connected or error != pycurl.E_OPERATION_TIMEDOUT
            return self.outcome_with(_FAILURES.get(error, UNREACHABLE) if is_reached else UNREACHABLE, code)
        if 300 <= code < 400 and self.target:  # for the log only: redirects are never followed
            self.response = bytearray(b"Location: %b\n\n%b" % (self.target, self.response))[:KEPT_BYTES]
        return self.outcome_with(STATUS, code)

    def outcome_with(self, failure: str, code: int = 0) -> Outcome:
        """Return the outcome with this failure, and the answer's status if there was one."""
        took = DEADLINE_MS if failure == UNREACHABLE else round((time.monotonic() - self.started) * 1000)
        return Outcome(self.post, failure, code or None, took, bytes(self.response))


def new_handle(roots: str, *, allow_private: bool) -> Any:
    """Return a handle for attempts, one after the other; `roots` is the name of a file of certificates."""
    curl = pycurl.Curl()
    curl.setopt(pycurl.POST, 1)
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.CONNECTTIMEOUT_MS, DEADLINE_MS)
    curl.setopt(pycurl.DNS_CACHE_TIMEOUT, 2 * round(NAMES_KEPT))  # we give it the addresses again before that
    # A kept connection stays with the address that it was made to, however busy it is.
    curl.setopt(pycurl.MAXLIFETIME_CONN, round(NAMES_KEPT))
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.BUFFERSIZE, MAX_READ)
    curl.setopt(pycurl.PROXY, "")  # none, whatever the environment says
    curl.setopt(pycurl.NETRC, 0)
    curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTPS | (pycurl.PROTO_HTTP if allow_private else 0))
    curl.setopt(pycurl.CAINFO, roots)
    curl.setopt(pycurl.SSL_VERIFYPEER, 1)
    curl.setopt(pycurl.SSL_VERIFYHOST, 2)
    curl.setopt(pycurl.SSL_SESSIONID_CACHE, 0)  # a resumed session would not look at the certificate again
    curl.setopt(pycurl.TCP_NODELAY, 1)
    return curl


def trusted_roots(ca_file: str | None) -> Any:
    """Return an open file of the system's certificates and those of `ca_file`; libcurl finds it by its `name`."""
    system = open(ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt", "rb")  # noqa: SIM115
    if ca_file is None:
        return system
    with system:
        roots = system.read() + b"\n" + Path(ca_file).read_bytes()
    # libcurl takes one file, and folders only in OpenSSL's own form. It takes the bytes too, but would read them anew
    # for each connection, which costs as much as several handshakes.
    in_memory = getattr(os, "memfd_create", None)  # missing elsewhere, and in Pythons built for any Linux
    if in_memory:  # there may be no folder for temporary files, or no room in it
        both: Any = FileIO(in_memory("roots"), "w")
        both.name = f"/proc/self/fd/{both.fileno()}"
    else:
        both = tempfile.NamedTemporaryFile(prefix="codservice-roots-", suffix=".pem")  # noqa: SIM115
    both.write(roots)
    both.flush()
    return both
