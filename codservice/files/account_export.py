"""All data of an account as a ZIP file: a CSV file for each of its tables, its twin's in a folder `test`.

The file is written while it is sent, in constant memory whatever its size. No transaction or cursor waits for a slow
client: each page of rows is a statement of its own, along an index, so a row is as it is when its page is read.
Nothing in it gives access: keys and signing secrets are kept as digests or encrypted, in binary columns, which are left
out. Of the account's people it has the holder alone, by the PEOPLE columns. Of our staff it has the names in orders'
histories, as the API has them, and nothing in the security log.
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from django.db.models import BinaryField, Model, Q, QuerySet

from codservice.accounts.models import Account, ApiKey, SecurityEntry, User
from codservice.accounts.security_log import By
from codservice.days import ALGIERS
from codservice.files.safe_csv import csv_pieces
from codservice.files.workbooks import Sink
from codservice.long_lists import batches_by

PEOPLE = ("username", "email", "first_name", "last_name", "date_joined", "last_login")


class ExportedTable(NamedTuple):
    """A table whose rows are exported.

    `link` is the column that leads to the account, or with `below` to a row of that other exported table. `key` orders
    the rows of one account, or of one row above, along an index. `one_by_one` is for a few rows above with very many
    below each, which no index gives in order together. Without `columns` all are exported. `cover` blanks what the
    account may not see. `most` is how many rows are in memory at once: few, where a row may be long.
    """

    model: type[Model]
    key: tuple[str, ...]
    link: str = "account"
    below: str = ""
    one_by_one: bool = False
    where: Q = Q()
    columns: tuple[str, ...] = ()
    cover: Callable[[dict[str, Any]], None] = lambda row: None
    most: int = 1000


def _cover_staff(row: dict[str, Any]) -> None:
    if row["by"] in (By.STAFF, By.COMMAND):
        row |= {"actor": "", "actor_id": None, "address": ""}


# Tables by the name of their file, in the order of the ZIP. Apps add theirs in `ready`.
TABLES = {
    "account": ExportedTable(Account, ("id",), link="id"),
    "people": ExportedTable(User, ("id",), columns=PEOPLE),
    "api_keys": ExportedTable(ApiKey, ("id",)),
    "security_log": ExportedTable(SecurityEntry, ("created_at", "id"), cover=_cover_staff),
}


def columns(table: ExportedTable) -> list[str]:
    fields = table.model._meta.concrete_fields
    return [*table.columns] or [
        field.attname for field in fields if field.name != "account" and not isinstance(field, BinaryField)
    ]


def stream(account: Account) -> Iterator[bytes]:
    """The ZIP file in pieces."""
    accounts = {"": account, "test/": Account.objects.filter(live=account).first()}
    sink = Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        for folder, each in accounts.items():
            for name, table in TABLES.items() if each else ():
                about = zipfile.ZipInfo(f"{folder}{name}.csv", datetime.now(ALGIERS).timetuple()[:6])
                about.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(about, "w", force_zip64=True) as file:
                    for piece in csv_pieces(columns(table), _lines(each, table)):
                        file.write(piece)
                        yield sink.take()
        archive.close()
        yield sink.take()


def _lines(account: Account, table: ExportedTable) -> Iterator[list[Any]]:
    names = columns(table)
    for row in chain.from_iterable(_pages(account, table)):
        table.cover(row)
        yield [_shown(row[name]) for name in names]


def _pages(account: Account, table: ExportedTable) -> Iterator[list[dict[str, Any]]]:
    rows = table.model._default_manager.filter(table.where).values("pk", *columns(table), *table.key)
    if not table.below:
        yield from _along(rows.filter(**{table.link: account.pk}), table)
        return
    for page in _pages(account, TABLES[table.below]):
        above = [row["pk"] for row in page]
        for together in [[each] for each in above] if table.one_by_one else [above]:
            yield from _of(rows, table, together)


def _of(rows: QuerySet, table: ExportedTable, above: Sequence[Any]) -> Iterator[list[dict[str, Any]]]:
    """The rows that belong to these rows of the table above: all at once if they are few, otherwise half by half, down
    to those of one row, which come page by page.
    """
    rest = [above]
    while rest:
        some = rest.pop()
        if len(some) == 1:
            yield from _along(rows.filter(**{table.link: some[0]}), table)
            continue
        page = list(rows.filter(**{f"{table.link}__in": some}).order_by(table.link, *table.key)[: table.most + 1])
        if len(page) <= table.most:
            yield page
        else:
            half = len(some) // 2
            rest += [some[half:], some[:half]]
        del page


def _along(rows: QuerySet, table: ExportedTable) -> Iterator[list[dict[str, Any]]]:
    return batches_by(rows, table.key, table.most, place=lambda row: [row[name] for name in table.key])


def _shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
