"""Merchants' clients of the API, and test clients that are signed in."""

from typing import Any

from django.conf import settings
from django.test import Client

from codservice.accounts.models import Account, ApiKey, User
from tests.factories import AccountFactory


class ApiClient(Client):
    """A merchant's client, which sends JSON with the key's header. A crash becomes a 500, as in production."""

    def __init__(self, key: str = "", **kwargs: Any) -> None:
        super().__init__(
            raise_request_exception=False, headers={"Authorization": f"Bearer {key}"} if key else {}, **kwargs
        )

    def post(self, path: str, data: Any = None, content_type: str = "application/json", **kwargs: Any) -> Any:  # type: ignore[override]
        return super().post(path, data if data is not None else "", content_type=content_type, **kwargs)

    def put(self, path: str, data: Any = "", content_type: str = "application/json", **kwargs: Any) -> Any:  # type: ignore[override]
        return super().put(path, data, content_type=content_type, **kwargs)

    def patch(self, path: str, data: Any = "", content_type: str = "application/json", **kwargs: Any) -> Any:  # type: ignore[override]
        return super().patch(path, data, content_type=content_type, **kwargs)


def new_key(account: Account | None = None, **kwargs: Any) -> str:
    return ApiKey.issue(account or AccountFactory(), name="Test", **kwargs)[1]


class Browser(Client):
    """A test client whose first session is written once. Django's writes an empty one first and then replaces it."""

    @property
    def session(self) -> Any:
        return super().session if settings.SESSION_COOKIE_NAME in self.cookies else None


def browser_of(user: User, **kwargs: Any) -> Client:
    client = Browser(**kwargs)
    client.force_login(user)
    return client
