"""Backup and restore as in the operators' manual: into a fresh cluster, which then goes on serving."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from datetime import timedelta
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from codservice import data_folder
from codservice.accounts.actor import Actor
from codservice.files.new_file import draft_of, new_file
from codservice.onebox import postgres
from codservice.onebox.postgres import database_of
from codservice.operations import checks, dumps
from inventory import stock
from orders import lifecycle
from tests import factories
from tests.harness.background import PATIENCE, Background, eventually
from tests.harness.client import browser_of
from tests.harness.database import database_url, environment, one
from tests.harness.onebox import OneBox
from tests.harness.processes import CHECKOUT, descendants
from tests.harness.python import FreshPython, Python, run_python
from webhooks import registry
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db(transaction=True)
COMMAND = Actor.of_command("test")
SESSIONS = ("django_session", "accounts_signin")
ANALYZING = (
    "Everything was restored. It is now analyzed, so that searches are fast. You may stop this:"
    " PostgreSQL does it later by itself.\n"
)


def manage(*args, **changes):
    """Run a management command in its own process, on the tests' database unless `DATA_DIR` says another."""
    environ = environment() if "DATA_DIR" not in changes else {**os.environ}
    if "DATA_DIR" in changes:
        for name in ("DATABASE_URL", "REDIS_URL"):
            environ.pop(name, None)
    return run_python("manage.py", *args, env=environ | changes)


def checksums(session):
    """Return for each table the count and checksum of its rows, and for each sequence its position."""
    names = session.execute(
        "SELECT c.relname, c.relkind FROM pg_class c WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'p', 'S')"
    ).fetchall()
    rows = "SELECT count(*), md5(COALESCE(string_agg(t::text, E'\\n' ORDER BY t::text), '')) FROM {} t"
    place = "SELECT last_value, is_called FROM {}"
    return {name: session.execute((place if kind == "S" else rows).format(name)).fetchone() for name, kind in names}


@pytest.fixture
def deliveries(alice, register, delivery_of, receiver):
    """Orders in every status, stock, and deliveries in every state. The value maps kinds to deliveries."""
    for move in ([], ["confirm"], ["confirm", "ship"], ["confirm", "ship", "deliver"], ["cancel"]):
        order = factories.make_order(alice, notes="ملاحظة")
        for name in move:
            agent = Actor.of_staff(factories.AgentFactory(role="Supervisors"))
            lifecycle.move(name, order.id, actor=COMMAND if name in ("ship", "deliver") else agent)
    factories.ProductFactory(account=alice, sku="ROB-1", stock_quantity=0)
    stock.set_quantities(alice.id, [stock.Update(quantity=7, sku="ROB-1")], actor=COMMAND)
    webhook, gone = register(alice, receiver.url("/hook")), register(alice, receiver.url("/gone"))
    delivery_of(gone)
    registry.delete(alice.id, gone.id)
    return {
        "due": delivery_of(webhook),
        "retry": delivery_of(webhook, attempts=1),
        "later": delivery_of(webhook, attempts=1, next_attempt_at=timezone.now() + timedelta(hours=2)),
        "delivered": delivery_of(webhook, "delivered", attempts=2),
        "failed": delivery_of(webhook, "failed", attempts=4),
        "dropped": Delivery.objects.get(webhook=gone),
    }


@pytest.fixture
def backup(deliveries, alice, tmp_path):
    browser_of(alice.holder)
    file, said = tmp_path / "codservice.dump", StringIO()
    call_command("backup", str(file), "--json", stdout=said)
    assert json.loads(said.getvalue()) == {"file": str(file), "bytes": file.stat().st_size}
    return file


@pytest.mark.process
def test_a_program_that_has_much_to_say_is_heard_to_its_end(tmp_path, monkeypatch):
    """A pipe that nobody reads is full after 64 KiB, and its writer then waits for ever."""
    program = tmp_path / "pg_dump"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "for _ in range(10_000): print('pg_dump: warning: circular foreign keys', file=sys.stderr)\n"
        "sys.exit('pg_dump: error: the dump has ended here')\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(dumps, "find_client", lambda *args, **kwargs: program)
    dumping = Background(lambda: dumps.dump(tmp_path / "a.dump", tell=lambda count: None))

    with pytest.raises(dumps.Failed, match=r"^the dump has ended here"):
        dumping.result()

    assert list(tmp_path.iterdir()) == [program]


@pytest.mark.process
@pytest.mark.parametrize("use", [lambda file: dumps.dump(file, tell=lambda count: None), dumps.restore])
def test_what_a_program_says_in_another_encoding_than_ours_is_told(use, tmp_path, monkeypatch):
    """As it names a file whose name is in another."""
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\n[ $1 = --list ] && echo '; Archive created at 2026-11-21 08:00:00 UTC' && exit\n"
        "printf 'program: error: could not open \\351t\\351\\n' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(dumps, "find_client", lambda *args, **kwargs: program)

    with pytest.raises(dumps.Failed, match=r"^program: error: could not open .t.$"):
        use(tmp_path / "a.dump")


@pytest.mark.process
@pytest.mark.parametrize(
    ("ends", "is_damaged"),
    [
        ("kill -SEGV $$", True),
        ("kill -KILL $$", False),  # as where the machine's memory is full
        ("echo 'pg_restore: error: could not read from input file: end of file' >&2; exit 1", True),
        ("echo 'pg_restore: error: unsupported version (1.17) in file header' >&2; exit 1", False),
        ("echo 'COPY accounts_account FROM stdin;'; echo 7", True),  # and that is all
        ("echo 'SELECT nobody;'", False),
        (r"printf 'SELECT \263;\n'", True),
    ],
)
def test_of_a_damaged_file_it_is_said_and_of_any_other_postgresqls_own_reason(ends, is_damaged, tmp_path, monkeypatch):
    program, file = tmp_path / "pg_restore", tmp_path / "a.dump"
    created = "; Archive created at 2026-11-21 08:00:00 UTC"
    program.write_text(f"#!/bin/sh\n[ $1 = --list ] && echo '{created}' && exit\n{ends}\n")
    program.chmod(0o755)
    monkeypatch.setattr(dumps, "find_client", lambda *args, **kwargs: program)

    with pytest.raises(dumps.Failed) as raised:
        dumps.restore(file)

    said = re.fullmatch(rf"{file} is damaged or not whole \((.+)\)\. Take another backup\.", str(raised.value))
    assert (said is not None) == is_damaged, raised.value


def test_a_file_in_which_bytes_were_changed_is_said_to_be_damaged(backup, empty):
    data = bytearray(backup.read_bytes())
    for place in range(len(data) // 2, len(data) // 2 + 200):
        data[place] ^= 0xFF
    backup.write_bytes(data)

    done = manage("restore", str(backup), DATABASE_URL=empty)

    assert done.stderr.startswith(f"CommandError: Nothing was restored: {backup} is damaged or not whole (")
    with psycopg.connect(empty) as session:
        assert session.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def new_data_folder(path, *, keys=True):
    """Where a service is to be restored: empty, but for the secrets that were kept."""
    path.mkdir(mode=0o700)
    if keys:
        shutil.copy(Path(os.environ["DATA_DIR"]) / "secrets.env", path)
    return path


def test_a_restored_service_has_all_rows_and_sends_nothing_twice(deliveries, backup, receiver, tmp_path, run):
    made_by = timezone.now()
    with psycopg.connect(data_folder.database_url(Path(os.environ["DATA_DIR"])), dbname=database_name()) as session:
        before = checksums(session)
    assert before["orders_order"][0] == 5
    assert before["webhooks_attempt"][0] == 8
    assert [before.pop(table)[0] for table in SESSIONS] == [1, 1]
    data = new_data_folder(tmp_path / "restored")

    done = manage("restore", str(backup), DATA_DIR=str(data))

    assert (done.returncode, done.stderr) == (0, ANALYZING)
    with database_of(data_folder.Layout(data)), psycopg.connect(data_folder.database_url(data)) as session:
        after = checksums(session)
        (backup_at,) = session.execute("SELECT backup_at FROM webhooks_feedgap").fetchone()
        assert timedelta(0) <= made_by - backup_at < timedelta(minutes=1)
        for table in "webhooks_feedera", "webhooks_feedgap", "webhooks_feedgap_id_seq":
            assert before.pop(table) != after.pop(table)
    assert [after.pop(table)[0] for table in SESSIONS] == [0, 0], "whoever reads a backup could go on with sessions"
    assert after == before

    # It starts and all its parts are well. What was due at the backup is sent, and nothing else.
    service: OneBox = run(data=data, module="codservice.onebox", WEBHOOK_ALLOW_PRIVATE="true").wait_until_up()
    expected = {str(deliveries[name].id) for name in ("due", "retry")}
    eventually(lambda: {request.delivery for request in receiver.requests} == expected)
    eventually(lambda: manage("check_service", DATA_DIR=str(data)).returncode == 0)
    assert len(receiver.requests) == 2
    assert service.query("SELECT count(*) FROM webhooks_delivery WHERE status = 'pending'") == 1
    # A running service can be backed up as well.
    again = manage("backup", str(tmp_path / "again.dump"), DATA_DIR=str(data))
    assert again.returncode == 0, again.stderr
    assert service.stop() == 0


def test_sessions_in_a_dump_that_was_made_otherwise_are_not_restored(alice, tmp_path, monkeypatch):
    """As in one by pg_dump itself, or by a version that kept them."""
    browser_of(alice.holder)
    file, data = tmp_path / "codservice.dump", new_data_folder(tmp_path / "restored")
    assert [one(f"SELECT count(*) FROM {table}") for table in SESSIONS] == [1, 1]
    monkeypatch.setattr(dumps, "_SESSIONS", ())
    call_command("backup", str(file), stdout=StringIO())

    done = manage("restore", str(file), DATA_DIR=str(data))

    assert (done.returncode, done.stderr) == (0, ANALYZING)
    with database_of(data_folder.Layout(data)), psycopg.connect(data_folder.database_url(data)) as session:
        counts = checksums(session)
    assert [counts[table][0] for table in (*SESSIONS, "accounts_account")] == [0, 0, 1]


def test_a_postgresql_older_than_the_client_takes_it_too(backup, tmp_path, monkeypatch):
    """The service runs on 15 and newer. Its commands take the newest client on the machine."""
    data = new_data_folder(tmp_path / "restored")
    find = postgres.find_postgres
    monkeypatch.setattr(postgres, "find_postgres", lambda **wanted: find(**wanted | {"major": 16}))
    with database_of(data_folder.Layout(data)):
        pass  # creates an empty cluster

    done = manage("restore", str(backup), DATA_DIR=str(data))

    assert (done.returncode, done.stderr) == (0, ANALYZING)
    with database_of(data_folder.Layout(data)), psycopg.connect(data_folder.database_url(data)) as session:
        assert session.info.server_version < 170000
        assert session.execute("SELECT count(*) FROM orders_order").fetchone() == (5,)


def database_name():
    return connection.settings_dict["NAME"]


@pytest.mark.process
def test_nothing_that_is_there_is_overwritten(backup, tmp_path):
    with pytest.raises(CommandError, match="already has tables"):
        call_command("restore", str(backup))
    (link := tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for taken in (backup, link):
        with pytest.raises(CommandError, match=rf"^{taken} already exists\. Choose another name\.$"):
            call_command("backup", str(taken))


def test_a_data_folder_that_cannot_be_locked_is_said_to_be_one(tmp_path):
    data = new_data_folder(tmp_path / "data")
    (data / "lock").mkdir()
    file = tmp_path / "a.dump"
    file.touch()
    said = f"DATA_DIR {data} cannot be locked: Is a directory.\n"

    assert manage("restore", str(file), DATA_DIR=str(data)).stderr == f"CommandError: Nothing was restored: {said}"
    assert manage("backup", f"{file}.new", DATA_DIR=str(data)).stderr == f"CommandError: No backup was made: {said}"


def test_where_postgresql_does_not_start_its_own_reason_is_told(tmp_path):
    layout = data_folder.Layout(new_data_folder(tmp_path / "data"))
    with database_of(layout):
        pass
    (layout.cluster / "global" / "pg_control").unlink()

    said = manage("backup", str(tmp_path / "a.dump"), DATA_DIR=str(layout.data)).stderr
    assert f"No backup was made: PostgreSQL did not start. {layout.data}/postgres.log says: " in said
    assert "global/pg_control" in said


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_database_that_is_away_is_said_to_be_with_what_to_do(command, tmp_path):
    file = tmp_path / "a.dump"
    if command == "restore":
        file.touch()
    told = manage(command, str(file), DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing")
    assert told.returncode == 1
    assert told.stderr.startswith("CommandError: The database cannot be used: ")
    assert told.stderr.endswith(". Check PostgreSQL and DATABASE_URL.\n")


def test_half_a_backup_restores_nothing_and_without_the_keys_it_says_what_is_missing(backup, tmp_path):
    half = tmp_path / "half.dump"
    half.write_bytes(backup.read_bytes()[: backup.stat().st_size * 2 // 3])
    data = new_data_folder(tmp_path / "restored", keys=False)

    done = manage("restore", str(half), DATA_DIR=str(data))

    assert done.returncode == 1
    assert done.stderr.startswith(f"CommandError: Nothing was restored: {half} is damaged or not whole (")
    assert done.stderr.endswith("). Take another backup.\n")
    assert "has no tables" in manage("backup", str(tmp_path / "none.dump"), DATA_DIR=str(data)).stderr

    done = manage("restore", str(backup), DATA_DIR=str(data))

    assert done.returncode == 1
    assert "Everything was restored. Of the signing secrets, some cannot be read (unreadable: 1)" in done.stderr
    assert "ENCRYPTION_KEYS" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "told", "code"),
    [
        ("backup", signal.SIGINT, -signal.SIGINT),
        ("backup", signal.SIGTERM, 143),
        ("backup", signal.SIGHUP, 129),
        ("export_account", signal.SIGTERM, 143),
    ],
)
def test_what_is_interrupted_leaves_no_file(command, told, code, alice, tmp_path):
    file = tmp_path / "interrupted"
    arguments = arguments_of(command, alice)
    with psycopg.connect(data_folder.database_url(Path(os.environ["DATA_DIR"])), dbname=database_name()) as other:
        other.execute("LOCK TABLE orders_order")  # the command waits for it
        running = subprocess.Popen(
            [sys.executable, "manage.py", command, str(file), *arguments],
            cwd=CHECKOUT,
            env=environment(),
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(told, signal.SIG_DFL),  # `nohup make test` makes everything ignore SIGHUP
        )
        eventually(lambda: waiting(other) == 1)
        running.send_signal(told)
        assert running.wait(PATIENCE) == code
        eventually(lambda: waiting(other) == 0)

    assert list(tmp_path.iterdir()) == []


STOPPED = """
import subprocess, sys
from django.core.management import execute_from_command_line

begin = subprocess.Popen.__init__

def begin_and_be_stopped(self, command, **options):
    begin(self, command, **options)
    if "--format=custom" in command:
        sys.stdin.read()
        raise SystemExit(143)

subprocess.Popen.__init__ = begin_and_be_stopped
execute_from_command_line(["manage.py", "backup", sys.argv[1]])
"""


def test_what_is_stopped_while_it_starts_pg_dump_leaves_none(tmp_path):
    with psycopg.connect(data_folder.database_url(Path(os.environ["DATA_DIR"])), dbname=database_name()) as other:
        other.execute("LOCK TABLE orders_order")
        running = subprocess.Popen(
            [sys.executable, "-c", STOPPED, str(tmp_path / "interrupted")],
            cwd=CHECKOUT,
            env=environment(),
            stdin=subprocess.PIPE,
        )
        eventually(lambda: waiting(other) == 1)
        running.communicate(timeout=PATIENCE)
        assert running.returncode == 143
        eventually(lambda: waiting(other) == 0)

    assert list(tmp_path.iterdir()) == []


# Tells itself to stop while it forks pg_dump, and while it makes the draft. Python drops what is raised amid a fork.
STOPPED_AMID = """
import os, signal, sys
from django.core.management import execute_from_command_line

amid, told, *arguments = sys.argv[1:]
signal.signal(int(told), signal.default_int_handler if int(told) == signal.SIGINT else signal.SIG_DFL)
make = os.open

def make_and_be_stopped(path, flags, *more, **options):
    made = make(path, flags, *more, **options)
    if flags & os.O_EXCL:
        os.kill(os.getpid(), int(told))
    return made

if amid == "fork":
    os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), int(told)))
else:
    os.open = make_and_be_stopped
execute_from_command_line(["manage.py", *arguments])
"""


@pytest.mark.parametrize(
    ("told", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize(("amid", "command"), [("fork", "backup"), ("draft", "backup"), ("draft", "export_account")])
def test_whatever_it_does_when_it_is_stopped_it_stops_and_leaves_no_file(amid, command, told, code, alice, tmp_path):
    arguments = arguments_of(command, alice)
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED_AMID, amid, str(int(told)), command, str(tmp_path / "interrupted"), *arguments],
        cwd=CHECKOUT,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (ended.returncode, "Stopped." in ended.stderr.splitlines()) == (code, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["backup", "export_account"])
def test_no_file_of_the_name_is_there_before_it_is_whole(command, alice, tmp_path):
    """Whatever copies files elsewhere must not find half a file, whatever happens to the machine meanwhile."""
    file, draft = tmp_path / "a.file", tmp_path / "a.file.part"
    arguments = arguments_of(command, alice)
    with psycopg.connect(data_folder.database_url(Path(os.environ["DATA_DIR"])), dbname=database_name()) as other:
        other.execute("LOCK TABLE orders_order")
        running = Python("manage.py", command, str(file), *arguments, env=environment())
        eventually(lambda: waiting(other) == 1)
        assert list(tmp_path.iterdir()) == [draft]
        running.kill()
        running.wait(PATIENCE)
        if command == "backup":
            eventually(lambda: waiting(other) == 0)
    assert not file.exists()

    with pytest.raises(CommandError, match=rf"^{draft} already exists\. Choose another name\.$"):
        call_command(command, str(file), *arguments)
    draft.unlink()
    call_command(command, str(file), *arguments)
    assert list(tmp_path.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_whole_files_name_is_on_the_disk_with_it(tmp_path, monkeypatch):
    """A machine that crashes may lose the name of a file whose bytes it has written."""
    kept, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda opened: (kept.append(os.readlink(f"/proc/self/fd/{opened}")), fsync(opened))
    )
    with new_file(tmp_path / "whole") as draft:
        draft.write_bytes(b"1")
    assert kept == [str(draft), str(tmp_path)]
    assert list(tmp_path.iterdir()) == [tmp_path / "whole"]


def test_a_draft_that_is_replaced_while_it_is_brought_to_the_disk_is_not_ours(tmp_path, monkeypatch):
    path, fsync = tmp_path / "r.csv", os.fsync
    with ExitStack() as later:

        def replace_meanwhile(opened):
            monkeypatch.setattr(os, "fsync", fsync)
            later.enter_context(new_file(path, replaces=True)).write_bytes(b"the later one's")
            fsync(opened)

        monkeypatch.setattr(os, "fsync", replace_meanwhile)
        with pytest.raises(OSError, match="removed or replaced"), new_file(path, replaces=True) as draft:
            draft.write_bytes(b"1")
    assert path.read_bytes() == b"the later one's"


def test_a_file_whose_draft_was_removed_is_not_said_to_exist(tmp_path, alice):
    file = tmp_path / "out.zip"

    def remove_meanwhile(*args):
        draft_of(file).unlink()
        return iter([b"1"])

    with (
        patch("codservice.files.account_export.stream", remove_meanwhile),
        pytest.raises(CommandError, match="its draft was removed or replaced"),
    ):
        call_command("export_account", str(file), *arguments_of("export_account", alice))


@pytest.mark.parametrize("command", ["backup", "export_account"])
def test_a_name_that_is_no_files_is_a_sentence(command, alice):
    with pytest.raises(CommandError, match=r"^\. cannot be written: Is a directory\.$"):
        call_command(command, "", *arguments_of(command, alice))


def arguments_of(command, account):
    return ["--account", account.holder.email] if command == "export_account" else []


def waiting(session):
    found = session.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'orders_order'::regclass")
    return found.fetchone()[0]


@pytest.mark.process
def test_what_is_restored_is_analyzed_however_long_that_takes():
    with connection.cursor() as cursor:
        cursor.execute("CREATE FUNCTION slow(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
                       " $$ BEGIN PERFORM pg_sleep(0.02); RETURN $1; END $$")  # fmt: skip
        try:
            cursor.execute("CREATE TABLE looked_at AS SELECT generate_series(1, 20) AS n")
            cursor.execute("CREATE INDEX ON looked_at (slow(n))")
            cursor.execute("SET statement_timeout = '200ms'")
            dumps.analyze()
            assert one("SELECT count(*) FROM pg_stats WHERE tablename LIKE 'looked_at%%'") == 2  # of `n` and `slow(n)`
        finally:
            cursor.execute("SET statement_timeout = 0")
            cursor.execute("DROP TABLE looked_at")
            cursor.execute("DROP FUNCTION slow")
            connection.close()


@pytest.mark.process
def test_what_cannot_be_analyzed_is_restored_all_the_same():
    """Autovacuum looks at it later."""
    with psycopg.connect(database_url()) as other:
        other.execute("LOCK TABLE orders_order")
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '50ms'")
            dumps.analyze()
            assert one("SELECT 1") == 1, "what comes next can ask the database"
        finally:
            connection.close()


@pytest.fixture
def empty():
    """The URL of an empty database."""
    name = f"{database_name()}_empty"
    with psycopg.connect(database_url(), autocommit=True) as session:
        session.execute(f'CREATE DATABASE "{name}"')
        yield database_url().removesuffix(database_name()) + name
        session.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_whoever_stops_the_analysis_has_all_of_the_backup(backup, empty):
    with psycopg.connect(empty) as session:
        session.execute("CREATE SCHEMA theirs CREATE TABLE held ()")
        session.commit()
        session.execute("LOCK TABLE theirs.held")  # the analysis waits for it
        running = FreshPython(
            *("manage.py", "restore", str(backup)),
            env=environment(DATABASE_URL=empty),
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(
                signal.SIGINT, signal.default_int_handler
            ),  # make in the background ignores it
        )
        eventually(
            lambda: session.execute(
                "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'theirs.held'::regclass"
            ).fetchone()
        )
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=PATIENCE)[1]
        restored = "SELECT count(*), (SELECT count(*) FROM webhooks_feedgap) FROM orders_order"
        assert (running.returncode, session.execute(restored).fetchone()) == (-signal.SIGINT, (5, 1))
    assert said.startswith(f"{ANALYZING}Stopped.\n")


@pytest.mark.process
def test_a_backup_from_before_the_table_of_what_it_lacks_is_noted_too(alice, empty, tmp_path, monkeypatch):
    """As one that is made just before an upgrade, and restored when that goes wrong."""
    file, said = tmp_path / "a.dump", StringIO()
    call_command("migrate", "webhooks", "0013", verbosity=0)
    try:
        call_command("backup", str(file), stdout=StringIO())
    finally:
        call_command("migrate", "webhooks", verbosity=0)
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "NAME", f"{database_name()}_empty")
    try:
        call_command("restore", str(file), stdout=StringIO(), stderr=said)
        assert said.getvalue().startswith("The backup is from an older version. Migrations: ")
        call_command("migrate", verbosity=0)
        assert one("SELECT backup_at > now() - interval '1 hour' FROM webhooks_feedgap")
        assert checks.migrations() == ""
    finally:
        connection.close()


def test_a_backup_is_made_with_every_option_of_the_database_url(tmp_path):
    """Here with a service of libpq's, which names the server, the user and the database."""
    session = connection.get_connection_params()
    known = {name: session[name] for name in ("host", "port", "user", "password", "dbname") if session.get(name)}
    (tmp_path / "services").write_text("[shop]\n" + "".join(f"{name}={value}\n" for name, value in known.items()))
    file = tmp_path / "codservice.dump"
    theirs = {"DATABASE_URL": "postgresql:///?service=shop", "PGSERVICEFILE": str(tmp_path / "services")}
    made = manage("backup", str(file), **theirs)
    assert (made.returncode, file.is_file()) == (0, True), made.stderr


def test_a_backup_is_made_as_the_role_that_the_database_url_names_in_its_options(tmp_path):
    """Some servers also tell by these options which database is meant."""
    who, guest, file = f"//{connection.settings_dict['USER']}", "guest_of_owner", tmp_path / "a.dump"
    password = connection.settings_dict["PASSWORD"]
    make = psycopg.sql.SQL(f"CREATE ROLE {guest} LOGIN NOINHERIT PASSWORD {{}}")
    with psycopg.connect(database_url(), autocommit=True) as session:
        session.execute(make.format(password))
        try:
            session.execute(f"GRANT pg_read_all_data TO {guest}")
            url = f"{database_url().replace(who, f'//{guest}')}?options=-c%20role%3Dpg_read_all_data"
            made = manage("backup", str(file), DATABASE_URL=url)
        finally:
            session.execute(f"DROP ROLE {guest}")
    assert (made.returncode, file.is_file()) == (0, True), made.stderr


def test_no_secret_of_the_database_url_is_in_the_process_list(tmp_path):
    url = f"{database_url()}?sslpassword=not-for-strangers&target_session_attrs=any"
    with psycopg.connect(data_folder.database_url(Path(os.environ["DATA_DIR"])), dbname=database_name()) as other:
        other.execute("LOCK TABLE orders_order")
        running = Python("manage.py", "backup", str(tmp_path / "a.dump"), env=environment(DATABASE_URL=url))
        eventually(lambda: waiting(other) == 1)
        ((_, arguments),) = descendants(running.pid).items()
        running.terminate()
        running.wait(PATIENCE)
    assert "target_session_attrs=any" in arguments
    assert "not-for-strangers" not in arguments


def test_the_manual_word_for_word(deliveries, tmp_path):
    manual = (CHECKOUT / "docs/operators.md").read_text()
    section = manual.partition("## Backup and restore")[2].partition("\n## ")[0]
    backup, restore = re.findall(r"```bash\n(.*?)```", section, re.S)
    places = {name: str(tmp_path / name.lower()) for name in ("BACKUPS", "KEYS", "NEW_DATA_DIR")}
    for name in ("BACKUPS", "KEYS"):
        Path(places[name]).mkdir()

    def follow(script, environ):
        script = script.replace(".venv/bin/python", sys.executable)
        subprocess.run(["bash", "-euc", script], cwd=CHECKOUT, env=environ | places, check=True, timeout=120)

    follow(backup, environment())
    follow(restore, {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")})

    data = Path(places["NEW_DATA_DIR"])
    with database_of(data_folder.Layout(data)), psycopg.connect(data_folder.database_url(data)) as session:
        assert session.execute("SELECT count(*) FROM orders_order").fetchone() == (5,)
