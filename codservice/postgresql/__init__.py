"""Django's PostgreSQL backend, `ENGINE = "codservice.postgresql"`: a health check that costs no round trip, and a
database that takes no writes, or is too old, is one that is away."""

from django.db import InterfaceError, OperationalError, connection

OLDEST_POSTGRES = 15
# What one says that is away, where it says something: it stops (57P01, 57P02) or starts (57P03), is a standby (25006),
# its disk is full (53100), or it is PgBouncer that cannot reach it (08P01).
_AWAY = {"57P01", "57P02", "57P03", "25006", "53100", "08P01"}
_UNDEFINED = {"42P01", "42703", "42883"}  # a table, a column, a function


def is_away(error: BaseException) -> bool:
    """Whether an error of Django's is the database's, which cannot be used now, and no fault of what was asked."""
    state = getattr(error.__cause__, "sqlstate", None)
    return isinstance(error, OperationalError | InterfaceError) and (state is None or state in _AWAY)


def is_behind(error: BaseException) -> bool:
    """Whether what was asked for is not there because migrations are missing, which it asks the database."""
    if getattr(error.__cause__, "sqlstate", None) not in _UNDEFINED:
        return False
    from django.db.migrations.loader import MigrationLoader  # a fifth of a command's start, of use here alone

    loader = MigrationLoader(connection)
    return not loader.graph.nodes.keys() <= loader.applied_migrations.keys()
