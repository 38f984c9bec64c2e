"""What the tests of inventory share: a bulk update, and what can be read back of it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from inventory.models import Product, StockMovement
from tests.conftest import ApiClient
from webhooks.models import Event

INVENTORY = "/api/v1/inventory"


@pytest.fixture
def put(api: ApiClient) -> Callable[..., Any]:
    """Alice's bulk update: `put({"sku": …, "quantity": …}, …)`."""

    def send(*entries: Any) -> Any:
        return api.put(INVENTORY, {"updates": list(entries)}, content_type="application/json")

    return send


def movements(product: Product) -> list[tuple[int, int]]:
    """The product's chain: old and new numbers in their order."""
    chain = StockMovement.objects.filter(product=product).order_by("id")
    return list(chain.values_list("old_quantity", "new_quantity"))


def told(product: Product) -> list[tuple[int, int]]:
    """The same as the events say it."""
    bodies = [json.loads(event.body) for event in Event.objects.order_by("id")]
    return [
        (body["data"]["old_quantity"], body["data"]["new_quantity"])
        for body in bodies
        if body["event"] == "inventory.updated" and body["data"]["product_id"] == str(product.id)
    ]


def stock_of(product: Product) -> int:
    return Product.objects.values_list("stock_quantity", flat=True).get(id=product.id)
