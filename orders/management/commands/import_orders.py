import contextlib
import itertools
import json
import re
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db import transaction

from codservice import commands
from codservice.accounts.actor import Actor
from codservice.errors import Invalid
from codservice.tables import Row, UnreadableTable, read_rows
from orders import lifecycle, serializers

BATCH = 500  # orders a transaction
_ORDER = ("external_id", "customer_name", "customer_phone", "customer_address", "customer_wilaya", "customer_commune",
          "total_amount", "shipping_fee", "notes")  # fmt: skip
_ITEM = ("product_id", "product_name", "quantity", "unit_price", "attributes")
_INTEGER = re.compile(r"[0-9]{1,9}", re.ASCII)


class _Undo(Exception):
    pass


class Command(commands.Command):
    help = f"""Import orders from a CSV or XLSX file, by the API's rules.

A row is one line of an order; rows that follow each other with the same external_id are one order. Columns:
{", ".join(_ORDER)}; for the line {", ".join(_ITEM)} (a JSON object). What an order's first row says of the
customer holds for its other rows. Orders whose external_id is in the account already are left as they are, so that
a file can be imported again. Every order that is refused is reported with its line; exit status 1 then."""
    examples = (
        "import_orders orders.csv --account yasmine@example.dz --dry-run\n"
        "import_orders orders.xlsx --account yasmine@example.dz --atomic --json"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        commands.add_account_argument(parser)
        parser.add_argument("--dry-run", action="store_true", help="check everything, import nothing")
        parser.add_argument("--atomic", action="store_true", help="import all or, if one order is refused, nothing")
        parser.add_argument("--json", action="store_true", help="print the counts and the refused orders as JSON")

    def handle(self, *, file: Path, account: str, dry_run: bool, atomic: bool, **options: Any) -> None:
        account_id = commands.find_account(account).id
        try:
            orders = list(_orders(read_rows(file)))
        except FileNotFoundError:
            raise CommandError(f"There is no file {file}.") from None
        except UnreadableTable as error:
            raise CommandError(str(error)) from None
        counts: Counter[str] = Counter(imported=0, skipped=0, refused=0)
        refused: list[dict[str, Any]] = []
        batches = [orders[start : start + BATCH] for start in range(0, len(orders), BATCH)]
        if dry_run or atomic:
            try:
                with transaction.atomic():
                    self.import_batches(account_id, batches, counts, refused)
                    if dry_run or refused:
                        raise _Undo
            except _Undo:
                if not dry_run:
                    counts["imported"] = counts["skipped"] = 0
        else:
            self.import_batches(account_id, batches, counts, refused)
        self.report(counts, refused, dry_run=dry_run, as_json=options["json"])

    def import_batches(
        self,
        account_id: UUID,
        batches: list[list[tuple[int, dict[str, Any]]]],
        counts: Counter[str],
        refused: list[dict[str, Any]],
    ) -> None:
        for batch in self.progress(batches, total=len(batches), unit="batches"):
            drafts: list[tuple[int, lifecycle.Draft]] = []
            for line, body in batch:
                try:
                    drafts.append((line, serializers.read_order(body, account_id)))
                except Invalid as error:
                    refused.append({"line": line, "external_id": body.get("external_id"), "errors": error.errors})
            outcomes = lifecycle.import_orders(
                account_id, [draft for _, draft in drafts], actor=Actor.of_command("import_orders")
            )
            for (line, draft), outcome in zip(drafts, outcomes, strict=True):
                if isinstance(outcome, lifecycle.DuplicateExternalId):
                    counts["skipped"] += 1
                elif isinstance(outcome, Invalid):
                    refused.append({"line": line, "external_id": draft.external_id, "errors": outcome.errors})
                else:
                    counts["imported"] += 1
            counts["refused"] = len(refused)

    def report(self, counts: Counter[str], refused: list[dict[str, Any]], *, dry_run: bool, as_json: bool) -> None:
        if as_json:
            self.print_json({**counts, "dry_run": dry_run, "errors": refused})
        else:
            for entry in refused:
                for field, sentences in entry["errors"].items():
                    self.stdout.write(f"line {entry['line']}: {field}: {' '.join(sentences)}")
            self.say(
                f"{counts['imported']} orders {'would be imported' if dry_run else 'imported'}, "
                f"{counts['skipped']} were there already, {counts['refused']} refused."
            )
        if refused:
            raise CommandError("Some orders were refused; mend their lines and run this again.", returncode=1)


def _orders(rows: Iterator[Row]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each order's first line and its body, as the API takes it."""
    unnamed = itertools.count()
    for _, group in itertools.groupby(rows, key=lambda row: row[1].get("external_id") or next(unnamed)):
        lines = list(group)
        number, first = lines[0]
        body: dict[str, Any] = {name: first[name] for name in _ORDER if first.get(name)}
        body["items"] = [_item(row) for _, row in lines]
        yield number, body


def _item(row: dict[str, str]) -> dict[str, Any]:
    item: dict[str, Any] = {name: row[name] for name in _ITEM if row.get(name)}
    if _INTEGER.fullmatch(item.get("quantity", "")):
        item["quantity"] = int(item["quantity"])
    if "attributes" in item:
        with contextlib.suppress(ValueError):  # a text is refused with the field's own sentence
            item["attributes"] = json.loads(item["attributes"])
    return item
