"""The service as it really runs: web processes over the test's database and Redis."""

import http.client
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .background import PATIENCE, eventually
from .database import database_url
from .processes import free_port
from .python import FreshPython, Python


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """Web processes that listen on `port`; `send` makes one request on a connection of its own."""

    def __init__(self, port: int, log: Any) -> None:
        self.port, self.log = port, log

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        key: str = "",
        **kwargs: Any,
    ) -> Answer:
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        if isinstance(body, dict):
            body, headers = json.dumps(body).encode(), {"Content-Type": "application/json", **headers}
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            client.request(method, path, body, headers, **kwargs)
            return Answer(client.getresponse())
        finally:
            client.close()

    def send_raw(self, data: bytes) -> bytes:
        """The answers to these bytes, until the connection closes.

        Where they do not ask for that, until it is silent for a second after the first answer has begun.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as client:
            client.sendall(data)
            received = b""
            with suppress(TimeoutError):
                while piece := client.recv(65536):
                    received += piece
                    if b"\r\nConnection: close\r\n" not in data:
                        client.settimeout(1)
            return received

    def is_up(self, path: str = "/healthz") -> bool:
        try:
            return self.send("GET", path).status == 200
        except OSError:
            return False


@contextmanager
def running_service(log: Path, start: type[FreshPython[Any]] = Python, **environment: str) -> Iterator[Service]:
    """Run two web processes of two threads each while the block runs, on PORT or a free port."""
    port = int(environment.get("PORT", 0)) or free_port()
    environ = os.environ | {
        "DATABASE_URL": database_url(),
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "WEB_WORKERS": "2",
        "WEB_THREADS": "2",
        "DJANGO_SETTINGS_MODULE": "tests.harness.patient",
        **environment,
    }
    with log.open("wb") as output:
        process = start("-m", "codservice.run.web", env=environ, stdout=output, stderr=output)
    service = Service(port, log)
    try:
        eventually(lambda: service.is_up() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield service
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)  # a service that does not end when told to fails the test
        finally:
            process.kill()
            process.wait()
