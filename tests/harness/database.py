"""The test's database: its URL for other processes, its contents and its sessions."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from django.db import connection

from .background import PATIENCE, Background, open_transaction


def database_url() -> str:
    """The URL of the test's database, as the service takes it."""
    s = connection.settings_dict
    user = quote(s["USER"], "") + (f":{quote(s['PASSWORD'], '')}" if s["PASSWORD"] else "")
    port = f":{s['PORT']}" if s["PORT"] else ""
    return f"postgresql://{user}@{quote(s['HOST'] or 'localhost', '')}{port}/{quote(s['NAME'], '')}"


def environment(**more: str) -> dict[str, str]:
    """The environment for processes that use the test's database."""
    return {**os.environ, "DATABASE_URL": database_url(), "WEBHOOK_ALLOW_PRIVATE": "true", **more}


def one(sql: str, *parameters: Any) -> Any:
    """The single value that a query returns."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]


def contents(*but: str, tables: Iterable[str] = ()) -> dict[str, str | None]:
    """A digest of the rows of each table, or of each of `tables`; None for a table without rows.

    `but` are tables and columns (`table.column`) to leave out.
    """
    with connection.cursor() as cursor:
        digests = []
        for table in tables or connection.introspection.table_names(cursor):
            if table not in but:
                columns = [column.removeprefix(f"{table}.") for column in but if column.startswith(f"{table}.")]
                row = f"(to_jsonb(t) - ARRAY{columns}::text[])::text"
                digests.append(f"SELECT '{table}', md5(string_agg({row}, '|' ORDER BY {row})) FROM {table} t")
        cursor.execute(" UNION ALL ".join(digests))
        return dict(cursor.fetchall())


def slow_down_inserts(table: str) -> None:
    """Until the test's transaction ends, inserts into `table` take 1.1 s, and statements time out after 1 s."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION pg_temp.wait() RETURNS trigger LANGUAGE plpgsql"
            " AS 'BEGIN PERFORM pg_sleep(1.1); RETURN NULL; END'"
        )
        cursor.execute(f"CREATE TRIGGER slow AFTER INSERT ON {table} EXECUTE FUNCTION pg_temp.wait()")
        cursor.execute("SET LOCAL statement_timeout = '1s'")


def slow_down_reads(table: str) -> None:
    """As `slow_down_inserts`, but it is this session's reads of `table` that take so long."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMP VIEW {table} AS SELECT t.* FROM public.{table} t, pg_sleep(1.1)")
        cursor.execute("SET LOCAL statement_timeout = '1s'")


@contextmanager
def orders_refused() -> Iterator[None]:
    """Have PostgreSQL refuse every new order while the block runs, with an error that quotes the row."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE orders_order ADD CONSTRAINT broken CHECK (version > 9) NOT VALID")
        try:
            yield
        finally:
            cursor.execute("ALTER TABLE orders_order DROP CONSTRAINT broken")


def session() -> int:
    """The process id of this thread's database session."""
    return one("SELECT pg_backend_pid()")


def end_sessions(*kept: int) -> int:
    """End all other sessions of the database except `kept`, as a restart of PostgreSQL does, and return how many."""
    return one(
        "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND NOT pid = ANY(%s)",
        list(kept),
    )


# How many sessions wait for a lock.
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def wait_for_lock(sessions: int = 1) -> None:
    """Until so many sessions wait for a lock."""
    deadline = time.monotonic() + PATIENCE
    while one(WAITING) < sessions:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        one("SELECT pg_stat_clear_snapshot()")


@contextmanager
def stopped_before_its_locks(table: str, call: Callable[[], Any]) -> Iterator[Background]:
    """While the block runs, `call`, in the background, stands in its first statement with the table that skips locked
    rows: its snapshot is taken, its rows are not locked yet.
    """

    def stop(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if table in sql:
            stops = r"OFFSET (SELECT 0 FROM pg_advisory_xact_lock(42)) \1"
            sql = re.sub(r"(FOR (NO KEY )?UPDATE SKIP LOCKED)", stops, sql)
        return execute(sql, *rest)

    def patiently() -> Any:
        one("SELECT set_config('lock_timeout', '0', false)")
        with connection.execute_wrapper(stop):
            return call()

    with open_transaction(lambda: one("SELECT pg_advisory_xact_lock(42)")):
        stopped = Background(patiently)
        wait_for_lock()
        yield stopped
