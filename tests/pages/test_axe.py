"""axe finds what is wrong in either scheme, though it checks the second for its colours alone."""

from collections.abc import Callable

import pytest

from tests.factories import AgentFactory
from tests.harness.browser import SCHEMES, Visit

pytestmark = pytest.mark.django_db(transaction=True)

PLANT = """css => {
    const sheet = new CSSStyleSheet(); sheet.replaceSync(css); document.adoptedStyleSheets = [sheet]
}"""
BY_SCHEME = """() => [...document.styleSheets].flatMap(sheet => [...sheet.cssRules])
    .filter(rule => rule.conditionText?.includes('color-scheme'))
    .flatMap(rule => [...rule.cssRules]).flatMap(rule => [...rule.style])"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_text_that_can_hardly_be_read_is_seen_in_its_scheme(
    scheme: str, visit: Callable[..., Visit], axe: Callable[..., None]
) -> None:
    page = visit().page
    page.goto("/account/login")
    page.evaluate(PLANT, f"@media (prefers-color-scheme: {scheme}) {{ h1 {{ color: #777; background: #888 }} }}")
    with pytest.raises(AssertionError, match=rf"{scheme}\s+color-contrast"):
        axe(page, *SCHEMES)


def test_what_is_no_colour_is_seen(visit: Callable[..., Visit], axe: Callable[..., None]) -> None:
    page = visit().page
    page.goto("/account/login")
    page.evaluate("document.querySelector('label').remove()")
    with pytest.raises(AssertionError, match=r"light\s+label"):
        axe(page, *SCHEMES)


def test_a_scheme_changes_nothing_but_colours(visit: Callable[..., Visit]) -> None:
    """That is why the second scheme is checked for them alone."""
    person = visit()
    person.page.goto("/account/login")
    of_accounts = person.page.evaluate(BY_SCHEME)
    of_console = person.sign_in(AgentFactory().username).evaluate(BY_SCHEME)
    for changed in (of_accounts, of_console):
        assert changed
        assert {name for name in changed if not name.startswith("--")} <= {"color-scheme"}
