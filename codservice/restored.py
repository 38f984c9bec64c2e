"""What is to be noted in a database into which a backup is restored. Apps register it."""

from collections.abc import Callable
from datetime import datetime

from psycopg import Connection

NOTES: list[Callable[[Connection, datetime], None]] = []
"""Each is called by `restore` with the time at which the backup was begun, in the transaction that writes its data. The
database may lack newer migrations."""
