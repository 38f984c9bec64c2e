"""Forced colours (Windows' contrast themes), which replace all of ours."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from agents.desk import claims
from codservice.accounts.models import Account
from tests import factories
from tests.harness.browser import Visit

pytestmark = pytest.mark.django_db(transaction=True)
BORDERS = """(selector) => [...new Set([...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
    .map(e => getComputedStyle(e)).map(e => e.borderBottomWidth + e.borderBottomColor))]"""

ARROW = """() => {const arrow = getComputedStyle(document.querySelector("header .menu > summary"), "::after");
    return [arrow.borderTopColor, arrow.borderLeftColor]}"""


@pytest.mark.parametrize(
    ("door", "path", "choices"),
    [
        ("/account/login", "/account/", [".rooms a", ".tabs a", ".row .button"]),
        ("/console/login/", "/console/figures/", ["#rooms a", ".tabs a", ".shortcuts a"]),
        ("/console/login/", "/console/desk/", ["#rooms a"]),
    ],
)
def test_where_one_is_can_be_seen(
    door: str, path: str, choices: list[str], visit: Callable[..., Visit], alice: Account
) -> None:
    factories.make_order(alice)
    username = alice.holder.email if "account" in door else factories.AgentFactory(role="Supervisors").username
    page = visit(forced_colors="active").sign_in(username, door, to=path)
    for selector in choices:
        (here,) = page.evaluate(BORDERS, f"{selector}[aria-current]")
        others = page.evaluate(BORDERS, f"{selector}:not([aria-current], .primary)")
        assert others
        assert here not in others, selector
    top, side = page.evaluate(ARROW)
    assert top != side


def test_the_colours_of_a_picture_are_those_that_are_explained(visit: Callable[..., Visit], alice: Account) -> None:
    factories.make_order(alice)
    page = visit(forced_colors="active").sign_in(alice.holder.email, "/account/login", to="/account/")
    for kind in ("good", "bad"):
        key = page.locator(f".key.{kind}").first.evaluate("e => getComputedStyle(e).backgroundColor")
        assert page.locator(f".chart .{kind}").first.evaluate("e => getComputedStyle(e).fill") == key


def test_which_language_lines_are_in_can_be_seen(visit: Callable[..., Visit], alice: Account) -> None:
    page = visit(forced_colors="active").sign_in(alice.holder.email, "/account/login", to="/account/quick-start")
    page.get_by_role("button", name="Create a test key").click()
    page.locator(".tabs-of-lines").wait_for()
    (here,) = page.evaluate(BORDERS, ".tabs-of-lines > input:checked + label")
    assert here not in page.evaluate(BORDERS, ".tabs-of-lines > input:not(:checked) + label")


def test_which_place_is_chosen_can_be_seen(visit: Callable[..., Visit], alice: Account) -> None:
    factories.open_always()
    agent, order = factories.AgentFactory(), factories.make_order(alice)
    claim_id = claims.next_customer(agent)
    page = visit(forced_colors="active").sign_in(agent.username, to=f"/console/desk/{claim_id}/edit/{order.id}/")
    page.get_by_role("combobox", name="Wilaya").fill("o")
    options = page.get_by_role("option")
    expect(options.nth(1)).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(options.nth(0)).to_have_css("outline-style", "solid")
    expect(options.nth(1)).to_have_css("outline-style", "none")
