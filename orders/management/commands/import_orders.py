import contextlib
import itertools
import json
import re
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.accounts.actor import Actor
from codservice.errors import Invalid
from codservice.files.file_command import Entry, Errors, FileCommand, Taken
from codservice.files.tables import Row
from orders import importing, serializers
from orders.serializers import SAID, SAID_OF_LINE

_INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_ITEM_PATH = re.compile(r"items\.(\d+)\.(.+)", re.ASCII)


class Command(FileCommand):
    help = f"""Import orders from a CSV or XLSX file, by the API's rules.

A row is one line of an order; rows that follow each other with the same external_id are one order. Columns:
{", ".join(SAID)}; for the line {", ".join(SAID_OF_LINE)} (a JSON object). What an order's first row says of the
customer holds for its other rows. Orders whose external_id is in the account already are left as they are, so that
a file can be imported again, after an interruption too. Every order that is refused is reported with its line, and
with --report all its rows are written to a file; mend that and import it. Exit status 1 when one was refused."""
    examples = (
        "import_orders orders.csv --account yasmine@example.dz --dry-run\n"
        "import_orders orders.csv --account yasmine@example.dz --report refused.csv\n"
        "import_orders refused.csv --account yasmine@example.dz\n"
        "import_orders orders.xlsx --account yasmine@example.dz --atomic --json"
    )
    counted = ("imported", "already_there")
    named_by = ("external_id",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_account_argument(parser)
        parser.add_argument("--atomic", action="store_true", help="import all or, if one order is refused, nothing")

    def begin(self, options: dict[str, Any]) -> None:
        self.account_id = find_account(options["account"]).id
        self.lines: dict[str, int] = {}  # of each external_id
        self.unnamed = 0

    def entries(self, rows: Iterator[Row]) -> Iterator[Entry]:
        unnamed = itertools.count()
        for _, group in itertools.groupby(rows, key=lambda row: row.cells.get("external_id") or next(unnamed)):
            yield list(group)
        self.unnamed = next(unnamed)

    def take(self, entries: Sequence[Entry]) -> Taken:
        counts: Counter[str] = Counter()
        refused: list[tuple[Entry, Errors]] = []
        sent: list[tuple[Entry, dict[str, Any]]] = []
        for entry in entries:
            body, line = _body(entry), entry[0].line
            external_id = serializers.external_id(body)
            if external_id is not None and (first := self.lines.setdefault(external_id, line)) != line:
                refused.append((entry, {"external_id": [_apart(first)]}))
            else:
                sent.append((entry, body))
        outcomes = importing.import_orders(
            self.account_id, [body for _, body in sent], actor=Actor.of_command("import_orders"), skip_known=True
        )
        for (entry, _), outcome in zip(sent, outcomes, strict=True):
            if isinstance(outcome, importing.DuplicateExternalId):
                counts["already_there"] += 1
            elif isinstance(outcome, Invalid):
                refused.append((entry, outcome.errors))
            else:
                counts["imported"] += 1
        return Taken(counts, refused)

    def row_of(self, path: str) -> tuple[int, str]:
        item = _ITEM_PATH.fullmatch(path)
        return (int(item[1]), item[2]) if item else (0, path)

    def summary(self, counts: dict[str, int], *, dry_run: bool) -> str:
        again = f" {self.unnamed} have no external_id: another run imports them again." if self.unnamed else ""
        return (
            f"{counts['imported']} orders {'would be imported' if dry_run else 'imported'}, "
            f"{counts['already_there']} were there already, {counts['refused']} refused.{again}"
        )


def _apart(first: int) -> str:
    return f"Line {first} has the same external_id, with other orders between. An order's rows must follow each other."


def _body(entry: Entry) -> dict[str, Any]:
    """The order as the API takes it."""
    first = entry[0].cells
    body: dict[str, Any] = {name: first[name] for name in SAID if first.get(name)}
    body["items"] = [_item(row.cells) for row in entry]
    return body


def _item(cells: dict[str, str]) -> dict[str, Any]:
    item: dict[str, Any] = {name: cells[name] for name in SAID_OF_LINE if cells.get(name)}
    if _INTEGER.fullmatch(item.get("quantity", "")):
        item["quantity"] = int(item["quantity"])
    if "attributes" in item:
        with contextlib.suppress(ValueError, RecursionError):  # a text is refused with the field's own sentence
            item["attributes"] = json.loads(item["attributes"])
    return item
