"""A new database is made by one script, which `make new-database` writes: it makes what the migrations of then leave.

To run these migrations takes seconds, because each step makes every model anew: they are for databases that are there
already. Younger migrations run after the script.
"""

from pathlib import Path

from django.db import connection, transaction

SCRIPT = Path(__file__).with_suffix(".sql")


def fill() -> None:
    """Write the script's tables and rows into a database without tables: all of it or nothing."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(SCRIPT.read_text())
