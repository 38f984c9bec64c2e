import select

from django.db.backends.postgresql import base, schema


class DatabaseSchemaEditor(schema.DatabaseSchemaEditor):
    """Lets a migration that was cut short between two of its indexes run again; `migrate` drops what is half built."""

    sql_create_index_concurrently = schema.DatabaseSchemaEditor.sql_create_index_concurrently.replace(
        "CONCURRENTLY", "CONCURRENTLY IF NOT EXISTS"
    )


class DatabaseWrapper(base.DatabaseWrapper):
    SchemaEditorClass = DatabaseSchemaEditor

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
