"""PUT /api/v1/inventory: each entry by itself, all or none of it, and every entry answered exactly once."""

from typing import Any
from uuid import uuid4

import pytest

from codservice.accounts.models import Account
from inventory.models import Product, StockMovement
from tests.conftest import ApiClient
from tests.factories import ProductFactory
from tests.inventory.conftest import INVENTORY, movements, stock_of, told
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def test_all_good_entries_are_applied_and_answered_in_their_order(alice: Account, put: Any) -> None:
    first, second = ProductFactory(account=alice, sku="B"), ProductFactory(account=alice, sku="A")

    answer = put({"sku": "B", "quantity": 3}, {"id": str(second.id).upper(), "quantity": 0})

    assert answer.status_code == 200
    assert answer.json() == {
        "updated": [
            {"id": str(first.id), "sku": "B", "stock_quantity": 3},
            {"id": str(second.id), "sku": "A", "stock_quantity": 0},
        ],
        "errors": [],
    }
    assert (stock_of(first), stock_of(second)) == (3, 0)
    assert movements(first) == told(first) == [(10, 3)]
    assert movements(second) == told(second) == [(10, 0)]
