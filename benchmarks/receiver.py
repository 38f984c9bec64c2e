"""A receiver that uses little processor time: one process, an event loop, raw bytes.

    python -m benchmarks.receiver PORT [hang | tls CERTIFICATE | FILE]

It answers 204 at once, or with `hang` reads and never answers. With FILE, an absolute path, it writes a line for each
request when it is stopped: its time (seconds since 1970) and the id of its delivery. With a certificate it uses TLS.
"""

import asyncio
import re
import selectors
import signal
import socket
import ssl
import sys
import time
from typing import Any

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.I)
_DELIVERY = re.compile(rb"x-service-delivery: *(\S+)", re.I)


def serve(port: int, *, hangs: bool, file: str | None) -> None:
    arrivals: list[tuple[float, bytes]] = []
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    pending: dict[socket.socket, bytes] = {}

    def finish(*_: object) -> None:
        if file:
            with open(file, "w") as out:
                out.writelines(f"{at} {delivery.decode()}\n" for at, delivery in arrivals)
        sys.exit(0)

    signal.signal(signal.SIGTERM, finish)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(connection, selectors.EVENT_READ)
                continue
            connection = key.fileobj  # type: ignore[assignment]
            try:
                data = connection.recv(65536)
            except OSError:
                data = b""
            if not data:
                pending.pop(connection, None)
                selector.unregister(connection)
                connection.close()
                continue
            if hangs:
                continue
            data = pending.pop(connection, b"") + data
            while data:
                end = data.find(b"\r\n\r\n")
                length = _LENGTH.search(data, 0, end) if end >= 0 else None
                total = end + 4 + int(length[1]) if length else None
                if total is None or len(data) < total:
                    pending[connection] = data
                    break
                if file and (delivery := _DELIVERY.search(data, 0, end)):
                    arrivals.append((time.time(), delivery[1]))
                data = data[total:]
                connection.send(ANSWER)


class _Secure(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self.transport, self.data = transport, b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self.data, 0, end)
            total = end + 4 + int(length[1] if length else 0)
            if len(self.data) < total:
                return
            self.data = self.data[total:]
            self.transport.write(ANSWER)


async def serve_securely(port: int, certificate: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(_Secure, "127.0.0.1", port, ssl=context, backlog=4096)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if "tls" in sys.argv:
        asyncio.run(serve_securely(int(sys.argv[1]), sys.argv[-1]))
    serve(int(sys.argv[1]), hangs="hang" in sys.argv, file=sys.argv[-1] if sys.argv[-1].startswith("/") else None)
