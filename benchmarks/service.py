"""The whole service as `make run` starts it, on a data folder and a port of its own, for as long as it is measured."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


class Service:
    """A running service: its address, its environment, its database."""

    def __init__(self, data_dir: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        own = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ENCRYPTION_KEYS", "DATA_DIR", "PORT")
        self.environ = {name: value for name, value in os.environ.items() if name not in own}
        self.environ |= {"DATA_DIR": str(data_dir), "PORT": str(port)}

    def manage(self, *arguments: str) -> str:
        """What a management command prints on stdout."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=CHECKOUT, env=self.environ, check=True, capture_output=True, text=True
        ).stdout.strip()

    def make_key(self, name: str) -> str:
        """An API key of a new account whose limit is lifted."""
        email = f"{name}@example.dz"
        self.manage("create_account", name, "--email", email, "--rate-limit", "1000000")
        return self.manage("create_api_key", "--account", email)

    def is_ready(self) -> bool:
        try:
            return urllib.request.urlopen(f"{self.url}/readyz", timeout=2).status == 200
        except OSError:
            return False


@contextmanager
def running() -> Iterator[Service]:
    folder = Path(tempfile.mkdtemp(prefix="codservice-bench-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    service = Service(folder, port)
    process = subprocess.Popen(
        [sys.executable, "-m", "codservice.run"], cwd=CHECKOUT, env=service.environ, stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while not service.is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("The service did not start.")
            time.sleep(0.1)
        yield service
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)
