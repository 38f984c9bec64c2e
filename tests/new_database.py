"""Makes the script that sets up a new database: `make new-database` writes codservice/operations/new_database.sql."""

import os
import re
import subprocess
import tempfile

import django
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from codservice.onebox.binaries import find_client
from tests.harness.database import database_url

# A function may use a table that is created after it.
HEAD = """-- `make new-database` writes this file (codservice/operations/new_database.py).
SET LOCAL check_function_bodies = false;
"""
NAMES = "SELECT string_agg(format('(%L, %L, now())', app, name), E',\n' ORDER BY app, name) FROM django_migrations"
# Lines for psql, settings of the session, and remarks of pg_dump.
PASSED_OVER = re.compile(r"(--|SET |SELECT pg_catalog\.set_config|\\)|$")


def migrate_one_by_one() -> None:
    """Apply the migrations that are not applied yet, without the signals that follow."""
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def script() -> str:
    """The SQL that makes a database like this one: its tables, and the rows that migrations wrote."""
    program = find_client("pg_dump", at_least=connection.pg_version // 10000)
    # django_migrations is written below, sorted: the order in which migrations were applied does not matter.
    options = ["--no-owner", "--no-privileges", "--column-inserts", "--exclude-table-data=django_migrations*"]
    done = subprocess.run([program, database_url(), *options], capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if not PASSED_OVER.match(line)]
    with connection.cursor() as cursor:
        cursor.execute(NAMES)
        (names,) = cursor.fetchone()
    lines.append(f"INSERT INTO public.django_migrations (app, name, applied) VALUES\n{names};")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATA_DIR"] = folder
        os.environ.pop("DATABASE_URL", None)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
        django.setup()
        from codservice.operations import dumps, new_database

        with dumps.database():
            migrate_one_by_one()
            new_database.SCRIPT.write_text(script())


if __name__ == "__main__":
    main()
