"""Dumps of the database, made and restored by PostgreSQL's own programs with the service's connection settings."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path

import psycopg
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

from codservice import postgresql, restored
from codservice.accounts.models import SignIn
from codservice.data_folder import Layout, is_set
from codservice.files.new_file import new_file
from codservice.onebox.binaries import find_client
from codservice.onebox.postgres import database_of
from codservice.run.kernel import die_with_parent
from codservice.stops import stops_wait

# Options of libpq that hold secrets and that no environment variable gives. pg_dump does without them.
_SECRETS = ("sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
# Dumped and restored without their rows: whoever read a session's key in a backup could go on with the session.
_SESSIONS = (Session._meta.db_table, SignIn._meta.db_table)
# What pg_restore says of a file that may be whole, and PostgreSQL's errors at a script that pg_dump has not written so.
_NO_DAMAGE = re.compile("could not open|unsupported version|not support|text format")
_NONSENSE = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.SyntaxError)
TELL_SECONDS = 0.1
_TABLES = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema AND c.relkind IN ('r', 'p')
"""


class Failed(Exception):
    """PostgreSQL's program failed; the message is its first sentence about why."""


@contextmanager
def database() -> Iterator[None]:
    """Make sure that the database answers while the block runs, by starting the embedded one if no service runs."""
    if is_set("DATABASE_URL"):
        yield
        return
    with database_of(Layout(settings.DATA_DIR)):
        try:
            yield
        finally:
            connection.close()


def is_empty() -> bool:
    """Whether the database has no tables where the session looks for them and creates them."""
    return postgresql.row(_TABLES)[0] == 0


def dump(file: Path, *, tell: Callable[[int], None]) -> None:
    """Write a dump in PostgreSQL's compressed format, readable only by its owner and there only when complete.

    It shows one moment, whatever is being written meanwhile, and has nobody's session. `tell` is called with the number
    of bytes from time to time. Raises Failed, FileExistsError, OSError, CannotStart.
    """
    with new_file(file) as draft:
        _dump_into(draft, tell)


def _dump_into(draft: Path, tell: Callable[[int], None]) -> None:
    target = {name: value for name, value in _target().items() if name not in _SECRETS}
    # In the environment, because everybody can read arguments in the process list.
    environment = os.environ | ({"PGPASSWORD": password} if (password := target.pop("password", "")) else {})
    program = find_client("pg_dump", at_least=_major(), tls=_is_encrypted())
    command = [
        str(program), f"--dbname={make_conninfo(**target)}", "--no-password",
        "--format=custom", "--no-owner", "--no-privileges", f"--file={draft}",
        *(f"--exclude-table-data={table}" for table in _SESSIONS),
    ]  # fmt: skip
    with ExitStack() as at_end:
        with stops_wait():
            running = at_end.enter_context(
                subprocess.Popen(  # noqa: S603  (a program that we looked up)
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",  # it may name a file whose name is in another encoding
                    # If we are killed.
                    preexec_fn=partial(die_with_parent, signal.SIGTERM, os.getpid()),
                )
            )
            at_end.callback(running.terminate)  # does nothing once it has ended
        said = None
        while said is None:
            try:
                # Keeps reading, because a program whose pipe is full stops.
                said = running.communicate(timeout=TELL_SECONDS)[1]
            except subprocess.TimeoutExpired:
                tell(draft.stat().st_size)
    if running.returncode:
        raise _failed("pg_dump", running.returncode, said)


def restore(file: Path) -> None:
    """Write a dump into the empty database, with what is to be noted there: all of it, but for sessions, or nothing.

    Raises Failed, CannotStart.
    """
    backup_at = _begun_at(file)
    # pg_restore only prints the script. If it wrote by itself, version 17 or newer would begin with a setting that
    # servers before 17 refuse.
    command = [str(find_client("pg_restore", at_least=_major())), "--file=-", "--no-owner", "--no-privileges", "--"]
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        try:
            with (
                psycopg.connect(**_target()) as session,  # everything in it is one transaction
                subprocess.Popen(  # noqa: S603  (a program that we looked up)
                    [*command, str(file)],
                    env=_english(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=said,
                ) as running,
            ):
                try:
                    assert running.stdout  # noqa: S101  (it is a pipe)
                    _follow(running.stdout, session)
                except BaseException:
                    running.terminate()
                    raise
                if running.wait():
                    said.seek(0)
                    raise _unread(file, running.returncode, said.read())
                session.execute("RESET search_path")  # the script has emptied it
                for note in restored.NOTES:
                    note(session, backup_at)
        except psycopg.Error as error:
            reason = str(error).partition("\n")[0]
            raise _damaged(file, reason) if isinstance(error, _NONSENSE) else Failed(reason) from error


def analyze() -> None:
    """Have PostgreSQL look at what was restored, so that it plans its queries well. If it cannot, it does so later."""
    try:
        postgresql.execute("SET statement_timeout = 0")  # large tables on a slow disk take their time
        postgresql.execute("ANALYZE")
    except DatabaseError:  # autovacuum will do it
        connection.close()  # it may be broken


def _begun_at(file: Path) -> datetime:
    """When the dump was begun, to the second: it shows a moment of then or later. Raises Failed, CannotStart."""
    command = [str(find_client("pg_restore", at_least=_major())), "--list", "--", str(file)]
    done = subprocess.run(command, env=_english(), capture_output=True, text=True, errors="replace")  # noqa: S603  (as above)
    created = re.search(r"^; Archive created at (\d{4}-.*) UTC$", done.stdout, re.MULTILINE)
    if created is None:
        raise _unread(file, done.returncode, done.stderr)
    return datetime.fromisoformat(created[1]).replace(tzinfo=UTC)


def _follow(script: Iterable[bytes], session: psycopg.Connection) -> None:
    """Execute a script by pg_restore, except lines for psql or for other server versions, and without sessions."""
    passed_over = [b"\\restrict ", b"\\unrestrict "]
    if session.info.server_version < 170000:
        passed_over.append(b"SET transaction_timeout ")
    lines, statements = iter(script), list[bytes]()
    for line in lines:
        if line.startswith(b"COPY ") and line.endswith(b" FROM stdin;\n"):
            session.execute(b"".join(statements))
            statements.clear()
            has_sessions = line.startswith(tuple(f"COPY public.{table} ".encode() for table in _SESSIONS))
            with session.cursor().copy(line) as copy:
                for row in takewhile(b"\\.\n".__ne__, lines):
                    if not has_sessions:
                        copy.write(row)
        elif not line.startswith(tuple(passed_over)):
            statements.append(line)
    session.execute(b"".join(statements))


def _target() -> dict[str, str]:
    """The connection settings for libpq. PostgreSQL's programs lift the time limits among them by themselves."""
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    given = connection.get_connection_params()
    return {name: str(value) for name, value in given.items() if name in known and value not in (None, "")}


def _major() -> int:
    with connection.cursor():
        return connection.pg_version // 10000


def _is_encrypted() -> bool:
    with connection.cursor():
        return bool(connection.connection.pgconn.ssl_in_use)


def _failed(program: str, status: int, said: str) -> Failed:
    lines = [line for line in said.splitlines() if line.strip()] or [f"{program} ended with {status}"]
    first = next((line for line in lines if "error: " in line), lines[0])  # warnings may come first
    return Failed(first.removeprefix(f"{program}: ").removeprefix("error: "))


def _unread(file: Path, status: int, said: str) -> Failed:
    """What pg_restore fails to read, or crashes over, is damaged, unless it gives another reason or was killed."""
    failed = _failed("pg_restore", status, said)
    is_whole = _NO_DAMAGE.search(str(failed)) or status in (-signal.SIGKILL, -signal.SIGTERM)
    return failed if is_whole else _damaged(file, str(failed))


def _damaged(file: Path, reason: str) -> Failed:
    return Failed(f"{file} is damaged or not whole ({reason}). Take another backup.")


def _english() -> dict[str, str]:
    return os.environ | {"TZ": "UTC", "LC_ALL": "C"}
