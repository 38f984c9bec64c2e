"""What the commands have in common."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from codservice.accounts.models import Account
from codservice.commands import Command
from codservice.data_folder import Layout, make_data_folder, own_folder
from tests.deployment import backing
from tests.harness.background import PATIENCE, eventually
from tests.harness.database import database_url, environment
from tests.harness.processes import CHECKOUT, free_port
from tests.harness.python import FreshPython, Python

SHOW = ["deliveries", "--limit", "1"]


def started(*arguments: str, start: type[FreshPython] = Python, **changes: str) -> FreshPython[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return start("manage.py", *arguments, env=environment(**changes), text=True, **pipes)


def said(*arguments: str, start: type[FreshPython] = Python, **changes: str) -> tuple[int, str]:
    """Return a command's exit status, and what it says on stderr."""
    with started(*arguments, start=start, **changes) as running:
        problem = running.communicate(timeout=PATIENCE)[1]
    return running.returncode, problem


@pytest.mark.parametrize(
    ("command", "option", "given"),
    [
        ("webhook_sink", "--port", "65536"),
        ("webhook_sink", "--port", "-1"),
        ("webhook_sink", "--status", "99"),
        ("webhook_sink", "--delay", "-1"),
        ("webhook_sink", "--count", "many"),
        ("deliveries", "--limit", str(2**63)),
        ("deliveries", "--limit", "-1"),
        ("seed_demo", "--seed", "9" * 200),
        ("seed_demo", "--seed", "9" * 5000),
        ("seed_demo", "--orders", "-1"),
        ("check_service", "--timeout", "nan"),
        ("check_service", "--timeout", "1e400"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_in_a_sentence(command, option, given):
    with pytest.raises(CommandError, match=f"argument {option}: “{given}” is not a number from .+ to .+"):
        call_command(command, option, given)


@pytest.mark.parametrize(
    ("total", "count", "said"), [(0, 3, []), (19, 40, []), (40, 41, [f"{part * 5} %" for part in range(1, 21)])]
)
def test_more_may_come_than_were_counted(monkeypatch, total, count, said):
    monkeypatch.setattr("sys.stderr", StringIO())
    err = StringIO()
    assert list(Command(stderr=err).progress(range(count), total=total, unit="orders")) == [*range(count)]
    assert [line.partition(":")[0] for line in err.getvalue().splitlines()] == said


def test_what_is_said_is_in_no_colour_of_an_error() -> None:
    err = StringIO()
    Command(stderr=err, force_color=True).say("2 orders imported.")
    assert err.getvalue() == "2 orders imported.\n"


def test_nothing_in_what_scripts_read_is_obeyed_by_a_terminal() -> None:
    """All of it is still there for whoever reads it as JSON."""
    out, row = StringIO(), {"name": "شريف \x1b[2J \x9b2J \u202e \u2028 é"}
    Command(stdout=out).print_json(row)
    assert json.loads(out.getvalue()) == row
    assert re.findall(r"[\x00-\x09\x7f-\x9f\u2028-\u202e\x1b]", out.getvalue()) == []
    assert "شريف" in out.getvalue()


def test_where_the_systems_encoding_has_no_sign_for_it_utf_8_is_written() -> None:
    theirs = {"start": FreshPython, "PYTHONIOENCODING": "iso8859-6"}
    with started("webhook_sink", "--help", **theirs) as running:
        out, problem = running.communicate(timeout=PATIENCE)
    assert (running.returncode, problem) == (0, "")
    assert "--secret whsec_…" in out
    assert "argument --port: “x” is not a number" in said("webhook_sink", "--port", "x", **theirs)[1]


@pytest.mark.django_db(transaction=True)
def test_the_name_of_a_file_is_written_as_it_was_given_whatever_its_encoding(tmp_path: Path, alice: Account) -> None:
    file = os.fsencode(tmp_path / "boutique-d’Amine").replace("’".encode(), b"\xe9")
    done = subprocess.run(
        [sys.executable, "manage.py", "export_account", "--account", alice.holder.email, file],
        cwd=CHECKOUT, env=environment(PYTHONIOENCODING="utf-8:strict"), capture_output=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout.partition(b": ")[0]) == (0, file), done.stderr


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "arguments",
    [
        ["update_shipments", "courier.csv", "--account", b"am\xe9lie@example.dz"],
        ["turn_codes_off", b"am\xe9lie"],
    ],
    ids=["account", "person"],
)
def test_an_argument_from_a_terminal_that_is_not_utf_8_is_a_sentence(arguments: list[str | bytes]) -> None:
    assert said(*map(os.fsdecode, arguments), start=FreshPython) == (1, "CommandError: An argument is not UTF-8.\n")


def test_what_the_output_cannot_show_is_not_said_to_be_an_argument() -> None:
    class Show(Command):
        def handle(self, **options: Any) -> None:
            "é".encode("ascii")

    with pytest.raises(UnicodeEncodeError):
        call_command(Show())


def test_without_the_service_it_says_whose_data_it_looks_for(tmp_path: Path) -> None:
    status, problem = said(*SHOW, DATABASE_URL="", DATABASE_URL_FILE="", DATA_DIR=str(tmp_path))

    assert status == 1
    assert problem.startswith("CommandError: The database cannot be used: ")
    advice = f". Start `make run` as the same user with DATA_DIR={tmp_path}, or set DATABASE_URL.\n"
    assert problem.endswith(advice)
    assert problem.count("\n") == 1

    with started(
        "check_service", "--timeout", "0", DATABASE_URL="", DATABASE_URL_FILE="", DATA_DIR=str(tmp_path)
    ) as running:
        parts = running.communicate(timeout=PATIENCE)[0].splitlines()
    assert parts[0] == problem.strip().replace("CommandError", "database")
    assert "ledger: cannot be checked. Fix the database first." in parts


def test_without_its_database_it_says_where_it_looked() -> None:
    status, problem = said(*SHOW, DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing")

    assert status == 1
    assert problem.endswith(". Check PostgreSQL and DATABASE_URL.\n")
    assert problem.count("\n") == 1


@pytest.mark.django_db(transaction=True)
def test_where_no_more_connections_are_let_in_it_says_so() -> None:
    """It does not ask whether the database runs, since that has just answered."""
    who, crowded = f"//{connection.settings_dict['USER']}", "one_too_many"
    make = psycopg.sql.SQL(f"CREATE ROLE {crowded} LOGIN CONNECTION LIMIT 0 PASSWORD {{}}")
    with psycopg.connect(database_url(), autocommit=True) as session:
        session.execute(make.format(connection.settings_dict["PASSWORD"]))
        try:
            status, problem = said(*SHOW, DATABASE_URL=database_url().replace(who, f"//{crowded}"))
        finally:
            session.execute(f"DROP ROLE {crowded}")
    assert (status, problem.count("\n")) == (1, 1)
    assert f'too many connections for role "{crowded}". It accepts no more connections. Try again' in problem


@pytest.fixture
def anothers(tmp_path: Path) -> Iterator[tuple[Layout, socket.socket]]:
    """A data folder without a service, whose sockets somebody else has made, as anyone can in /tmp."""
    layout = Layout(tmp_path / "data")
    make_data_folder(layout)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    layout.runtime.symlink_to(elsewhere)
    layout.postgres_socket.parent.mkdir()
    if os.geteuid() == 0:  # the folder itself is somebody else's
        layout.runtime.unlink()
        shutil.move(elsewhere, layout.runtime)
        os.chown(layout.runtime, 12345, -1)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(layout.postgres_socket))
            server.listen()
            server.setblocking(False)
            yield layout, server
    finally:
        if layout.runtime.is_symlink():
            layout.runtime.unlink()
        else:
            shutil.rmtree(layout.runtime)


def test_servers_that_somebody_else_put_there_are_told_nothing(anothers: tuple[Layout, socket.socket]) -> None:
    layout, server = anothers
    status, problem = said(*SHOW, DATABASE_URL="", REDIS_URL="", DATA_DIR=str(layout.data))
    assert (status, problem.count("\n")) == (1, 1)
    assert problem.startswith(f"{layout.runtime} is not a folder owned by user id {os.geteuid()}. Remove it, or ")
    with pytest.raises(BlockingIOError):
        server.accept()


def test_nor_those_that_somebody_put_there_since_the_command_began(
    anothers: tuple[Layout, socket.socket], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, server = anothers
    monkeypatch.delenv("DATABASE_URL")
    settings.DATA_DIR = layout.data
    at_theirs = connection.get_connection_params() | {"host": str(layout.postgres_socket.parent)}
    with pytest.raises(psycopg.OperationalError, match=r"is not a folder owned by user id"):
        connection.get_new_connection(at_theirs)
    with pytest.raises(BlockingIOError):
        server.accept()


def test_behind_pgbouncer_it_says_which_setting_is_missing(tmp_path: Path) -> None:
    layout, port = Layout(tmp_path / "data"), free_port()
    make_data_folder(layout)
    own_folder(layout.runtime, mode=0o711)
    pgbouncer = backing.start(backing.pgbouncer(layout, "127.0.0.1", port))
    try:
        status, problem = said(*SHOW, DATABASE_URL=f"postgresql://codservice@127.0.0.1:{port}/codservice")
    finally:
        pgbouncer.kill()
        pgbouncer.wait()
        shutil.rmtree(layout.runtime)

    assert (status, problem.count("\n")) == (1, 1)
    assert "DATABASE_PGBOUNCER=true" in problem


@pytest.mark.django_db(transaction=True)
def test_where_nothing_can_be_written_it_says_so(alice) -> None:
    url = f"{database_url()}?options=-cdefault_transaction_read_only%3Don"

    status, problem = said("create_api_key", "--account", alice.holder.email, DATABASE_URL=url)

    assert status == 1
    assert problem.startswith("CommandError: The database cannot be used: cannot execute ")
    assert problem.endswith(" in a read-only transaction. Is it a standby, or is its disk full?\n")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("seconds", "advice"),
    [
        ("0", "Another session holds a lock that this needs. Try again."),
        (
            "1",
            "Set DATABASE_STATEMENT_TIMEOUT=0 for this command to give it more time. Behind PgBouncer, which does not "
            "pass that on, also give it PostgreSQL's own address, with DATABASE_PGBOUNCER off.",
        ),
    ],
)
def test_what_takes_too_long_is_told_with_the_way_out(seconds: str, advice: str) -> None:
    with psycopg.connect(database_url()) as other:
        other.execute("LOCK TABLE webhooks_delivery")
        status, problem = said(*SHOW, DATABASE_STATEMENT_TIMEOUT=seconds)

    assert status == 1
    assert problem.startswith("CommandError: The database cannot be used: canceling statement due to ")
    assert problem.endswith(f" timeout. {advice}\n")


@pytest.mark.django_db
def test_without_its_tables_it_says_which_command_makes_them() -> None:
    name = connection.settings_dict["NAME"]

    status, problem = said(*SHOW, DATABASE_URL=database_url().removesuffix(f"/{name}") + "/postgres")

    assert (status, problem) == (1, "CommandError: The database is not up to date. Run `manage.py migrate`.\n")


@pytest.mark.django_db(transaction=True)
def test_at_ctrl_c_it_says_that_it_stops_and_ends_by_the_signal() -> None:
    with psycopg.connect(database_url()) as other:
        other.execute("LOCK TABLE webhooks_delivery")
        with started(*SHOW, start=FreshPython) as running:
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'webhooks_delivery'::regclass"
            eventually(lambda: other.execute(waiting).fetchone() == (1,))
            running.send_signal(signal.SIGINT)
            assert running.communicate(timeout=PATIENCE) == ("", "Stopped.\n")

    assert running.returncode == -signal.SIGINT


@pytest.mark.django_db(transaction=True)
def test_what_asks_for_a_password_without_a_terminal_says_where_to_run_it(alice: Account) -> None:
    nobody = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    arguments = ("manage.py", "changepassword", alice.holder.username)

    # In a session of its own: without the terminal of whoever runs the tests.
    with FreshPython[str](*arguments, env=environment(), text=True, start_new_session=True, **nobody) as running:
        problem = running.communicate(timeout=PATIENCE)[1]

    assert running.returncode == 1
    assert "There is nobody to ask. Run this command in a terminal" in problem
    assert "Traceback" not in problem
