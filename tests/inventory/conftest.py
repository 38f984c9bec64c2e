from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.client import ApiClient

from .stock import INVENTORY


@pytest.fixture
def put(api: ApiClient) -> Callable[..., Any]:
    """Alice's bulk update: `put({"sku": …, "quantity": …}, …)`."""

    def send(*entries: Any) -> Any:
        return api.put(INVENTORY, {"updates": list(entries)})

    return send
