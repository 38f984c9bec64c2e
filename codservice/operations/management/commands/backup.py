import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from tqdm import tqdm

from codservice import commands
from codservice.errors import CannotStart
from codservice.operations import dumps


class Command(commands.Command):
    help = """Write the whole database into one file, as it is at this moment, whether or not the service is running.

The file has PostgreSQL's own format (pg_dump --format=custom). It contains customers' data, and signing secrets that
can be read only with ENCRYPTION_KEYS: keep those too, in another place. An interrupted backup leaves no file; one that
is killed leaves FILE.part."""
    examples = "backup /backups/codservice-2026-11-21.dump\nbackup /backups/today.dump --json"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="a file that does not exist yet")
        parser.add_argument("--json", action="store_true", help="print the file's name and size as JSON")

    def handle(self, *, file: Path, **options: Any) -> None:
        try:
            with (
                dumps.database(),
                tqdm(unit="B", unit_scale=True, file=sys.stderr, disable=not sys.stderr.isatty()) as bar,
            ):
                if dumps.is_empty():
                    raise CommandError("The database has no tables. Check DATA_DIR or DATABASE_URL.")
                dumps.dump(file, tell=lambda count: bar.update(count - bar.n))
        except FileExistsError as error:
            raise CommandError(f"{error.filename} already exists. Choose another name.") from None
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}.") from None
        except (dumps.Failed, CannotStart) as error:
            raise CommandError(f"No backup was made: {error}") from None
        size = file.stat().st_size
        if options["json"]:
            self.print_json({"file": file, "bytes": size})
        else:
            self.stdout.write(f"{file}: {size} bytes")
            self.say("Keep ENCRYPTION_KEYS and SECRET_KEY too, in another place.")
