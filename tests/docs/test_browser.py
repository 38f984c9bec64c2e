"""The documentation in a real browser: on a phone, in the dark, by keyboard, for a screen reader."""

import re
from collections.abc import Callable
from itertools import pairwise
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
    "/docs/ar/without-a-developer",
    "/docs/agents",
    "/docs/architecture",
    "/docs/operators",
    "/docs/api",
    "/docs/api/orders",
    "/docs/api/what-we-send",
]


def unfold(page: Page) -> None:
    page.evaluate("for (const each of document.querySelectorAll('.operation details')) each.open = true")


def test_no_page_breaks_a_rule_of_axe_or_is_wider_than_a_phone(
    visit: Callable[..., Any], axe: Callable[..., None]
) -> None:
    desk, phone = {"width": 1280, "height": 720}, {"width": 360, "height": 740}
    page = visit(viewport=desk).page
    for url in PAGES:
        page.goto(url)
        unfold(page)
        axe(page, *SCHEMES)
        page.set_viewport_size(phone)
        assert page.evaluate("document.documentElement.scrollWidth") <= phone["width"], url
        page.set_viewport_size(desk)


def test_a_phone_shows_lists_on_demand(visit: Callable[..., Any]) -> None:
    page = visit(viewport={"width": 360, "height": 740}).page
    page.goto("/docs/orders")
    expect(page.get_by_role("link", name="Idempotency", exact=True)).to_be_hidden()
    page.get_by_text("Contents", exact=True).click()
    page.get_by_role("link", name="Idempotency", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Idempotency")


def test_on_a_phone_each_cell_of_a_table_is_one_text_that_says_what_it_is(visit: Callable[..., Any]) -> None:
    """The table's head is not shown there. Code in a cell stands among its words, not on a line of its own."""
    page = visit(viewport={"width": 360, "height": 740}).page
    page.goto("/docs/errors")
    cells = page.locator("table tr", has_text="bad_request").locator("th, td")
    said = [each.evaluate("e => getComputedStyle(e, '::before').content") for each in cells.all()]
    assert said[0] == "none"
    assert said[3].startswith('"when')
    assert said[5].startswith('"send again?')
    before, code, after = cells.nth(3).evaluate("""e => {
        const range = document.createRange();
        return [...e.childNodes].map(part => (range.selectNodeContents(part), range.getClientRects()[0].top));
    }""")
    assert abs(after - code) < 5
    assert abs(before - code) < 5


def test_a_link_does_not_push_the_lines_of_its_paragraph_apart(visit: Callable[..., Any]) -> None:
    page = visit(viewport={"width": 360, "height": 740}).page
    page.goto("/docs/fr/supervisors")
    lines = page.locator(".docs-page p:has(a)").first.evaluate("""e => {
        const range = document.createRange();
        range.selectNodeContents(e);
        return [...new Set([...range.getClientRects()].map(part => Math.round(part.top)))];
    }""")
    assert len(lines) >= 3
    assert max(after - before for before, after in pairwise(sorted(lines))) < 30


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
