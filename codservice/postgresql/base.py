import select
from functools import cached_property
from typing import Any

import psycopg
from django.conf import settings
from django.db import NotSupportedError, OperationalError
from django.db.backends.postgresql import base, features, schema
from django.db.utils import DatabaseErrorWrapper
from psycopg import errors
from psycopg.types.datetime import TimestamptzLoader

from codservice import OLDEST_POSTGRES
from codservice.data_folder import Layout, is_set, refuse_anothers
from codservice.errors import CannotStart
from codservice.postgresql import AWAY

# PgBouncer refuses what we set at the start of a session, or ignores it if it is told to.
_POOLED = (
    "PgBouncer answers there, and needs DATABASE_PGBOUNCER=true;"
    " migrate, backup and restore need PostgreSQL's own address"
)


class DatabaseFeatures(features.DatabaseFeatures):
    minimum_database_version = (OLDEST_POSTGRES,)


class DatabaseSchemaEditor(schema.DatabaseSchemaEditor):
    """Lets a migration that was interrupted between two indexes run again; `migrate` drops half-built ones."""

    sql_create_index_concurrently = schema.DatabaseSchemaEditor.sql_create_index_concurrently.replace(
        "CONCURRENTLY", "CONCURRENTLY IF NOT EXISTS"
    )


class ErrorWrapper(DatabaseErrorWrapper):
    """Raises OperationalError, as for any database that is away, where psycopg raises InternalError for one.

    It does where a session has ended because it was idle in its transaction, where the database is read-only, and with
    errors of its own. One is read-only after a failover. Its connection is not used for another request: where an
    address has moved to another server, a standby that had it before would go on answering. With its own errors psycopg
    says that it lost step with the server, as when the session ended just after a BEGIN or COMMIT, whose result a
    second one followed.
    """

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if isinstance(exc_value, errors.ReadOnlySqlTransaction):
            self.wrapper.takes_no_writes = True
        if isinstance(exc_value, psycopg.InternalError) and exc_value.sqlstate in AWAY:
            raise OperationalError(*exc_value.args).with_traceback(traceback) from exc_value
        super().__exit__(exc_type, exc_value, traceback)


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures
    SchemaEditorClass = DatabaseSchemaEditor
    takes_no_writes = False  # as far as we know of this connection

    @cached_property
    def wrap_database_errors(self) -> ErrorWrapper:
        return ErrorWrapper(self)

    def check_database_version_supported(self) -> None:
        """Raises OperationalError for a server that is too old, as for one that is away."""
        try:
            super().check_database_version_supported()
        except NotSupportedError as error:
            major = self.pg_version // 10000
            # Django would keep the half set-up connection, and use it when asked again; and the version, for as long as
            # the process lives, even if the server changes.
            self.close()
            del self.pg_version
            raise OperationalError(f"PostgreSQL {major} is too old: {OLDEST_POSTGRES} or newer is needed") from error

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Times are read by psycopg's compiled loader, in the session's time zone: UTC.

        Django sets that zone on each time in Python, which takes twenty times as long.
        """
        if not is_set("DATABASE_URL"):
            try:  # it may have come after the settings were read
                refuse_anothers(Layout(settings.DATA_DIR).runtime)
            except CannotStart as error:
                raise psycopg.OperationalError(str(error)) from error
        try:
            connection = super().get_new_connection(conn_params)
        except psycopg.OperationalError as error:
            if "unsupported startup parameter" in str(error):  # PgBouncer says no more than this
                raise psycopg.OperationalError(_POOLED) from error
            raise
        if not self.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:
            connection.autocommit = True
            found = connection.execute("SELECT source FROM pg_settings WHERE name = 'lock_timeout'", prepare=False)
            if found.fetchone() != ("client",):  # statements that we prepare would be missing in the next session
                connection.close()
                raise psycopg.OperationalError(_POOLED)
        connection.adapters.register_loader("timestamptz", TimestamptzLoader)
        self.takes_no_writes = False
        return connection

    def create_cursor(self, name: str | None = None) -> Any:
        """Create a cursor without registering Django's own loader of times."""
        if name:
            return self.connection.cursor(name, scrollable=False, withhold=self.connection.autocommit)
        return self.connection.cursor()

    def is_usable(self) -> bool:
        """Whether the connection is still open, as the socket itself knows it, and has refused no write.

        A server that stopped or ended our session has closed the socket, which makes it readable; nothing else ever
        waits there between two requests. Django instead asks the server (`SELECT 1`) once a request, which took a tenth
        of an import's time. Neither check notices a server that vanished without closing.
        """
        if self.connection is None or self.connection.closed or self.takes_no_writes:
            return False
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN | select.POLLERR | select.POLLHUP)
        return not poll.poll(0)
