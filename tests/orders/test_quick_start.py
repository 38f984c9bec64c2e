"""The quick start: its lines work as shown, in four languages, and it says what has arrived."""

import hashlib
import hmac
import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.translation import gettext, override

from codservice.accounts.models import SCOPES, Account, ApiKey
from orders import quick_start
from orders.models import Order, Status
from tests.factories import UserFactory, make_order
from tests.harness.client import browser_of
from tests.harness.deliveries import write_delivery
from tests.harness.npm import program
from tests.harness.receivers import Receiver
from webhooks import registry
from webhooks.engine import Engine
from webhooks.models import Delivery, Webhook

HOME = "/account/quick-start"
LANGUAGES = set(quick_start.LANGUAGES)


@pytest.fixture
def trying(twin: Account, browser: Client) -> Account:
    """The twin, as Alice's browser shows it."""
    browser.post("/account/mode", {"to": "test"})
    return twin


@pytest.fixture
def webhook(trying: Account) -> Webhook:
    return registry.register(trying.id, url="https://203.0.114.1/hooks", events=["order.confirmed"])[0]


def lines_in(text: str) -> dict[str, str]:
    """Return what the copy buttons copy, by language."""
    found = re.findall(r'<code id="lines-(\w+)">(.*?)</code>', text, re.S)
    return {language: html.unescape(lines) for language, lines in found}


in_each_language = pytest.mark.parametrize(
    ("language", "command", "file"),
    [
        ("curl", ["bash", "-euo", "pipefail"], "order.sh"),
        ("python", [sys.executable], "order.py"),
        ("php", ["php"], "order.php"),
        ("javascript", ["node"], "order.js"),
    ],
)


def run(command: list[str], path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program(command[0]), *command[1:], str(path)],
        capture_output=True, text=True, env={"PATH": os.environ["PATH"]}, check=False)  # fmt: skip


@pytest.mark.django_db(transaction=True)
@in_each_language
def test_from_a_key_to_a_verified_webhook_of_a_confirmed_order(
    language: str,
    command: list[str],
    file: str,
    alice: Account,
    browser: Client,
    live_server: Any,
    receiver: Receiver,
    engine: Engine,
    settings: Any,
    tmp_path: Path,
) -> None:
    """Runs the lines as they stand, in the order of the page's steps."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    answer = browser.post(HOME, headers={"Host": live_server.url.removeprefix("http://")})
    (tmp_path / file).write_text(lines_in(answer.content.decode())[language], encoding="utf-8")
    registered = browser.post("/account/webhooks", {"url": receiver.url("/hooks"), "events": ["order.confirmed"]})
    (secret,) = set(re.findall(r"whsec_[0-9A-Za-z+/]{43}=", html.unescape(registered.content.decode())))

    done = run(command, tmp_path / file)

    order = Order.objects.get()
    assert done.returncode == 0, done.stderr
    assert str(order.id) in done.stdout
    assert (order.account.live, order.status) == (alice, Status.CONFIRMED)
    assert (order.wilaya_code, order.commune_code, str(order.total_amount)) == ("16", "1621", "4900.00")
    assert order.items.get().product_name == "Robe kabyle"
    engine.drain()
    (request,) = receiver.requests
    signed = hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
    assert request.headers["x-service-signature"] == f"sha256={signed}"
    assert json.loads(request.body)["data"]["id"] == str(order.id)
    assert request.headers["x-service-mode"] == "test"
    page = browser.get(HOME).content.decode()
    assert page.count('class="done"') == 2
    assert str(order.id) in page


@pytest.mark.django_db(transaction=True)
@in_each_language
def test_what_is_refused_is_printed(
    language: str, command: list[str], file: str, browser: Client, alice: Account, live_server: Any, tmp_path: Path
) -> None:
    answer = browser.post(HOME, headers={"Host": live_server.url.removeprefix("http://")})
    lines = lines_in(answer.content.decode())[language].replace("0550 12 34 56", "12")
    (tmp_path / file).write_text(lines, encoding="utf-8")

    done = run(command, tmp_path / file)

    assert done.returncode != 0
    assert "Must be an Algerian phone number" in done.stdout + done.stderr
    if language == "curl":
        assert json.loads(done.stdout)["error"]
        assert done.stderr == "", "nothing is confirmed"


def test_a_test_key_is_made_by_one_click_and_shown_once(alice: Account, browser: Client) -> None:
    assert "cod_test_" not in browser.get(HOME).content.decode()
    assert not hasattr(alice, "twin"), "looking makes none"
    answer = browser.post(HOME)
    text = answer.content.decode()
    (key,) = set(re.findall(r"cod_test_[0-9A-Za-z]{49}", text))
    assert answer.status_code == 201
    assert 'data-mode="test"' in text
    assert {language for language, lines in lines_in(text).items() if key in lines} == LANGUAGES
    assert quick_start.PLACEHOLDER not in text
    row = ApiKey.objects.get(account__live=alice)
    assert (row.name, row.scopes, row.expires_at) == ("Quick start", list(SCOPES), None)
    assert alice.api_keys.count() == 0
    assert Client().get("/api/v1/orders", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    again = browser.get(HOME).content.decode()
    assert key not in again
    assert quick_start.PLACEHOLDER in again
    assert "You already have a key." in again
    ApiKey.objects.update(expires_at=timezone.now())
    assert "You already have a key." not in browser.get(HOME).content.decode()


def test_in_live_mode_it_offers_to_go_on_in_test_mode(alice: Account, twin: Account, browser: Client) -> None:
    make_order(twin)
    text = browser.get(HOME).content.decode()
    assert "Switch to test mode" in text
    assert lines_in(text) == {}
    assert browser.post("/account/mode", {"to": "test"}).status_code == 302
    assert set(lines_in(browser.get(HOME).content.decode())) == LANGUAGES


def test_who_has_no_developer_begins_on_this_page_too_and_learns_whether_customers_are_called(browser: Client) -> None:
    by_hand = '<a class="button" href="/account/orders/new">'
    live = browser.get(HOME).content.decode()
    browser.post("/account/mode", {"to": "test"})
    test = browser.get(HOME).content.decode()
    for text, is_real in ((live, True), (test, False)):
        before = text.partition(by_hand)[0]
        assert before != text
        assert ("These are real orders: our agents call their customers." in before) is is_real
        assert ("Nobody is called" in before) is not is_real


def test_the_address_is_the_one_that_was_asked(browser: Client, trying: Account, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["shop.codservice.dz"]
    text = browser.get(HOME, headers={"Host": "shop.codservice.dz"}, secure=True).content.decode()
    shown = lines_in(text)
    assert {name for name, lines in shown.items() if "https://shop.codservice.dz/api/v1" in lines} == LANGUAGES
    assert browser.get(HOME, headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize("language", ["fr", "ar-dz"])
def test_the_lines_speak_the_persons_language(language: str, browser: Client, trying: Account) -> None:
    lines = lines_in(browser.get(HOME, headers={"Accept-Language": language}).content.decode())
    with override(language):
        said = gettext("The customer says yes:")
    assert {name for name, text in lines.items() if said in text and "customer says" not in text} == LANGUAGES


def test_it_says_when_the_first_order_and_acknowledgement_arrived(
    trying: Account, browser: Client, webhook: Webhook
) -> None:
    def says(path: str = f"{HOME}/progress") -> tuple[int, bool]:
        text = browser.get(path).content.decode()
        return text.count('class="done"'), "data-refresh" in text

    write_delivery(webhook, "failed", attempts=4)
    for path in (HOME, f"{HOME}/progress"):
        assert says(path) == (0, True)
    order = make_order(trying)
    make_order(trying)
    assert says() == (1, True)
    assert f"/account/orders/{order.id}" in browser.get(HOME).content.decode()
    first = write_delivery(webhook, "delivered", attempts=1)
    write_delivery(webhook, "delivered", attempts=1)
    for path in (HOME, f"{HOME}/progress"):
        assert says(path) == (2, False)
    assert f"/account/webhooks/deliveries/{first.id}" in browser.get(HOME).content.decode()


def test_a_page_left_open_learns_nothing_of_what_is_shown_next(
    alice: Account, charlie: Account, twin: Account, browser: Client
) -> None:
    def address_in(page: Client) -> str:
        return re.findall(r'data-refresh="([^"]+)"', page.get(HOME).content.decode())[0]

    browser.post("/account/mode", {"to": "test"})
    make_order(alice)
    address = address_in(browser)
    assert browser.get(address).status_code == 200
    assert browser_of(charlie.holder).get(address).status_code == 409
    browser.post("/account/mode", {"to": "live"})
    answer = browser.get(address)
    assert answer.status_code == 409
    assert answer.content == b""
    browser.post("/account/mode", {"to": "test"})
    assert 'class="done"' not in browser.get(address).content.decode()


def test_it_looks_at_ones_own_things_alone(charlie: Account, browser: Client, trying: Account) -> None:
    trying.api_keys.all().delete()
    make_order(charlie)
    theirs = registry.register(charlie.id, url="https://203.0.114.1/theirs", events=["order.confirmed"])[0]
    write_delivery(theirs, "delivered", attempts=1)
    ApiKey.issue(charlie, name="Theirs")
    text = browser.get(HOME).content.decode()
    assert 'class="done"' not in text
    assert "theirs" not in text
    assert "You already have a key." not in text


def test_a_webhook_that_is_off_is_sent_no_test(browser: Client, webhook: Webhook) -> None:
    for is_active in (True, False):
        Webhook.objects.update(is_active=is_active)
        text = browser.get(HOME).content.decode()
        assert webhook.url in text
        assert (f"/account/webhooks/{webhook.id}/ping" in text) is is_active


def test_a_deleted_webhook_counts_no_more(browser: Client, webhook: Webhook) -> None:
    write_delivery(webhook, "delivered", attempts=1)
    Webhook.objects.update(deleted_at=timezone.now())
    assert 'class="done"' not in browser.get(HOME).content.decode()


def test_it_costs_the_same_whatever_there_is(
    trying: Account, browser: Client, webhook: Webhook, django_assert_num_queries: Any
) -> None:
    for count in (1, 7):
        for _ in range(count):
            make_order(trying)
            write_delivery(webhook, "delivered", attempts=1)
        with django_assert_num_queries(7):  # session, person, account, keys, webhooks, acknowledged, first order
            browser.get(HOME)
        with django_assert_num_queries(5):
            browser.get(f"{HOME}/progress")
    assert Delivery.objects.count() == 8


def test_it_is_for_holders_and_needs_the_csrf_token(alice: Account) -> None:
    nobody = browser_of(UserFactory())
    for path in (HOME, f"{HOME}/progress"):
        assert Client().get(path).url == f"/account/login?next={path}"
        assert nobody.get(path).status_code == 403
    strict = browser_of(alice.holder, enforce_csrf_checks=True)
    assert strict.post(HOME).status_code == 403
    assert ApiKey.objects.count() == 0
