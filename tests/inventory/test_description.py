"""The OpenAPI description of the inventory says what the service really answers."""

from typing import Any

import pytest

from codservice.accounts.models import Account
from tests.factories import ProductFactory
from tests.harness.client import ApiClient
from tests.harness.description import Checker, described
from tests.inventory.stock import INVENTORY

pytestmark = pytest.mark.django_db


@pytest.fixture
def description(stranger: ApiClient) -> dict[str, Any]:
    return described(stranger)


def test_real_answers_are_as_described(
    description: dict[str, Any], alice: Account, api: ApiClient, put: Any, api_for: Any, stranger: ApiClient
) -> None:
    checker = Checker(description)
    ProductFactory(account=alice, sku="ROBE")
    ProductFactory(account=alice, sku="SAC", name="حقيبة", is_active=False)

    listed = api.get(INVENTORY)
    answers = [
        listed,
        api.get(f"{INVENTORY}?page=1&per_page=1"),
        api.get(f"{INVENTORY}?per_page=501"),
        api.get(INVENTORY, headers={"If-None-Match": listed["ETag"]}),
        put({"sku": "ROBE", "quantity": 1}),
        put({"sku": "ROBE", "quantity": 1}, {"sku": 5, "id": None, "quantity": "1"}, 7, {"id": "x", "quantity": 1}),
        put({"sku": "NOBODYS", "quantity": 1}),
        api.put(INVENTORY, "["),
        api.put(INVENTORY, "x", content_type="text/plain"),
        api.put(INVENTORY, b" " * 1_048_577),
        api_for(alice, scopes=[]).get(INVENTORY),
        stranger.get(INVENTORY),
    ]
    for answer in answers:
        checker.check(INVENTORY, answer)

    assert [answer.status_code for answer in answers] == [200, 200, 422, 304, 200, 207, 422, 400, 415, 413, 403, 401]


def test_the_bounds_are_described(description: dict[str, Any]) -> None:
    calls = description["paths"][INVENTORY]
    query = {each["name"]: each["schema"] for each in calls["get"]["parameters"] if each["in"] == "query"}

    assert query["per_page"]["maximum"] == 500
    assert query["is_active"] == {"type": "boolean"}
    assert (query["stock_below"]["minimum"], query["stock_below"]["maximum"]) == (0, 1_000_000_000)
    updates = description["components"]["schemas"]["StockUpdatesRequest"]["properties"]["updates"]
    assert (updates["minItems"], updates["maxItems"]) == (1, 100)
