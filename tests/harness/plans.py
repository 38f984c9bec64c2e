"""Fills tables so that PostgreSQL's plans differ in cost (in an empty table all cost the same), and reads plans."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import cycle
from typing import Any

from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from codservice.accounts.models import Account
from orders.models import Order, Status
from tests.factories import make_orders
from tests.harness.database import one


def fill(*accounts: Account) -> None:
    """Give each account 450 orders, over as many hours and in all statuses. A ninth of them goes to wilaya 16."""
    for account in accounts:
        orders = make_orders(account, ({"customer_wilaya": wilaya} for wilaya in ["16", *["31"] * 8] * 50))
        for hours, (order, status) in enumerate(zip(orders, cycle(Status), strict=False)):
            order.status, order.created_at = status, timezone.now() - timedelta(hours=hours)
            order.updated_at = order.created_at + timedelta(minutes=hours % 7 * 20)
        Order.objects.bulk_update(orders, ["status", "created_at", "updated_at"])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")


# What PostgreSQL believes of a new table, and of one that was emptied, before it counts rows that came since.
UNCOUNTED = ("relpages = 0, reltuples = -1", "relpages = 1000, reltuples = 0")


def fill_uncounted(row: Model, believed: str, *, number: str = "external_id") -> None:
    """Write 10 000 copies of a row, numbered from 1, while PostgreSQL keeps to the statistics `believed`."""
    table = row._meta.db_table
    with connection.cursor() as cursor:
        # Shrink the indexes, which keep the room that earlier tests took.
        cursor.execute(f"SET CONSTRAINTS ALL IMMEDIATE; REINDEX TABLE {table}; SET CONSTRAINTS ALL DEFERRED")
        cursor.execute(f"UPDATE pg_class SET {believed} WHERE oid = '{table}'::regclass")
        cursor.execute(f"DELETE FROM pg_statistic WHERE starelid = '{table}'::regclass")
        # In FROM, so that each row is made once: in the SELECT list the function would run for every column.
        cursor.execute(
            f"INSERT INTO {table} SELECT copy.* FROM {table} o, generate_series(1, 10000) n,"
            f" jsonb_populate_record(o, jsonb_build_object('id', gen_random_uuid(), '{number}', n)) copy"
            " WHERE o.id = %s",
            [row.pk],
        )


def read_so_far(table: str = "orders_order") -> int:
    """The number of rows of the table that this transaction has read."""
    read: int = one(f"SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = '{table}'")
    return read


def copy(order: Order, count: int, *, days: int) -> None:
    """Write `count` copies of an order, the oldest first, evenly over the last `days`."""
    columns = [field.column for field in Order._meta.concrete_fields]
    own = {
        "id": "gen_random_uuid()", "external_id": "NULL", "created_at": "now() - n * interval '1 day' * %s / %s",
    }  # fmt: skip
    taken = ", ".join(own.get(column, column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO orders_order ({', '.join(columns)})"
            f" SELECT {taken} FROM orders_order, generate_series(%s, 1, -1) n WHERE id = %s",
            [days, count, count, order.id],
        )
        cursor.execute("ANALYZE orders_order")


def explain(sql: str, parameters: Any = None, *, without: Iterable[str] = ()) -> str:
    """PostgreSQL's plan for the statement. `without` are methods such as `seqscan`, off until the transaction ends."""
    with connection.cursor() as cursor:
        for way in without:
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"EXPLAIN {sql}", parameters)
        return "\n".join(line for (line,) in cursor.fetchall())


def rows_read(sql: str, table: str) -> int:
    """The number of rows of the table that the statement reads, including those that it filters out."""
    return sum(_rows_read(one("EXPLAIN (ANALYZE, FORMAT JSON) " + sql)[0]["Plan"], table))


def _rows_read(plan: dict[str, Any], table: str) -> Iterator[int]:
    if plan.get("Relation Name") == table:
        passed_by = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        yield round((plan["Actual Rows"] + passed_by) * plan["Actual Loops"])
    for each in plan.get("Plans", []):
        yield from _rows_read(each, table)


def looks_at_events(queries: CaptureQueriesContext) -> int:
    """How many queries searched all of an account's events, from the first one on, for those of some orders."""
    return sum("kind = 'order.created'" in sql and "-1, '-infinity'" in sql for sql in (q["sql"] for q in queries))
