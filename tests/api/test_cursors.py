"""Lists by cursor: every row once, whatever comes and goes meanwhile, and each page at the price of the first."""

import re
from datetime import UTC, datetime, timedelta
from itertools import chain
from urllib.parse import urlencode

import pytest
from django.core import signing
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts.models import Account
from inventory.models import Product
from orders.models import Order, Status
from tests.factories import ProductFactory, make_order, make_orders
from tests.harness.deliveries import write_delivery
from tests.harness.plans import explain, fill
from webhooks.models import Attempt, Delivery

ORDERS, INVENTORY = "/api/v1/orders", "/api/v1/inventory"
pytestmark = pytest.mark.django_db
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
SORTS = ("", "created_at", "-created_at", "updated_at", "-updated_at")


def get(api, path, **query):
    answer = api.get(f"{path}?{urlencode(query)}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def walk(api, path, meanwhile=lambda number: None, **query):
    """Return the ids of each page."""
    cursor, found, number = "", [], 0
    while cursor is not None:
        body = get(api, path, cursor=cursor, **query)
        found.append([row["id"] for row in body["data"]])
        assert body["meta"].keys() == {"per_page", "next_cursor"}
        cursor = body["meta"]["next_cursor"]
        meanwhile(number)
        number += 1
    return found


def together(pages):
    return list(chain.from_iterable(pages))


def refused(api, path, **query):
    answer = api.get(f"{path}?{urlencode(query)}")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["cursor"])


@pytest.fixture
def many(alice, charlie):
    """47 orders of Alice's in all statuses, many made or changed at the same time; and one of Charlie's."""
    orders = make_orders(alice, ({"external_id": str(number)} for number in range(47)))
    for number, order in enumerate(orders):
        order.created_at = NOON + timedelta(hours=number // 20)
        order.updated_at = NOON + timedelta(hours=(number * 7) % 3)
        order.status, order.wilaya_code = list(Status)[number % 5], f"{number % 2 + 15}"
    Order.objects.bulk_update(orders, ["created_at", "updated_at", "status", "wilaya_code"])
    make_order(charlie)
    return list(Order.objects.filter(account=alice))


@pytest.fixture
def log(alice, webhook_to):
    """The address of a webhook's log of 25 deliveries, many made at the same time."""
    webhook = webhook_to("https://shop.example/hooks")
    for number in range(25):
        written = write_delivery(webhook, "failed" if number % 2 else "delivered", attempts=1)
        Delivery.objects.filter(id=written.id).update(created_at=NOON + timedelta(hours=number // 10))
    return f"/api/v1/webhooks/{webhook.id}/deliveries"


@pytest.mark.parametrize("sort", SORTS)
def test_the_pages_together_are_all_orders_in_their_order(alice, api, many, sort):
    Account.objects.filter(id=alice.id).update(rate_limit=1000)
    chosen = {"sort": sort} if sort else {}
    expected = [row["id"] for row in get(api, ORDERS, per_page=100, **chosen)["data"]]
    for per_page in (1, 7, 46, 47, 100):
        pages = walk(api, ORDERS, per_page=per_page, **chosen)
        assert together(pages) == expected, per_page
        assert [len(page) for page in pages[:-1]] == [per_page] * (len(pages) - 1)
        assert pages[-1], "no page is empty but that of an empty list"


@pytest.mark.parametrize("sort", ["created_at", "-updated_at"])
def test_filters_hold_on_every_page(alice, api, many, sort):
    Account.objects.filter(id=alice.id).update(rate_limit=1000)
    for query in (
        {"status": "confirmed,shipped"}, {"wilaya": "Alger"}, {"q": "benali"}, {"created_from": "2026-03-10T13:00:00Z"},
    ):  # fmt: skip
        expected = [row["id"] for row in get(api, ORDERS, per_page=100, sort=sort, **query)["data"]]
        assert 5 < len(expected) < 48, query
        assert together(walk(api, ORDERS, per_page=4, sort=sort, **query)) == expected, query


def test_the_end_and_an_empty_list_have_no_next(api, many):
    assert get(api, ORDERS, cursor="", per_page=100)["meta"] == {"per_page": 100, "next_cursor": None}
    assert get(api, ORDERS, cursor="", external_id="nothing") == {
        "data": [],
        "meta": {"per_page": 15, "next_cursor": None},
    }


@pytest.mark.parametrize("sort", ["created_at", "-created_at"])
def test_what_comes_and_goes_meanwhile_moves_nobody_over_a_page(alice, api, many, sort):
    """Pages by number would repeat or skip rows then."""
    stays = {str(order.id) for order in many[::2]}

    def meanwhile(number):
        gone = Order.objects.filter(account=alice).exclude(id__in=stays).order_by("?").values("id")[:5]
        Order.objects.filter(id__in=list(gone.values_list("id", flat=True))).delete()
        for hours in (-5, 0, 1, 5):
            order = make_order(alice)
            Order.objects.filter(id=order.id).update(created_at=NOON + timedelta(hours=hours))

    ids = together(walk(api, ORDERS, meanwhile, per_page=10, sort=sort))
    assert len(ids) == len(set(ids))
    assert stays <= set(ids)


def test_upwards_by_the_last_change_what_changes_meanwhile_comes_again_and_nothing_is_skipped(api, many):
    def meanwhile(number):
        moved = many[number * 3 % 47]
        Order.objects.filter(id=moved.id).update(updated_at=NOON + timedelta(days=1, hours=number), version=number)

    ids = together(walk(api, ORDERS, lambda number: number < 6 and meanwhile(number), per_page=5, sort="updated_at"))
    assert set(ids) == {str(order.id) for order in many}


def test_products_by_sku(alice, charlie, api):
    for sku in ("b", "a", "é", "A", "Z", "ا", "a b", "😀" * 64, "1", "-"):
        ProductFactory(account=alice, sku=sku, is_active=sku != "b")
    ProductFactory(account=charlie)
    everything = [product["id"] for product in get(api, INVENTORY)["data"]]
    assert len(everything) == 10
    for per_page in (1, 3, 10, 500):
        assert together(walk(api, INVENTORY, per_page=per_page)) == everything
    assert len(together(walk(api, INVENTORY, per_page=2, is_active="true"))) == 9
    first = api.get(f"{INVENTORY}?cursor=")
    tagged = api.get(f"{INVENTORY}?cursor=", headers={"If-None-Match": first.headers["ETag"]})
    assert tagged.status_code == 304
    Product.objects.filter(sku="a").update(stock_quantity=77)
    assert api.get(f"{INVENTORY}?cursor=", headers={"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_deliveries(api, log):
    for query in ({}, {"status": "failed"}):
        expected = [row["id"] for row in get(api, log, per_page=100, **query)["data"]]
        assert together(walk(api, log, per_page=4, **query)) == expected
        assert len(expected) > 10
    assert Attempt.objects.exists()
    assert get(api, log, cursor="", per_page=1)["data"][0]["attempts"]


# --- What a cursor is bound to --------------------------------------------------------------------------------------


def test_a_cursor_is_bound_to_list_filters_sort_and_account(api, charlies_api, many, log):
    query = {"status": "confirmed,shipped,canceled", "sort": "updated_at", "per_page": 2}
    cursor = get(api, ORDERS, cursor="", **query)["meta"]["next_cursor"]

    assert get(api, ORDERS, cursor=cursor, **query | {"per_page": 9, "unknown": "x"})["data"]
    for other in ({"status": "confirmed"}, {"sort": "-updated_at"}, {"sort": "created_at"}, {"wilaya": "16"}):
        refused(api, ORDERS, cursor=cursor, **query | other)
    refused(api, ORDERS, cursor=cursor, sort="updated_at")
    refused(charlies_api, ORDERS, cursor=cursor, **query)
    plain = get(api, ORDERS, cursor="", per_page=2)["meta"]["next_cursor"]
    refused(api, INVENTORY, cursor=plain)
    refused(api, log, cursor=plain)
    refused(api, ORDERS, cursor=get(api, log, cursor="", per_page=2)["meta"]["next_cursor"])
    refused(api, ORDERS, cursor=plain, page=1)
    refused(api, ORDERS, cursor="", page=2)


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        ".",
        "a.b",
        "0",
        " ",
        "\0",
        "é.é",
        "null",
        "e30.e30",
        "x" * 2001,
        "x" * 30_000,
        signing.dumps(["", ["t", "x"]]),
    ],
    ids=lambda cursor: cursor[:10],
)
def test_what_is_no_cursor_is_refused(api, cursor):
    refused(api, ORDERS, cursor=cursor)
    refused(api, INVENTORY, cursor=cursor)


def test_a_cursor_that_was_changed_is_refused(api, many):
    cursor = get(api, ORDERS, cursor="", per_page=2)["meta"]["next_cursor"]
    for place in range(0, len(cursor), 7):
        other = "A" if cursor[place] != "A" else "B"
        refused(api, ORDERS, cursor=cursor[:place] + other + cursor[place + 1 :])
    refused(api, ORDERS, cursor=cursor[:-1])
    refused(api, ORDERS, cursor=cursor + "A")


def test_it_is_said_with_all_else_that_is_wrong(api):
    answer = api.get(f"{ORDERS}?cursor=x&per_page=0&status=open")
    assert answer.json()["errors"].keys() == {"cursor", "per_page", "status"}


# --- What it costs --------------------------------------------------------------------------------------------------


def plan_of(api, path, **query):
    """Return how the page is read when its table is too long to be read whole."""
    with CaptureQueriesContext(connection) as queries:
        get(api, path, **query)
    (page,) = (each["sql"] for each in queries if "ROW(" in each["sql"])
    return explain(page, without=["seqscan", "bitmapscan", "sort"])


def test_the_index_goes_on_where_the_last_page_ended(alice, charlie, api):
    fill(alice, charlie)
    for query, index in (({}, "order_list"), ({"status": "confirmed"}, "order_list_by_status")):
        for sort in SORTS:
            page = query | ({"sort": sort} if sort else {})
            cursor = get(api, ORDERS, cursor="", per_page=2, **page)["meta"]["next_cursor"]
            plan = plan_of(api, ORDERS, cursor=cursor, **page)
            assert re.search(r"order_list_by_update\b" if "updated" in sort else rf"{index}\b", plan), plan
            assert re.search(r"Index Cond: .*ROW\(", plan), plan
            assert "Sort" not in plan, plan


def test_the_index_of_products_and_of_deliveries_too(alice, api, log):
    for number in range(5):
        ProductFactory(account=alice, sku=str(number))
    cursor = get(api, INVENTORY, cursor="", per_page=2)["meta"]["next_cursor"]
    plan = plan_of(api, INVENTORY, cursor=cursor)
    assert "one_product_per_sku" in plan, plan
    assert re.search(r"Index Cond: .*sku\S* > ", plan), plan
    cursor = get(api, log, cursor="", per_page=2)["meta"]["next_cursor"]
    plan = plan_of(api, log, cursor=cursor)
    assert "delivery_log" in plan, plan
    assert re.search(r"Index Cond: .*ROW\(", plan), plan
    assert "Sort" not in plan, plan


def test_a_page_costs_as_many_statements_at_any_depth(alice, api, many, log):
    ProductFactory(account=alice, sku="1")
    ProductFactory(account=alice, sku="2")
    for path, most in ((ORDERS, 1), (INVENTORY, 1), (log, 3)):
        api.get(path)  # so that the key is cached
        cursor, depth = "", 0
        while cursor is not None and depth < 20:
            with CaptureQueriesContext(connection) as queries:
                cursor = get(api, path, cursor=cursor, per_page=1)["meta"]["next_cursor"]
            statements = [each["sql"] for each in queries if "accounts_apikey" not in each["sql"]]
            assert len(statements) <= most, statements
            assert not any("OFFSET" in sql or "COUNT(" in sql for sql in statements)
            depth += 1
