"""Servers in a network namespace where every address is ours: a name server, canaries, one allowed receiver.

Run `python -m tests.webhooks.engine.namespace` inside the namespace. It reads a JSON object from stdin with `urls` to
post to, each by a new Sender. It writes the outcomes, which addresses were connected to, and what the allowed receiver
got. It also tries names whose server is silent, and names with more addresses than any receiver has.
"""

import contextlib
import json
import os
import select
import socket
import ssl
import struct
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from itertools import product
from typing import Any
from uuid import uuid4

from tests.harness.background import eventually
from tests.webhooks.engine.posting import queued

PUBLIC = ("8.8.8.8", "2001:4860:4860::8888")
PORTS = (80, 443, 3128, 8443)
SECRET = "whsec_" + "A" * 43 + "="
A, CNAME, AAAA = 1, 5, 28

# Addresses by name. Of a list of lists, each lookup gets the next one.
NAMES: dict[str, list[Any]] = {
    "good.test": ["8.8.8.8"],
    "good6.test": ["2001:4860:4860::8888"],
    "redirect.test": ["8.8.8.8"],
    "loopback.test": ["127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "metadata6.test": ["fd00:ec2::254"],
    "private.test": ["10.0.0.1"],
    "lan.test": ["192.168.1.1"],
    "carrier.test": ["100.64.0.1"],
    "zero.test": ["0.0.0.0"],
    "loopback6.test": ["::1"],
    "any6.test": ["::"],
    "mapped.test": ["::ffff:10.0.0.1"],
    "nat64.test": ["64:ff9b::a9fe:a9fe"],
    "6to4.test": ["2002:a9fe:a9fe::1"],
    "linklocal6.test": ["fe80::1"],
    "mixed-public-first.test": ["8.8.8.8", "10.0.0.1"],
    "mixed-private-first.test": ["10.0.0.1", "8.8.8.8"],
    "mixed-families.test": ["8.8.8.8", "::1"],
    "mixed-families-6.test": ["2001:4860:4860::8888", "127.0.0.1"],
    "many.test": [*(f"8.8.8.{number}" for number in range(1, 9)), "127.0.0.1"],
    "rebinding.test": [["8.8.8.8"], ["127.0.0.1"]],
    "rebinding-back.test": [["10.0.0.1"], ["8.8.8.8"]],
    "silent.test": [],
}
# As many as one answer can hold of each family.
FLOODS = {
    f"flood-{number}.test": [
        *(str(ip_address("9.0.0.0") + 65536 * number + host) for host in range(4000)),
        *(str(ip_address("2600::") + 65536 * number + host) for host in range(2300)),
    ]
    for number in (1, 2)
}
ALIASES = {"alias.test": "private.test", "alias-of-alias.test": "alias.test", "alias-of-good.test": "good.test"}


class NameServer:
    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.listener = socket.create_server(("127.0.0.1", 53))
        threading.Thread(target=self._serve, daemon=True).start()
        threading.Thread(target=self._serve_tcp, daemon=True).start()

    def _serve(self) -> None:
        while True:
            query, client = self.socket.recvfrom(512)
            if answer := self._answer(query):
                is_whole = len(answer) <= 512  # otherwise it is asked for by TCP
                self.socket.sendto(answer if is_whole else answer[:2] + b"\x83" + answer[3:512], client)

    def _serve_tcp(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self._serve_stream, args=(connection,), daemon=True).start()

    def _serve_stream(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
            while length := stream.read(2):
                answer = self._answer(stream.read(int.from_bytes(length)))
                connection.sendall(len(answer).to_bytes(2) + answer)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += query[at] + 1
        name, kind = ".".join(labels).lower(), query[at + 2]
        if name.startswith("silent"):
            return b""
        records = []
        target = name
        while target in ALIASES:
            target = ALIASES[target]
            encoded = b"".join(bytes([len(label)]) + label.encode() for label in target.split(".")) + b"\0"
            records.append(struct.pack("!HHIH", CNAME, 1, 0, len(encoded)) + encoded)
        addresses = FLOODS.get(target) or NAMES.get(target, [])
        if addresses and isinstance(addresses[0], list):
            addresses = addresses[self.asked[name, kind] % len(addresses)]
        self.asked[name, kind] += 1
        for address in map(ip_address, addresses):
            if (address.version == 4) == (kind == A):
                records.append(struct.pack("!HHIH", kind, 1, 0, len(address.packed)) + address.packed)
        # The whole chain of aliases, each record under the alias before it.
        answers = b""
        owner = b"\xc0\x0c"
        for record in records:
            answers += owner + record
            if record[:2] == struct.pack("!H", CNAME):
                owner = record[10:]
        is_known = target in NAMES or target in FLOODS
        flags = 0x8180 if is_known else 0x8183
        head = query[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
        return head + query[12 : at + 5] + answers


class Canaries:
    """Listen on every address, record each connection, and close those to addresses that are not allowed."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.hits: list[tuple[str, int]] = []
        self.requests: list[str] = []
        self.tls = tls
        self.sockets = []
        for port in PORTS:
            listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(("::", port))
            listener.listen(128)
            self.sockets.append(listener)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            for listener in select.select(self.sockets, [], [])[0]:
                connection, _ = listener.accept()
                address, port = connection.getsockname()[:2]
                address = address.removeprefix("::ffff:") if "." in address else address
                self.hits.append((address, port))
                if address in PUBLIC:
                    threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
                else:
                    connection.close()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with self.tls.wrap_socket(connection, server_side=True) as stream:
                request = stream.recv(65536).decode()
                self.requests.append(request)
                if "redirect.test" in request:
                    stream.sendall(b"HTTP/1.1 302 Found\r\nLocation: https://10.0.0.1/\r\nContent-Length: 0\r\n\r\n")
                else:
                    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                stream.recv(1)
        except OSError:
            pass


def main() -> None:
    from webhooks.sender import Post, Sender

    given = json.load(sys.stdin)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(given["certificate"])
    NameServer()
    canaries = Canaries(tls)

    def post(url: str) -> dict[str, Any]:
        sender, queued_before = Sender(width=10, ca_file=given["ca_file"]), queued()
        sender.start(Post(uuid4(), url, "order.confirmed", b"{}", [SECRET], 1))
        outcome = None
        while outcome is None:
            outcome = next(iter(sender.finished(1.0)), None)
        sender.close()
        return {
            "url": url,
            "failure": outcome.failure,
            "status": outcome.status_code,
            "response": outcome.response.decode(),
            "own_milliseconds": outcome.milliseconds - 1000 * (queued() - queued_before),
        }

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(post, given["urls"]))
    # One sender with a hundred names whose server never answers, and one quick name.
    sender = Sender(width=200, ca_file=given["ca_file"])
    queued_before = dict.fromkeys((f"silent{number}.test" for number in range(100)), queued())
    for number in range(100):
        sender.start(Post(uuid4(), f"https://silent{number}.test/hook", "order.confirmed", b"{}", [SECRET], 1))
    sender.finished(0.3)
    queued_before["good.test"] = queued()
    sender.start(Post(uuid4(), "https://good.test/hook", "order.confirmed", b"{}", [SECRET], 1))
    crowd = []
    while not sender.is_idle:
        for each in sender.finished(1.0):
            host = each.post.url.split("/")[2]
            crowd.append((host, each.failure, each.milliseconds - 1000 * (queued() - queued_before[host])))

    # One sender, several times, with a name that has public and private addresses.
    again = []
    for _ in range(3):
        sender.start(Post(uuid4(), "https://mixed-public-first.test/hook", "order.confirmed", b"{}", [SECRET], 1))
        while not sender.is_idle:
            again += [outcome.failure for outcome in sender.finished(1.0)]

    # Try the canaries, so that their silence means something.
    before = list(canaries.hits)
    addresses = ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "64:ff9b::a9fe:a9fe")
    tries = list(product(addresses, PORTS))
    for each in tries:
        socket.create_connection(each, timeout=2).close()
    eventually(lambda: len(canaries.hits) >= len(before) + len(tries))
    tried = len(canaries.hits) - len(before)

    # One sender, with names whose addresses would take seconds to check, and one quick name. All are known by then.
    def is_dialled(name: str) -> bool:
        sender.start(Post(uuid4(), f"https://{name}/hook", "order.confirmed", b"{}", [SECRET], 1))
        failures = []
        while not sender.is_idle:
            failures += [each.failure for each in sender.finished(1.0)]
        return failures == ["tls"]

    for name in FLOODS:
        eventually(partial(is_dialled, name))  # on a busy machine, the name server's first answers may come too late
    for name in ["good.test", *FLOODS] + 49 * [*FLOODS]:
        sender.start(Post(uuid4(), f"https://{name}/hook", "order.confirmed", b"{}", [SECRET], 1))
    beside_floods = []
    while not sender.is_idle:
        beside_floods += [(each.post.url.split("/")[2], each.failure) for each in sender.finished(1.0)]

    json.dump(
        {"outcomes": outcomes, "crowd": crowd, "again": again, "hits": before, "requests": canaries.requests,
         "canaries_tried": tried, "beside_floods": beside_floods,
         "environment": {name: os.environ.get(name) for name in given["environment"]}},
        sys.stdout,
    )  # fmt: skip


if __name__ == "__main__":
    main()
