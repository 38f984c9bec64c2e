"""A TLS 1.3 receiver that sends endless session tickets, after the handshake or after its first answer."""

import hashlib
import hmac
import itertools
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.harness.processes import free_port

from .certificates import Authority

RECORD = 16384  # bytes, the maximum
TICKET = struct.pack("!IIBHBH", 7200, 1, 0, 1, ord("t"), 0)  # RFC 8446, 4.6.1
MESSAGE = b"\x04" + len(TICKET).to_bytes(3, "big") + TICKET
APPLICATION_DATA, HANDSHAKE, DATA = b"\x17\x03\x03", b"\x16", b"\x17"


def _expand(secret: bytes, label: bytes, length: int) -> bytes:
    """HKDF-Expand-Label of RFC 8446, 7.1, for up to the length of one hash."""
    info = struct.pack("!HB", length, 6 + len(label)) + b"tls13 " + label + b"\0\1"
    return hmac.new(secret, info, hashlib.sha384).digest()[:length]


class TicketFlood:
    """Listens for `clients`, and floods each for `seconds` or until it disconnects.

    With `answers` it first answers the client, and leaves the connection in peace for `answers` seconds.
    """

    def __init__(self, authority: Authority, seconds: float, answers: float | None = None, *, clients: int = 1) -> None:
        self._authority, self._seconds, self._answers = authority, seconds, answers
        self._clients = clients
        self._certified = authority.certified("127.0.0.1")
        self.sent = 0

    def __enter__(self) -> "TicketFlood":
        # On a port that nobody else gets after it stops listening.
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.url = "https://{}:{}/".format(*self._listener.getsockname())
        self._threads = [threading.Thread(target=self._listen, daemon=True)]
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for thread in self._threads:
            thread.join(self._seconds)

    def _listen(self) -> None:
        for number in range(self._clients):
            raw, _ = self._listener.accept()
            self._threads.append(threading.Thread(target=self._serve, args=(raw, number), daemon=True))
            self._threads[-1].start()
        self._listener.close()

    def _serve(self, raw: socket.socket, number: int) -> None:
        keys = self._authority.folder / f"keys-{number}"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certified)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
        context.keylog_filename = str(keys)
        with raw.dup() as below, context.wrap_socket(raw, server_side=True) as tls:
            assert tls.cipher()[0] == "TLS_AES_256_GCM_SHA384"
            tls.recv(1)  # the handshake is over, and the keys are in the file
            secret = _traffic_secret(keys)
            cipher, nonce = AESGCM(_expand(secret, b"key", 32)), int.from_bytes(_expand(secret, b"iv", 12))
            numbers = itertools.count()

            def record(body: bytes) -> bytes:
                head = APPLICATION_DATA + struct.pack("!H", len(body) + 16)
                return head + cipher.encrypt((nonce ^ next(numbers)).to_bytes(12), body, head)

            below.settimeout(self._seconds)
            if self._answers is not None:
                below.sendall(record(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + DATA))
                time.sleep(self._answers)
            until = time.monotonic() + self._seconds
            try:
                while time.monotonic() < until:
                    below.sendall(record(MESSAGE * (RECORD // len(MESSAGE)) + HANDSHAKE))
                    self.sent += 1
            except OSError:
                pass  # the client has gone, or reads no more


def _traffic_secret(keys: Path) -> bytes:
    lines = keys.read_text().splitlines()
    return next(bytes.fromhex(line.split()[2]) for line in lines if line.startswith("SERVER_TRAFFIC_SECRET_0 "))
