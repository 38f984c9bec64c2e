from argparse import ArgumentParser
from typing import Any

from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.accounts.actor import Actor
from codservice.files.file_command import FileCommand
from orders.courier_files import COLUMNS, ShipmentRows
from orders.shipments import STATUSES


class Command(FileCommand):
    help = f"""Update the status of orders from a courier's CSV or XLSX file.

Columns: {", ".join(column.name for column in COLUMNS)}, or their usual headings. An order is named by its id or, with
--account, by the shop's own number, in whichever of the two columns. The status is {", ".join(STATUSES)}, or what
couriers in Algeria write for it, in French or Arabic.

Couriers leave steps out: a confirmed order that is delivered is shipped first. An order whose parcel the courier does
not have yet stays confirmed. An order that has the status already, or had it before, is left alone, so a file can be
given again, also after an interruption.

An order that is not confirmed, or has ended otherwise, is refused. So is one whose parcel was blocked, lost or, unless
the order is canceled too, cancelled by the courier. Refused rows are reported with their line and, with --report,
written to a file. The exit status is 1 when a row was refused."""
    examples = (
        "update_shipments yalidine.csv --account yasmine@example.dz --dry-run\n"
        "update_shipments yalidine.xlsx --account yasmine@example.dz --report refused.csv\n"
        "update_shipments shipments.csv --json"
    )
    required = ("status",)
    named_by = ("order_id", "external_id")

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_account_argument(parser, required=False)

    def begin(self, options: dict[str, Any]) -> ShipmentRows:
        # An empty one, as of a script's unset variable, is no leave to move anybody's orders.
        account_id = find_account(options["account"]).id if options["account"] is not None else None
        return ShipmentRows(account_id, actor=Actor.of_command("update_shipments"))

    def summary(self) -> str:
        done = "{moved} moved, {already} already there, {refused} refused".format(**self.counts)
        return f"Shipments{' (dry run)' if self.dry_run else ''}: {done}."
