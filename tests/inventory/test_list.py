"""GET /api/v1/inventory: all of one's own products, or a page of them, filtered."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts.models import Account
from inventory.models import Product
from tests.factories import ProductFactory
from tests.harness.client import ApiClient
from tests.inventory.stock import INVENTORY

pytestmark = pytest.mark.django_db


def skus(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.json()
    return [product["sku"] for product in answer.json()["data"]]


def test_a_product_as_the_contract_has_it(alice: Account, api: ApiClient) -> None:
    product = ProductFactory(
        account=alice, sku="ROBE", name="Robe kabyle", price=Decimal("1500"), stock_quantity=0, is_active=False
    )

    answer = api.get(INVENTORY)

    assert answer.json() == {
        "data": [
            {
                "id": str(product.id),
                "name": "Robe kabyle",
                "sku": "ROBE",
                "stock_quantity": 0,
                "price": "1500.00",
                "is_active": False,
            }
        ]
    }
    assert answer["Content-Type"] == "application/json"


def test_all_are_sorted_by_sku(alice: Account, api: ApiClient) -> None:
    for sku in ("B", "a", "A-2", "A", "ب", "É"):
        ProductFactory(account=alice, sku=sku)

    assert skus(api.get(INVENTORY)) == list(Product.objects.order_by("sku").values_list("sku", flat=True))


def test_no_products(api: ApiClient) -> None:
    assert api.get(INVENTORY).json() == {"data": []}
    assert api.get(f"{INVENTORY}?page=3").json() == {
        "data": [],
        "meta": {"total": 0, "per_page": 15, "current_page": 3, "last_page": 1},
    }


@pytest.mark.parametrize("query", ["", "?page=1", "?q=Product", "?sku=MINE,HERS", "?stock_below=100"])
def test_another_accounts_products_are_not_there(alice: Account, charlies_api: ApiClient, query: str) -> None:
    ProductFactory(account=alice, sku="HERS")

    assert skus(charlies_api.get(INVENTORY + query)) == []


def test_the_scope_is_asked_for(alice: Account, api_for: Any) -> None:
    answer = api_for(alice, scopes=["inventory:write"]).get(INVENTORY)

    assert (answer.status_code, answer.json()["error"]) == (403, "insufficient_scope")


def test_pages(alice: Account, api: ApiClient) -> None:
    names = [f"S{number:02}" for number in range(23)]
    for name in names:
        ProductFactory(account=alice, sku=name)

    pages = [api.get(f"{INVENTORY}?page={page}&per_page=10") for page in (1, 2, 3, 4)]

    assert [skus(page) for page in pages] == [names[:10], names[10:20], names[20:], []]
    assert pages[1].json()["meta"] == {"total": 23, "per_page": 10, "current_page": 2, "last_page": 3}
    assert skus(api.get(f"{INVENTORY}?per_page=500")) == names
    assert skus(api.get(f"{INVENTORY}?page=2")) == names[15:]
    assert "meta" not in api.get(INVENTORY).json()


@pytest.fixture
def shop(alice: Account) -> None:
    ProductFactory(account=alice, sku="ROBE-M", name="Robe kabyle", stock_quantity=0)
    ProductFactory(account=alice, sku="ROBE-L", name="Robe kabyle 100%", stock_quantity=5, is_active=False)
    ProductFactory(account=alice, sku="SAC", name="حقيبة", stock_quantity=50)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("sku=SAC", ["SAC"]),
        ("sku=SAC, ROBE-L ,NOBODYS,SAC", ["ROBE-L", "SAC"]),
        ("sku=sac", []),
        ("q=%E2%80%8Erobe", ["ROBE-L", "ROBE-M"]),
        ("q=KABYLE", ["ROBE-L", "ROBE-M"]),
        ("q=%25", ["ROBE-L"]),
        ("q=_", []),
        ("q=حقيبة", ["SAC"]),
        ("is_active=true", ["ROBE-M", "SAC"]),
        ("is_active=false", ["ROBE-L"]),
        ("stock_below=5", ["ROBE-M"]),
        ("stock_below=0", []),
        ("stock_below=1000000000", ["ROBE-L", "ROBE-M", "SAC"]),
        ("is_active=true&stock_below=10&q=robe", ["ROBE-M"]),
        ("unknown=1", ["ROBE-L", "ROBE-M", "SAC"]),
    ],
)
@pytest.mark.usefixtures("shop")
def test_filters(api: ApiClient, query: str, found: list[str]) -> None:
    assert skus(api.get(f"{INVENTORY}?{query}")) == found
    paged = api.get(f"{INVENTORY}?{query}&per_page=2")
    assert (skus(paged), paged.json()["meta"]["total"]) == (found[:2], len(found))


@pytest.mark.usefixtures("shop")
def test_what_has_changed_since(api: ApiClient) -> None:
    now = datetime.now(UTC)
    Product.objects.update(updated_at=now - timedelta(days=3))
    Product.objects.filter(sku="SAC").update(updated_at=now)

    assert skus(api.get(INVENTORY, {"updated_from": (now - timedelta(hours=1)).isoformat()})) == ["SAC"]
    assert skus(api.get(INVENTORY, {"updated_from": now.isoformat()})) == ["SAC"]
    assert len(skus(api.get(INVENTORY, {"updated_from": "2020-01-01"}))) == 3


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *((f"{name}=", name) for name in ("sku", "q", "is_active", "stock_below", "updated_from")),
        *((f"{name}=%00", name) for name in ("sku", "q", "is_active", "stock_below", "updated_from")),
        *((f"{name}=%ff%fe", name) for name in ("is_active", "stock_below", "updated_from")),
        ("sku=A,,B", "sku"),
        ("sku=,", "sku"),
        ("sku=" + "x" * 65, "sku"),
        ("sku=" + ",".join(str(number) for number in range(501)), "sku"),
        ("q=" + "x" * 101, "q"),
        ("is_active=yes", "is_active"),
        ("is_active=True", "is_active"),
        ("is_active=1", "is_active"),
        ("stock_below=-1", "stock_below"),
        ("stock_below=1.5", "stock_below"),
        ("stock_below=1e3", "stock_below"),
        ("stock_below=1000000001", "stock_below"),
        ("stock_below=" + "9" * 5000, "stock_below"),
        ("stock_below=٥", "stock_below"),
        ("updated_from=yesterday", "updated_from"),
        ("updated_from=2026-11-20T10:00:00", "updated_from"),
        ("page=0", "page"),
        ("page=", "page"),
        ("page=last", "page"),
        ("page=1e3", "page"),
        ("page=99999999999999999999", "page"),
        ("per_page=0", "per_page"),
        ("per_page=501", "per_page"),
        ("per_page=-5", "per_page"),
    ],
)
def test_values_that_cannot_be_used_are_refused(api: ApiClient, query: str, field: str) -> None:
    answer = api.get(f"{INVENTORY}?{query}")

    assert (answer.status_code, answer.json()["error"]) == (422, "validation_failed")
    assert list(answer.json()["errors"]) == [field]


def test_all_unusable_values_are_named_at_once(api: ApiClient) -> None:
    errors = api.get(f"{INVENTORY}?page=x&is_active=x&q=").json()["errors"]

    assert set(errors) == {"page", "is_active", "q"}


@pytest.mark.parametrize("count", [1, 60])
def test_a_page_costs_two_statements(alice: Account, api: ApiClient, count: int) -> None:
    for _ in range(count):
        ProductFactory(account=alice)
    api.get(INVENTORY)  # so that the key is cached

    with CaptureQueriesContext(connection) as all_of_them:
        api.get(INVENTORY)
    with CaptureQueriesContext(connection) as page:
        api.get(f"{INVENTORY}?page=1&stock_below=11")
    with CaptureQueriesContext(connection) as search:  # with its turn and its time limit, in a transaction
        api.get(f"{INVENTORY}?page=1&q=Product")

    assert (len(all_of_them), len(page), len(search)) == (2, 2, 5)


@pytest.mark.parametrize("path", [f"{INVENTORY}/", f"{INVENTORY}/SKU-1"])
def test_there_is_nothing_below(api: ApiClient, path: str) -> None:
    assert api.get(path).status_code == 404
