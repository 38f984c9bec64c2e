"""No page and no call reads a growing table from end to end: an index does the work.

The queries behind a look at each address are explained on tables of some thousand rows, with sequential scans
discouraged. One that is planned all the same has no index, and a scan of an index without a condition reads all of it.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from codservice import days
from inventory.models import Product
from orders import trigrams
from orders.models import Order
from orders.tasks import index_texts
from tests.harness.addresses import addresses
from tests.harness.world import World
from tests.pages.doors import undone

# How often each row of these is copied: the tables that grow with orders and their events.
COPIES = {
    "orders_order": 200, "orders_orderitem": 200, "orders_statuschange": 100, "orders_orderedit": 500,
    "orders_callnote": 100, "inventory_stockmovement": 1000, "webhooks_event": 60, "webhooks_delivery": 500,
    "webhooks_attempt": 1000, "accounts_securityentry": 200, "api_idempotencyrecord": 1000,
}  # fmt: skip
# What each copy has of its own.
OWN = {
    "id": "gen_random_uuid()", "external_id": "gen_random_uuid()::text", "key": "gen_random_uuid()::text",
    "phone_e164": "'+2135' || lpad((random() * 1e8)::bigint::text, 8, '0')",
    "phone_2_e164": "CASE WHEN random() < 0.2 THEN '+2135' || lpad((random() * 1e8)::bigint::text, 8, '0') END",
    "event_id": "(SELECT id FROM webhooks_event e WHERE e.account_id = t.account_id OFFSET n LIMIT 1)",
    "position": "t.position + n", "number": "t.number + n",
    "created_at": "now() - age", "updated_at": "now() - age * random()", "at": "now() - random() * interval '100 days'",
}  # fmt: skip
NOBODY = "00000000-0000-7000-8000-000000000000"
ROOMS = {"agents", "codservice", "inventory", "orders", "webhooks"}
# Without those that Django designed.
OUR_TABLES = {model._meta.db_table for model in apps.get_models() if model.__module__.split(".")[0] in ROOMS}
OUR_TABLES -= {"accounts_user"}
# Nearly a third of the copies were made then, and more were updated.
FIRST, LAST = days.today() - timedelta(days=30), days.today() - timedelta(days=1)
# What lists are asked besides. Django's own lists are asked what agents and supervisors are offered.
ASKED = {
    "/api/v1/orders": [
        "status=confirmed", "status=confirmed,shipped", f"created_from={FIRST}", f"updated_from={FIRST}",
        "phone=0550000001", "wilaya=16", "external_id=1042", "sort=updated_at", "page=9", "cursor=",
        "status=confirmed&wilaya=16", "q=Amine", "q=0550+00", "q=0550000001", "q=amine&status=confirmed",
        f"updated_from={FIRST}&updated_to={LAST}", f"updated_to={LAST}&sort=updated_at",
    ],
    "/api/v1/events": ["types=order.confirmed", "limit=5"],
    "/api/v1/inventory": ["page=1", "sku=A,B", f"updated_from={FIRST}", "stock_below=3"],
    "/account/orders": [
        "status=confirmed", "phone=0550000001", f"created_from={FIRST}", "q=amine",
        f"status=delivered&updated_from={FIRST}&updated_to={LAST}",
    ],
    "/console/orders/order/": [
        "q=0550000001", "q=0550+00", "q=Amine", "status=confirmed", "sort=newest", "status=confirmed&sort=oldest",
        "call=callback&sort=next", "merchant=Alice",
    ],
    "/console/bulk/": ["action=cancel&every=1&status=confirmed", "action=export&every=1&q=0550000001"],
    "/console/accounts/securityentry/": ["q=shop", "action=key_made", "outcome=refused", f"account={NOBODY}"],
    "/console/webhooks/delivery/": [f"webhook={NOBODY}", f"webhook={NOBODY}&status=failed", f"q={NOBODY}"],
    "/console/webhooks/event/": [f"q={NOBODY}"],
    "/console/webhooks/attempt/": [f"q={NOBODY}"],
}  # fmt: skip

# Steps that read everything below them before they return their first row.
GATHERS = {"Sort", "Aggregate", "Hash", "WindowAgg", "Bitmap Heap Scan"}


@pytest.fixture(scope="module")
def grown_of_file(world_of_file: World, django_db_blocker: Any) -> None:
    """Grown once, and undone with the world."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(trigrams, "STEP", 500)
        grow()


@pytest.fixture
def grown(grown_of_file: None, world: World) -> World:
    return world


def grow() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")  # two seconds' work may take thirty on a busy machine
        for table, copies in COPIES.items():
            columns = [column.name for column in connection.introspection.get_table_description(cursor, table)]
            identity = {"id"} if _is_number(cursor, table) else set()
            written = [column for column in columns if column not in identity]
            taken = [OWN.get(column, f't."{column}"') for column in written]
            names = ", ".join(f'"{column}"' for column in written)
            cursor.execute(
                f"INSERT INTO {table} ({names}) SELECT {', '.join(taken)} FROM {table} t, generate_series(1, %s) n,"
                " LATERAL (SELECT random() * interval '100 days' AS age WHERE n > 0) of_each"
                " ON CONFLICT DO NOTHING",
                [copies],
            )
            cursor.execute(f"ANALYZE {table}")
    index_texts()
    with connection.cursor() as cursor:
        # All of them: earlier tests may have left small ones looking large. Not those that databases share, which
        # would stay locked to the ANALYZE of others until the world is undone.
        cursor.execute("ANALYZE " + ", ".join(connection.introspection.table_names(cursor)))


def _is_number(cursor: Any, table: str) -> bool:
    cursor.execute(
        "SELECT data_type <> 'uuid' FROM information_schema.columns WHERE table_name = %s AND column_name = 'id'",
        [table],
    )
    return cursor.fetchone()[0]


def looks(world: World) -> Iterator[tuple[Any, str]]:
    people = {person: world.client(person) for person in ("key", "holder", "operator", "supervisor", "agent")}
    for address in addresses():
        for path in address.paths()[:1]:
            for person, client in people.items():
                if address.is_api == (person == "key") and "logout" not in path:
                    for query in ["", *ASKED.get(path, [])]:
                        yield client, f"{path}?{query}"


def read_whole(plan: dict[str, Any], is_bounded: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (table, how) for each table read whole. A LIMIT ends a read, unless something below it sorts or counts."""
    table, kind = plan.get("Relation Name"), plan["Node Type"]
    if table in COPIES and not is_bounded:
        if kind == "Seq Scan":
            yield table, "no index"
        elif kind.startswith("Index") and "Index Cond" not in plan and "Filter" in plan:
            yield table, f"{plan['Index Name']}, {plan['Filter']}"
    is_bounded = kind == "Limit" or (is_bounded and kind not in GATHERS)
    for each in plan.get("Plans", []):
        yield from read_whole(each, is_bounded)


def explained(sql: str, *, freely: bool = False) -> dict[str, Any]:
    """Return the plan that uses an index wherever there is one, as on tables of millions of rows; or today's plan."""
    with connection.cursor() as cursor, transaction.atomic():
        if not freely:
            cursor.execute(
                "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
            )
        cursor.execute("EXPLAIN (FORMAT JSON) " + sql)
        (plans,) = cursor.fetchone()
        transaction.set_rollback(True)
    return plans[0]["Plan"]


def test_an_index_does_the_work(grown: World) -> None:
    seen: set[str] = set()
    found, answered = {}, set()
    for client, path in looks(grown):
        with CaptureQueriesContext(connection) as queries, undone(client):
            answer = client.get(path)
            answered |= {path} if answer.status_code == 200 else set()
            assert b"".join(answer) if answer.streaming else answer.status_code
        for sql in (query["sql"] for query in queries):
            shape = re.sub(r"'[^']*'|\d+", "?", sql)
            if shape not in seen and sql.lstrip().startswith(("SELECT", "WITH", "UPDATE", "DELETE")):
                found |= {(path, *each): sql for each in read_whole(explained(sql))}
            seen.add(shape)
    assert len(seen) > 100
    assert {f"{path}?{query}" for path, queries in ASKED.items() for query in queries} <= answered
    assert found == {}


@pytest.mark.parametrize("name", ["created_at", "updated_at"])
def test_lists_are_asked_for_some_of_their_rows(grown: World, name: str) -> None:
    orders = Order.objects.filter(account=grown.alice)
    asked = orders.filter(**{f"{name}__gte": days.start_of(FIRST), f"{name}__lt": days.end_of(LAST)})
    assert orders.count() / 5 < asked.count() < orders.count() * 4 / 5


def test_what_happened_today_is_looked_up_row_by_row(grown: World) -> None:
    """Also by a plan that PostgreSQL chooses freely: not knowing how few they are, it likes to hash all orders."""
    with connection.cursor() as cursor:  # few of a shop's orders wait; those are counted along an index of their own
        cursor.execute("UPDATE orders_order SET status = 'delivered', call_state = 'new' WHERE random() < 0.9")
        cursor.execute("ANALYZE orders_order")
    for person, path in (("holder", "/account/?by="), ("supervisor", "/console/figures/?by=")):
        client = grown.client(person)
        for by in ("day", "product"):
            with CaptureQueriesContext(connection) as queries:
                assert client.get(path + by).status_code == 200
            (sql,) = (query["sql"] for query in queries if "spans(starts, ends)" in query["sql"])
            assert [*read_whole(explained(sql, freely=True))] == [], (path, by)


def test_orders_with_a_product_are_looked_up_one_by_one(grown: World) -> None:
    """No index leads from a product to its lines: each line of each import would pay for it."""
    product, day = Product.objects.filter(account=grown.alice).first(), days.today()
    asked = {"status": "all", "did": "decided", "did_first": day - timedelta(days=30), "did_last": day}
    with CaptureQueriesContext(connection) as queries:
        answer = grown.client("supervisor").get("/console/orders/order/", asked | {"product": product.id})
    assert answer.status_code == 200
    looks_at_lines = [query["sql"] for query in queries if "orders_orderitem" in query["sql"]]
    assert len(looks_at_lines) >= 2  # the page and the count
    assert [found for sql in looks_at_lines for found in read_whole(explained(sql))] == []


# Indexes whose columns another has or begins with, and those that Django adds for LIKE.
FOR_NOTHING = """
SELECT one.indrelid::regclass::text, one.indexrelid::regclass::text
FROM pg_index one JOIN pg_index other ON other.indrelid = one.indrelid AND other.indexrelid <> one.indexrelid
WHERE NOT one.indisunique AND coalesce(one.indpred, other.indpred, one.indexprs, other.indexprs) IS NULL
    AND other.indkey::text || ' ' LIKE one.indkey::text || ' %'
UNION SELECT indrelid::regclass::text, indexrelid::regclass::text FROM pg_index
WHERE indexrelid::regclass::text LIKE '%_like'
"""


@pytest.mark.django_db
def test_no_index_is_written_for_nothing() -> None:
    with connection.cursor() as cursor:
        cursor.execute(FOR_NOTHING)
        found = {name for table, name in cursor.fetchall() if table in OUR_TABLES}
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'orders_orderitem'")
        of_lines = {name for (name,) in cursor.fetchall()}
    assert found == {"operations_duty_name_6ad1f02c_like"}  # of a primary key, in a table of a few rows
    assert of_lines == {"orders_orderitem_pkey", "one_item_per_position"}


@pytest.mark.django_db
def test_what_has_no_index_is_found() -> None:
    sorts = "SELECT id FROM orders_order ORDER BY customer_address LIMIT 5"
    assert [*read_whole(explained(sorts))] == [("orders_order", "no index")]
    assert [*read_whole(explained("SELECT id FROM orders_order LIMIT 5"))] == []
