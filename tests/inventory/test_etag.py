"""ETag of the inventory: 304 for what the client has, and never for what has changed in any way."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from inventory import stock
from inventory.models import Product
from tests.factories import ProductFactory
from tests.harness.client import ApiClient
from tests.inventory.stock import INVENTORY

# Real transactions, because the tag is made of their numbers.
pytestmark = pytest.mark.django_db(transaction=True)

QUERIES = ["", "?page=1&per_page=1", "?q=robe&is_active=true"]


@pytest.fixture
def robe(alice: Account) -> Product:
    ProductFactory(account=alice, sku="AUTRE", name="Une robe")
    return ProductFactory(account=alice, sku="ROBE", name="Robe")


def tag(api: ApiClient, query: str = "") -> str:
    return api.get(INVENTORY + query)["ETag"]


@pytest.mark.parametrize("query", QUERIES)
def test_what_is_known_is_not_sent_again(robe: Product, api: ApiClient, query: str) -> None:
    first = api.get(INVENTORY + query)

    for sent in (first["ETag"], first["ETag"].removeprefix("W/"), f'"x", {first["ETag"]}', "*"):
        again = api.get(INVENTORY + query, headers={"If-None-Match": sent})
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert first["ETag"].startswith('W/"')
    assert first["Cache-Control"] == "private, no-cache"
    assert first["Vary"] == "Authorization"
    assert api.get(INVENTORY + query, headers={"If-None-Match": 'W/"other"'}).status_code == 200


def update(**changes: Any) -> Callable[[Product], None]:
    return lambda robe: Product.objects.filter(id=robe.id).update(**changes) and None


def set_stock(quantity: int) -> Callable[[Product], None]:
    def change(robe: Product) -> None:
        stock.set_quantities(
            robe.account_id, [stock.Update(id=robe.id, quantity=quantity)], actor=Actor.of_command("test")
        )

    return change


def there_and_back(robe: Product) -> None:
    """Change the stock and change it back: a client that read in between has the other number."""
    set_stock(3)(robe)
    set_stock(10)(robe)
    Product.objects.filter(id=robe.id).update(updated_at=robe.updated_at)


CHANGES: dict[str, Callable[[Product], Any]] = {
    "stock": set_stock(3),
    "the same stock": set_stock(10),
    "stock, there and back, at the same time": there_and_back,
    "name": update(name="Robe bleue"),
    "price": update(price="1500.01"),
    "is_active": update(is_active=False),
    "sku": update(sku="ROBE-2"),
    "a new one": lambda robe: ProductFactory(account=robe.account, name="Robe"),
    "one less": lambda robe: robe.delete(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_changes_the_tag(robe: Product, api: ApiClient, change: Callable[..., Any]) -> None:
    before = [tag(api, query) for query in QUERIES]

    change(robe)

    for query, known in zip(QUERIES, before, strict=True):
        assert api.get(INVENTORY + query, headers={"If-None-Match": known}).status_code == 200
        assert tag(api, query) != known


def test_a_change_that_began_first_and_is_committed_last_is_told(robe: Product, api: ApiClient) -> None:
    """The newest transaction's number is the same before and after."""
    slow = connection.copy()
    slow.set_autocommit(False)
    try:
        slow.cursor().execute("UPDATE inventory_product SET name = 'Robe rouge' WHERE sku = 'AUTRE'")
        update(name="Robe verte")(robe)
        before = tag(api)
        slow.commit()
    finally:
        slow.close()

    assert tag(api) != before


def test_pages_and_accounts_have_tags_of_their_own(
    alice: Account, robe: Product, api: ApiClient, charlie: Account, charlies_api: ApiClient
) -> None:
    ProductFactory(account=charlie)
    before = tag(api)

    tags = {tag(api), tag(api, "?page=1"), tag(api, "?page=2"), tag(api, "?per_page=1"), tag(charlies_api)}
    ProductFactory(account=charlie)

    assert len(tags) == 5
    assert tag(api) == before


def test_a_304_costs_one_statement_and_a_put_does_not_know_it(robe: Product, api: ApiClient) -> None:
    known = tag(api)

    with CaptureQueriesContext(connection) as queries:
        assert api.get(INVENTORY, headers={"If-None-Match": known}).status_code == 304

    assert len(queries) == 1
    put = api.put(INVENTORY, {"updates": [{"sku": "ROBE", "quantity": 1}]})
    assert (put.status_code, "ETag" in put) == (200, False)
    assert put["Cache-Control"] == "no-store"
