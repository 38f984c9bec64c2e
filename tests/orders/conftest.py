from functools import partial
from pathlib import Path
from typing import Any

import pytest

from codservice.accounts.models import Account
from tests.factories import AccountFactory
from tests.orders.files import write_csv


@pytest.fixture
def alice(db: None) -> Account:
    """A merchant with a limit that no test of orders reaches."""
    return AccountFactory(name="Alice's shop", rate_limit=1_000_000)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a file of orders."""
    return partial(write_csv, tmp_path / "orders.csv")
