from argparse import ArgumentParser
from typing import Any

from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.accounts.actor import Actor
from codservice.files.file_command import FileCommand
from orders.courier_files import COLUMNS, ShipmentRows
from orders.shipments import STATUSES


class Command(FileCommand):
    help = f"""Update the status of orders from a courier's CSV or XLSX file.

Columns: {", ".join(column.name for column in COLUMNS)}, or their usual headings. The order is named by its id, or with
--account by the shop's own number, which couriers' files call order_id too. Its status is {", ".join(STATUSES)}, or
what couriers in Algeria write for it, in French or Arabic; of a parcel that they do not have yet the order stays
confirmed; one that they cancelled is there already if its order is canceled, and refused if not, as one is that they
blocked or lost. Couriers leave steps out: a confirmed order that is delivered is shipped first. An order that is there
already, or has been there, stays as it is, so that a file can be given again, after an interruption too. An order that
is not confirmed, or has ended otherwise, is refused and reported with its line, and with --report its row is written to
a file. Exit status 1 when one was refused."""
    examples = (
        "update_shipments yalidine.csv --account yasmine@example.dz --dry-run\n"
        "update_shipments yalidine.xlsx --account yasmine@example.dz --report refused.csv\n"
        "update_shipments shipments.csv --json"
    )
    required = ("status",)
    named_by = ("order_id", "external_id")
    batch = 500  # orders that are locked at once, for some tenths of a second

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_account_argument(parser, required=False)

    def begin(self, options: dict[str, Any]) -> ShipmentRows:
        account_id = find_account(options["account"]).id if options["account"] else None
        return ShipmentRows(account_id, actor=Actor.of_command("update_shipments"))

    def summary(self) -> str:
        done = "{moved} moved, {already} there already, {refused} refused".format(**self.counts)
        return f"Shipments{' (dry run)' if self.dry_run else ''}: {done}."
