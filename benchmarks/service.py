"""Runs the service, or only PostgreSQL and Valkey, with a temporary data folder for a measurement."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import django
import requests

from benchmarks.postgresql import psql
from codservice import data_folder
from codservice.onebox.postgres import postgres
from codservice.onebox.process import becomes_ready, spawn
from codservice.onebox.valkey import valkey
from codservice.secret_file import secrets
from tests.harness.processes import CHECKOUT, free_port

OWN = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ENCRYPTION_KEYS", "DATA_DIR", "PORT")
START_SECONDS = 120.0

# Settings as in production, where log lines are JSON.
PRODUCTION = {
    "SECRET_KEY": "".join(map(chr, range(48, 110))),
    "ENCRYPTION_KEYS": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    "HTTPS": "false",
}
ACCOUNTS = """
from codservice.accounts.models import Account, ApiKey, User
for name in {names}:
    holder = User.objects.create(username=f"{{name}}@example.dz", email=f"{{name}}@example.dz")
    account = Account.objects.create(name=name, holder=holder, rate_limit=100_000_000)
    print(account.id, ApiKey.issue(account, name=name)[1])
"""


class Merchant(NamedTuple):
    """The id of an account without a rate limit, and a key of it."""

    id: str
    key: str


class Installation:
    """A data folder: the environment for it, and what can be done with its database."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self.environ = {name: value for name, value in os.environ.items() if name not in OWN} | settings
        self.environ |= {"DATA_DIR": str(data_dir)}
        self.database = data_folder.database_url(data_dir)

    def sql(self, statement: str) -> str:
        return psql(self.database, statement)

    def write(self, statement: str, count: int, chunk: int = 100_000, **values: object) -> None:
        """Write `count` rows by a statement for those from {first} to {last}, in which `values` have places too."""
        for first in range(1, count + 1, chunk):
            last = min(first + chunk - 1, count)
            self.sql(statement.format(first=first, last=last, count=count, **values))
            print(f"  {last:>10} of {count} rows", flush=True)

    def another_database(self, name: str) -> str:
        """Make another database in the same PostgreSQL, and return its URL."""
        self.sql(f"CREATE DATABASE {name}")
        return f"{self.database.rpartition('/')[0]}/{name}"

    def python(self, *arguments: str) -> str:
        """Run Python with these arguments, and return what it prints on stdout."""
        command = [sys.executable, "-W", "ignore", *arguments]
        done = subprocess.run(command, cwd=CHECKOUT, env=self.environ, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments[:2])} failed:\n{done.stderr[-2000:]}")
        return done.stdout.strip()

    def shell(self, code: str) -> str:
        """Run code with Django set up, and return what it prints."""
        return self.python("manage.py", "shell", "-v0", "--no-imports", "-c", code)

    def merchants(self, *names: str) -> list[Merchant]:
        return [Merchant(*line.split()) for line in self.shell(ACCOUNTS.format(names=names)).splitlines()]

    def merchant(self, name: str) -> Merchant:
        return self.merchants(name)[0]


class Service(Installation):
    """A running service."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        port = free_port()
        super().__init__(data_dir, PORT=str(port), **settings)
        self.url = f"http://127.0.0.1:{port}"
        self.api = f"{self.url}/api/v1"
        self.orders = f"{self.api}/orders"

    def session(self, key: str) -> requests.Session:
        """A merchant's client, which keeps its connection."""
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {key}"
        return session

    def answers(self, path: str) -> bool:
        try:
            return urllib.request.urlopen(self.url + path, timeout=2).status == 200
        except OSError:
            return False

    @contextmanager
    def started(self, *command: str, folder: Path = CHECKOUT, path: str = "/readyz") -> Iterator[None]:
        """Run a command, and yield when `path` is answered. Its output is only shown if it does not start."""
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(command, cwd=folder, env=self.environ, stdout=said, stderr=said)
            try:
                deadline = time.monotonic() + START_SECONDS
                while not self.answers(path):
                    if process.poll() is not None or time.monotonic() > deadline:
                        said.seek(0)
                        raise SystemExit(f"The service did not start:\n{said.read()[-2000:]}")
                    time.sleep(0.02)
                yield
            finally:
                process.terminate()
                process.wait(60)


@contextmanager
def data_folder_of_its_own() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="codservice-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(data_folder.Layout(folder).runtime, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def storage() -> Iterator[Installation]:
    """Run PostgreSQL and Valkey as `make run` starts them, with all migrations."""
    with data_folder_of_its_own() as folder, ExitStack() as stack:
        secrets(folder)
        layout = data_folder.Layout(folder)
        for process in (postgres(layout), valkey(layout)):
            child = spawn(process)
            stack.callback(child.wait)
            stack.callback(child.send_signal, signal.SIGINT)
            if not becomes_ready(process, child, seconds=START_SECONDS):
                raise SystemExit(f"The {process.name} did not start.")
        installation = Installation(folder)
        installation.python("manage.py", "migrate", "-v0")
        yield installation


@contextmanager
def with_django(**settings: str) -> Iterator[Installation]:
    """Run `storage`, with Django set up for it in this process."""
    with storage() as installation:
        os.environ.update(installation.environ, DJANGO_SETTINGS_MODULE="codservice.settings", **settings)
        django.setup()
        yield installation


@contextmanager
def running(**settings: str) -> Iterator[Service]:
    """Run the whole service as `make run` starts it."""
    with data_folder_of_its_own() as folder:
        service = Service(folder, **settings)
        with service.started(sys.executable, "-m", "codservice.onebox"):
            yield service
