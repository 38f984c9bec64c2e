"""The quick start: its lines work as shown, in four languages, and it says what has arrived."""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from codservice.accounts.models import SCOPES, Account, ApiKey
from orders import quick_start
from orders.models import Order
from tests.factories import UserFactory, make_order
from tests.harness.deliveries import write_delivery
from webhooks import registry
from webhooks.models import Delivery, Webhook

HOME = "/account/quick-start"


@pytest.fixture
def browser(alice: Account) -> Client:
    client = Client()
    client.force_login(alice.holder)
    return client


@pytest.fixture
def webhook(alice: Account) -> Webhook:
    return registry.register(alice.id, url="https://203.0.114.1/hooks", events=["order.confirmed"])[0]


def lines_in(text: str) -> dict[str, str]:
    """What the copy buttons copy, by language."""
    found = re.findall(r'<code id="lines-(\w+)">(.*?)</code>', text, re.S)
    return {language: html.unescape(lines) for language, lines in found}


def program(name: str) -> str:
    path = shutil.which(name)
    assert path, f"{name} is missing; install it (`make languages`), the quick start is tried with it"
    return path


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("language", "command", "file"),
    [
        ("curl", ["bash", "-euo", "pipefail"], "order.sh"),
        ("python", [sys.executable], "order.py"),
        ("php", ["php"], "order.php"),
        ("javascript", ["node"], "order.js"),
    ],
)
def test_the_lines_import_an_order_as_they_stand(
    language: str, command: list[str], file: str, alice: Account, browser: Client, live_server: Any, tmp_path: Path
) -> None:
    answer = browser.post(HOME, headers={"Host": live_server.url.removeprefix("http://")})
    (tmp_path / file).write_text(lines_in(answer.content.decode())[language], encoding="utf-8")

    done = subprocess.run(
        [program(command[0]), *command[1:], str(tmp_path / file)],
        capture_output=True, text=True, env={"PATH": os.environ["PATH"]}, check=False)  # fmt: skip

    order = Order.objects.get()
    assert done.returncode == 0, done.stderr
    assert str(order.id) in done.stdout
    assert (order.account_id, order.wilaya_code, order.commune_code) == (alice.id, "16", "1621")
    assert (str(order.total_amount), order.items.get().product_name) == ("4900.00", "Robe kabyle")


def test_a_key_is_made_by_one_click_and_shown_once(alice: Account, browser: Client) -> None:
    assert quick_start.PLACEHOLDER in browser.get(HOME).content.decode()
    assert alice.api_keys.count() == 0, "looking makes none"
    answer = browser.post(HOME)
    text = answer.content.decode()
    (key,) = set(re.findall(r"cod_live_[0-9A-Za-z]{49}", text))
    assert answer.status_code == 201
    assert {language for language, lines in lines_in(text).items() if key in lines} == set(quick_start.LANGUAGES)
    assert quick_start.PLACEHOLDER not in text
    row = alice.api_keys.get()
    assert (row.name, row.scopes, row.expires_at) == ("Quick start", list(SCOPES), None)
    assert Client().get("/api/v1/orders", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert key not in browser.get(HOME).content.decode()
    assert "You have a key already." in browser.get(HOME).content.decode()


def test_the_address_is_the_one_that_was_asked(browser: Client, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["shop.codservice.dz"]
    text = browser.get(HOME, headers={"Host": "shop.codservice.dz"}, secure=True).content.decode()
    for lines in lines_in(text).values():
        assert "https://shop.codservice.dz/api/v1/orders" in lines
    assert browser.get(HOME, headers={"Host": "evil.example"}).status_code == 400


def test_it_says_when_the_first_order_and_acknowledgement_arrived(
    alice: Account, browser: Client, webhook: Webhook
) -> None:
    def says(path: str = f"{HOME}/progress") -> tuple[int, bool]:
        text = browser.get(path).content.decode()
        return text.count('class="done"'), "data-refresh" in text

    write_delivery(webhook, "failed", attempts=4)
    for path in (HOME, f"{HOME}/progress"):
        assert says(path) == (0, True)
    order = make_order(alice)
    make_order(alice)
    assert says() == (1, True)
    assert f"/account/orders/{order.id}" in browser.get(HOME).content.decode()
    first = write_delivery(webhook, "delivered", attempts=1)
    write_delivery(webhook, "delivered", attempts=1)
    for path in (HOME, f"{HOME}/progress"):
        assert says(path) == (2, False)
    assert f"/account/webhooks/deliveries/{first.id}" in browser.get(HOME).content.decode()


def test_it_looks_at_ones_own_things_alone(charlie: Account, browser: Client) -> None:
    make_order(charlie)
    theirs = registry.register(charlie.id, url="https://203.0.114.1/theirs", events=["order.confirmed"])[0]
    write_delivery(theirs, "delivered", attempts=1)
    ApiKey.issue(charlie, name="Theirs")
    text = browser.get(HOME).content.decode()
    assert 'class="done"' not in text
    assert "theirs" not in text
    assert "You have a key already." not in text


def test_a_deleted_webhook_counts_no_more(browser: Client, webhook: Webhook) -> None:
    write_delivery(webhook, "delivered", attempts=1)
    Webhook.objects.update(deleted_at=timezone.now())
    assert 'class="done"' not in browser.get(HOME).content.decode()


def test_it_costs_the_same_whatever_there_is(
    alice: Account, browser: Client, webhook: Webhook, django_assert_num_queries: Any
) -> None:
    for count in (1, 7):
        for _ in range(count):
            make_order(alice)
            write_delivery(webhook, "delivered", attempts=1)
        with django_assert_num_queries(7):  # session, person, account, keys, webhooks, acknowledged, first order
            browser.get(HOME)
        with django_assert_num_queries(5):
            browser.get(f"{HOME}/progress")
    assert Delivery.objects.count() == 8


def test_it_is_for_holders_and_needs_the_csrf_token(alice: Account) -> None:
    nobody = Client()
    nobody.force_login(UserFactory())
    for path in (HOME, f"{HOME}/progress"):
        assert Client().get(path).url == f"/account/login?next={path}"
        assert nobody.get(path).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(alice.holder)
    assert strict.post(HOME).status_code == 403
    assert ApiKey.objects.count() == 0
