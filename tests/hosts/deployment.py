"""The service on several hosts: two webs, two workers, two beats, a database with PgBouncer and a Redis; and besides it
a receiver and a client."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from cryptography.fernet import Fernet

from codservice import data_folder
from codservice.data_folder import Layout
from tests.deployment import backing
from tests.harness.processes import CHECKOUT

from .lan import Host, Switch
from .traffic import Shop

ROLES = {"web": ("web1", "web2"), "worker": ("worker1", "worker2"), "beat": ("beat1", "beat2")}
NETWORKS = {"worker": ("lan", "internet")}


class Deployment:
    """The service's processes on their hosts, and what the test inspects from outside."""

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
        self._secrets = {"SECRET_KEY": "abcde" * 10, "ENCRYPTION_KEYS": Fernet.generate_key().decode()}

    def __getitem__(self, name: str) -> Host:
        return self.switch.hosts[name]

    # --- Running it ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        with self.database.inside():
            self.database.running.append(backing.start(backing.database(self.layout)))
            backing.prepare_role(self.layout)
            self.database.running.append(backing.start(backing.pgbouncer(self.layout, self.database.address())))
        with self.redis.inside():
            self.redis.running.append(backing.start(backing.redis(self.layout, self.redis.address())))
        self.manage("-m", "codservice.run.prepare")
        for name in self.roles:
            self.start_role(name)

    def start_role(self, name: str) -> None:
        """Start the process of a host's role, as its container would."""
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
        """Run a command as an operator does on the database's host, without PgBouncer."""
        environment = self._environment | {"DATABASE_URL": data_folder.database_url(self.layout.data)}
        with self.database.inside():
            done = subprocess.run(
                [sys.executable, "-B", *arguments], env=environment, cwd=CHECKOUT, capture_output=True, text=True
            )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def _environment(self) -> dict[str, str]:
        """Settings as in production, except that the receiver's address is private, and therefore without HTTPS."""
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **inherited,
            **self._secrets,
            "REDIS_URL": f"redis://{self.redis.address()}:6379/0",
            "ALLOWED_HOSTS": "shop.example",
            "TRUSTED_PROXIES": "1",
            "WEB_WORKERS": "1",
            "WEB_THREADS": "4",
            # With HTTPS the service would refuse to send to the receiver's private address.
            "HTTPS": "false",
            "WEBHOOK_ALLOW_PRIVATE": "true",
        }

    # --- Looking into it -------------------------------------------------------------------------------------------

    def rows(self, sql: str, *parameters: Any) -> Sequence[Any]:
        """Run a query directly, without PgBouncer or any link."""
        with psycopg.connect(data_folder.database_url(self.layout.data), autocommit=True) as connection:
            cursor = connection.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def one(self, sql: str, *parameters: Any) -> Any:
        ((value,),) = self.rows(sql, *parameters)
        return value

    def is_ready(self, name: str, shop: Shop) -> bool:
        with self.client.inside():
            return shop.request(self[name].address(), "GET", "/readyz")[0] == 200
