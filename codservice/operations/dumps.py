"""Dumps of the database: made and restored by PostgreSQL's own programs, from where the service's settings lead."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connection
from psycopg.conninfo import make_conninfo

from codservice.data_folder import Layout
from codservice.onebox.alone import database_of
from codservice.onebox.binaries import find_client
from codservice.onebox.service import is_set

_LIBPQ = ("host", "port", "user", "dbname", "sslmode", "sslrootcert", "sslcert", "sslkey")
TELL_SECONDS = 0.1
_TABLES = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"


class Failed(Exception):
    """PostgreSQL's program could not do it; the message is its first sentence about that."""


@contextmanager
def database() -> Iterator[None]:
    """While the block runs, the database answers; an embedded one is started for it when no service runs."""
    if is_set(os.environ, "DATABASE_URL"):
        yield
        return
    with database_of(Layout(settings.DATA_DIR)):
        try:
            yield
        finally:
            connection.close()


def is_empty() -> bool:
    """Whether the database has no tables."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        return cursor.fetchone()[0] == 0


def dump(file: Path, *, tell: Callable[[int], None]) -> None:
    """Write a dump, in PostgreSQL's own compressed format, that is readable by us alone and there only when complete.

    It shows one moment, beside whatever is being written. `tell` hears from time to time how many bytes there are.
    Raises Failed, FileExistsError, OSError, CannotStart.
    """
    draft = file.with_name(f"{file.name}.part")
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # the name is ours
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={draft}", watch=draft, tell=tell)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        file.unlink(missing_ok=True)
        raise


def restore(file: Path) -> None:
    """Write what a dump holds into the empty database: all of it or, where that fails, nothing.

    Raises Failed, CannotStart.
    """
    _run("pg_restore", "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", "--", str(file))
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")  # large tables on a slow disk take as long as they take
        cursor.execute("ANALYZE")


def _run(
    program: str, *arguments: str, watch: Path | None = None, tell: Callable[[int], None] = lambda count: None
) -> None:
    with connection.cursor():
        major = connection.pg_version // 10000
        given = connection.get_connection_params()
    # The password is not for those who list processes.
    target = make_conninfo(**{name: given[name] for name in _LIBPQ if given.get(name)})
    environment = os.environ | ({"PGPASSWORD": str(given["password"])} if given.get("password") else {})
    command = [str(find_client(program, at_least=major)), f"--dbname={target}", "--no-password", *arguments]
    with subprocess.Popen(  # noqa: S603  (a program that we looked up)
        command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            said = None
            while said is None:
                try:
                    # Reads all the while: a program that nobody listens to stops at a full pipe.
                    said = running.communicate(timeout=TELL_SECONDS)[1]
                except subprocess.TimeoutExpired:
                    if watch is not None:
                        tell(watch.stat().st_size)
        except BaseException:
            running.terminate()
            raise
    if running.returncode:
        lines = [line for line in said.splitlines() if line.strip()] or [f"{program} ended with {running.returncode}"]
        first = next((line for line in lines if "error: " in line), lines[0])  # warnings may come before
        raise Failed(first.removeprefix(f"{program}: ").removeprefix("error: "))
