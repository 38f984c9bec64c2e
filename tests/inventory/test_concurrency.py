"""Many at once on the same products: one unbroken chain for each, nothing lost, no deadlock.

Clients are threads with their own connections. What they were answered and what is in the tables afterwards is checked.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from inventory import catalog
from inventory.models import Product
from tests.factories import ProductFactory, make_order, order_line
from tests.harness.background import Background, at_once, open_transaction
from tests.harness.client import ApiClient, new_key
from tests.harness.database import wait_for_lock
from tests.inventory.stock import INVENTORY, movements, stock_of, told
from webhooks import registry
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shop(alice: Account) -> Account:
    """Alice's account, with a rate limit that no test could reach."""
    Account.objects.filter(id=alice.id).update(rate_limit=1_000_000)
    return alice


@pytest.fixture
def deadlocks() -> Any:
    """How many deadlocks PostgreSQL has broken since the test began."""

    def count() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
            cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            return cursor.fetchone()[0]

    before = count()
    return lambda: count() - before


@contextmanager
def another_transaction() -> Iterator[BaseDatabaseWrapper]:
    """A connection besides the threads' own, in a transaction; any thread may use it."""
    other = connection.copy()
    other.inc_thread_sharing()
    other.set_autocommit(False)
    try:
        yield other
    finally:
        other.close()


def commit_when_awaited(other: BaseDatabaseWrapper) -> None:
    """Commit as soon as somebody waits for a lock."""
    wait_for_lock()
    other.commit()


def put(client: ApiClient, entries: list[dict[str, Any]]) -> Any:
    return client.put(INVENTORY, {"updates": entries})


def assert_chain(product: Product, start: int, length: int) -> None:
    """Check that there are `length` movements from `start` to what is in stock, each beginning where the last one
    ended, and that the events tell the same.
    """
    chain = movements(product)
    assert len(chain) == length
    assert [old for old, _ in chain] == [start, *(new for _, new in chain)][:-1]
    assert stock_of(product) == (chain[-1][1] if chain else start)
    assert Counter(told(product)) == Counter(chain)


def test_numbers_form_one_chain_per_product(shop: Account, deadlocks: Any) -> None:
    products = [ProductFactory(account=shop) for _ in range(5)]
    clients = [ApiClient(new_key(shop)) for _ in range(8)]

    def use(number: int) -> Counter[str]:
        chance, applied = random.Random(number), Counter[str]()
        for _ in range(25):
            names = chance.sample([product.sku for product in products], chance.randint(1, 5))
            entries = [{"sku": name, "quantity": chance.randint(0, 99)} for name in names]
            if chance.random() < 0.3:
                entries[0]["expected_quantity"] = chance.randint(0, 99)  # mostly stale
            answer = put(clients[number], entries)
            assert answer.status_code in (200, 207, 422), answer.content
            applied.update(done["sku"] for done in answer.json().get("updated", []))
        return applied

    applied = sum(at_once(8, use), Counter[str]())

    assert deadlocks() == 0
    assert sum(applied.values()) > 300
    for product in products:
        assert_chain(product, 10, applied[product.sku])


def test_opposite_orders_do_not_deadlock(shop: Account, deadlocks: Any) -> None:
    products = [ProductFactory(account=shop) for _ in range(100)]
    clients = [ApiClient(new_key(shop)) for _ in range(4)]

    def use(number: int) -> set[int]:
        order = products[:: -1 if number % 2 else 1]
        by_id = [{"id": str(product.id), "quantity": number} for product in order]
        by_sku = [{"sku": product.sku, "quantity": number} for product in order]
        return {put(clients[number], entries).status_code for _ in range(6) for entries in (by_id, by_sku)}

    assert at_once(4, use) == [{200}] * 4
    assert deadlocks() == 0
    assert_chain(products[0], 10, 48)
    assert_chain(products[-1], 10, 48)


def test_of_many_who_expect_the_same_number_one_wins(shop: Account) -> None:
    product = ProductFactory(account=shop)
    clients = [ApiClient(new_key(shop)) for _ in range(8)]

    answers = at_once(
        8, lambda n: put(clients[n], [{"sku": product.sku, "quantity": 20 + n, "expected_quantity": 10}]).status_code
    )

    assert sorted(answers) == [200, *[422] * 7]
    assert_chain(product, 10, 1)


def test_importing_orders_of_the_same_products_neither_waits_nor_deadlocks(shop: Account, deadlocks: Any) -> None:
    """An order's line holds its product's key until the commit, and lines come in any order."""
    products = [ProductFactory(account=shop) for _ in range(20)]
    client = ApiClient(new_key(shop))

    def use(number: int) -> None:
        order = products[:: -1 if number % 2 else 1]
        for round_ in range(10):
            if number < 2:
                assert put(client, [{"sku": p.sku, "quantity": round_} for p in order]).status_code == 200
            else:
                lines = [order_line(quantity=1, product_id=p.id) for p in order]
                make_order(shop, items=lines)

    at_once(4, use)

    assert deadlocks() == 0
    assert_chain(products[0], 10, 20)


def test_an_update_does_not_wait_for_an_order_that_is_being_imported(shop: Account) -> None:
    product = ProductFactory(account=shop)
    with another_transaction() as importing:
        importing.cursor().execute("SELECT FROM inventory_product FOR KEY SHARE")
        assert put(ApiClient(new_key(shop)), [{"sku": product.sku, "quantity": 1}]).status_code == 200


def test_who_waits_too_long_for_a_product_is_told_to_come_back(shop: Account) -> None:
    product = ProductFactory(account=shop)
    with another_transaction() as hanging:
        hanging.cursor().execute("SELECT FROM inventory_product FOR UPDATE")
        answer = put(ApiClient(new_key(shop)), [{"sku": product.sku, "quantity": 1}])

    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert_chain(product, 10, 0)


def test_a_product_that_changes_while_its_lock_is_waited_for_is_seen_as_it_is_then(shop: Account) -> None:
    """Whoever waits decides on the committed values: meanwhile the product was renamed, deleted or sold."""
    renamed, deleted, sold = (ProductFactory(account=shop, sku=sku) for sku in ("RENAMED", "DELETED", "SOLD"))
    client = ApiClient(new_key(shop))
    entries = [{"sku": sku, "quantity": 1} for sku in ("RENAMED", "DELETED")]
    entries.append({"sku": "SOLD", "quantity": 1, "expected_quantity": 4})

    with another_transaction() as other:
        cursor = other.cursor()
        cursor.execute("UPDATE inventory_product SET sku = 'NEW' WHERE sku = 'RENAMED'")
        cursor.execute("DELETE FROM inventory_product WHERE sku = 'DELETED'")
        cursor.execute("UPDATE inventory_product SET stock_quantity = 4 WHERE sku = 'SOLD'")
        answer = at_once(2, lambda n: commit_when_awaited(other) if n else put(client, entries).json())[0]

    assert [done["sku"] for done in answer["updated"]] == ["SOLD"]
    assert [error["error"] for error in answer["errors"]] == ["not_found", "not_found"]
    assert movements(sold) == [(4, 1)]
    assert stock_of(renamed) == 10
    assert not Product.objects.filter(id=deleted.id).exists()


@pytest.mark.parametrize("is_known", [True, False], ids=["turned on", "made"])
def test_a_webhook_that_is_on_before_the_time_of_a_change_is_told(shop: Account, register: Any, is_known: bool) -> None:
    """The update began before, and waited for its product."""
    product = ProductFactory(account=shop)
    if is_known:
        webhook = register(shop)
        registry.change(shop.id, webhook.id, {"is_active": False})

    with open_transaction(lambda: Product.objects.select_for_update().get(id=product.id)):
        updating = Background(lambda: put(ApiClient(new_key(shop)), [{"sku": product.sku, "quantity": 1}]))
        wait_for_lock()
        webhook = registry.change(shop.id, webhook.id, {"is_active": True}) if is_known else register(shop)
        on_at = timezone.now()

    assert updating.result().status_code == 200
    delivery = Delivery.objects.get()
    assert (delivery.webhook_id, delivery.status) == (webhook.id, "pending")
    assert delivery.created_at > on_at


def test_imports_and_updates_at_once(shop: Account, deadlocks: Any) -> None:
    """Imports with rows in any order, of products that exist and of some that both of them make."""
    products = [ProductFactory(account=shop, sku=f"P{number:03}") for number in range(0, 200, 2)]
    names = [f"P{number:03}" for number in range(200)]
    client = ApiClient(new_key(shop))

    def use(number: int) -> int:
        chance = random.Random(number)
        for round_ in range(6):
            chosen = chance.sample(names, 80)
            if number < 2:
                drafts = [catalog.Draft(sku, sku, Decimal(1), stock_quantity=chance.randint(0, 9)) for sku in chosen]
                catalog.save(shop.id, drafts, actor=Actor.of_command("test"), sets_stock=True)
            else:
                assert put(client, [{"sku": sku, "quantity": round_} for sku in chosen]).status_code in (200, 207)
        return number

    at_once(4, use)

    assert deadlocks() == 0
    for product in Product.objects.filter(account=shop)[:60]:
        chain = movements(product)
        assert_chain(product, 10 if product.sku in {p.sku for p in products} else 0, len(chain))


def test_two_imports_that_make_the_same_products_make_each_once(shop: Account, deadlocks: Any) -> None:
    def use(number: int) -> Counter[str]:
        order = range(300)[:: -1 if number % 2 else 1]
        drafts = [catalog.Draft(f"P{n}", "Robe", Decimal(1), stock_quantity=5) for n in order]
        saved = catalog.save(shop.id, drafts, actor=Actor.of_command("test"), sets_stock=True)
        return Counter(each.done for each in saved)

    imported = at_once(4, use)

    assert deadlocks() == 0
    assert sum(done["created"] for done in imported) == Product.objects.count() == 300
    assert sum(done["unchanged"] for done in imported) == 900


PRODUCTS = "/api/v1/products"


def save(client: ApiClient, skus: list[str], **changes: Any) -> Any:
    entries = [{"sku": sku, "name": sku, "price": 1, "stock_quantity": 5, **changes} for sku in skus]
    return client.put(PRODUCTS, {"products": entries})


def test_of_several_who_make_the_same_products_one_makes_each(shop: Account, deadlocks: Any) -> None:
    """They come in opposite orders, each with its own price; the stock is that of whoever made the product."""
    clients = [ApiClient(new_key(shop)) for _ in range(4)]
    skus = [f"P{number:02}" for number in range(100)]

    def use(number: int) -> Any:
        return save(clients[number], skus[:: -1 if number % 2 else 1], price=number + 1, stock_quantity=number)

    answers = at_once(4, use)

    assert [answer.status_code for answer in answers] == [200] * 4
    assert deadlocks() == 0
    created = [answer.json()["created"] for answer in answers]
    assert sorted(len(each) for each in created) == [0, 0, 0, 100]
    (maker,) = [number for number, each in enumerate(created) if each]
    assert set(Product.objects.values_list("stock_quantity", flat=True)) == {maker}
    assert Product.objects.values("price").distinct().count() == 1
    assert Product.objects.count() == 100


def test_products_are_made_changed_sold_and_ordered_at_once(shop: Account, deadlocks: Any) -> None:
    there = [ProductFactory(account=shop, sku=f"P{number:02}") for number in range(0, 60, 2)]
    skus = [f"P{number:02}" for number in range(60)]
    client = ApiClient(new_key(shop))

    def use(number: int) -> set[int]:
        chance, statuses = random.Random(number), set[int]()
        for round_ in range(8):
            chosen = chance.sample(skus, 40)
            if number < 2:
                statuses.add(save(client, chosen, name=f"{number} {round_}").status_code)
            elif number == 2:
                statuses.add(put(client, [{"sku": sku, "quantity": round_} for sku in chosen]).status_code)
            else:
                make_order(shop, items=[order_line(quantity=1, product_id=p.id) for p in chance.sample(there, 20)])
        return statuses

    statuses = set().union(*at_once(4, use))

    assert statuses <= {200, 207}
    assert deadlocks() == 0
    for product in Product.objects.filter(account=shop):
        chain = movements(product)
        assert_chain(product, 10 if product.sku in {p.sku for p in there} else 0, len(chain))
