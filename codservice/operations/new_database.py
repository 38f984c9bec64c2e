"""A new database is made by one script, which `make new-database` writes: it makes what the migrations of then leave.

To run these migrations takes seconds, because each step makes every model anew: they are for databases that are there
already. Younger migrations run after the script.
"""

from pathlib import Path

from django.db import connection, transaction

from codservice.postgresql import OLDEST_POSTGRES

SCRIPT = Path(__file__).with_suffix(".sql")


def fault() -> str:
    """Why a database without tables cannot become ours, and what to do about it; empty when it can."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_encoding")
        encoding = cursor.fetchone()[0]
    if (major := connection.pg_version // 10000) < OLDEST_POSTGRES:
        return f"PostgreSQL {major} is too old: {OLDEST_POSTGRES} or newer is needed."
    if encoding != "UTF8":  # as a server has it that was installed where no locale was set
        return (
            f"The database has the encoding {encoding}, which has no room for all names: make it anew with createdb"
            " --encoding UTF8 --locale C.UTF-8 --template template0."
        )
    return ""


def fill() -> None:
    """Write the script's tables and rows into a database without tables: all of it or nothing."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(SCRIPT.read_text())
