"""The service as it really runs: web processes of its own over the test's database and Redis."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.db import connection

from codservice.accounts.models import Account, ApiKey
from tests.factories import AccountFactory


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
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            client.request(method, path, body, headers, **kwargs)
            return Answer(client.getresponse())
        finally:
            client.close()

    def send_raw(self, data: bytes) -> bytes:
        """What comes back for these bytes until the connection is closed or silent for a second."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
            client.sendall(data)
            received = b""
            try:
                while piece := client.recv(65536):
                    received += piece
            except TimeoutError:
                pass
            return received


def database_url() -> str:
    """The test's database, as the service takes it."""
    s = connection.settings_dict
    user = quote(s["USER"], "") + (f":{quote(s['PASSWORD'], '')}" if s["PASSWORD"] else "")
    port = f":{s['PORT']}" if s["PORT"] else ""
    return f"postgresql://{user}@{quote(s['HOST'] or 'localhost', '')}{port}/{quote(s['NAME'], '')}"


@pytest.fixture(scope="session")
def _service(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: Any) -> Iterator[Service]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    log = tmp_path_factory.mktemp("service") / "log"
    environ = os.environ | {
        "DATABASE_URL": database_url(),
        "REDIS_URL": settings.REDIS_URL,
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "WEB_WORKERS": "2",
        "WEB_THREADS": "2",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "codservice.run.web"],
            env=environ,
            stdout=output,
            stderr=output,
            cwd=settings.BASE_DIR,
        )
    service = Service(port, log)
    deadline = time.monotonic() + 30
    while True:
        try:
            if service.send("GET", "/healthz").status == 200:
                break
        except OSError:
            pass
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    yield service
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture
def service(transactional_db: None, _service: Service) -> Service:
    """The running service, for requests that have to go over a socket or through several processes."""
    return _service


def new_key(account: Account | None = None, **kwargs: Any) -> str:
    return ApiKey.issue(account or AccountFactory(), name="Test", **kwargs)[1]


@pytest.fixture
def key(transactional_db: None) -> str:
    """A key with a limit that no test reaches, for the running service."""
    return new_key(AccountFactory(rate_limit=1_000_000))
