from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from codservice import commands, health
from codservice.errors import CannotStart
from codservice.operations import checks, dumps, new_database


class Command(commands.Command):
    help = """Restore a backup into an empty database: another DATA_DIR, or a new database that DATABASE_URL names.

Either all of it is restored or nothing, and existing data is never overwritten: to go back to a backup, restore it
elsewhere and let the service use that. Pending deliveries are sent as soon as a worker runs."""
    examples = "restore /backups/codservice-2026-11-21.dump"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="the file that `backup` wrote")

    def handle(self, *, file: Path, **options: Any) -> None:
        if not file.is_file():
            raise CommandError(f"{file} is not a file.")
        try:
            with dumps.database():
                if not dumps.is_empty():
                    raise CommandError(
                        "The database already has tables, and nothing was overwritten. Restore into an empty "
                        "one: another DATA_DIR, or a new database that DATABASE_URL names."
                    )
                if fault := new_database.fault():
                    raise CommandError(fault)
                dumps.restore(file.absolute())
                missing = checks.migrations()
                if missing:
                    self.say(
                        f"The backup is from an older version. Migrations: {missing} `make run` does that by itself."
                    )
                self.say(
                    "Everything was restored. It is now analyzed, so that searches are fast. You may stop this:"
                    " PostgreSQL does it later by itself."
                )
                dumps.analyze()
                unreadable = "" if missing else health.SLOW_CHECKS["secrets"]()
        except (dumps.Failed, CannotStart) as error:
            raise CommandError(f"Nothing was restored: {error}") from None
        if unreadable:
            raise CommandError(f"Everything was restored. Of the signing secrets, {unreadable}")
        self.stdout.write(f"{file} was restored.")
