"""Each operation gives each answer that all of them share, as it is described; and those that are rare."""

import re
from collections.abc import Callable
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.test import Client

from codservice.accounts.models import Account
from tests.api.test_openapi import Checker
from tests.harness.client import ApiClient
from tests.harness.drift import description

pytestmark = pytest.mark.django_db

OPERATIONS = sorted(
    (method.upper(), path)
    for path, operations in description()["paths"].items()
    for method in operations
    if method != "parameters"
)
WITH_ID = [(method, path) for method, path in OPERATIONS if "{id}" in path]
WITH_BODY = [
    (method, path) for method, path in OPERATIONS if "requestBody" in description()["paths"][path][method.lower()]
]


def named(operations: list[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("method", "path"), operations, ids=lambda value: value.removeprefix("/api/v1/"))


@pytest.fixture
def check() -> Callable[..., None]:
    """Sends the operation by a client and holds the answer, which must have `status`, against the description."""
    checker = Checker(description())

    def send(client: Client, method: str, path: str, status: int, content: bytes = b"", kind: str = "") -> None:
        url = re.sub("{id}", str(uuid4()), path)
        answer = client.generic(method, url, content, content_type=kind or "application/json")
        assert answer.status_code == status, answer.content
        checker.check(path, answer)

    return send


@named(OPERATIONS)
def test_a_stranger_a_poor_key_and_a_limited_one(
    method: str, path: str, check: Callable, stranger: ApiClient, alice: Account, api_for: Callable
) -> None:
    check(stranger, method, path, 401)
    check(api_for(alice, scopes=[]), method, path, 403)
    alice.rate_limit = 1
    alice.save()
    limited = api_for(alice)
    limited.get("/api/v1/orders")
    check(limited, method, path, 429)


@named(OPERATIONS)
def test_a_crash_and_a_database_that_is_away(
    method: str, path: str, check: Callable, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*args: object) -> None:
        raise RuntimeError

    def away(*args: object) -> None:
        raise OperationalError("gone")

    for failure, status in ((crash, 500), (away, 503)):
        monkeypatch.setattr("codservice.api.permissions.HasScope.has_permission", failure)
        check(api, method, path, status)


@named(WITH_ID)
def test_an_id_of_nothing(method: str, path: str, check: Callable, api: ApiClient) -> None:
    check(api, method, path, 404)


@named(WITH_BODY)
def test_bodies_that_cannot_be_read(method: str, path: str, check: Callable, api: ApiClient) -> None:
    check(api, method, path, 400, b"[")
    check(api, method, path, 413, b" " * 1_048_577)
    check(api, method, path, 415, b"x", "text/plain")
    check(api, method, path, 422, b'{"reason": 5}')
