"""Django's PostgreSQL backend, `ENGINE = "codservice.postgresql"`, with a health check that costs no round trip.

A database that is read-only or too old counts as away. `rows`, `row` and `execute` take our own SQL."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import InterfaceError, OperationalError, connection

# The codes of a database that is away, or None where it sends none: it stops (57P01, 57P02) or starts (57P03), has
# ended a session that was idle (57P05, in a transaction 25P03) or whose transaction took long (25P04), is a standby
# (25006), its disk is full (53100), or PgBouncer cannot reach it (08P01).
AWAY = {None, "57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "25006", "53100", "08P01"}
_UNDEFINED = {"42P01", "42703", "42883"}  # a table, a column, a function


def is_away(error: BaseException) -> bool:
    """Whether a Django error means that the database cannot be used now, and is no fault of the request."""
    state = getattr(error.__cause__, "sqlstate", None)
    return isinstance(error, OperationalError | InterfaceError) and state in AWAY


def is_behind(error: BaseException) -> bool:
    """Whether the error comes from missing migrations, which it finds out from the database."""
    if getattr(error.__cause__, "sqlstate", None) not in _UNDEFINED:
        return False
    from django.db.migrations.loader import MigrationLoader  # a fifth of a command's start time, and needed only here

    loader = MigrationLoader(connection)
    return not loader.graph.nodes.keys() <= loader.applied_migrations.keys()


def rows(statement: str, values: Mapping[str, Any] | Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """Execute one statement that returns rows, and return them all."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def row(statement: str, values: Mapping[str, Any] | Sequence[Any] | None = None) -> Any:
    """Execute one statement that returns rows, and return the first as a tuple, or None if there is none."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchone()


def execute(statement: str, values: Mapping[str, Any] | Sequence[Any] | None = None) -> int:
    """Execute a statement, and return how many rows it has written or found. Without values it may be a script."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.rowcount


def take_time() -> None:
    """Lift the statement timeout for the rest of the transaction: for work that goes over whole tables, and would be
    tried again and again in vain.
    """
    execute("SET LOCAL statement_timeout = 0")
