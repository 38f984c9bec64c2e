"""A merchant's first ten minutes, in a real browser, in each language: from the login to a delivery sent again.

Nothing here is found by its words, so that the same steps work in every language.
"""

import hashlib
import hmac
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from codservice.accounts.models import Account, ApiKey
from orders.models import Order
from tests import factories
from tests.harness.browser import IMPATIENT, Visit, intercept
from tests.harness.deliveries import draining, write_delivery
from tests.harness.receivers import Receiver, answer
from webhooks.models import Attempt, Delivery, Webhook

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker(settings: Any, make_engine: Callable[..., Any]) -> Iterator[None]:
    """Send what is due, to private addresses too."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with draining(make_engine()):
        yield


def press(page: Page, action: str) -> None:
    """Press the button of the form whose address ends with `action`."""
    page.locator(f"form[method=post][action$='{action}'] button").first.click()


def copy(button: Locator) -> None:
    """Press a copy button, and wait until it says that the clipboard has the text."""
    button.click()
    expect(button).to_have_text(button.get_attribute("data-copied") or "")


@pytest.mark.parametrize(
    ("locale", "language", "direction"), [("en-GB", "en", "ltr"), ("fr-FR", "fr", "ltr"), ("ar-DZ", "ar-dz", "rtl")]
)
@pytest.mark.usefixtures("worker")
def test_the_first_ten_minutes(
    locale: str, language: str, direction: str, visit: Callable[..., Visit], alice: Account, receiver: Receiver
) -> None:
    page = visit(locale=locale, permissions=["clipboard-read", "clipboard-write"]).log_in(
        alice.holder.email, "/account/login"
    )
    expect(page).to_have_url(re.compile("/account/quick-start$"))
    html = page.locator("html")
    expect(html).to_have_attribute("lang", language)
    expect(html).to_have_attribute("dir", direction)
    expect(page.locator("#progress .done")).to_have_count(0)

    # A test key by one click, and the first order by the lines shown.
    press(page, "/account/quick-start#new-key")
    expect(page.locator("#key")).to_be_visible()
    expect(page.locator("#new-key")).to_be_focused()
    expect(page.locator("h2 + #new-key")).to_be_in_viewport(ratio=1)
    expect(page.locator("h2:has(+ #new-key)")).to_be_in_viewport(ratio=1)
    copy(page.locator("[data-copy=lines-curl]"))
    lines = page.evaluate("navigator.clipboard.readText()")
    assert page.locator("#key").inner_text() in lines
    sent = subprocess.run(["bash", "-euc", lines], capture_output=True, text=True, check=True)
    order = Order.objects.get()
    imported, confirmed = sent.stdout.split("\n", 1)
    assert {json.loads(imported)["id"], json.loads(confirmed)["id"]} == {str(order.id)}
    assert (json.loads(confirmed)["status"], order.account.live) == ("confirmed", alice)
    expect(page.locator("html[data-mode=test]")).to_have_count(1)
    expect(page.locator("#progress .done")).to_have_count(1)  # unasked

    # A webhook to the shop, and its secret.
    page.locator("a.primary[href$='/account/webhooks']").click()
    page.locator("[name=url]").fill(receiver.url("/hooks"))
    press(page, "/account/webhooks")
    secret = page.locator("#secret").inner_text()
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/=]{44}", secret)

    # A test event arrives, signed with it.
    press(page, "/ping")
    expect(page.locator("#delivery .status.delivered").first).to_be_visible()
    (request,) = receiver.wait_for(1)
    expected = "sha256=" + hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
    assert request.headers["x-service-signature"] == expected
    assert json.loads(request.body)["event"] == "ping"
    expect(page.locator("pre").last).to_have_text(request.body.decode())

    # The shop breaks. The event of the next order's decision does not arrive, and is resent when the shop is mended.
    receiver.behaviours["/hooks"] = answer("500 Internal Server Error", body=b"<b>PDOException</b>")
    subprocess.run(["bash", "-euc", lines], capture_output=True, text=True, check=True)
    order = Order.objects.latest("id")
    receiver.wait_for(2)
    page.goto(f"/account/orders/{order.id}")
    page.locator("p.told a").click()
    expect(page.locator(".log pre")).to_have_text("<b>PDOException</b>")
    Delivery.objects.filter(event__kind="order.confirmed").update(status="failed", next_attempt_at=None, retries_left=0)
    receiver.behaviours.clear()
    page.goto("/account/webhooks")
    page.locator("tbody th a").click()
    page.locator("[name=status]").select_option("failed")
    page.locator("form[method=get] button").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody th a").click()
    press(page, "/resend")
    expect(page.locator("#delivery .status.delivered").first).to_be_visible()
    failed, resent = receiver.wait_for(3)[1:]
    assert (failed.delivery, failed.body) == (resent.delivery, resent.body)

    # Everything has arrived.
    page.goto("/account/quick-start")
    expect(page.locator("#progress .done")).to_have_count(2)


def test_a_holder_makes_a_key_sees_it_once_and_revokes_it(visit: Callable[..., Visit], alice: Account) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"]).sign_in(alice.holder.email, "/account/login")
    page.get_by_role("link", name="API keys", exact=True).click()
    page.get_by_label("Name").fill("WooCommerce")
    page.get_by_label("webhooks:write").uncheck()
    page.get_by_role("button", name="Create the key").click()
    key = page.locator("#key").inner_text()
    copy(page.locator("[data-copy=key]"))
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    assert page.evaluate("navigator.clipboard.readText()") == key
    asked = page.request.get("/api/v1/orders", headers={"Authorization": f"Bearer {key}"})
    assert asked.status == 200

    page.goto("/account/keys")
    expect(page.locator("body")).not_to_contain_text(key)
    page.get_by_role("link", name="Revoke WooCommerce").click()
    page.get_by_role("link", name="Keep it as it is").click()
    assert ApiKey.objects.get().revoked_at is None
    page.get_by_role("link", name="Revoke WooCommerce").click()
    page.get_by_role("button", name="Revoke the key").click()
    expect(page.locator(".message")).to_contain_text("“WooCommerce” is revoked.")
    row = ApiKey.objects.get()
    assert row.revoked_at is not None
    assert "webhooks:write" not in row.scopes


def test_an_order_is_canceled_with_the_keyboard_alone(visit: Callable[..., Visit], alice: Account) -> None:
    order = factories.make_order(alice, customer_name="Lynda Aït")
    page = visit().sign_in(alice.holder.email, "/account/login")
    page.get_by_role("link", name="Orders", exact=True).press("Enter")
    page.wait_for_url("**/account/orders")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to main content")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(20):  # past the list's buttons, the tabs and the search's fields
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "q":
            break
    page.keyboard.type("lynda")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Lynda Aït").press("Enter")
    page.get_by_role("link", name="Cancel the order…").press("Enter")
    page.get_by_label("Reason (optional)").focus()
    page.keyboard.type("Out of stock")
    page.keyboard.press("Enter")
    expect(page.locator(".message")).to_have_text("The order is canceled.")
    order.refresh_from_db()
    assert (order.status, order.cancel_reason) == ("canceled", "Out of stock")


def test_a_half_typed_day_shows_itself_when_it_refuses_a_search(visit: Callable[..., Visit], alice: Account) -> None:
    """It would do nothing, without a word, as the day lies in a fold that was shut."""
    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/orders")
    day, days = page.get_by_label("Received from"), page.locator("summary", has_text="Days")
    days.click()
    day.focus()
    page.keyboard.type("25")
    days.click()
    expect(day).to_be_hidden()
    page.get_by_role("button", name="Search").click()
    expect(day).to_be_focused()


def test_nothing_offers_to_copy_before_it_can(visit: Callable[..., Visit], alice: Account) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login")
    held: list[Route] = []
    page.goto("/account/keys")
    page.locator("main [name=name]").fill("Shop")
    intercept(page, "**/copy*.js", lambda route: held.append(route))
    page.get_by_role("button", name="Create the key").click(no_wait_after=True)
    expect(page.locator("#key")).to_be_visible()
    expect(page.locator("[data-copy=key]")).to_be_hidden()
    held[0].continue_()
    expect(page.locator("[data-copy=key]")).to_be_visible()


def test_all_of_it_works_without_scripts(visit: Callable[..., Visit], alice: Account) -> None:
    person = visit(java_script_enabled=False)
    page = person.sign_in(alice.holder.email, "/account/login")
    press(page, "/account/quick-start#new-key")
    expect(page.locator("#lines-curl")).to_be_visible()
    expect(page.locator("#lines-php")).to_be_hidden()
    page.locator("label[for=in-php]").click()
    expect(page.locator("#lines-php")).to_contain_text("file_get_contents")
    expect(page.locator("#lines-curl")).to_be_hidden()
    expect(page.locator("[data-copy]").first).to_be_hidden()
    page.locator(".menu summary").click()
    page.locator("button[value=fr]").click()
    expect(page.locator("html")).to_have_attribute("lang", "fr")
    expect(page).to_have_url(re.compile("/account/quick-start$"))
    page.goto("/account/keys")
    page.locator("a.danger").click()
    page.locator("button.dangerous").click()
    expect(page.locator(".message.success")).to_be_visible()
    assert ApiKey.objects.get().revoked_at is not None


def test_another_attempt_is_shown_after_a_look_without_an_answer_and_leaves_the_keyboard_in_the_one_before(
    visit: Callable[..., Visit], alice: Account, webhook_to: Callable[..., Webhook]
) -> None:
    row = write_delivery(webhook_to("https://shop.example/"), attempts=1)
    page = visit().sign_in(alice.holder.email, "/account/login")
    page.add_init_script(IMPATIENT)
    page.goto(f"/account/webhooks/deliveries/{row.id}")
    held: list[Route] = []
    intercept(page, f"**/{row.id}", lambda route: held.append(route), times=1)
    told, answer = page.locator("#delivery"), page.get_by_role("group", name="What your shop answered").last
    answer.focus()
    told.evaluate("""part => new MutationObserver(all => { part.dataset.news = all.flatMap(each => [...each.addedNodes])
        .map(each => each.textContent.trim()).join(' ') }).observe(part, { childList: true, subtree: true })""")
    Attempt.objects.create(
        account=alice, delivery=row, number=2, ended_at=row.created_at, milliseconds=9, status_code=200, response=b""
    )
    Delivery.objects.update(status="delivered", next_attempt_at=None, finished_at=row.created_at, attempt_count=2)
    page.get_by_text("Attempt 2").wait_for()
    assert held
    expect(answer).to_be_focused()
    assert str(row.id) not in (told.get_attribute("data-news") or ""), "which was there before"
