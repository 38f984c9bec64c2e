import select
from functools import cached_property
from typing import Any

import psycopg
from django.db import NotSupportedError, OperationalError
from django.db.backends.postgresql import base, schema
from django.db.utils import DatabaseErrorWrapper
from psycopg import errors
from psycopg.types.datetime import TimestamptzLoader

from codservice.postgresql import OLDEST_POSTGRES


class DatabaseSchemaEditor(schema.DatabaseSchemaEditor):
    """Lets a migration that was cut short between two of its indexes run again; `migrate` drops what is half built."""

    sql_create_index_concurrently = schema.DatabaseSchemaEditor.sql_create_index_concurrently.replace(
        "CONCURRENTLY", "CONCURRENTLY IF NOT EXISTS"
    )


class ErrorWrapper(DatabaseErrorWrapper):
    """Has a database that takes no writes now, as after a failover, raise OperationalError like one that is away.

    psycopg takes it for a fault of the program (InternalError).
    """

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if isinstance(exc_value, errors.ReadOnlySqlTransaction):
            raise OperationalError(*exc_value.args).with_traceback(traceback) from exc_value
        super().__exit__(exc_type, exc_value, traceback)


class DatabaseWrapper(base.DatabaseWrapper):
    SchemaEditorClass = DatabaseSchemaEditor

    @cached_property
    def wrap_database_errors(self) -> ErrorWrapper:
        return ErrorWrapper(self)

    def check_database_version_supported(self) -> None:
        """Raises OperationalError for a server that Django cannot use, as for one that is away."""
        try:
            super().check_database_version_supported()
        except NotSupportedError as error:
            major = self.pg_version // 10000
            # Django would keep both: the connection, half set up, and use it when asked once more; and the version, for
            # as long as the process lives, whatever becomes of the server.
            self.close()
            del self.pg_version
            raise OperationalError(f"PostgreSQL {major} is too old: {OLDEST_POSTGRES} or newer is needed") from error

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Times are read by psycopg, which has it compiled, in the session's zone: UTC.

        Django puts that zone into each anew, by Python, which takes twenty times as long.
        """
        try:
            connection = super().get_new_connection(conn_params)
        except psycopg.OperationalError as error:
            if "unsupported startup parameter" in str(error):  # all that PgBouncer says of it
                raise psycopg.OperationalError(
                    "PgBouncer answers there, and needs DATABASE_PGBOUNCER=true; migrate, backup and restore need"
                    " PostgreSQL's own address"
                ) from error
            raise
        connection.adapters.register_loader("timestamptz", TimestamptzLoader)
        return connection

    def create_cursor(self, name: str | None = None) -> Any:
        """Without Django's look for its own reader of times."""
        if name:
            return self.connection.cursor(name, scrollable=False, withhold=self.connection.autocommit)
        return self.connection.cursor()

    def is_usable(self) -> bool:
        """Whether the connection is still open, as the socket itself knows it.

        A server that stopped or ended our session has closed the socket, which makes it readable; nothing else is
        ever waiting there between two requests. Django asks the server instead (`SELECT 1`), once a request, which
        took a tenth of an import's time. A server that vanished without closing is noticed by neither check.
        """
        if self.connection is None or self.connection.closed:
            return False
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN | select.POLLERR | select.POLLHUP)
        return not poll.poll(0)
