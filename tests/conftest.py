"""What every test can ask for: two merchants, their API clients, and a clean slate beside the database."""

from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import Client

from codservice.accounts import authentication
from codservice.accounts.models import Account
from tests import factories

# Nobody runs collectstatic before the tests, and passwords need not be slow to guess.
settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
settings.MIDDLEWARE.insert(0, "tests.drift.Recorder")


@pytest.fixture(autouse=True)
def _no_memory() -> None:
    """Keys that were believed and requests that were counted do not outlive their test."""
    authentication.forget_believed()
    redis.Redis.from_url(settings.REDIS_URL).flushdb()


class ApiClient(Client):
    """A merchant's client: sends JSON with the key's header, and lets a crash become a 500 as in production."""

    def __init__(self, key: str = "", **kwargs: Any) -> None:
        super().__init__(
            raise_request_exception=False, headers={"Authorization": f"Bearer {key}"} if key else {}, **kwargs
        )

    def post(self, path: str, data: Any = None, content_type: str = "application/json", **kwargs: Any) -> Any:  # type: ignore[override]
        return super().post(path, data if data is not None else "", content_type=content_type, **kwargs)


@pytest.fixture
def alice(db: None) -> Account:
    """A merchant."""
    return factories.AccountFactory(name="Alice's shop")


@pytest.fixture
def charlie(db: None) -> Account:
    """Another merchant, who must see nothing of Alice's."""
    return factories.AccountFactory(name="Charlie's shop")


@pytest.fixture
def api_for() -> Callable[..., ApiClient]:
    """Makes a client with a new key of an account: `api_for(alice, scopes=["orders:read"])`."""

    def make(account: Account, **kwargs: Any) -> ApiClient:
        from codservice.accounts.models import ApiKey

        return ApiClient(ApiKey.issue(account, name="Test", **kwargs)[1])

    return make


@pytest.fixture
def api(alice: Account, api_for: Callable[..., ApiClient]) -> ApiClient:
    return api_for(alice)


@pytest.fixture
def charlies_api(charlie: Account, api_for: Callable[..., ApiClient]) -> ApiClient:
    return api_for(charlie)


@pytest.fixture
def stranger() -> ApiClient:
    """Somebody without a key."""
    return ApiClient()
