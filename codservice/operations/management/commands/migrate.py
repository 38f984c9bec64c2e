import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from psycopg.errors import LockNotAvailable

from codservice import commands
from codservice.operations import dumps, new_database

_MIGRATING = 0x6D696772  # the advisory lock of whoever migrates
# While a migration waits for a lock, everyone who needs the table waits behind it. So it gives up soon, lets them
# through, and tries again.
LOCK_TIMEOUT = "2s"
TRIES = 10
PAUSE = 3.0  # seconds

# The longest open transaction but our own, which probably holds the lock.
_OLDEST = """
SELECT pid, application_name, EXTRACT(EPOCH FROM now() - xact_start)::int FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < now() - interval '1 s'
    AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = %s)
ORDER BY xact_start LIMIT 1
"""
# Left behind by an interrupted CREATE or DROP INDEX CONCURRENTLY, and in the way of the next attempt.
_HALF_BUILT = """
SELECT quote_ident(c.relname) FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT i.indisvalid AND n.nspname = current_schema
"""


class Command(commands.Command, migrate.Command):
    """Django's command, made safe beside a running service: one at a time, and none waits long for a lock."""

    help = f"""{migrate.Command.help}

Only one runs at a time; others wait for it. A migration that cannot get a lock within {LOCK_TIMEOUT} leaves at most an
index half built, lets waiting requests through and is tried again, up to {TRIES} times in all. It is safe to interrupt
and to run again.
A new database gets the tables of most migrations at once.

Behind PgBouncer the role's limits hold, and a migration that takes longer than its statement_timeout fails. So give
this command PostgreSQL's own address, with DATABASE_PGBOUNCER off; and if `make run` uses PgBouncer, before you start
it with a new version, since it migrates where its DATABASE_URL leads."""
    examples = "migrate --plan\nmigrate\nmigrate orders 0005"

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if options["plan"] or options["check_unapplied"]:
            return super().handle(*args, **options)
        with self._alone(connection):
            if _is_pooled(connection) and (options["app_label"] or _is_behind(connection)):
                self.say(
                    "This migrates through PgBouncer, where a migration that takes longer than the role's"
                    " statement_timeout fails. Then run `manage.py migrate` with PostgreSQL's own address in"
                    " DATABASE_URL and DATABASE_PGBOUNCER=false."
                )
            if options["app_label"] is None and dumps.is_empty():
                if fault := new_database.fault():
                    raise CommandError(fault)
                new_database.fill()
                if options["verbosity"]:
                    self.stdout.write("The database was empty. Its tables have been created.")
            for tries_left in reversed(range(TRIES)):
                try:
                    self._drop_half_built(connection)
                    return super().handle(*args, **options)
                except OperationalError as error:
                    if not isinstance(error.__cause__, LockNotAvailable):
                        raise
                holder = self._oldest(connection)
                if tries_left:
                    self.say(f"A migration could not get a lock{holder}. It is tried again in {PAUSE:.0f} s.")
                    time.sleep(PAUSE)
        raise CommandError(
            f"A migration could not get a lock in {TRIES} tries{holder}. Wait for the session that holds it, or end"
            " it, and run migrate again: it continues where it stopped."
        )

    @contextmanager
    def _alone(self, connection: BaseDatabaseWrapper) -> Iterator[None]:
        """Hold the advisory lock, and set limits for this work, both for this session.

        PgBouncer in transaction mode has no sessions. Behind it the role's limits apply, and an open transaction of
        another connection holds the lock, for as long as PgBouncer lets it be idle.
        """
        pooled = _is_pooled(connection)
        holder = connection.copy() if pooled else connection
        try:
            if pooled:
                holder.set_autocommit(False)
            self._take_lock(holder, "pg_try_advisory_xact_lock" if pooled else "pg_try_advisory_lock")
            if not pooled:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT set_config('lock_timeout', %s, false)", [LOCK_TIMEOUT])
                    cursor.execute("SET statement_timeout = 0")  # an index of a large table takes its time
            yield
        finally:
            holder.close()  # releases its locks and limits, even when it is broken

    def _take_lock(self, holder: BaseDatabaseWrapper, function: str) -> None:
        said = False
        while True:  # a statement waiting in the database would hold up CREATE INDEX CONCURRENTLY
            with holder.cursor() as cursor:
                # Without parameters: with them the transaction would keep its snapshot, for which such an index waits.
                cursor.execute(f"SELECT {function}({_MIGRATING})")
                if cursor.fetchone()[0]:
                    return
            if not holder.get_autocommit():
                holder.rollback()
            if not said:
                self.say("Another migrate is running. Waiting for it.")
                said = True
            time.sleep(0.5)

    def _drop_half_built(self, connection: BaseDatabaseWrapper) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_HALF_BUILT)
            for (name,) in cursor.fetchall():
                cursor.execute(f"DROP INDEX CONCURRENTLY {name}")

    def _oldest(self, connection: BaseDatabaseWrapper) -> str:
        with connection.cursor() as cursor:
            cursor.execute(_OLDEST, [_MIGRATING])
            row = cursor.fetchone()
        return f" (process {row[0]}, “{row[1]}”, has had a transaction open for {row[2]} s)" if row else ""


def _is_pooled(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"])  # DATABASE_PGBOUNCER


def _is_behind(connection: BaseDatabaseWrapper) -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))
