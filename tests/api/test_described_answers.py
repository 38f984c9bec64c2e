"""Each operation gives the answers that all operations share, and the rare ones, as they are described."""

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.test import Client

from codservice.accounts.models import Account
from codservice.api import idempotency
from tests.harness.client import ApiClient
from tests.harness.description import Checker, generated

pytestmark = pytest.mark.django_db

OPERATIONS = sorted(
    (method.upper(), path)
    for path, operations in generated()["paths"].items()
    for method in operations
    if method != "parameters"
)
OPEN = [(method, path) for method, path in OPERATIONS if {} in generated()["paths"][path][method.lower()]["security"]]
WITH_ID = [(method, path) for method, path in OPERATIONS if "{id}" in path]
WITH_BODY = [
    (method, path) for method, path in OPERATIONS if "requestBody" in generated()["paths"][path][method.lower()]
]

WITH_KEY = [
    (method, path)
    for method, path in OPERATIONS
    if any(
        parameter["name"] == "Idempotency-Key"
        for parameter in generated()["paths"][path][method.lower()].get("parameters", ())
    )
]


def named(operations: list[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("method", "path"), operations, ids=lambda value: value.removeprefix("/api/v1/"))


@pytest.fixture
def check() -> Callable[..., None]:
    """Send the operation by a client and check the answer, which must have `status`, against the description."""
    checker = Checker(generated())

    def send(
        client: Client, method: str, path: str, status: int, content: bytes = b"", kind: str = "", **extra: str
    ) -> None:
        url = re.sub("{id}", str(uuid4()), path)
        answer = client.generic(method, url, content, content_type=kind or "application/json", **extra)
        assert answer.status_code == status, answer.content
        checker.check(path, answer)
        # Whatever proxy lies between, nobody gets another's answer.
        assert (answer.headers["Cache-Control"], answer.headers["Vary"]) == ("no-store", "Authorization")

    return send


def mode_of(path: str) -> dict[str, bool]:
    """Return what a key must be made with to see that such a path exists."""
    return {"is_test": path.startswith("/api/v1/test/")}


@named(OPERATIONS)
def test_a_stranger_a_poor_key_and_a_limited_one(
    method: str, path: str, check: Callable, stranger: ApiClient, alice: Account, api_for: Callable
) -> None:
    if (method, path) in OPEN:
        check(ApiClient("cod_live_wrong"), method, path, 401)
    else:
        check(stranger, method, path, 401)
        if path != "/api/v1/me":
            check(api_for(alice, scopes=[], **mode_of(path)), method, path, 403)
    alice.rate_limit = 1
    alice.save()
    limited = api_for(alice, **mode_of(path))
    limited.get("/api/v1/orders")
    check(limited, method, path, 429)


@named(OPEN)
def test_plain_http_without_a_key(method: str, path: str, check: Callable, stranger: ApiClient, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    check(stranger, method, path, 403)


@named(OPERATIONS)
def test_a_crash_and_a_database_that_is_away(
    method: str, path: str, check: Callable, alice: Account, api_for: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*args: object) -> None:
        raise RuntimeError

    def away(*args: object) -> None:
        raise OperationalError("gone")

    for failure, status in ((crash, 500), (away, 503)):
        monkeypatch.setattr("codservice.api.permissions.HasScope.has_permission", failure)
        monkeypatch.setattr("rest_framework.permissions.AllowAny.has_permission", failure)
        check(api_for(alice, **mode_of(path)), method, path, status)


@named(WITH_ID)
def test_an_id_of_nothing(method: str, path: str, check: Callable, alice: Account, api_for: Callable) -> None:
    body = b'{"outcome": "busy"}' if path.endswith("/call") else b""
    check(api_for(alice, **mode_of(path)), method, path, 404, body)


@named(WITH_BODY)
def test_bodies_that_cannot_be_read(method: str, path: str, check: Callable, alice: Account, api_for: Callable) -> None:
    api = api_for(alice, **mode_of(path))
    check(api, method, path, 400, b"[")
    check(api, method, path, 413, b" " * 1_048_577)
    check(api, method, path, 415, b"x", "text/plain")
    # Of what does not exist nothing is told, whatever the body says.
    check(api, method, path, 404 if (method, path) in WITH_ID else 422, b'{"reason": 5}')


@named(WITH_KEY)
def test_a_key_that_is_at_work(
    method: str, path: str, check: Callable, alice: Account, api_for: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_work(*args: object) -> None:
        raise idempotency.StillRunning

    monkeypatch.setattr(idempotency, "_claim", at_work)
    check(api_for(alice, **mode_of(path)), method, path, 409, b"{}", HTTP_IDEMPOTENCY_KEY="1")
