"""PUT /api/v1/inventory: each entry by itself, applied whole or not at all, and every entry answered exactly once."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from inventory import stock
from inventory.models import Product, StockMovement
from tests.factories import ProductFactory
from tests.harness import plans
from tests.harness.client import ApiClient
from tests.inventory.stock import INVENTORY, movements, stock_of, told
from webhooks.models import Event

pytestmark = pytest.mark.django_db


@pytest.fixture
def robe(alice: Account) -> Product:
    """Alice's product with the sku ROBE and 10 in stock."""
    return ProductFactory(account=alice, sku="ROBE")


def test_all_good_entries_are_applied_and_answered_in_their_order(alice: Account, robe: Product, put: Any) -> None:
    foulard = ProductFactory(account=alice, sku="FOULARD")

    answer = put({"sku": "ROBE", "quantity": 3}, {"id": str(foulard.id).upper(), "quantity": 0})

    assert answer.status_code == 200
    assert answer.json() == {
        "updated": [
            {"id": str(robe.id), "sku": "ROBE", "stock_quantity": 3},
            {"id": str(foulard.id), "sku": "FOULARD", "stock_quantity": 0},
        ],
        "errors": [],
    }
    assert (stock_of(robe), stock_of(foulard)) == (3, 0)
    assert movements(robe) == told(robe) == [(10, 3)]
    assert movements(foulard) == told(foulard) == [(10, 0)]


def test_good_entries_are_applied_beside_bad_ones(alice: Account, charlie: Account, robe: Product, put: Any) -> None:
    foulard = ProductFactory(account=alice, sku="FOULARD")
    sac = ProductFactory(account=alice, sku="SAC")
    charlies = ProductFactory(account=charlie, sku="CHARLIES")
    unknown = str(uuid4())
    entries: list[tuple[Any, str | None]] = [
        ({"sku": " ROBE ", "quantity": 1, "price": 1, "is_active": False}, None),
        ({"sku": "NOBODYS", "quantity": 1}, "not_found"),
        ({"id": unknown, "quantity": 1}, "not_found"),
        ({"sku": "CHARLIES", "quantity": 1}, "not_found"),
        ({"id": str(charlies.id), "quantity": 1}, "not_found"),
        ({"id": str(robe.id), "quantity": 2}, "duplicate"),
        ({"sku": "FOULARD", "id": str(foulard.id), "quantity": 1_000_000_000}, None),
        ({"sku": "FOULARD", "quantity": 2}, "duplicate"),
        ({"sku": "SAC", "id": str(robe.id), "quantity": 2}, "identity_mismatch"),
        ({"sku": "SAC", "id": unknown, "quantity": 2}, "identity_mismatch"),
        ({"sku": "SAC", "id": str(charlies.id), "quantity": 2}, "identity_mismatch"),
        ({"sku": "SAC", "quantity": 7, "expected_quantity": 10}, None),
        (None, "invalid_entry"),
        ([], "invalid_entry"),
        ("ROBE", "invalid_entry"),
        ({}, "invalid_entry"),
        ({"quantity": 1}, "invalid_entry"),
        ({"sku": None, "id": None, "quantity": 1}, "invalid_entry"),
        ({"sku": "", "quantity": 1}, "invalid_entry"),
        ({"sku": "x" * 65, "quantity": 1}, "invalid_entry"),
        ({"sku": "A\0B", "quantity": 1}, "invalid_entry"),
        ({"sku": 5, "quantity": 1}, "invalid_entry"),
        ({"sku": {"a": [1]}, "quantity": 1}, "invalid_entry"),
        ({"id": "not-an-id", "quantity": 1}, "invalid_entry"),
        ({"id": robe.id.hex, "quantity": 1}, "invalid_entry"),
        ({"sku": "NOBODYS", "quantity": 1, "expected_quantity": "1"}, "invalid_entry"),
    ]

    answer = put(*(entry for entry, _ in entries))

    assert answer.status_code == 207
    body = answer.json()
    assert [(done["sku"], done["stock_quantity"]) for done in body["updated"]] == [
        ("ROBE", 1),
        ("FOULARD", 1_000_000_000),
        ("SAC", 7),
    ]
    assert [(error["index"], error["error"]) for error in body["errors"]] == [
        (index, error) for index, (_, error) in enumerate(entries) if error
    ]
    assert [stock_of(product) for product in (robe, foulard, sac, charlies)] == [1, 1_000_000_000, 7, 10]
    assert StockMovement.objects.count() == Event.objects.count() == 3
    robe.refresh_from_db()
    assert (str(robe.price), robe.is_active) == ("1500.00", True)


BAD_QUANTITIES = {
    "missing": "",
    "null": ', "quantity": null',
    "negative": ', "quantity": -1',
    "above the bound": ', "quantity": 1000000001',
    "2^31": f', "quantity": {2**31}',
    "2^63": f', "quantity": {2**63}',
    "10^400": f', "quantity": {10**400}',
    "5000 digits": f', "quantity": {"9" * 5000}',
    "true": ', "quantity": true',
    "text": ', "quantity": "2"',
    "with a point": ', "quantity": 2.0',
    "with an exponent": ', "quantity": 2e0',
    "list": ', "quantity": [2]',
}


@pytest.mark.parametrize("quantity", BAD_QUANTITIES.values(), ids=BAD_QUANTITIES)
def test_a_quantity_is_a_json_integer_in_bounds(alice: Account, robe: Product, api: ApiClient, quantity: str) -> None:
    ProductFactory(account=alice, sku="SAC")
    body = f'{{"updates": [{{"sku": "ROBE"{quantity}}}, {{"sku": "SAC", "quantity": 1}}]}}'

    answer = api.put(INVENTORY, body)

    assert answer.status_code == 207
    (error,) = answer.json()["errors"]
    assert (error["index"], error["sku"], error["error"]) == (0, "ROBE", "invalid_quantity")
    assert stock_of(robe) == 10


@pytest.mark.parametrize("expected", [-1, 2.0, True, "10", [], 10**30])
def test_an_expected_quantity_is_read_as_strictly(robe: Product, put: Any, expected: object) -> None:
    answer = put({"sku": "ROBE", "quantity": 1, "expected_quantity": expected})

    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == ["updates.0.expected_quantity"]
    assert stock_of(robe) == 10


def test_when_no_entry_can_be_applied_all_problems_are_named_by_their_paths(robe: Product, put: Any) -> None:
    answer = put(
        {"sku": "ROBE", "quantity": 1, "expected_quantity": 9},
        {"sku": "", "quantity": "1"},
        {"id": str(uuid4()), "quantity": 1},
        7,
        {"sku": "ROBE", "id": str(uuid4()), "quantity": 1},
        {"sku": "ROBE", "quantity": 2},
    )

    assert answer.status_code == 422
    body = answer.json()
    assert body["error"] == "validation_failed"
    assert list(body["errors"]) == [
        "updates.0.expected_quantity",
        "updates.1.sku",
        "updates.1.quantity",
        "updates.2.id",
        "updates.3",
        "updates.4.id",
        "updates.5.sku",
    ]
    assert all(sentence.endswith(".") for sentences in body["errors"].values() for sentence in sentences)
    assert not StockMovement.objects.exists()
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"updates": None},
        {"updates": {}},
        {"updates": "ROBE"},
        {"updates": 1},
        {"updates": []},
        {"updates": [{"sku": "ROBE", "quantity": 1}] * 101},
        {"updates": [0] * 200_000},
    ],
    ids=["missing", "null", "object", "text", "number", "none", "101", "200 000"],
)
def test_one_to_a_hundred_entries_or_nothing(robe: Product, api: ApiClient, body: Any) -> None:
    answer = api.put(INVENTORY, body)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["updates"])
    assert stock_of(robe) == 10


def test_a_hundred_entries_are_not_too_many(alice: Account, put: Any) -> None:
    products = [ProductFactory(account=alice) for _ in range(100)]

    answer = put(*({"sku": product.sku, "quantity": number} for number, product in enumerate(products)))

    assert answer.status_code == 200
    assert [done["stock_quantity"] for done in answer.json()["updated"]] == list(range(100))


def test_of_products_that_are_not_counted_yet_only_those_that_are_named_are_read(
    alice: Account, charlie: Account, put: Any
) -> None:
    """PostgreSQL takes an account for small if it was not there when a table of few accounts was last analyzed."""
    Product.objects.bulk_create(ProductFactory.build_batch(300, account=charlie))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE inventory_product")
    many = ProductFactory.build_batch(3000, account=alice)
    Product.objects.bulk_create(many)
    before = plans.read_so_far("inventory_product")

    by_sku = [{"sku": product.sku, "quantity": 3} for product in many[::300]]
    answer = put(*by_sku, *({"id": str(product.id), "quantity": 3} for product in many[1::300]))

    assert len(answer.json()["updated"]) == 20
    assert plans.read_so_far("inventory_product") - before <= 4 * 20, "to find it, to lock it and to write it"


def test_the_names_come_back_as_they_were_sent(alice: Account, robe: Product, api: ApiClient) -> None:
    ProductFactory(account=alice, sku="قميص")
    raw = rb"""{"updates": [
        {"sku": " ROBE", "id": "?", "quantity": 1}, {"sku": 1.50, "quantity": 1}, {"sku": "\ud800", "quantity": 1},
        {"sku": ["x"], "id": null, "quantity": 1}, {"id": true, "quantity": 1},
        {"sku": 1e99999999999999999999, "quantity": 1}, {"sku": "\u0642\u0645\u064a\u0635", "quantity": 4},
        {"quantity": 4}]}"""

    answer = api.put(INVENTORY, raw)

    assert answer.status_code == 207
    assert answer.json()["updated"][0]["sku"] == "قميص"
    names = [{name: error[name] for name in ("sku", "id") if name in error} for error in answer.json()["errors"]]
    assert names == [{"sku": " ROBE", "id": "?"}, {"sku": 1.5}, {"sku": "?"}, {"sku": None, "id": None}, {"id": True},
                     {"sku": None}, {}]  # fmt: skip


def test_composed_and_decomposed_letters_are_one_sku(alice: Account, put: Any) -> None:
    product = ProductFactory(account=alice, sku="CAFÉ")

    answer = put({"sku": "CAFE\u0301", "quantity": 1}, {"sku": "CAFÉ", "quantity": 2})

    assert [error["error"] for error in answer.json()["errors"]] == ["duplicate"]
    assert stock_of(product) == 1


@pytest.mark.parametrize("first", [{"quantity": "3"}, {"quantity": 3, "expected_quantity": 99}])
def test_the_second_entry_is_a_duplicate_even_when_the_first_was_refused(
    robe: Product, put: Any, first: dict[str, Any]
) -> None:
    """Two entries contradict each other, and to apply the one that happens to be well-formed would be a guess."""
    answer = put({"sku": "ROBE", **first}, {"sku": "ROBE", "quantity": 4})

    assert answer.status_code == 422
    assert "updates.1.sku" in answer.json()["errors"]
    assert stock_of(robe) == 10


@pytest.mark.parametrize("first", [{"sku": "ROBE", "id": "?"}, {"sku": "ROBE", "id": str(uuid4())}, {"sku": "ROBE\0"}])
def test_an_entry_that_names_no_product_for_sure_is_nobodys_first(robe: Product, put: Any, first: Any) -> None:
    answer = put({**first, "quantity": 3}, {"sku": "ROBE", "quantity": 4})

    assert answer.status_code == 207
    assert stock_of(robe) == 4


def test_the_same_number_is_a_movement_and_an_event_too(robe: Product, put: Any) -> None:
    for _ in range(2):
        assert put({"sku": "ROBE", "quantity": 10}).status_code == 200

    assert movements(robe) == told(robe) == [(10, 10), (10, 10)]


def test_the_event_says_what_the_contract_promises(robe: Product, put: Any) -> None:
    put({"sku": "ROBE", "quantity": 4})

    event = Event.objects.get()
    body = json.loads(event.body)
    assert body == {
        "event": "inventory.updated",
        "timestamp": body["timestamp"],
        "data": {"product_id": str(robe.id), "sku": "ROBE", "old_quantity": 10, "new_quantity": 4},
    }
    assert datetime.fromisoformat(body["timestamp"]) == event.created_at == StockMovement.objects.get().at


def test_a_movement_names_who_made_it(robe: Product, put: Any) -> None:
    put({"sku": "ROBE", "quantity": 4})

    assert StockMovement.objects.get().actor == "API key Test"


def test_a_change_is_dated_by_the_database_and_not_before_the_last_one(robe: Product, put: Any) -> None:
    put({"sku": "ROBE", "quantity": 1})
    ahead = datetime.now(UTC) + timedelta(hours=1)  # as if the server's clock had been set back since
    StockMovement.objects.update(at=ahead)
    Product.objects.update(updated_at=ahead + timedelta(hours=1))  # the product's record is later still

    put({"sku": "ROBE", "quantity": 2})

    last = ahead + timedelta(hours=1)
    assert list(StockMovement.objects.order_by("id").values_list("at", flat=True)) == [ahead, last]
    assert Product.objects.get().updated_at == last


def test_another_account_is_neither_seen_nor_touched(robe: Product, charlies_api: ApiClient) -> None:
    def ask(**entry: Any) -> tuple[int, Any]:
        answer = charlies_api.put(INVENTORY, {"updates": [entry]})
        return answer.status_code, answer.json()

    assert ask(sku="ROBE", quantity=1) == ask(sku="NOBODYS", quantity=1)
    assert ask(id=str(robe.id), quantity=1) == ask(id=str(uuid4()), quantity=1)
    assert stock_of(robe) == 10


def test_nothing_else_of_a_product_can_be_set(robe: Product, charlie: Account, api: ApiClient) -> None:
    before = Product.objects.values().get()
    forged = {
        "name": "Forged", "price": "0.01", "is_active": False, "stock_quantity": 999, "account": str(charlie.id),
        "account_id": str(charlie.id), "created_at": "2001-01-01T00:00:00Z", "old_quantity": 0, "actor": "Charlie",
    }  # fmt: skip

    body = {"updates": [{"sku": "ROBE", "quantity": 4, **forged}], **forged}
    answer = api.put(INVENTORY, body)

    assert answer.status_code == 200
    after = Product.objects.values().get()
    assert {name for name in before if before[name] != after[name]} <= {"stock_quantity", "updated_at"}
    assert (after["stock_quantity"], StockMovement.objects.get().actor) == (4, "API key Test")


def test_it_needs_the_scope(alice: Account, robe: Product, api_for: Any) -> None:
    reader = api_for(alice, scopes=["inventory:read", "orders:write"])

    answer = reader.put(INVENTORY, {"updates": [{"sku": "ROBE", "quantity": 1}]})

    assert (answer.status_code, answer.json()["error"]) == (403, "insufficient_scope")
    assert "inventory:write" in answer.json()["message"]
    assert stock_of(robe) == 10


@pytest.mark.parametrize("method", ["post", "patch", "delete", "options"])
def test_other_methods_are_not_allowed(api: ApiClient, method: str) -> None:
    answer = getattr(api, method)(INVENTORY)

    assert (answer.status_code, answer.json()["error"]) == (405, "method_not_allowed")
    assert {"GET", "PUT"} <= set(answer["Allow"].split(", "))


@pytest.mark.django_db(transaction=True)
def test_nothing_is_applied_when_the_events_cannot_be_written(
    alice: Account, robe: Product, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks.events.parameters", lambda: {"request_id": None, "retries": 3})  # None is not text

    answer = api.put(INVENTORY, {"updates": [{"sku": "ROBE", "quantity": 1}]})

    assert answer.status_code == 500
    assert stock_of(robe) == 10
    assert not StockMovement.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("count", [1, 100])
def test_the_number_of_statements_is_constant(alice: Account, count: int) -> None:
    """One, which includes events and deliveries, and so is its own transaction."""
    products = [ProductFactory(account=alice) for _ in range(100)]
    updates = [stock.Update(sku=product.sku, quantity=1) for product in products[:count]]
    if count == 100:
        updates[10:40] = [stock.Update(sku=f"UNKNOWN-{number}", quantity=1) for number in range(30)]
        updates[40:50] = [stock.Update(id=products[0].id, quantity=1)] * 10
        updates[50:60] = [stock.Update(id=products[60].id, sku="X", quantity=1, expected_quantity=3)] * 10

    with CaptureQueriesContext(connection) as queries:
        stock.set_quantities(alice.id, updates, actor=Actor.of_command("test"))

    assert [query["sql"].split()[0] for query in queries] == ["WITH"]
