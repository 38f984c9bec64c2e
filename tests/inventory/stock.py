"""Reads products, their stock and its movements back."""

import json
from collections import Counter
from typing import Any

from codservice.accounts.models import Account
from inventory.models import Product, StockMovement
from webhooks.models import Event

INVENTORY = "/api/v1/inventory"


def products(account: Account) -> list[tuple[Any, ...]]:
    rows = Product.objects.filter(account=account).order_by("sku")
    return [(p.sku, p.name, str(p.price), p.stock_quantity, p.is_active) for p in rows]


def movements(product: Product) -> list[tuple[int, int]]:
    """The old and new quantities of the product's movements, in order."""
    chain = StockMovement.objects.filter(product=product).order_by("id")
    return list(chain.values_list("old_quantity", "new_quantity"))


def told(product: Product) -> list[tuple[int, int]]:
    """The old and new quantities of the product in events, in order."""
    bodies = [json.loads(event.body) for event in Event.objects.order_by("id")]
    return [
        (body["data"]["old_quantity"], body["data"]["new_quantity"])
        for body in bodies
        if body["event"] == "inventory.updated" and body["data"]["product_id"] == str(product.id)
    ]


def kinds_told() -> dict[str, int]:
    """The number of events of each kind."""
    return dict(Counter(Event.objects.values_list("kind", flat=True)))


def stock_of(product: Product) -> int:
    return Product.objects.values_list("stock_quantity", flat=True).get(id=product.id)
