from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from codservice import commands
from codservice.accounts import security_log
from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.files import account_export
from codservice.files.new_file import new_file


class Command(commands.Command):
    help = """Write all data of an account into one ZIP file: a CSV file for each table, test mode's in `test`.

It contains no keys or signing secrets. Times have their UTC offset, and amounts are in DZD. Runs in constant memory
beside the service, and the security log notes it once it is written. Only its owner can read the file. An interrupted
export leaves no file; one that is killed leaves FILE.part."""
    examples = "export_account yasmine.zip --account yasmine@example.dz"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="a file that does not exist yet")
        add_account_argument(parser)

    def handle(self, *, file: Path, **options: Any) -> None:
        account = find_account(options["account"])
        try:
            with new_file(file) as draft:
                with draft.open("wb") as zip_file:
                    for piece in account_export.stream(account):
                        zip_file.write(piece)
                security_log.note_account(security_log.Action.EXPORTED, account)
        except FileExistsError as error:
            raise CommandError(f"{error.filename} already exists. Choose another name.") from None
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}.") from None
        self.stdout.write(f"{file}: {file.stat().st_size} bytes")
