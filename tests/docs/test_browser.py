"""The documentation in a real browser: on a phone, in the dark, by keyboard, for a screen reader."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import SCHEMES

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = [
    "/docs/",
    "/docs/webhooks",
    "/docs/fr/regions",
    "/docs/fr/search?q=cle",
    "/docs/fr/supervisors",
    "/docs/ar/",
    "/docs/ar/agents",
    "/docs/agents",
    "/docs/architecture",
    "/docs/operators",
    "/docs/api",
    "/docs/api/orders",
    "/docs/api/what-we-send",
]


def unfold(page: Page) -> None:
    page.evaluate("for (const each of document.querySelectorAll('.operation details')) each.open = true")


def test_no_page_breaks_a_rule_of_axe(visit: Callable[..., Any], axe: Callable[..., None]) -> None:
    page = visit().page
    for url in PAGES:
        page.goto(url)
        unfold(page)
        axe(page, *SCHEMES)


def test_a_phone_shows_pages_in_its_width_and_lists_on_demand(visit: Callable[..., Any]) -> None:
    page = visit(viewport={"width": 360, "height": 740}).page
    for url in PAGES:
        page.goto(url)
        unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, url

    page.goto("/docs/orders")
    expect(page.get_by_role("link", name="Idempotency", exact=True)).to_be_hidden()
    page.get_by_text("Contents", exact=True).click()
    page.get_by_role("link", name="Idempotency", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Idempotency")


def test_a_keyboard_is_enough(visit: Callable[..., Any]) -> None:
    page = visit().page
    page.goto("/docs/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to main content")).to_be_focused()
    page.get_by_role("searchbox").focus()
    page.keyboard.type("replay signature")
    page.keyboard.press("Enter")
    page.get_by_role("main").get_by_role("list").get_by_role("link").first.wait_for()
    expect(page.get_by_role("searchbox")).to_have_value("replay signature")
    expect(page.locator("mark").first).to_be_visible()

    page.goto("/docs/regions")
    table = page.get_by_role("group", name="Table").last
    table.focus()
    expect(table).to_be_focused()


def test_a_reader_changes_the_language_where_they_are(visit: Callable[..., Any]) -> None:
    page = visit().page
    page.goto("/docs/webhooks")
    page.get_by_role("link", name="Français").click()
    expect(page).to_have_url(re.compile("/docs/fr/webhooks$"))
    assert page.locator("html").get_attribute("lang") == "fr"
