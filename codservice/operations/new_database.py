"""A new database is made by one script: what all migrations up to some of them leave, which `make new-database` writes.

The migrations themselves make every model anew for each other step, which takes seconds; they are for databases that
are there. Those after the script's go on from what it leaves.
"""

from pathlib import Path

from django.db import connection, transaction

SCRIPT = Path(__file__).with_suffix(".sql")


def fill() -> None:
    """Write the script's tables and rows into a database without tables: all of it or nothing."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(SCRIPT.read_text())
