"""Where a page leads, and where it says that one is."""

import re
from collections.abc import Callable
from itertools import product

import pytest
from django.test import Client
from playwright.sync_api import Route, expect

from agents.desk import claims
from codservice.accounts.models import Account, ApiKey
from orders.models import Order
from tests import factories
from tests.harness.background import eventually
from tests.harness.browser import Visit, intercept
from tests.harness.client import browser_of

HIDDEN = """() => [...document.querySelectorAll("nav > [aria-current]")].filter(here => {
    const [row, link] = [here.parentElement, here].map(e => e.getBoundingClientRect());
    return Math.max(row.left - link.left, link.right - row.right) > 1;
}).map(here => here.textContent)"""

# The header's row that has the focus.
ROW = """[...document.querySelectorAll('header :focus')].map(here => here.getBoundingClientRect())
    .map(box => Math.floor((box.top + box.bottom) / 2 / 44))"""


@pytest.mark.django_db(transaction=True)
def test_on_a_phone_what_is_current_or_has_the_focus_in_a_row_is_in_view(
    visit: Callable[..., Visit], alice: Account
) -> None:
    supervisor = factories.AgentFactory(role="Supervisors")
    rooms = {
        (supervisor.username, "/console/login/"): [
            *("/console/orders/order/", "/console/orders/order/?status=returned", "/console/moves/"),
            *("/console/figures/", "/console/figures/?by=hour", "/console/rules/"),
        ],
        (alice.holder.email, "/account/login"): [
            *("/account/", "/account/?by=source", "/account/orders?status=returned", "/account/webhooks"),
            *("/account/keys", "/account/quick-start"),
        ],
    }
    visits = {door: visit(viewport={"width": 360, "height": 740}).sign_in(username, door) for username, door in rooms}
    for language, ((_, door), paths) in product(("en", "fr", "ar-DZ"), rooms.items()):
        page = visits[door]
        page.set_extra_http_headers({"Accept-Language": language})
        for path in paths:
            page.goto(path)
            assert page.locator("nav > [aria-current]").count(), path
            assert page.evaluate(HIDDEN) == [], path
            assert page.evaluate("scrollY") == 0
            assert page.evaluate("document.documentElement.lang") == language.lower()
        page.goto(paths[-1])
        page.evaluate("document.activeElement.blur()")
        in_row, rows = [], []
        for _ in range(20):
            page.keyboard.press("Tab")
            assert page.evaluate(HIDDEN.replace("[aria-current]", ":focus")) == []
            in_row.append(page.evaluate("document.activeElement.matches('nav > :focus')"))
            rows += page.evaluate(ROW)
        assert sum(in_row) > 5
        assert rows[:9] == sorted(rows[:9]), "what is above comes before; then the page begins again"


@pytest.mark.django_db(transaction=True)
def test_a_menu_closes_by_escape_and_by_a_press_or_focus_elsewhere(visit: Callable[..., Visit], alice: Account) -> None:
    supervisor = factories.AgentFactory(role="Supervisors")
    for username, door, path in (
        (supervisor.username, "/console/login/", "/console/rules/"),
        (alice.holder.email, "/account/login", "/account/products"),
    ):
        page = visit(viewport={"width": 1280, "height": 740}).sign_in(username, door, to=path)
        menu, summary = page.locator("header details.menu[open]"), page.locator("header details.menu summary")
        for language in ("Français", "العربية"):
            summary.press("Enter")
            expect(menu).to_have_count(1)
            page.get_by_role("button", name=language).focus()
            page.keyboard.press("Escape")
            expect(menu).to_have_count(0)
            expect(summary).to_be_focused()
        summary.click()
        expect(menu).to_have_count(1)
        page.locator("h1").click()
        expect(menu).to_have_count(0)
        # Left open, it would lie over what has the focus next.
        summary.press("Enter")
        menu.locator("button").last.press("Tab")
        expect(menu).to_have_count(0)


@pytest.mark.django_db(transaction=True)
def test_a_menu_closes_by_escape_where_keys_press_buttons(visit: Callable[..., Visit], alice: Account) -> None:
    """There, Escape leaves a field. On a phone call, and while an order is edited, all rooms are in a menu too."""
    agent, order = factories.AgentFactory(), factories.make_order(alice)
    call = f"/console/desk/{claims.take(order.id, agent=agent)}/"
    page = visit(viewport={"width": 1280, "height": 740}).sign_in(agent.username, "/console/login/")
    for path, count in (("/console/desk/", 1), (call, 2), (f"{call}edit/{order.id}/", 2)):
        page.goto(path)
        menus = page.locator("header details.menu")
        expect(menus).to_have_count(count)
        for menu in menus.all():
            summary = menu.locator("summary")
            summary.press("Enter")
            expect(menu).to_have_attribute("open", "")
            page.keyboard.press("Tab")
            page.keyboard.press("Escape")
            expect(menu).not_to_have_attribute("open", "")
            expect(summary).to_be_focused()
            summary.click()
            page.locator("body").dispatch_event("click")
            expect(menu).not_to_have_attribute("open", "")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("language", "docs", "webhooks"),
    [
        ("en", "/docs/", "/docs/webhooks"),
        ("fr", "/docs/fr/", "/docs/fr/webhooks"),
        ("ar", "/docs/ar/", "/docs/fr/webhooks"),  # that page has no translation
    ],
)
def test_the_documentation_is_that_of_the_language(
    language: str, docs: str, webhooks: str, alice: Account, client: Client
) -> None:
    merchant = browser_of(alice.holder, HTTP_ACCEPT_LANGUAGE=language)
    webhook = {"url": "https://shop.example/hooks", "events": "order.confirmed", "mode": "live"}
    page = merchant.post("/account/webhooks", webhook).content.decode()
    assert f'<a href="{docs}">' in page
    assert f'<a href="{webhooks}#verify-the-signature">' in page
    assert client.get(docs).status_code == 200
    assert 'id="verify-the-signature"' in client.get(webhooks).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(("role", "name"), [("Agents", "agents"), ("Supervisors", "supervisors"), ("", "operators")])
def test_the_console_leads_to_the_guide_of_who_works_there(role: str, name: str) -> None:
    factories.AgentFactory()
    person = factories.AgentFactory(role=role) if role else factories.UserFactory(is_staff=True, is_superuser=True)
    page = browser_of(person, HTTP_ACCEPT_LANGUAGE="fr").get("/console/orders/order/").content.decode()
    folder = "" if name == "operators" else "fr/"
    assert f'href="/docs/{folder}{name}" target="_blank"' in page


@pytest.mark.django_db(transaction=True)
def test_who_did_something_goes_on_where_it_is_said_that_it_was_done(
    visit: Callable[..., Visit], alice: Account
) -> None:
    """The focus starts at the message: it is read out, and the keyboard need not pass the menu again."""
    page, key = visit().sign_in(alice.holder.email, "/account/login"), ApiKey.issue(alice, name="Old")[0]
    page.goto(f"/account/keys/{key.id}/revoke")
    page.get_by_role("button", name="Revoke the key").press("Enter")
    expect(page.get_by_text("“Old” is revoked.")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("New")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Your new key")).to_be_focused()
    page.goto("/account/codes")
    page.get_by_role("button", name="Set up codes").press("Enter")
    expect(page.locator("main ol")).to_be_focused()
    held: list[Route] = []
    intercept(page, "**/begin.js", lambda route: held.append(route))
    page.goto("/account/codes", wait_until="commit")
    page.locator("[name=code]").press_sequentially("123")  # as on a slow line, before the script has come
    eventually(lambda: page.wait_for_timeout(10) or held)
    held[0].continue_()
    page.wait_for_load_state()
    expect(page.locator("[name=code]")).to_be_focused()

    orders, supervisor = [factories.make_order(alice) for _ in range(2)], factories.AgentFactory(role="Supervisors")
    page = visit().sign_in(
        supervisor.username, to=f"/console/bulk/?action=cancel&chosen={orders[0].id}&chosen={orders[1].id}"
    )
    Order.objects.filter(id=orders[1].id).update(status="shipped")
    page.locator("[name=why]").select_option(index=1)
    page.locator(".action-bar button").press("Enter")
    expect(page.get_by_role("searchbox")).to_be_focused()
    said = re.compile("1 order is now “Canceled”. 1 order stays")
    expect(page.get_by_role("searchbox")).to_have_accessible_description(said)
    page.goto("/console/desk/")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Next order")).to_be_focused()
    expect(page.get_by_role("button", name="Next order")).to_have_accessible_description(re.compile("No calls are due"))
