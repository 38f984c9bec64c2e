from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db import transaction

from codservice import commands
from codservice.accounts.actor import Actor
from codservice.errors import Invalid
from codservice.tables import Row, UnreadableTable, count_rows, read_rows
from inventory import stock
from inventory.serializers import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, read_product

BATCH = 5000  # products a transaction: some tenths of a second for which their stock is locked


class Command(commands.Command):
    help = f"""Make and change products from a CSV or XLSX file, by sku.

Columns: {", ".join(REQUIRED_COLUMNS)}; optional {", ".join(OPTIONAL_COLUMNS)}. An optional cell that is empty leaves
what is there; a new product has no stock then, and is active. Products that are as the file has them are not touched,
products that the file does not name are left alone, and a changed stock is told to the webhooks like any other. Every
bad row is reported with its line; the good ones are kept, with --atomic only when there is no bad one. Exit status 1
when a row was bad."""
    examples = (
        "import_products products.csv --account yasmine@example.dz --dry-run\n"
        "import_products products.xlsx --account yasmine@example.dz --atomic --json"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        commands.add_account_argument(parser)
        parser.add_argument("--dry-run", action="store_true", help="check everything, change nothing")
        parser.add_argument(
            "--atomic",
            action="store_true",
            help="import all or, if one row is bad, nothing; API calls that set stock wait meanwhile, or get a 503",
        )
        parser.add_argument("--json", action="store_true", help="print the counts and the bad rows as JSON")

    def handle(self, *, file: Path, account: str, dry_run: bool, atomic: bool, **options: Any) -> None:
        account_id = commands.find_account(account).id
        self.counts: Counter[str] = Counter(created=0, updated=0, unchanged=0, refused=0)
        self.refused: list[dict[str, Any]] = []
        atomic = atomic and not dry_run
        broken = ""
        try:
            with transaction.atomic() if atomic else nullcontext():
                if atomic:
                    stock.lock_catalog(account_id)
                rows = self.progress(read_rows(file, REQUIRED_COLUMNS), total=count_rows(file), unit="rows")
                self.import_rows(account_id, rows, dry_run=dry_run, atomic=atomic)
        except FileNotFoundError:
            raise CommandError(f"There is no file {file}.") from None
        except (UnreadableTable, _Undo) as error:
            broken = str(error)
            if atomic:
                self.counts = Counter({**self.counts, "created": 0, "updated": 0, "unchanged": 0})
        self.report(dry_run=dry_run, as_json=options["json"])
        if broken or self.refused:
            raise CommandError(broken or "Some rows are bad; mend their lines and run this again.", returncode=1)

    def import_rows(self, account_id: UUID, rows: Iterator[Row], *, dry_run: bool, atomic: bool) -> None:
        drafts = self.read_drafts(rows)
        while batch := list(islice(drafts, BATCH)):
            if atomic and self.refused:
                continue  # none will be kept: we only look for the other bad rows
            with _undone() if dry_run else nullcontext():
                imported = stock.import_products(account_id, batch, actor=Actor.of_command("import_products"))
            self.counts.update(imported._asdict())
        if atomic and self.refused:
            raise _Undo("Nothing was imported: mend the bad rows and run this again.")

    def read_drafts(self, rows: Iterator[Row]) -> Iterator[stock.Draft]:
        """The products of the good rows; the bad ones go to `refused`."""
        lines: dict[str, int] = {}
        for line, row in rows:
            try:
                draft = read_product(row)
                if (first := lines.setdefault(draft.sku, line)) != line:
                    raise Invalid({"sku": [f"Line {first} has the same SKU."]})
            except Invalid as error:
                self.refused.append({"line": line, "sku": row.get("sku"), "errors": error.errors})
                self.counts["refused"] += 1
            else:
                yield draft

    def report(self, *, dry_run: bool, as_json: bool) -> None:
        if as_json:
            self.print_json({**self.counts, "dry_run": dry_run, "errors": self.refused})
            return
        for entry in self.refused:
            for field, sentences in entry["errors"].items():
                self.stdout.write(f"line {entry['line']}: {field}: {' '.join(sentences)}")
        done = "{created} made, {updated} changed, {unchanged} as they were, {refused} bad".format(**self.counts)
        self.say(f"Products{' (dry run)' if dry_run else ''}: {done}.")


class _Undo(Exception):
    pass


@contextmanager
def _undone() -> Iterator[None]:
    """What happens inside is rolled back at the end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
