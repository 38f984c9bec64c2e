"""The whole service as `make run` starts it, on a data folder and a port of its own, for as long as it is measured."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import django
import requests

from codservice import data_folder
from codservice.onebox.postgres import postgres
from codservice.onebox.process import becomes_ready, spawn
from codservice.onebox.valkey import valkey
from codservice.secret_file import secrets
from tests.harness.processes import free_port

OWN = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ENCRYPTION_KEYS", "DATA_DIR", "PORT")
START_SECONDS = 120.0
CHECKOUT = Path(__file__).resolve().parent.parent


class Service:
    """A running service: its address, its environment, its database."""

    def __init__(self, data_dir: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.environ = {name: value for name, value in os.environ.items() if name not in OWN}
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

    def session(self, key: str) -> requests.Session:
        """A merchant's client, whose connection is kept."""
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {key}"
        return session

    def is_ready(self) -> bool:
        try:
            return urllib.request.urlopen(f"{self.url}/readyz", timeout=2).status == 200
        except OSError:
            return False


@contextmanager
def storage() -> Iterator[dict[str, str]]:
    """PostgreSQL and Valkey as `make run` starts them, with all migrations; the environment that leads to them."""
    folder = Path(tempfile.mkdtemp(prefix="codservice-bench-"))
    layout = data_folder.Layout(folder)
    environ = {name: value for name, value in os.environ.items() if name not in OWN} | {"DATA_DIR": str(folder)}
    secrets(folder)
    children = []
    try:
        for process in (postgres(layout), valkey(layout)):
            children.append(spawn(process))
            if not becomes_ready(process, children[-1], seconds=START_SECONDS):
                raise SystemExit(f"The {process.name} did not start.")
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=CHECKOUT, env=environ, check=True)
        yield environ
    finally:
        for child in reversed(children):
            child.send_signal(signal.SIGINT)
            child.wait()
        shutil.rmtree(layout.runtime, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def database(environ: dict[str, str]) -> str:
    """The address of the PostgreSQL that this environment leads to."""
    return data_folder.database_url(Path(environ["DATA_DIR"]))


@contextmanager
def with_django(**settings: str) -> Iterator[str]:
    """`storage`, with Django set up over it in this process; the database's address."""
    with storage() as environ:
        os.environ.update(environ, DJANGO_SETTINGS_MODULE="codservice.settings", **settings)
        django.setup()
        yield database(environ)


def pids(names: str = "") -> list[int]:
    """This process and all below it, those whose names begin so."""
    family, found = [os.getpid()], []
    for pid in family:
        with contextlib.suppress(OSError):
            family += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            if Path(f"/proc/{pid}/comm").read_text().startswith(names):
                found.append(pid)
    return found


def memory_mb(names: str = "") -> float:
    """What the processes below this one hold whose names begin so; what they share is counted once."""
    kilobytes = 0
    for pid in set(pids(names)) - {os.getpid()}:
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            kilobytes += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return kilobytes / 1024


@contextmanager
def running(stderr: IO[str] | None = None, **settings: str) -> Iterator[Service]:
    folder = Path(tempfile.mkdtemp(prefix="codservice-bench-"))
    service = Service(folder, free_port())
    service.environ |= settings
    process = subprocess.Popen(
        [sys.executable, "-m", "codservice.onebox"],
        cwd=CHECKOUT,
        env=service.environ,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not service.is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("The service did not start.")
            time.sleep(0.1)
        yield service
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)
