"""All products in one answer: every one exactly once, in constant memory, whatever happens meanwhile."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from codservice import searches
from codservice.accounts.models import Account
from codservice.searches import StillSearching
from inventory import views
from inventory.models import Product
from tests.factories import ProductFactory
from tests.harness.background import Background
from tests.harness.client import ApiClient
from tests.harness.database import database_url, end_sessions
from tests.harness.memory import most_memory
from tests.harness.searches import search_under_way
from tests.inventory.stock import INVENTORY


def make_products(account: Account, count: int, *, prefix: str = "SKU") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO inventory_product
                (id, account_id, sku, name, price, stock_quantity, is_active, created_at, updated_at)
            SELECT gen_random_uuid(), %s, %s || '-' || lpad(n::text, 6, '0'), 'Robe kabyle ' || n, 1500, 10, true,
                now(), now()
            FROM generate_series(1, %s) n
            """,
            [account.id, prefix, count],
        )


def read(answer: Any) -> list[dict[str, Any]]:
    return json.loads(b"".join(answer.streaming_content))["data"]


@pytest.mark.django_db
@pytest.mark.parametrize("count", [999, 1000, 1001, 2000, 2500])
def test_every_product_exactly_once(alice: Account, api: ApiClient, count: int) -> None:
    make_products(alice, count)

    answer = api.get(INVENTORY)
    data = read(answer) if answer.streaming else answer.json()["data"]

    assert [product["sku"] for product in data] == [f"SKU-{number:06}" for number in range(1, count + 1)]
    assert answer.streaming == (count >= views.STREAMED)
    assert answer["Content-Type"] == "application/json"


@pytest.mark.django_db
def test_the_answer_is_the_same_as_the_pages_together(alice: Account, api: ApiClient) -> None:
    make_products(alice, 1300)

    pages = [api.get(f"{INVENTORY}?page={page}&per_page=500").json()["data"] for page in (1, 2, 3)]

    assert read(api.get(INVENTORY)) == list(chain.from_iterable(pages))


@pytest.mark.django_db
def test_filters_hold_on_every_page_of_it(alice: Account, charlie: Account, api: ApiClient) -> None:
    make_products(alice, 3000)
    make_products(charlie, 3000, prefix="SKU-C")
    Product.objects.filter(sku__endswith="7").update(stock_quantity=1)

    data = read(api.get(f"{INVENTORY}?stock_below=11"))
    few = api.get(f"{INVENTORY}?stock_below=5").json()["data"]

    assert (len(data), len(few)) == (3000, 300)
    assert {product["stock_quantity"] for product in few} == {1}


@pytest.mark.django_db
def test_a_product_that_is_there_all_the_while_is_sent_once_while_others_come_and_go(
    alice: Account, api: ApiClient
) -> None:
    make_products(alice, 5000)
    pieces = iter(api.get(INVENTORY).streaming_content)
    got = [next(pieces)]
    for number, piece in enumerate(pieces):
        got.append(piece)
        for sku in ("A", "SKU-002500", "ZZZ"):  # before, among and after what has been sent
            ProductFactory(account=alice, sku=f"{sku}-NEW-{number}")
        Product.objects.filter(account=alice, sku__in=["SKU-000001", "SKU-004999"]).delete()
        Product.objects.filter(account=alice).update(stock_quantity=number)

    skus = [product["sku"] for product in json.loads(b"".join(got))["data"]]

    assert len(skus) == len(set(skus))
    assert skus == sorted(skus)
    assert set(skus) >= {f"SKU-{number:06}" for number in range(2, 5001)} - {"SKU-004999"}
    assert {"ZZZ-NEW-0", "ZZZ-NEW-1"} <= set(skus)


@pytest.mark.django_db
def test_its_memory_does_not_grow_with_the_number_of_products(alice: Account, api: ApiClient) -> None:
    make_products(alice, 20_000)
    api.get(f"{INVENTORY}?page=1")  # loads whatever is loaded only once

    size, most = most_memory(lambda: sum(map(len, api.get(INVENTORY).streaming_content)))

    assert size > 2_500_000
    assert most < 1_800_000, "a page of 1000 rows is about 1 MB; all 20 000 were 20"


@pytest.mark.django_db(transaction=True)
def test_no_transaction_stays_open_between_the_pages(alice: Account, api: ApiClient) -> None:
    make_products(alice, 2500)
    pieces = iter(api.get(INVENTORY).streaming_content)

    statuses = [connection.connection.info.transaction_status.name for _ in pieces]
    assert statuses == ["IDLE"] * 3


def pages_until(broken: int, api: ApiClient) -> Iterator[bytes]:
    """Yield an answer's pieces. The database's sessions end when `broken` of them have come."""
    for number, piece in enumerate(api.get(INVENTORY).streaming_content, start=1):
        yield piece
        if number == broken:
            Background(end_sessions).result()


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_breaks_off_cannot_be_taken_for_a_complete_one(alice: Account, api: ApiClient) -> None:
    make_products(alice, 2500)
    got: list[bytes] = []
    with pytest.raises(OperationalError):
        got.extend(pages_until(1, api))
    connection.close()

    assert sum(map(len, got)) > 100_000
    with pytest.raises(json.JSONDecodeError):
        json.loads(b"".join(got))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("query", "turns"), [("?q=robe", 3), ("?stock_below=11", 0)])
def test_each_page_of_a_search_has_the_limits_of_searches(
    alice: Account, api: ApiClient, query: str, turns: int
) -> None:
    make_products(alice, 2500)

    with CaptureQueriesContext(connection) as sent:
        assert len(read(api.get(f"{INVENTORY}{query}"))) == 2500

    said = [each["sql"].split()[0] for each in sent]
    assert said.count("BEGIN") == said.count("COMMIT") == turns
    assert sum("pg_try_advisory_xact_lock" in each["sql"] for each in sent) == turns


@pytest.mark.django_db(transaction=True)
def test_a_search_that_is_refused_on_the_way_cannot_be_taken_for_a_complete_one(
    alice: Account, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "PATIENCE", 0.2)
    make_products(alice, 2500)
    got: list[bytes] = []
    answer = api.get(f"{INVENTORY}?q=robe")

    with search_under_way(alice), pytest.raises(StillSearching):
        got.extend(answer.streaming_content)

    assert sum(map(len, got)) > 100_000
    with pytest.raises(json.JSONDecodeError):
        json.loads(b"".join(got))


@pytest.mark.django_db(transaction=True)
def test_when_the_first_page_fails_the_answer_is_a_proper_error(alice: Account, api: ApiClient) -> None:
    with psycopg.connect(database_url()) as other:
        other.execute("LOCK TABLE inventory_product IN ACCESS EXCLUSIVE MODE")
        answer = api.get(INVENTORY)

    assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")


@pytest.mark.django_db
def test_head_reads_no_products(alice: Account, api: ApiClient) -> None:
    make_products(alice, 2500)

    head, get = api.head(INVENTORY), api.get(INVENTORY)

    assert (head.status_code, b"".join(head.streaming_content)) == (200, b"")
    assert (head["ETag"], head["Content-Type"]) == (get["ETag"], get["Content-Type"])
