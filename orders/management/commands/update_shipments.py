from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.accounts.actor import Actor
from codservice.errors import Invalid
from codservice.files.file_command import FileCommand
from codservice.files.intake import Entry, Errors, Intake, Taken
from orders import shipments
from orders.shipments import COLUMNS, WORDS


class ShipmentRows(Intake):
    """A row is an order, and where a courier says that it is; without an account one of any."""

    account_id: UUID | None
    counted: Mapping[str, Any] = {"moved": "Moved", "already": "Were there already"}

    def take(self, entries: Sequence[Entry]) -> Taken:
        read: list[tuple[Entry, shipments.Shipment]] = []
        refused: list[tuple[Entry, Errors]] = []
        for entry in entries:
            (row,) = entry
            try:
                read.append((entry, shipments.read_shipment(row.cells, in_account=self.account_id is not None)))
            except Invalid as error:
                refused.append((entry, error.errors))
        outcomes = shipments.record(
            [shipment for _, shipment in read],
            actor=self.actor,
            account_id=self.account_id,
        )
        counts: Counter[str] = Counter()
        for (entry, shipment), outcome in zip(read, outcomes, strict=True):
            if isinstance(outcome, bool):
                counts["moved" if outcome else "already"] += 1
            elif isinstance(outcome, shipments.UnknownOrder):
                name = "external_id" if shipment.order_id is None else "order_id"
                refused.append((entry, {name: [outcome.message]}))
            else:
                refused.append((entry, {"status": [outcome.message]}))
        return Taken(counts, refused)


class Command(FileCommand):
    help = f"""Move orders to where a courier's CSV or XLSX file says they are.

Columns: {", ".join(COLUMNS)}. The order is named by its id, or with --account by the shop's external_id. Its status
is {", ".join(WORDS)}, or a usual French or Arabic word for it. Couriers leave steps out: a confirmed order that is
delivered is shipped first. An order that is there already, or has been there, stays as it is, so that a file can be
given again, after an interruption too. An order that is not confirmed, or has ended otherwise, is refused and reported
with its line, and with --report its row is written to a file. Exit status 1 when one was refused."""
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

    def summary(self, counts: dict[str, int], *, dry_run: bool) -> str:
        done = "{moved} orders moved, {already} were there already, {refused} refused".format(**counts)
        return f"Shipments{' (dry run)' if dry_run else ''}: {done}."
