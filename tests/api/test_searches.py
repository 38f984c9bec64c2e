"""Searches by a part of a text: one at a time for each account, and not for long."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from django.test import Client

from codservice import searches
from codservice.accounts.models import Account
from tests.factories import ProductFactory, make_order
from tests.harness.client import ApiClient
from tests.harness.database import database_url, one
from tests.harness.searches import search_under_way
from webhooks.models import Delivery, Webhook

ORDERS, INVENTORY = "/api/v1/orders", "/api/v1/inventory"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("path", [ORDERS, INVENTORY])
def test_an_account_has_one_search_at_a_time_and_others_have_theirs(
    alice: Account, api: ApiClient, charlies_api: ApiClient, path: str
) -> None:
    make_order(alice)
    with search_under_way(alice):
        refused = api.get(f"{path}?q=amine")
        assert (refused.status_code, refused.json()["error"], refused.headers["Retry-After"]) == (
            429,
            "rate_limited",
            "1",
        )
        assert refused.headers["X-RateLimit-Remaining"]
        assert api.get(path).status_code == 200
        assert charlies_api.get(f"{path}?q=amine").status_code == 200
    assert api.get(f"{path}?q=amine").status_code == 200


@pytest.fixture
def slow_search(monkeypatch: pytest.MonkeyPatch, alice: Account) -> Iterator[None]:
    """A search waits for a lock, which takes as long as reading much."""
    monkeypatch.setattr(searches, "SEARCH_SECONDS", 0.2)
    make_order(alice)
    ProductFactory(account=alice)
    with psycopg.connect(database_url()) as other:
        other.execute("LOCK TABLE orders_order, inventory_product IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.mark.parametrize("path", [ORDERS, INVENTORY])
def test_a_search_that_takes_too_long_is_ended_and_told_what_to_do(
    api: ApiClient, slow_search: None, path: str
) -> None:
    answer = api.get(f"{path}?q=zzzz")
    assert answer.status_code == 422
    (said,) = answer.json()["errors"]["q"]
    assert "too long" in said
    assert one("SHOW statement_timeout") == "30s"


def test_the_accounts_page_searches_one_at_a_time_too(alice: Account, client: Client) -> None:
    client.force_login(alice.holder)
    with search_under_way(alice):
        answer = client.get("/account/orders?q=amine")
        assert answer.status_code == 429
        assert "Another search" in answer.content.decode()
        assert client.get("/account/orders").status_code == 200
    assert client.get("/account/orders?q=amine").status_code == 200


def test_the_accounts_page_says_when_a_search_takes_too_long(alice: Account, client: Client, slow_search: None) -> None:
    client.force_login(alice.holder)
    answer = client.get("/account/orders?q=zzzz")
    assert (answer.status_code, "too long" in answer.content.decode()) == (422, True)


# --- A webhook's log ------------------------------------------------------------------------------------------------


@pytest.fixture
def webhook(alice: Account, register: Callable[..., Webhook], delivery_of: Callable[..., Delivery]) -> Webhook:
    webhook = register(alice)
    delivery_of(webhook)
    return webhook


SEARCHED = ["event=order.confirmed", "status=dropped", "status=delivered,failed", "event=order.confirmed&status=failed"]
ALONG_AN_INDEX = ["", "status=failed", "created_from=2026-01-01"]


def test_a_log_is_searched_one_at_a_time_too(alice: Account, api: ApiClient, webhook: Webhook) -> None:
    log = f"/api/v1/webhooks/{webhook.id}/deliveries"
    with search_under_way(alice):
        assert {api.get(f"{log}?{query}").status_code for query in SEARCHED} == {429}
        assert {api.get(f"{log}?{query}").status_code for query in ALONG_AN_INDEX} == {200}
    assert {api.get(f"{log}?{query}").status_code for query in SEARCHED} == {200}


def test_the_page_of_a_log_is_searched_one_at_a_time_too(alice: Account, client: Client, webhook: Webhook) -> None:
    client.force_login(alice.holder)
    page = f"/account/webhooks/{webhook.id}"
    searched = ["event=order.confirmed", "status=dropped"]
    with search_under_way(alice):
        for query in searched:
            answer = client.get(f"{page}?{query}")
            assert answer.status_code == 429
            assert "Another search" in answer.content.decode()
        assert {client.get(f"{page}?{query}").status_code for query in ("", "status=failed", "event=")} == {200}
    assert {client.get(f"{page}?{query}").status_code for query in searched} == {200}


@pytest.mark.parametrize("method", ["get", "post"])
def test_so_is_what_has_failed_before_it_is_sent_again(
    alice: Account, client: Client, webhook: Webhook, delivery_of: Callable[..., Delivery], method: str
) -> None:
    failed = delivery_of(webhook, "failed", attempts=4)
    client.force_login(alice.holder)

    def ask(query: dict[str, str]) -> str:
        page = f"/account/webhooks/{webhook.id}/resend"
        return getattr(client, method)(page, query, follow=True).content.decode()

    with search_under_way(alice):
        assert "Another search" in ask({"event": failed.event.kind})
        failed.refresh_from_db()
        assert failed.status == "failed"
        assert "Another search" not in ask({})


def test_one_of_a_log_that_takes_too_long_is_told_to_take_fewer_days(
    alice: Account, api: ApiClient, client: Client, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(alice.holder)
    monkeypatch.setattr(searches, "SEARCH_SECONDS", 0.2)
    query = "event=order.confirmed"
    with psycopg.connect(database_url()) as other:
        other.execute("LOCK TABLE webhooks_delivery IN ACCESS EXCLUSIVE MODE")
        answer = api.get(f"/api/v1/webhooks/{webhook.id}/deliveries?{query}")
        page = client.get(f"/account/webhooks/{webhook.id}?{query}")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["event"])
    assert "fewer days" in answer.json()["errors"]["event"][0]
    assert (page.status_code, "fewer days" in page.content.decode()) == (422, True)
