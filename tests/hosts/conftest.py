"""The service over ten hosts: two webs, two workers, two beats, one database with PgBouncer, one Redis, and outside of
it a receiver and a client."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
import pytest
from cryptography.fernet import Fernet

from codservice import embedded
from codservice.embedded.layout import Layout, make_data_folder
from codservice.embedded.postgres import postgres
from codservice.embedded.valkey import valkey
from codservice.run.process import Process, spawn
from tests.run.conftest import CHECKOUT, eventually

from .lan import Host, Switch
from .traffic import Shop

OPERATIONS = CHECKOUT / "docs/operations"
# As production has it, except that nobody compiles, and that the receiver's address is private.
ROLES = {"web": ("web1", "web2"), "worker": ("worker1", "worker2"), "beat": ("beat1", "beat2")}
NETWORKS = {"worker": ("lan", "internet")}


class Deployment:
    """The service's processes on their hosts, and what the test looks at from outside of all hosts."""

    def __init__(self, switch: Switch, folder: Path) -> None:
        self.folder = folder
        self.switch = switch
        self.database = switch.add("database", "lan")
        self.redis = switch.add("redis", "lan")
        self.roles = {name: role for role, names in ROLES.items() for name in names}
        for name, role in self.roles.items():
            switch.add(name, *NETWORKS.get(role, ("lan",)))
        self.receiver = switch.add("receiver", "internet")
        self.client = switch.add("client", "lan")
        self.layout = Layout(folder / "database")
        self._secrets = {"SECRET_KEY": "k" * 50, "ENCRYPTION_KEYS": Fernet.generate_key().decode()}

    def __getitem__(self, name: str) -> Host:
        return self.switch.hosts[name]

    # --- What runs where -------------------------------------------------------------------------------------------

    def start(self) -> None:
        make_data_folder(self.layout)
        self._spawn(self.database, postgres(self.layout))
        broker = valkey(self.layout)
        address = ["--port", "6379", "--bind", self.redis.address(), "--protected-mode", "no"]
        self._spawn(self.redis, replace(broker, command=[*broker.command, *address]))
        self.rows((OPERATIONS / "pgbouncer/role.sql").read_text())
        self._start_pgbouncer()
        self.manage("-m", "codservice.run.prepare")
        for name in self.roles:
            self.start_role(name)

    def start_role(self, name: str) -> None:
        """The process of this host's role, as its container would start it."""
        host = self[name]
        environment = {
            **self._environment,
            "DATABASE_URL": f"postgresql://codservice@{self.database.address()}:6432/codservice",
            "DATABASE_PGBOUNCER": "true",
            "DATA_DIR": str(self.folder / name),
            "HOST": host.address(),
        }
        (self.folder / name).mkdir(exist_ok=True)
        command = [sys.executable, "-B", "-m", f"codservice.run.{self.roles[name]}"]
        host.run(command, environment=environment, output=self.log(name))

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def manage(self, *arguments: str) -> str:
        """Run a command as an operator does beside the database: without PgBouncer."""
        environment = self._environment | {"DATABASE_URL": embedded.database_url(self.layout.data)}
        with self.database.inside():
            done = subprocess.run(
                [sys.executable, "-B", *arguments], env=environment, cwd=CHECKOUT, capture_output=True, text=True
            )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def _environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **inherited,
            **self._secrets,
            "REDIS_URL": f"redis://{self.redis.address()}:6379/0",
            "ALLOWED_HOSTS": "shop.example",
            "TRUSTED_PROXIES": "1",
            "WEB_WORKERS": "1",
            "WEB_THREADS": "4",
            "WEBHOOK_ALLOW_PRIVATE": "true",
        }

    def _spawn(self, host: Host, process: Process) -> None:
        if process.before_start:
            process.before_start()
        with host.inside():
            host.running.append(spawn(process))  # type: ignore[arg-type]
        eventually(lambda: process.is_ready is None or process.is_ready(), 40)

    def _start_pgbouncer(self) -> None:
        """With the configuration that operators get; only where PostgreSQL is and who may log in is the test's."""
        socket = unquote(urlsplit(embedded.database_url(self.layout.data)).netloc.partition("@")[2]).rpartition(":")[0]
        users = self.layout.runtime / "users.txt"
        users.write_text('"codservice" ""\n')
        users.chmod(0o644)
        file = self.layout.runtime / "pgbouncer.ini"
        ours = (OPERATIONS / "pgbouncer/pgbouncer.ini").read_text()
        changes = f"auth_type = trust\nauth_file = {users}\nlisten_addr = {self.database.address()}\n"
        file.write_text(f"{ours}\n{changes}\n[databases]\ncodservice = host={socket} port=5432\n")
        file.chmod(0o644)
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        environment = {"PATH": os.environ["PATH"]}
        self.database.run([*as_nobody, program, "-q", str(file)], environment=environment, output=self.log("pgbouncer"))

    # --- What the test looks at ------------------------------------------------------------------------------------

    def rows(self, sql: str, *parameters: Any) -> Sequence[Any]:
        """Past PgBouncer and all links."""
        with psycopg.connect(embedded.database_url(self.layout.data), autocommit=True) as connection:
            cursor = connection.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def one(self, sql: str, *parameters: Any) -> Any:
        ((value,),) = self.rows(sql, *parameters)
        return value

    def is_ready(self, name: str, shop: Shop) -> bool:
        with self.client.inside():
            return shop.request(self[name].address(), "GET", "/readyz")[0] == 200


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    if os.geteuid() != 0 or not Path("/sys/class/net").exists():
        pytest.skip("Network namespaces need Linux and root: run `sudo make test-hosts`.")
    assert shutil.which("pgbouncer") or Path("/usr/sbin/pgbouncer").exists(), "install the package pgbouncer"
    switch = Switch()
    try:
        made = Deployment(switch, tmp_path)
        made.start()
        yield made
    finally:
        switch.close()
        shutil.rmtree(Layout(tmp_path / "database").runtime, ignore_errors=True)
