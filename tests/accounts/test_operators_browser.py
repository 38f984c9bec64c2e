"""Every page of operators in a real browser, from the URL configuration: axe-core, both directions, a phone, small."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.harness.addresses import addresses
from tests.harness.browser import PASSWORD
from tests.harness.world import World, make_world
from webhooks.models import Webhook

pytestmark = pytest.mark.django_db(transaction=True)
ROOMS = ("/console/accounts/", "/console/auth/", "/console/webhooks/")
MOST_BYTES = 100_000


NUMBERS = "[...document.querySelectorAll('[type=number]')].map(field => getComputedStyle(field).direction)"


def operators_pages() -> tuple[World, list[str]]:
    world = make_world()
    Webhook.objects.update(is_failing=True)  # which makes their pages wider
    world.operator.set_password(PASSWORD)
    world.operator.save()
    client = world.client("operator")
    paths = [address.paths()[0] for address in addresses() if address.route.startswith(ROOMS)]
    shown = [path for path in paths if (answer := client.get(path)).status_code == 200 and not answer.streaming]
    assert len(shown) > 12
    return world, shown


def test_every_page_of_operators_is_for_everybody(visit: Callable[..., Any], axe: Callable[[Page], None]) -> None:
    """None is wider than a small phone either, in French, whose words are the longest."""
    world, shown = operators_pages()
    for language, scheme, widths in (("fr", "light", (1366, 320)), ("ar", "dark", (360,))):
        size, *narrower = [{"width": width, "height": 800} for width in widths]
        page = visit(viewport=size, color_scheme=scheme, locale=language).log_in(world.operator.username)
        for path in shown:
            page.goto(path)
            assert page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr")
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], (path, language)
            assert len(page.content().encode()) < MOST_BYTES, (path, language)
            assert set(page.evaluate(NUMBERS)) <= {"ltr"}, (path, language)
            axe(page)
            for less in narrower:
                page.set_viewport_size(less)
                assert page.evaluate("document.documentElement.scrollWidth") <= less["width"], (path, language)
                page.set_viewport_size(size)
