from argparse import ArgumentParser
from typing import Any

from codservice.accounts.account_argument import add_account_argument, find_open_account
from codservice.accounts.actor import Actor
from codservice.files.file_command import FileCommand
from inventory import catalog
from inventory.product_files import ProductRows

_REQUIRED = ("sku", "name", "price")
_OPTIONAL = tuple(column.name for column in ProductRows.columns if column.name not in _REQUIRED)


class Command(FileCommand):
    help = f"""Create and change products from a CSV or XLSX file, by sku.

Columns: {", ".join(_REQUIRED)}; optional {", ".join(_OPTIONAL)}. Usual French, Arabic and English headings are
understood too, and amounts as people write them. An empty cell changes nothing. A new product needs a name and a price;
unless the file says otherwise, it has no stock and is active. Products that already are as in the file, and products
that are not in the file, are left alone. Webhooks are notified of a changed stock as usual. Every bad row is reported
with its line and, with --report, written to a file: correct that and import it. Good rows are kept; with --atomic, only
if no row is bad. The exit status is 1 when a row was bad."""
    examples = (
        "import_products products.csv --account yasmine@example.dz --dry-run\n"
        "import_products products.csv --account yasmine@example.dz --report refused.csv\n"
        "import_products products.xlsx --account yasmine@example.dz --atomic --json"
    )
    required = _REQUIRED  # otherwise an unknown heading would silently leave all names or prices as they are
    named_by = ("sku",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_account_argument(parser)
        parser.add_argument(
            "--atomic",
            action="store_true",
            help="import all rows or, if one is bad, none; meanwhile, API calls that set stock wait or get a 503."
            " The changes are dated while they are made, and seen only at the end: who reads what has changed must"
            " begin before this does",
        )

    def begin(self, options: dict[str, Any]) -> ProductRows:
        return ProductRows(find_open_account(options["account"]).id, actor=Actor.of_command("import_products"))

    def hold(self) -> None:
        catalog.lock_all(self.intake.account_id)

    def summary(self) -> str:
        done = "{created} created, {updated} changed, {unchanged} unchanged, {refused} refused".format(**self.counts)
        return f"Products{' (dry run)' if self.dry_run else ''}: {done}."
