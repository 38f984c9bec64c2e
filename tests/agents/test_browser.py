"""The console and the account pages in a real browser: Debian's Chromium, driven by Playwright."""

import re
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, ApiKey, User
from orders import lifecycle
from orders.lifecycle import DraftItem
from orders.models import CallNote, Order
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("The browser tests need Chromium: install the package `chromium` (Debian, Ubuntu).")
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        # Playwright runs an event loop in this thread, in which Django would refuse to touch the database.
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        yield browser
        browser.close()


class Visit:
    """A person's browser at our address. It remembers all that a page must not do."""

    def __init__(self, chromium: Browser, address: str, **options: Any) -> None:
        self.address, self.wrongs = address, []
        self.context = chromium.new_context(base_url=address, **options)
        self.context.set_default_timeout(15_000)
        self.page: Page = self.context.new_page()
        self.page.on("dialog", self._dialog)
        self.page.on("console", lambda said: said.type == "error" and self.wrongs.append(said.text))
        self.page.on("pageerror", lambda error: self.wrongs.append(str(error)))
        self.page.on("request", self._request)
        self.page.expose_function("violated", lambda what: self.wrongs.append(what))
        self.page.add_init_script("addEventListener('securitypolicyviolation', e => violated(e.violatedDirective))")

    def _dialog(self, dialog: Any) -> None:
        self.wrongs.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if urlsplit(request.url).netloc not in (urlsplit(self.address).netloc, ""):
            self.wrongs.append(f"request {request.url}")

    def sign_in(self, username: str, door: str = "/console/login/") -> Page:
        self.page.goto(door)
        self.page.get_by_label("Username or e-mail").fill(username)
        self.page.get_by_label("Password").fill("correct horse")
        self.page.get_by_role("button", name=re.compile("Log in|Sign in")).click()
        self.page.wait_for_url(lambda url: "login" not in url)
        return self.page


@pytest.fixture
def visit(chromium: Browser, live_server: Any) -> Iterator[Callable[..., Visit]]:
    """Opens a browser of its own for each person; none of them may have met anything wrong in the end."""
    visits: list[Visit] = []

    def open_visit(**options: Any) -> Visit:
        visits.append(Visit(chromium, live_server.url, **options))
        return visits[-1]

    yield open_visit
    wrongs = [wrong for visit in visits for wrong in visit.wrongs]
    for visit in visits:
        visit.context.close()
    assert wrongs == []


def test_an_agent_finds_an_order_notes_a_call_and_confirms(
    visit: Callable[..., Visit], alice: Account, agent: User, colleague: User
) -> None:
    factories.make_order(alice, customer_name="Lynda Aït", phone="0770 98 76 54")
    order = factories.make_order(alice)
    late = visit().sign_in("nadia")
    late.goto(f"/console/orders/order/{order.id}/")

    page = visit().sign_in("samira")
    expect(page).to_have_title("Orders · codservice console")
    expect(page.get_by_label("Find an order")).to_be_focused()
    page.keyboard.type("0550 12 34 56")
    page.keyboard.press("Enter")
    expect(page.locator(".order-list tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Amine Benali").click()
    expect(page.get_by_role("link", name="0550 12 34 56")).to_have_attribute("href", "tel:+213550123456")

    expect(page.get_by_label("Call back at")).to_be_hidden()
    page.get_by_label("The call").select_option("Call back later")
    expect(page.get_by_label("Call back at")).to_be_visible()
    page.get_by_label("The call").select_option("Answered")
    page.get_by_label("Note", exact=True).fill("Livrer le matin")
    page.get_by_role("button", name="Save the note").click()
    expect(page.locator(".messagelist")).to_have_text("The call is noted.")
    expect(page.locator(".log").first).to_contain_text("Livrer le matin")

    page.get_by_role("button", name="Confirm the order").click()
    expect(page.locator(".messagelist")).to_have_text("The order is now “Confirmed”.")
    expect(page.get_by_role("button", name="Confirm the order")).to_have_count(0)

    late.get_by_role("button", name="Confirm the order").click()
    expect(late.locator(".messagelist .error")).to_have_text(
        re.compile(r"Already confirmed by Samira at \d\d:\d\d\. Nothing was changed now\.")
    )
    order.refresh_from_db()
    assert (order.status, order.version, order.call_notes.count()) == ("confirmed", 2, 1)


def test_an_agent_cancels_with_the_keyboard_alone(visit: Callable[..., Visit], alice: Account, agent: User) -> None:
    order = factories.make_order(alice)
    page = visit().sign_in("samira")
    page.goto(f"/console/orders/order/{order.id}/")
    page.get_by_role("button", name="Confirm the order").focus()
    for key in ("Tab", "Enter", "Tab"):  # to “Cancel the order…”, open it, to the reason
        page.keyboard.press(key)
    page.keyboard.type("Dup")
    page.keyboard.press("Tab")
    page.keyboard.type("CMD-12")
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist")).to_have_text("The order is now “Canceled”.")
    order.refresh_from_db()
    assert order.cancel_reason == "Duplicate: CMD-12"


PAYLOADS = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg/onload=alert(1)>",
    "</textarea></title><svg onload=alert(1)>",
    "{{7*7}}{% csrf_token %}<iframe src=//evil.example>",
    "javascript:alert(1)//\" onfocus=alert(1) autofocus x=\"",
]  # fmt: skip


def order_of_payloads(account: Account, payload: str, agent: User) -> Order:
    product = factories.ProductFactory(account=account, sku=payload, name=payload)
    order = factories.make_order(
        account,
        customer_name=payload,
        customer_address=payload,
        customer_wilaya=payload,
        customer_commune=payload,
        notes=payload,
        external_id=payload,
        items=[DraftItem(quantity=1, product_id=product.id, unit_price=Decimal(1), attributes={payload: payload})],
    )
    Order.objects.filter(id=order.id).update(customer_phone=payload[:40])
    lifecycle.add_call_note(order.id, agent=agent, outcome=CallNote.Outcome.NOTE, note=payload)
    lifecycle.cancel(order.id, actor=Actor.of_user(agent), reason=payload)
    return order


def test_no_text_of_a_stranger_ever_runs(visit: Callable[..., Visit], alice: Account, operator: User) -> None:
    """Stored scripts in every text that a page shows: the `visit` fixture finds no dialog, violation or request."""
    orders = []
    for number, payload in enumerate(PAYLOADS):
        agent = factories.AgentFactory(username=f"agent-{number}", first_name=payload)
        orders.append(order_of_payloads(alice, payload, agent))
        ApiKey.issue(alice, name=payload)
    Account.objects.update(name="".join(PAYLOADS))
    User.objects.filter(id__in=[operator.id, alice.holder_id]).update(first_name=PAYLOADS[0], last_name=PAYLOADS[1])

    page = visit().sign_in("operator")
    pages = ["/console/", "/console/orders/order/?status=all", "/console/accounts/user/", "/console/accounts/account/"]
    pages += ["/console/accounts/apikey/", f"/console/accounts/account/{alice.id}/change/"]
    pages += [f"/console/accounts/apikey/{ApiKey.objects.latest('created_at').id}/change/"]
    pages += [f"/console/accounts/user/{User.objects.get(username='agent-1').id}/change/"]
    for path in pages:
        page.goto(path)
        assert "onerror=alert(1)" in page.inner_text("body") or path == "/console/" or "change" in path
    for order, payload in zip(orders, PAYLOADS, strict=True):
        page.goto(f"/console/orders/order/{order.id}/")
        # Name twice, external id, phone, address, commune, two of the wilaya or commune, item, sku, attributes, note, …
        assert page.inner_text("body").count(payload) >= 10
        page.goto("/console/orders/order/")
        page.get_by_label("Find an order").fill(payload)
        page.keyboard.press("Enter")
        expect(page.get_by_label("Find an order")).to_have_value(payload)
    holder = visit().sign_in(alice.holder.email, "/account/login")
    holder.goto("/account/keys")
    assert holder.inner_text("body").count("alert(1)") >= 6


@pytest.mark.parametrize("language", ["en", "ar"])
def test_pages_fit_a_phone_and_a_finger(
    language: str, visit: Callable[..., Visit], alice: Account, supervisor: User
) -> None:
    """At 360 pixels nothing runs out of the page, and whatever is pressed is 44 pixels high."""
    order = factories.make_order(alice, customer_name="محمد الأمين بن عبد الرحمان " * 3, notes="x" * 300)
    ApiKey.issue(alice, name="W" * 100)
    pressed = "main :is(button, select, summary, input:not([type=hidden], [type=checkbox])), .tabs a, a.phone, tbody a"
    small = """selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
        .map(e => [e.outerHTML.slice(0, 80), e.getBoundingClientRect().height]).filter(([_, height]) => height < 44)"""
    for username, door, paths in (
        ("karim", "/console/login/", ["/console/orders/order/", f"/console/orders/order/{order.id}/"]),
        (alice.holder.email, "/account/login", ["/account/keys"]),
    ):
        person = visit(viewport={"width": 360, "height": 740})
        person.sign_in(username, door)
        person.page.set_extra_http_headers({"Accept-Language": language})
        for path in paths:
            person.page.goto(path)
            assert person.page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr")
            assert person.page.evaluate("document.documentElement.scrollWidth") <= 360, path
            assert person.page.evaluate(small, pressed) == []
