"""A key sent over plain http is not accepted, and every answer that Django makes tells browsers to be careful."""

import pytest

from codservice.accounts.models import Account, ApiKey
from orders.models import Order
from tests.factories import order_body
from tests.harness.client import ApiClient

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db
CAREFUL = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


@pytest.fixture
def https(settings: object) -> None:
    settings.SECURE_SSL_REDIRECT = True  # type: ignore[attr-defined]
    settings.SECURE_HSTS_SECONDS = 3600  # type: ignore[attr-defined]


@pytest.mark.usefixtures("https")
def test_a_key_over_plain_http_is_refused_in_json_and_never_redirected(alice: Account) -> None:
    row, key = ApiKey.issue(alice, name="Shop")
    api = ApiClient(key)
    for path in (ORDERS, "/api/v1/nothing", "/api/v1"):
        for answer in (api.get(path), api.post(path, order_body())):
            assert (answer.status_code, answer.json()["error"]) == (403, "https_required")
            assert "https" in answer.json()["message"]
            assert "X-RateLimit-Limit" not in answer.headers
    assert not Order.objects.exists()
    row.refresh_from_db()
    assert row.last_used_at is None
    assert api.post(ORDERS, order_body(), secure=True).status_code == 201


@pytest.mark.usefixtures("https")
def test_a_page_over_plain_http_is_redirected(client: ApiClient) -> None:
    assert client.get("/account/login").url == "https://testserver/account/login"


@pytest.mark.usefixtures("https")
@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_what_machines_read_from_inside_is_answered_over_plain_http(client: ApiClient, path: str) -> None:
    assert client.get(path).status_code == 200


@pytest.mark.usefixtures("https")
@pytest.mark.parametrize("case", ["200", "401", "404", "429", "500"])
def test_every_answer_of_djangos_has_the_headers_for_security(
    alice: Account, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway's own refusals, such as of a body that does not arrive, have `nosniff` alone: they are JSON."""
    alice.rate_limit = 1
    alice.save()
    api = ApiClient(ApiKey.issue(alice, name="Shop")[1]) if case != "401" else ApiClient()
    if case == "429":
        api.get(ORDERS, secure=True)
    if case == "500":
        monkeypatch.setattr("orders.views.OrderViewSet.get_queryset", lambda view: 1 / 0)
    answer = api.get("/api/v1/nothing" if case == "404" else ORDERS, secure=True)
    assert str(answer.status_code) == case
    assert {name: answer.headers.get(name) for name in CAREFUL} == CAREFUL
    assert answer.headers["Strict-Transport-Security"].startswith("max-age=3600")
