import pytest

from codservice.accounts.models import Account
from tests.factories import AccountFactory


@pytest.fixture
def alice(db: None) -> Account:
    """A merchant with a limit that no test of webhooks reaches."""
    return AccountFactory(name="Alice's shop", rate_limit=1_000_000)
