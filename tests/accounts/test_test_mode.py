"""Test keys, the twin that they belong to, what every answer to them says, and `GET /api/v1/me`."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from codservice.accounts import authentication, merchants
from codservice.accounts.key_format import is_key, make_key
from codservice.accounts.models import SCOPES, Account, ApiKey, TooManyKeys
from inventory.models import Product
from orders.models import CallState, Order
from tests.factories import ProductFactory, UserFactory, make_order, order_body
from tests.harness.background import at_once
from tests.harness.client import ApiClient, browser_of, new_key
from tests.harness.database import contents
from tests.harness.manage import output
from webhooks.models import Webhook


def test_the_first_test_key_makes_the_twin_and_the_others_join_it(alice: Account, charlie: Account) -> None:
    assert not hasattr(alice, "twin")
    first, key = ApiKey.issue(alice, name="One", is_test=True)
    second, _ = ApiKey.issue(alice, name="Two", is_test=True)
    third, _ = ApiKey.issue(first.account, name="By the twin")
    twin = Account.objects.get(live=alice)
    assert {row.account_id for row in (first, second, third)} == {twin.id}
    assert (twin.mode, twin.name, twin.holder, alice.mode) == ("test", alice.name, None, "live")
    assert re.fullmatch(r"cod_test_[0-9A-Za-z]{49}", key)
    assert first.prefix == key[:12]
    assert Account.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_two_first_test_keys_at_once_make_one_twin(alice: Account) -> None:
    at_once(2, lambda number: ApiKey.issue(alice, name=str(number), is_test=True))
    assert Account.objects.get(live=alice).api_keys.count() == 2


def test_the_twin_has_the_name_that_the_account_has_got_since_its_key_was_asked_for(alice: Account) -> None:
    merchants.change(alice.pk, name="New name")
    key, _ = ApiKey.issue(alice, name="Trial", is_test=True)
    assert key.account.name == "New name"


def test_the_form_has_its_mode_in_the_checksum() -> None:
    key = make_key("test")
    assert is_key(key)
    assert not is_key(key.replace("cod_test_", "cod_live_"))
    assert not is_key(key.replace("cod_test_", "cod_best_"))


def test_an_account_has_a_holder_or_is_a_twin(alice: Account, charlie: Account) -> None:
    for changes in ({"holder": None}, {"live": alice}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Account.objects.filter(id=charlie.id).update(**changes)


def test_twenty_test_keys_are_counted_apart(alice: Account) -> None:
    for number in range(20):
        ApiKey.issue(alice, name=str(number), is_test=True)
    with pytest.raises(TooManyKeys):
        ApiKey.issue(alice, name="21", is_test=True)
    ApiKey.issue(alice, name="Live")


def test_what_is_made_with_a_test_key_is_the_twins_alone(alice: Account, api: ApiClient, twins_api: ApiClient) -> None:
    live_product = ProductFactory(account=alice, sku="A")
    made = twins_api.post("/api/v1/orders", order_body(external_id="1"))
    assert made.status_code == 201
    assert api.post("/api/v1/orders", order_body(external_id="1")).status_code == 201
    order = Order.objects.get(id=made.json()["id"])
    assert (order.account.live, order.call_state) == (alice, CallState.TEST)
    assert Order.objects.get(account=alice).call_state == CallState.NEW
    path = f"/api/v1/orders/{order.id}"
    assert (api.get(path).status_code, twins_api.get(path).status_code) == (404, 200)
    for client in (api, twins_api):
        assert client.get("/api/v1/orders").json()["meta"]["total"] == 1
    assert twins_api.get("/api/v1/inventory").json()["data"] == []
    line = {"product_id": str(live_product.id), "quantity": 1}
    assert twins_api.post("/api/v1/orders", order_body(items=[line])).status_code == 422
    webhook = {"url": "https://203.0.114.1/hooks", "events": ["order.confirmed"]}
    assert twins_api.post("/api/v1/webhooks", webhook).status_code == 201
    assert api.get("/api/v1/webhooks").json()["data"] == []
    assert Product.objects.get() == live_product


def test_importing_for_a_twin_costs_no_statement_more(
    alice: Account, twin: Account, django_assert_num_queries: Any
) -> None:
    for account in (alice, twin):
        with django_assert_num_queries(2):  # the insert, and the factory's own query
            make_order(account)


def test_every_answer_to_a_test_key_says_so(alice: Account, api: ApiClient, twins_api: ApiClient) -> None:
    revoked_row, revoked = ApiKey.issue(alice, name="Revoked", is_test=True)
    revoked_row.revoke()
    limited = new_key(Account.objects.get(live=alice), scopes=["orders:read"])
    asked = [
        (twins_api.get("/api/v1/orders"), 200),
        (twins_api.post("/api/v1/orders", {}), 422),
        (twins_api.get("/api/v1/nothing"), 404),
        (twins_api.delete("/api/v1/orders"), 405),
        (ApiClient(limited).get("/api/v1/inventory"), 403),
        (ApiClient(revoked).get("/api/v1/orders"), 401),
        (ApiClient(make_key("test")).get("/api/v1/orders"), 401),
    ]
    for answer, status in asked:
        assert (answer.status_code, answer.headers.get("X-Service-Mode")) == (status, "test")
    for answer in (api.get("/api/v1/orders"), api.get("/api/v1/nothing"), Client().get("/api/v1/orders")):
        assert "X-Service-Mode" not in answer.headers


def test_the_limits_of_the_twin_are_its_own(alice: Account, api_for: Callable[..., ApiClient]) -> None:
    Account.objects.filter(id=alice.id).update(rate_limit=2)
    live, test = api_for(alice), api_for(alice, is_test=True)
    for _ in range(2):
        assert live.get("/api/v1/me").status_code == 200
    assert live.get("/api/v1/me").status_code == 429
    answer = test.get("/api/v1/me")
    assert (answer.status_code, answer["X-RateLimit-Limit"], answer["X-RateLimit-Remaining"]) == (200, "2", "1")
    assert test.get("/api/v1/me").status_code == 200
    over = test.get("/api/v1/me")
    assert (over.status_code, over["X-Service-Mode"]) == (429, "test")
    Account.objects.filter(live=alice).update(rate_limit=500)
    authentication._trusted.clear()
    assert api_for(alice, is_test=True).get("/api/v1/me").json()["rate_limit"] == 500


def test_whoever_closes_the_account_or_stops_its_holder_ends_the_twin(
    alice: Account, twins_api: ApiClient, twin: Account
) -> None:
    def status() -> int:
        authentication._trusted.clear()
        return twins_api.get("/api/v1/orders").status_code

    assert status() == 200
    Account.objects.filter(id=twin.id).update(is_active=False)
    assert status() == 401
    Account.objects.filter(id=twin.id).update(is_active=True)
    Account.objects.filter(id=alice.id).update(is_active=False)
    assert status() == 401
    Account.objects.filter(id=alice.id).update(is_active=True)
    assert status() == 200
    alice.holder.deactivate()
    assert status() == 401


# --- GET /api/v1/me --------------------------------------------------------------------------------------------------


def test_me_says_what_the_key_is(alice: Account, django_assert_num_queries: Any) -> None:
    row, key = ApiKey.issue(alice, name="Sync", scopes=["webhooks:read", "orders:read"])
    assert ApiClient(key).get("/api/v1/me").json() == {
        "account": {"id": str(alice.id), "name": "Alice's shop", "mode": "live"},
        "key": {
            "name": "Sync", "prefix": row.prefix, "scopes": ["orders:read", "webhooks:read"], "expires_at": None
        },
        "rate_limit": 60,
    }  # fmt: skip
    with django_assert_num_queries(0):  # the key is cached for a second
        ApiClient(key).get("/api/v1/me")


def test_me_in_test_mode_is_the_twin(alice: Account, twins_api: ApiClient, twin: Account) -> None:
    me = twins_api.get("/api/v1/me").json()
    assert me["account"] == {"id": str(twin.id), "name": "Alice's shop", "mode": "test"}
    assert (me["key"]["prefix"][:9], me["key"]["scopes"]) == ("cod_test_", list(SCOPES))


@pytest.mark.parametrize("scope", SCOPES)
def test_any_scope_will_do_for_me(scope: str, alice: Account, api_for: Callable[..., ApiClient]) -> None:
    assert api_for(alice, scopes=[scope]).get("/api/v1/me").status_code == 200


def test_me_is_not_told_by_plain_http(api: ApiClient, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert api.get("/api/v1/me").status_code == 403


def test_me_is_for_keys_alone(stranger: ApiClient, api: ApiClient) -> None:
    assert stranger.get("/api/v1/me").status_code == 401
    assert api.post("/api/v1/me", {}).status_code == 405


# --- The command and the pages ---------------------------------------------------------------------------------------


def test_the_command_makes_a_test_key(alice: Account) -> None:
    key = output("create_api_key", "--account", alice.holder.email, "--test").strip()
    assert is_key(key)
    assert ApiClient(key).get("/api/v1/me").json()["account"]["mode"] == "test"


def test_a_key_made_on_the_page_works_in_the_mode_that_was_chosen(alice: Account, browser: Client) -> None:
    fields = {"name": "Shop", "scopes": list(SCOPES)}
    live = browser.post("/account/keys", fields).content.decode()
    assert "cod_live_" in live
    assert 'data-mode="test"' not in live
    test = browser.post("/account/keys", fields | {"works": "test", "name": "Trial"}).content.decode()
    assert 'data-mode="test"' in test
    assert ("Trial" in test, ">Shop<" in test) == (True, False), "the keys of its mode alone"
    again = browser.post("/account/keys", fields | {"name": "Another"}).content.decode()
    assert len(set(re.findall(r"cod_test_[0-9A-Za-z]{49}", again))) == 1, "on a page in test mode"
    back = browser.post("/account/keys", fields | {"works": "live", "name": "Site"}).content.decode()
    assert 'data-mode="test"' not in back
    assert browser.post("/account/keys", fields | {"works": "other"}).status_code == 422
    assert (alice.api_keys.count(), alice.twin.api_keys.count()) == (2, 2)


def test_the_switch_shows_the_twin_and_the_live_account(
    alice: Account, twin: Account, browser: Client, django_assert_num_queries: Any
) -> None:
    live, test = make_order(alice, customer_name="Lamia Live"), make_order(twin, customer_name="Tarek Test")

    def shown() -> tuple[bool, bool, bool]:
        text = browser.get("/account/orders").content.decode()
        return "Lamia" in text, "Tarek" in text, 'data-mode="test"' in text

    assert shown() == (True, False, False)
    assert browser.get(f"/account/orders/{test.id}").status_code == 404
    assert browser.post("/account/mode", {"to": "test"}).url == "/account/"
    assert shown() == (False, True, True)
    assert browser.get(f"/account/orders/{live.id}").status_code == 404
    assert browser.post(f"/account/orders/{live.id}/cancel").status_code == 404
    with django_assert_num_queries(4):
        browser.get("/account/keys")
    browser.post("/account/mode", {"to": "live"})
    assert shown() == (True, False, False)


@pytest.mark.parametrize(("mode", "says"), [("live", "You are in the live account"), ("test", "You are in test mode")])
def test_who_follows_a_link_of_the_other_mode_is_told_of_it(
    mode: str, says: str, alice: Account, twin: Account, browser: Client, register: Callable[..., Webhook]
) -> None:
    """The link may come from a mail. A page that only says that the webhook was deleted would be untrue."""
    of = twin if mode == "live" else alice
    links = [f"webhooks/{register(of).id}", f"orders/{make_order(of).id}", f"products/{ProductFactory(account=of).id}"]
    browser.post("/account/mode", {"to": mode})
    for link in links:
        response = browser.get(f"/account/{link}")
        assert (response.status_code, says in response.content.decode()) == (404, True), link
    assert says not in browser.post(f"/account/sessions/{twin.id}/end").content.decode()  # sessions have no mode


def test_who_has_no_other_mode_is_told_of_none(
    alice: Account, browser: Client, register: Callable[..., Webhook]
) -> None:
    webhook = register(alice)
    browser.post(f"/account/webhooks/{webhook.id}/delete")
    assert "You are in" not in browser.get(f"/account/webhooks/{webhook.id}").content.decode()


@pytest.mark.parametrize("role", ["holder", "manager"])
def test_the_first_switch_makes_the_twin_without_a_key(role: str, alice: Account) -> None:
    browser = browser_as(role, alice)
    assert browser.post("/account/mode", {"to": "test"}).url == "/account/"
    twin = Account.objects.get(live=alice)
    assert (twin.mode, twin.name, twin.holder) == ("test", alice.name, None)
    assert not ApiKey.objects.exists()
    for path in ("", "orders", "products", "fees", "keys", "webhooks", "quick-start", "calling", "orders/new"):
        page = browser.get(f"/account/{path}", follow=True)
        assert (page.status_code, 'data-mode="test"' in page.content.decode()) == (200, True), path
    order = MADE_ON["/account/orders/new"] | {"mode": "test"}
    assert browser.post("/account/orders/new", order).status_code == 302
    assert [(order.account, order.call_state) for order in Order.objects.all()] == [(twin, CallState.TEST)]


def test_the_first_test_key_joins_the_twin_of_the_switch(alice: Account, browser: Client) -> None:
    browser.post("/account/mode", {"to": "test"})
    assert ApiKey.issue(alice, name="Trial", is_test=True)[0].account == Account.objects.get(live=alice)


@pytest.mark.django_db(transaction=True)
def test_two_first_switches_at_once_make_one_twin(alice: Account) -> None:
    browsers = [browser_of(alice.holder) for _ in range(2)]
    answers = at_once(2, lambda number: browsers[number].post("/account/mode", {"to": "test"}))
    assert [answer.status_code for answer in answers] == [302, 302]
    assert Account.objects.filter(live=alice).count() == 1


@pytest.mark.parametrize(
    ("role", "is_active", "said"),
    [
        ("reader", True, "You are still in the live account. It has no test mode yet, and your role is read only"),
        ("holder", False, "You are still in the live account. It has no test mode, and a closed account gets none."),
    ],
)
def test_who_may_not_make_the_twin_is_told_to_be_in_the_live_account(
    role: str, is_active: bool, said: str, alice: Account
) -> None:
    Account.objects.filter(id=alice.id).update(is_active=is_active)
    page = browser_as(role, alice).post("/account/mode", {"to": "test"}, follow=True)
    text = page.content.decode()
    assert (page.status_code, 'data-mode="test"' in text) == (200, False)
    assert said in text
    assert not Account.objects.filter(live=alice).exists()


def test_who_may_only_read_switches_to_a_twin_that_exists(alice: Account, twin: Account) -> None:
    page = browser_as("reader", alice).post("/account/mode", {"to": "test"}, follow=True)
    assert 'data-mode="test"' in page.content.decode()


def browser_as(role: str, account: Account) -> Client:
    """The browser of the account's holder, or of a new colleague with this role."""
    if role == "holder":
        return browser_of(account.holder)
    user = UserFactory()
    account.memberships.create(user=user, role=role)
    return browser_of(user)


def test_a_form_of_the_other_mode_is_refused(alice: Account, twin: Account, browser: Client) -> None:
    """Its page stood open while another one switched the mode."""
    fields = {"name": "Shop", "scopes": ["orders:read"], "mode": "test"}
    assert browser.post("/account/keys", fields).status_code == 302
    assert alice.api_keys.count() == 0


def test_a_closed_accounts_twin_can_be_read_and_not_changed(alice: Account, twin: Account, browser: Client) -> None:
    browser.post("/account/mode", {"to": "test"})
    Account.objects.filter(id=alice.id).update(is_active=False)
    assert browser.post("/account/keys", {"name": "x", "scopes": ["orders:read"]}).status_code == 302
    assert "This account is closed" in browser.get("/account/keys").content.decode()
    assert twin.api_keys.count() == 1


# --- A form keeps the mode of its page -------------------------------------------------------------------------------

# Pages on which something is made. An object named in a page's address has one mode anyway.
MADE_ON = {
    "/account/orders/new": {
        "customer_name": "Amine", "customer_phone": "0550123456", "customer_address": "12 rue", "customer_wilaya": "16",
        "delivery_type": "home", "line-0-product": "Robe", "line-0-quantity": "1", "line-0-unit_price": "100",
    },
    "/account/fees": {"home-16": "450"},
    "/account/orders/upload": {"name": "o.csv", "size": "10"},
    "/account/products/upload": {"name": "p.csv", "size": "10"},
    "/account/products/new": {"name": "Robe", "sku": "R", "price": "100", "stock_quantity": "1"},
    "/account/webhooks": {"url": "https://shop.example/hook", "events": "order.confirmed"},
}  # fmt: skip


@pytest.mark.parametrize(("path", "data"), MADE_ON.items(), ids=[path.removeprefix("/account/") for path in MADE_ON])
@pytest.mark.parametrize("mode", ["live", "test"])
def test_what_is_made_is_of_the_mode_of_its_page(
    path: str, data: dict[str, str], mode: str, alice: Account, client: Client
) -> None:
    """Another tab has switched it meanwhile."""
    twin = ApiKey.issue(alice, name="Trial", is_test=True)[0].account
    client.force_login(alice.holder)
    client.post("/account/mode", {"to": mode})
    page = client.get(path).content.decode()
    forms = [form for form in re.findall(r'<form\b[^>]*method="post".*?</form>', page, re.S) if "mode" in form]
    named = {name for form in forms for name in re.findall(r'name="mode" value="(\w+)"', form)}
    assert named == {mode}
    client.post("/account/mode", {"to": "test" if mode == "live" else "live"})
    before = contents("accounts_securityentry", "django_session")
    assert client.post(path, {**data, "mode": mode}).url == path
    assert contents("accounts_securityentry", "django_session") == before
    assert "Nothing was changed here" in client.get(path).content.decode()
    assert twin.orders.count() == alice.orders.count() == 0
