"""The people who work in the console, and one order to work on."""

import pytest
from django.test import Client

from codservice.accounts.models import Account, User
from orders.models import Order
from tests import factories
from tests.harness.client import browser_of


@pytest.fixture(autouse=True)
def _open(db: None) -> None:
    factories.open_always()


@pytest.fixture
def agent(db: None) -> User:
    return factories.AgentFactory(username="samira", first_name="Samira")


@pytest.fixture
def colleague(db: None) -> User:
    return factories.AgentFactory(username="nadia", first_name="Nadia")


@pytest.fixture
def supervisor(db: None) -> User:
    return factories.AgentFactory(username="karim", first_name="Karim", role="Supervisors")


@pytest.fixture
def operator(db: None) -> User:
    return factories.UserFactory(username="operator", is_staff=True, is_superuser=True)


@pytest.fixture
def order(alice: Account) -> Order:
    return factories.make_order(alice)


@pytest.fixture
def browser(agent: User) -> Client:
    """A test client signed in as the agent. Files about other people override it."""
    return browser_of(agent)
