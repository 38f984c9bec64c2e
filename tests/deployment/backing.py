"""PostgreSQL, PgBouncer and Redis as processes to spawn, which other hosts and users reach by TCP."""

import shutil
import subprocess
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import psycopg

from codservice import data_folder
from codservice.data_folder import Layout, make_data_folder
from codservice.onebox.postgres import postgres, server_user
from codservice.onebox.process import Process, becomes_ready, spawn
from codservice.onebox.valkey import valkey
from tests.harness.background import PATIENCE
from tests.harness.processes import CHECKOUT

OPERATIONS = CHECKOUT / "docs/operations"
PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


def start(process: Process) -> "subprocess.Popen[bytes]":
    popen = spawn(process)
    assert becomes_ready(process, popen, seconds=PATIENCE)
    return popen  # type: ignore[return-value]


def database(layout: Layout) -> Process:
    make_data_folder(layout)
    return postgres(layout)


def prepare_role(layout: Layout) -> None:
    """Prepare the role for PgBouncer, as operators do once."""
    with psycopg.connect(data_folder.database_url(layout.data), autocommit=True) as connection:
        connection.execute((OPERATIONS / "pgbouncer/role.sql").read_text())


def redis(layout: Layout, address: str, port: int = 6379) -> Process:
    process = valkey(layout)
    more = ["--port", str(port), "--bind", address, "--protected-mode", "no"]
    return replace(process, command=[*process.command, *more])


def pgbouncer(layout: Layout, address: str, port: int = 6432) -> Process:
    """PgBouncer with the operators' configuration, except for PostgreSQL's address, its own, and who may log in."""
    assert PROGRAM, "install the package pgbouncer"
    socket = unquote(urlsplit(data_folder.database_url(layout.data)).netloc.partition("@")[2]).rpartition(":")[0]
    users = layout.runtime / "users.txt"
    users.write_text('"codservice" ""\n')
    users.chmod(0o644)
    changes = f"auth_type = trust\nauth_file = {users}\nlisten_addr = {address}\nlisten_port = {port}\n"
    changes += f"[databases]\ncodservice = host={socket} port=5432\n"
    file = layout.runtime / "pgbouncer.ini"
    file.write_text((OPERATIONS / "pgbouncer/pgbouncer.ini").read_text() + changes)
    file.chmod(0o644)
    options = server_user(layout).options()  # it refuses to run as root
    return Process("pgbouncer", [PROGRAM, "-q", str(file)], options=options, log=layout.data / "pgbouncer.log")
