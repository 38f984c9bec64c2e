from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.db import DatabaseError
from django.db.models import Q

from codservice.accounts.account_argument import add_account_argument, find_open_account
from codservice.accounts.actor import Actor
from codservice.files.file_command import FileCommand
from codservice.files.intake import Entry
from orders.models import Erasure
from orders.order_files.rows import OrderRows
from orders.serializers import SENT, SENT_OF_LINE


class Command(FileCommand):
    help = f"""Import orders from a CSV or XLSX file, under the same rules as the API.

A row is one line of an order, and consecutive rows with the same external_id are one order. Columns of the order:
{", ".join(SENT)}, customer_name_2 (the rest of the name), stop_desk (yes or no) instead of delivery_type, and
free_shipping (yes or no) where there is no fee. Columns of the line: {", ".join(SENT_OF_LINE)} (a JSON object), size
and colour (attributes too), and sku (names the product).
Usual French, Arabic and English headings are understood too, and amounts as people write them.

The first row of an order gives the customer for its other rows. A missing total is the sum of the lines and the
shipping fee. If an order's only line has no price, it is calculated from the total. A missing shipping fee is 0: the
account's own fees are not applied.

Orders whose external_id the account already has are left alone, so a file can be imported again, also after an
interruption; the command then says which rows without an external_id were imported. Every refused order is reported
with its line and, with --report, written to a file with all its rows: correct that and import it. The exit status is 1
when an order was refused."""
    examples = (
        "import_orders orders.csv --account yasmine@example.dz --dry-run\n"
        "import_orders orders.csv --account yasmine@example.dz --report refused.csv\n"
        "import_orders refused.csv --account yasmine@example.dz\n"
        "import_orders orders.xlsx --account yasmine@example.dz --atomic --json\n"
        "import_orders - --account yasmine@example.dz < orders.csv"
    )
    required = ("customer_name", "customer_phone", "customer_wilaya", "customer_address", "quantity")
    named_by = ("external_id",)
    if_unknown = (
        "Before you run this again, look in the account for their orders without an external_id, and remove from the"
        " file those that it has. Otherwise they are imported twice."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_account_argument(parser)
        parser.add_argument(
            "--atomic",
            action="store_true",
            help="import all orders or, if one is refused, none: for small files. Meanwhile the feed of events stands"
            " still for all accounts, and the account's webhooks can be neither changed nor deleted. A call that"
            " imports some of the same orders may get a 503, or end this. The orders are dated while they are imported,"
            " and seen only at the end: who reads what has changed must begin before this does",
        )

    def begin(self, options: dict[str, Any]) -> OrderRows:
        self.unnamed = self.first = self.done = 0
        account = find_open_account(options["account"])
        self.erasures = Erasure.objects.filter(Q(account=account) | Q(account__live=account))
        self.erased = self.erasures.count()
        return OrderRows(account.id, actor=Actor.of_command("import_orders"))

    def note(self, batch: Sequence[Entry], refused: Sequence[Entry]) -> None:
        self.unnamed += sum(map(_is_unnamed, batch)) - sum(map(_is_unnamed, refused))
        self.first = self.first or batch[0][0].line
        self.done = batch[-1][-1].end

    def forget_counts(self) -> None:
        super().forget_counts()
        self.unnamed = self.first = self.done = 0

    def again(self) -> str:
        if not self.unnamed:
            return ""
        return (
            f"Everything up to line {self.done} is done, but not all orders there have an external_id ({self.unnamed})."
            f" Before you run this again, remove lines {self.first} to {self.done} from the file, except those that"
            " were refused. Otherwise they are imported twice."
        )

    def tell(self, *, as_json: bool) -> None:
        """Also warn of erasures made meanwhile: they are refused during uploads, but cannot know of this command."""
        super().tell(as_json=as_json)
        with suppress(DatabaseError):  # such an error may be why the command ends
            if not self.dry_run and self.erasures.count() > self.erased:
                self.say(
                    "A customer of this account was erased while this ran. If the file has orders of theirs, they may"
                    " be back: cancel those orders, and erase the customer again."
                )

    def summary(self) -> str:
        done = "{imported} imported, {already_there} already there, {refused} refused".format(**self.counts)
        again = f" Each run imports orders without an external_id again: {self.unnamed}." if self.unnamed else ""
        return f"Orders{' (dry run)' if self.dry_run else ''}: {done}.{again}"


def _is_unnamed(entry: Entry) -> bool:
    return not entry[0].cells.get("external_id")
