import socket
from collections.abc import Callable
from typing import Any

import pytest

from codservice.accounts.models import Account
from tests.factories import AccountFactory
from tests.webhooks.engine.conftest import make_engine  # noqa: F401  (for the tests here too)
from webhooks import registry
from webhooks.models import Delivery, Event, Webhook


@pytest.fixture
def alice(db: None) -> Account:
    """A merchant with a limit that no test of webhooks reaches."""
    return AccountFactory(name="Alice's shop", rate_limit=1_000_000)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the resolver knows: a list of addresses by name, or a function to call. No other name exists."""
    known: dict[str, Any] = {}
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> list[Any]:
        found = known.get(host, [])
        addresses = found() if callable(found) else found
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [entry for address in addresses for entry in real(address, 443, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


@pytest.fixture
def register() -> Callable[..., Webhook]:
    """Registers a webhook as the API does."""

    def make(account: Account, url: str = "https://shop.example/hooks", events: Any = Event.Kind.values) -> Webhook:
        return registry.register(account.id, url=url, events=events)[0]

    return make


@pytest.fixture
def delivery_of() -> Callable[..., Delivery]:
    """A delivery to a webhook, as `webhooks.events` writes it, then changed."""
    from tests.webhooks.written import write_delivery

    return write_delivery
