"""Makes a new database by one script, which `make new-database` writes: all that the migrations leave behind.

Running those migrations would take seconds, because each step rebuilds every model; they are for existing databases.
Migrations newer than the script run after it.
"""

from pathlib import Path

from django.db import transaction

from codservice import postgresql

SCRIPT = Path(__file__).with_suffix(".sql")


def fault() -> str:
    """Why an empty database cannot be used, and what to do about it; otherwise an empty string."""
    encoding, schema, remedy = postgresql.row(
        "SELECT current_setting('server_encoding'), current_schema,"
        " format('ALTER ROLE %I IN DATABASE %I SET search_path = public', current_user, current_database())"
    )
    if encoding != "UTF8":  # as on a server installed without a locale
        return (
            f"The database has the encoding {encoding}, which cannot hold all names. Create it anew with `createdb"
            " --encoding UTF8 --locale C.UTF-8 --template template0`."
        )
    if schema != "public":  # as a search_path says, or because a schema has the user's name
        found = f"in the schema {schema}" if schema else "nowhere"
        return (
            f"The user of DATABASE_URL would create tables {found}, but they belong in the schema public. Let the user"
            f" own the database, and run `{remedy}`."
        )
    return ""


def fill() -> None:
    """Run the script in a database without tables: all of it or nothing."""
    with transaction.atomic():
        postgresql.execute(SCRIPT.read_text(encoding="utf-8"))
