"""Whatever somebody changes on a merchant's pages is in the log that the holder reads.

The pages come from the URL configuration: one that takes a POST and is not in a table here fails.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice import days
from codservice.accounts import team
from codservice.accounts.models import Account, ApiKey, Membership, SecurityEntry
from codservice.uploads.models import RefusedRow, Upload
from orders.models import Order
from tests import factories
from tests.harness.addresses import addresses
from tests.harness.client import browser_of
from tests.harness.deliveries import write_delivery
from tests.harness.world import make_world
from tests.pages.doors import HOLDERS, OWN_AFFAIRS, undone
from webhooks import registry

ORDER = {
    "customer_name": "Amine", "customer_phone": "0550 12 34 56", "customer_wilaya": "16", "delivery_type": "home",
    "customer_address": "3, rue Didouche", "shipping_fee": "400", "line-0-product": "Robe", "line-0-quantity": "2",
    "line-0-unit_price": "2500",
}  # fmt: skip
PRODUCT = {"name": "Robe", "price": "1500", "is_active": "on"}
HOURS = {"opens_at": "10:00", "closes_at": "18:30", "retry_minutes": "60", "most_attempts": "4"}
WEBHOOK = {"url": "https://203.0.114.1/new", "events": ["order.created"], "is_active": "on"}
CUSTOMER = {"phone": "0550999999"}


@dataclass
class Shop:
    """A merchant's account with one of each thing that its people change."""

    account: Account
    browser: Client

    def __post_init__(self) -> None:
        account = self.account
        self.order = factories.make_order(account)
        self.product = factories.ProductFactory(account=account)
        self.webhook = registry.register(account.id, url="https://203.0.114.1/", events=["order.confirmed"])[0]
        self.delivery = write_delivery(self.webhook, "failed", attempts=4)
        self.key = ApiKey.issue(account, name="Shop")[0]
        user = factories.UserFactory(email="nadia@example.com")
        self.member = Membership.objects.create(account=account, user=user, role="reader")
        TOTPDevice.objects.create(user=user, confirmed=True, name="")
        self.invitation = team.invite(account.id, email="karim@example.com", role="reader")
        ended = factories.make_order(account, phone=CUSTOMER["phone"])
        Order.objects.filter(id=ended.id).update(status="delivered")

    def upload(self, status: str) -> Upload:
        return Upload.objects.create(
            account=self.account, kind="products", name="products.csv", size=1, actor="x", user_id=uuid4(),
            status=status, titles=["SKU", "Stock"],
        )  # fmt: skip

    def refused_file(self) -> Upload:
        file = self.upload("done")
        RefusedRow.objects.create(account=self.account, upload=file, line=2, cells=["A"], faults=[])
        return file

    def shown(self, path: str) -> dict[str, str]:
        """Return the hidden fields of a page, by which a form says what it was opened with."""
        page = self.browser.get(path).content.decode()
        return dict(re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"', page))


# What somebody sends to each page that changes something: the end of its path after /account/, and the fields.
CHANGES: dict[str, Callable[[Shop], tuple[str, dict[str, Any]]]] = {
    "account-order-new": lambda shop: ("orders/new", ORDER),
    "account-order-correct": lambda shop: (
        f"orders/{shop.order.id}/correct", shop.shown(f"/account/orders/{shop.order.id}/correct") | ORDER,
    ),
    "account-order-cancel": lambda shop: (f"orders/{shop.order.id}/cancel", {"version": shop.order.version}),
    "account-fees": lambda shop: ("fees", {"home-16": "400"}),
    "account-product-new": lambda shop: ("products/new", PRODUCT | {"sku": "NEW-01", "stock_quantity": "1"}),
    "account-product": lambda shop: (
        f"products/{shop.product.id}", PRODUCT | {"seen": shop.shown(f"/account/products/{shop.product.id}")["seen"]},
    ),
    "account-product-stock": lambda shop: (
        f"products/{shop.product.id}/stock", {"quantity": "4", "expected_quantity": shop.product.stock_quantity},
    ),
    "account-upload": lambda shop: (f"uploads/{shop.upload('matching').id}", {"sku": "0", "stock_quantity": "1"}),
    "account-upload-stop": lambda shop: (f"uploads/{shop.upload('running').id}/stop", {}),
    "account-upload-discard": lambda shop: (f"uploads/{shop.refused_file().id}/discard", {}),
    "account-webhooks": lambda shop: ("webhooks", WEBHOOK),
    "account-webhook-change": lambda shop: (f"webhooks/{shop.webhook.id}/change", WEBHOOK),
    "account-webhook-ping": lambda shop: (f"webhooks/{shop.webhook.id}/ping", {}),
    "account-webhook-rotate": lambda shop: (f"webhooks/{shop.webhook.id}/rotate", {}),
    "account-webhook-delete": lambda shop: (f"webhooks/{shop.webhook.id}/delete", {}),
    "account-webhook-resend": lambda shop: (f"webhooks/{shop.webhook.id}/resend", {}),
    "account-webhook-recover": lambda shop: (
        f"webhooks/{shop.webhook.id}/recover", {"since": days.today().isoformat(), "until": days.today().isoformat()},
    ),
    "account-delivery-resend": lambda shop: (f"webhooks/deliveries/{shop.delivery.id}/resend", {}),
    "account-calling": lambda shop: ("calling", HOURS),
    "account-script": lambda shop: ("script", {"script_fr": "Bonjour {nom}"}),
    "api-keys": lambda shop: ("keys", {"name": "Till", "scopes": ["orders:read"], "works": "live"}),
    "quick-start": lambda shop: ("quick-start", {}),
    "revoke-key": lambda shop: (f"keys/{shop.key.id}/revoke", {}),
    "team": lambda shop: ("team", {"email": "samir@example.com", "role": "reader"}),
    "colleague": lambda shop: (f"team/{shop.member.id}", {"role": "manager"}),
    "colleague-remove": lambda shop: (f"team/{shop.member.id}/remove", {}),
    "colleague-codes": lambda shop: (f"team/{shop.member.id}/codes", {}),
    "invitation-again": lambda shop: (f"invitations/{shop.invitation.id}/again", {}),
    "invitation-withdraw": lambda shop: (f"invitations/{shop.invitation.id}/withdraw", {}),
    "account-data-export": lambda shop: ("data/export", {}),
    "account-data-customer": lambda shop: ("data/customer", CUSTOMER),
    "account-data-erase": lambda shop: ("data/erase", CUSTOMER),
}  # fmt: skip
# Pages that take a POST but change nothing of the account's yet.
UNTOLD = {
    "account-orders-upload": "a file arrives: told when its rows are to be taken in",
    "account-products-upload": "likewise",
    "account-upload-piece": "likewise",
}


@pytest.mark.django_db
def test_no_page_that_takes_a_change_is_forgotten(settings: Any) -> None:
    settings.PAGE_RATE_LIMIT = 1_000_000
    browser, taking = make_world().client("holder"), set()
    for address in addresses():
        if address.name in HOLDERS - OWN_AFFAIRS and address.route.startswith("/account/"):
            with undone(browser):
                if browser.post(address.paths()[0]).status_code != 405:
                    taking.add(address.name)
    assert taking == CHANGES.keys() | UNTOLD.keys()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_stands_in_the_log_of_its_account(alice: Account, name: str) -> None:
    browser = browser_of(alice.holder)
    shop = Shop(alice, browser)
    path, data = CHANGES[name](shop)
    before = set(SecurityEntry.objects.values_list("id", flat=True))

    answer = browser.post(f"/account/{path}", data)

    assert answer.status_code in (200, 201, 302), answer.content.decode()
    told = SecurityEntry.objects.exclude(id__in=before).filter(outcome="done", by="person")
    assert {entry.actor_id for entry in told} == {alice.holder_id}, name
    twins = Account.objects.filter(live=alice).values_list("id", flat=True)
    assert {entry.account_id for entry in told} <= {alice.id, *twins}
