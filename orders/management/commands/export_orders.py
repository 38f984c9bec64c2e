from argparse import ArgumentParser
from itertools import chain, islice
from typing import Any

from codservice import commands
from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.files.safe_csv import csv_pieces
from codservice.wire import dump_json
from orders import export
from orders.export import COLUMNS
from orders.models import Order, Status


class Command(commands.Command):
    help = f"""Write an account's orders to stdout as CSV that is safe in a spreadsheet: a row per order, oldest first.

Columns: {", ".join(COLUMNS)}. Times are Algerian, amounts in DZD, phones as +213…, and the lines of an order are one
text. What a spreadsheet would run as a formula gets an apostrophe in front. With --json, each line is an object, with
unchanged values. Runs in constant memory beside the service: each order is written as it is when it is read."""
    examples = (
        "export_orders --account yasmine@example.dz > orders.csv\n"
        "export_orders --account yasmine@example.dz --status confirmed --delimiter ';' > to-ship.csv\n"
        "export_orders --account yasmine@example.dz --from 2026-11-01 --to 2026-11-30 --json > november.jsonl"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_account_argument(parser)
        known = ", ".join(Status.values)
        parser.add_argument("--status", help=f"one or several, comma separated, of {known}")
        commands.add_period_arguments(parser, "made")
        parser.add_argument(
            "--delimiter",
            choices=[",", ";"],
            default=",",
            metavar="SIGN",
            help="a comma, or ';' for a French Excel: then numbers have commas",
        )
        parser.add_argument("--json", action="store_true", help="print an object per line instead of CSV")

    def handle(self, *, delimiter: str, **options: Any) -> None:
        orders = Order.objects.filter(commands.in_period(options), account_id=find_account(options["account"]).id)
        if options["status"] is not None:
            orders = orders.filter(status__in=commands.read_words(options["status"], "status", Status.values))
        if reconfigure := getattr(self.stdout, "reconfigure", None):
            reconfigure(newline="")
        found = export.batches(orders, export.BATCH, shown=not options["json"])
        rows = self.progress(chain.from_iterable(found), total=orders.count(), unit="orders")
        if options["json"]:
            while batch := list(islice(rows, export.BATCH)):
                lines = (dump_json(dict(zip(COLUMNS, row, strict=True))).decode() for row in batch)
                self.stdout.write("\n".join(lines))
            return
        for piece in csv_pieces(list(COLUMNS), rows, delimiter=delimiter):
            self.stdout.write(piece.decode(), ending="")
