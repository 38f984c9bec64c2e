from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import datetime
from io import StringIO
from itertools import islice
from typing import Any
from uuid import UUID

from codservice import commands
from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.days import ALGIERS
from codservice.files.tables import BOM, SafeWriter
from codservice.wire import dump_json
from orders import regions
from orders.models import Order, OrderItem, OrderQuerySet, Status

BATCH = 1000  # orders that are in memory at once

_ORDER = ("id", "external_id", "status", "created_at", "updated_at", "confirmed_at", "canceled_at", "cancel_reason",
          "customer_name", "phone_e164", "customer_address", "wilaya_code", "commune_code", "total_amount",
          "shipping_fee", "notes")  # fmt: skip
COLUMNS = ("order_id", *_ORDER[1:9], "customer_phone", "customer_address", "wilaya_code", "wilaya", "commune_code",
           "commune", "items", "total_amount", "shipping_fee", "notes")  # fmt: skip


class Command(commands.Command):
    help = f"""Write an account's orders to stdout as CSV that is safe in a spreadsheet: a row per order, oldest first.

Columns: {", ".join(COLUMNS)}. Times are Algeria's, amounts in DZD, phones as +213…, and the lines of an order are one
text. An apostrophe stands before what a spreadsheet would run as a formula. With --json an object per line, as it is.
Runs in constant memory beside the service: each order is written as it is at the moment when it is read."""
    examples = (
        "export_orders --account yasmine@example.dz > orders.csv\n"
        "export_orders --account yasmine@example.dz --status confirmed --delimiter ';' > to-ship.csv\n"
        "export_orders --account yasmine@example.dz --from 2026-11-01 --to 2026-11-30 --json > november.jsonl"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_account_argument(parser)
        known = ", ".join(Status.values)
        parser.add_argument("--status", default="", help=f"one or several, comma separated, of {known}")
        parser.add_argument("--from", dest="since", metavar="TIME", help="made at or after this time or date")
        parser.add_argument("--to", dest="until", metavar="TIME", help="made before this time, or up to this date")
        parser.add_argument("--delimiter", choices=[",", ";"], default=",", help="; is what a French Excel expects")
        parser.add_argument("--json", action="store_true", help="print an object per line instead of CSV")

    def handle(self, *, delimiter: str, **options: Any) -> None:
        orders = Order.objects.filter(account_id=find_account(options["account"]).id)
        if options["status"]:
            orders = orders.filter(status__in=commands.read_words(options["status"], "status", Status.values))
        if options["since"]:
            orders = orders.filter(created_at__gte=commands.read_moment(options["since"], "from"))
        if options["until"]:
            orders = orders.filter(created_at__lt=commands.read_moment(options["until"], "to", ends=True))
        if reconfigure := getattr(self.stdout, "reconfigure", None):  # whatever the terminal's own encoding is
            reconfigure(encoding="utf-8", newline="")
        rows = self.progress(_rows(orders), total=orders.count(), unit="orders")
        if options["json"]:
            while batch := list(islice(rows, BATCH)):
                lines = (dump_json(dict(zip(COLUMNS, row, strict=True))).decode() for row in batch)
                self.stdout.write("\n".join(lines))
            return
        piece = StringIO(newline="")
        writer = SafeWriter(piece, delimiter)
        piece.write(BOM)
        writer.write(COLUMNS)
        while True:
            for row in (batch := list(islice(rows, BATCH))):
                writer.write(map(_shown, row))
            self.stdout.write(piece.getvalue(), ending="")
            piece.seek(0)
            piece.truncate()
            if not batch:
                return


def _rows(orders: OrderQuerySet) -> Iterator[tuple[Any, ...]]:
    """The COLUMNS of each order. Read by key and not by one cursor: nobody's transaction stays open meanwhile."""
    orders = orders.order_by("created_at", "id")
    rest: OrderQuerySet = orders
    while True:
        batch = list(rest.values_list(*_ORDER)[:BATCH])
        items = _items([order[0] for order in batch])
        for order in batch:
            id_, *fields, wilaya_code, commune_code, total_amount, shipping_fee, notes = order
            commune = regions.commune(commune_code).name if commune_code else None
            yield (id_, *fields, wilaya_code, regions.wilaya(wilaya_code).name, commune_code, commune,
                   "; ".join(items.get(id_, ())), total_amount, shipping_fee, notes)  # fmt: skip
        if len(batch) < BATCH:
            return
        last_id, last_at = batch[-1][0], batch[-1][_ORDER.index("created_at")]
        # The first condition is the index's; orders of one moment are told apart by their ids.
        rest = orders.filter(created_at__gte=last_at).exclude(created_at=last_at, id__lte=last_id)


def _items(order_ids: list[UUID]) -> dict[UUID, list[str]]:
    """The lines of each order as people read them: `2 × Robe (taille: M)`."""
    said: dict[UUID, list[str]] = {}
    lines = OrderItem.objects.filter(order_id__in=order_ids).order_by("order_id", "position")
    for order_id, quantity, name, attributes in lines.values_list("order_id", "quantity", "product_name", "attributes"):
        details = ", ".join(f"{key}: {value}" for key, value in attributes.items())
        said.setdefault(order_id, []).append(f"{quantity} × {name}" + (f" ({details})" if details else ""))
    return said


def _shown(value: Any) -> Any:
    return f"{value.astimezone(ALGIERS):%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else value
