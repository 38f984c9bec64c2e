"""Our backend for PostgreSQL, where it differs from Django's."""

import select
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, close_old_connections, connection, connections, transaction
from django.db.backends.base import base
from django.test import Client
from psycopg.pq import Format

from codservice import OLDEST_POSTGRES
from codservice.days import ALGIERS
from codservice.postgresql import is_away

SOME = datetime(2026, 3, 1, 23, 30, 5, 7, tzinfo=ALGIERS)


@pytest.mark.django_db
@pytest.mark.parametrize("cursor", [connection.cursor, connection.chunked_cursor])
def test_times_are_read_in_utc_by_what_psycopg_has_for_them(cursor: Any) -> None:
    with cursor() as opened:
        opened.execute("SELECT %s::timestamptz, NULL::timestamptz", [SOME])
        (row,) = opened.fetchall()
    assert row == (SOME, None)
    assert row[0].tzinfo is UTC
    times = psycopg.postgres.types["timestamptz"].oid
    reader = psycopg.adapters.get_loader(times, Format.TEXT)
    assert connection.connection.adapters.get_loader(times, Format.TEXT) is reader


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("57P03", True),
        ("57P05", True),
        ("25P03", True),
        ("25P04", True),
        ("53100", True),
        ("08P01", True),
        ("55P03", False),
    ],
)
def test_by_its_code_an_error_says_whether_the_database_is_away(state: str, expected: bool) -> None:
    """08P01 is PgBouncer's for `server login has been failing`; 55P03 is a lock that was not available in time."""
    with pytest.raises(OperationalError) as raised, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN RAISE 'no' USING ERRCODE = '{state}'; END $$")
    assert is_away(raised.value) is expected


@pytest.mark.django_db(transaction=True)
def test_a_server_that_is_too_old_is_refused_as_long_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connection.features.minimum_database_version == (OLDEST_POSTGRES,), "Django's own may be older"
    connection.close()
    monkeypatch.setattr(base, "RAN_DB_VERSION_CHECK", set())
    with monkeypatch.context() as patch:
        patch.setattr(connection.features, "minimum_database_version", (99,))
        for _ in range(2):
            with pytest.raises(OperationalError, match=r"PostgreSQL \d+ is too old"):
                connection.cursor()
    monkeypatch.setitem(vars(connections["default"]), "pg_version", 130004)
    with pytest.raises(OperationalError, match="PostgreSQL 13 is too old"):
        connection.cursor()
    assert connection.pg_version > 130004
    connection.cursor().execute("SELECT 1")


@pytest.mark.django_db(transaction=True)
def test_where_our_settings_are_ignored_pgbouncer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """PgBouncer would be silent with `ignore_startup_parameters = options`, until a prepared statement is missing."""
    connection.close()
    with monkeypatch.context() as patch:
        patch.setitem(connection.settings_dict["OPTIONS"], "options", "")  # as if they were lost on the way
        for _ in range(2):
            with pytest.raises(OperationalError, match="DATABASE_PGBOUNCER=true") as raised:
                connection.cursor()
            assert is_away(raised.value)
        patch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
        connection.cursor().close()
    connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ask", ["a write", "/readyz"])
def test_a_server_that_takes_no_writes_is_left_after_the_request(client: Client, ask: str) -> None:
    """As where an address has moved to the new primary, and the standby that had it goes on answering."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as other:
        other.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        connection.close()
        try:
            if ask == "/readyz":
                assert client.get(ask).json()["database"].startswith("accepts no writes")
            else:
                with pytest.raises(OperationalError, match="read-only"), connection.cursor() as cursor:
                    cursor.execute("CREATE TABLE a ()")
        finally:
            other.execute(f"SET default_transaction_read_only = off; ALTER DATABASE {name} RESET ALL")
    close_old_connections()  # as the next request does
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_read_only")
        assert cursor.fetchone() == ("off",)


_BEGUN = b"C\0\0\0\x0aBEGIN\0"  # the server's answer to BEGIN
_SAID = b"SFATAL\0VFATAL\0C08P01\0Mserver conn crashed?\0\0"  # PgBouncer's words


def _relay(listener: socket.socket, server: socket.socket) -> None:
    """Connect a client to the server, as PgBouncer does, and lose the server when a transaction has begun."""
    client, _ = listener.accept()
    listener.close()
    with client, server:
        while True:
            for ready in select.select([client, server], [], [])[0]:
                if not (piece := ready.recv(65_536)):
                    return
                if ready is client:
                    server.sendall(piece)
                elif _BEGUN not in piece:
                    client.sendall(piece)
                else:
                    client.sendall(_BEGUN + b"E" + (len(_SAID) + 4).to_bytes(4, "big") + _SAID)
                    return


@pytest.mark.django_db(transaction=True)
def test_a_server_that_is_lost_between_a_begin_and_its_end_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """psycopg takes one result of a BEGIN, and calls the second an InternalError."""
    connection.ensure_connection()
    host, port = connection.connection.info.host, connection.connection.info.port
    is_path = host.startswith("/")
    server = socket.socket(socket.AF_UNIX if is_path else socket.AF_INET)
    server.connect(f"{host}/.s.PGSQL.{port}" if is_path else (host, port))
    connection.close()
    listener = socket.create_server(("127.0.0.1", 0))
    with monkeypatch.context() as patch:
        patch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        patch.setitem(connection.settings_dict, "PORT", listener.getsockname()[1])
        threading.Thread(target=_relay, args=(listener, server), daemon=True).start()
        with (
            suppress(OperationalError),
            transaction.atomic(),
            pytest.raises(OperationalError, match="2 results") as raised,
        ):
            connection.cursor().execute("SELECT 1")
    assert is_away(raised.value)
    close_old_connections()  # as the next request does
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert connection.connection.info.port == port


# What others' servers, databases and roles set for all sessions.
THEIRS = {
    "datestyle": "'German, DMY'",
    "intervalstyle": "iso_8601",
    "timezone": "'Asia/Tokyo'",
    "default_transaction_isolation": "serializable",
    "standard_conforming_strings": "off",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "array_nulls": "off",
    "max_parallel_workers_per_gather": "4",
}


@pytest.mark.django_db(transaction=True)
def test_what_a_server_sets_for_all_sessions_changes_nothing() -> None:
    read = "SELECT %s::timestamptz, %s::timestamptz - %s::timestamptz, '\\d', %s::bytea, 0.1::float + 0.2::float"
    read += ", %s::int[]"
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    later = SOME + timedelta(days=3, hours=2)
    with connection.cursor() as cursor:
        for setting, value in THEIRS.items():
            cursor.execute(f"ALTER DATABASE {name} SET {setting} = {value}")
    connection.close()
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(read, [SOME, later, SOME, b"\\\0", [1, None]])
            assert cursor.fetchone() == (SOME, timedelta(days=3, hours=2), "\\d", b"\\\0", 0.1 + 0.2, [1, None])
            cursor.execute("SHOW transaction_isolation")
            assert cursor.fetchone() == ("read committed",)
            # Parallel queries fail where /dev/shm is small, as in a container.
            cursor.execute("SHOW max_parallel_workers_per_gather")
            assert cursor.fetchone() == ("0",)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {name} RESET ALL")
        connection.close()
