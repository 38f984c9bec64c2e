from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.accounts.actor import Actor
from codservice.errors import Invalid
from codservice.files.file_command import Entry, Errors, FileCommand, Taken
from inventory import stock
from inventory.serializers import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, read_product


class Command(FileCommand):
    help = f"""Make and change products from a CSV or XLSX file, by sku.

Columns: {", ".join(REQUIRED_COLUMNS)}; optional {", ".join(OPTIONAL_COLUMNS)}. An optional cell that is empty leaves
what is there; a new product has no stock then, and is active. Products that are as the file has them are not touched,
products that the file does not name are left alone, and a changed stock is told to the webhooks like any other. Every
bad row is reported with its line, and with --report written to a file; mend that and import it. The good rows are
kept, with --atomic only when there is no bad one. Exit status 1 when a row was bad."""
    examples = (
        "import_products products.csv --account yasmine@example.dz --dry-run\n"
        "import_products products.csv --account yasmine@example.dz --report refused.csv\n"
        "import_products products.xlsx --account yasmine@example.dz --atomic --json"
    )
    required = REQUIRED_COLUMNS
    counted = stock.Imported._fields
    named_by = ("sku",)
    batch = 5000  # some tenths of a second for which their stock is locked

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_account_argument(parser)
        parser.add_argument(
            "--atomic",
            action="store_true",
            help="import all or, if one row is bad, nothing; API calls that set stock wait meanwhile, or get a 503",
        )

    def begin(self, options: dict[str, Any]) -> None:
        self.account_id = find_account(options["account"]).id
        self.lines: dict[str, int] = {}  # of each SKU

    def hold(self) -> None:
        stock.lock_catalog(self.account_id)

    def take(self, entries: Sequence[Entry]) -> Taken:
        drafts: list[stock.Draft] = []
        refused: list[tuple[Entry, Errors]] = []
        for entry in entries:
            (row,) = entry
            try:
                draft = read_product(row.cells)
                if (first := self.lines.setdefault(draft.sku, row.line)) != row.line:
                    raise Invalid({"sku": [f"Line {first} has the same SKU."]})
            except Invalid as error:
                refused.append((entry, error.errors))
            else:
                drafts.append(draft)
        imported = stock.import_products(self.account_id, drafts, actor=Actor.of_command("import_products"))
        return Taken(imported._asdict(), refused)

    def summary(self, counts: dict[str, int], *, dry_run: bool) -> str:
        done = "{created} made, {updated} changed, {unchanged} as they were, {refused} bad".format(**counts)
        return f"Products{' (dry run)' if dry_run else ''}: {done}."
