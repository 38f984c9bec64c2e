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


def operators_pages() -> tuple[World, list[str]]:
    world = make_world()
    world.operator.set_password(PASSWORD)
    world.operator.save()
    client = world.client("operator")
    paths = [address.paths()[0] for address in addresses() if address.route.startswith(ROOMS)]
    shown = [path for path in paths if (answer := client.get(path)).status_code == 200 and not answer.streaming]
    assert len(shown) > 12
    return world, shown


@pytest.mark.parametrize(
    ("language", "scheme", "width"), [("fr", "light", 1366), ("ar", "dark", 360)], ids=["fr-desk", "ar-phone"]
)
def test_every_page_of_operators_is_for_everybody(
    language: str, scheme: str, width: int, visit: Callable[..., Any], axe: Callable[[Page], None]
) -> None:
    world, shown = operators_pages()
    person = visit(viewport={"width": width, "height": 800}, color_scheme=scheme, locale=language)
    page = person.log_in(world.operator.username)
    for path in shown:
        page.goto(path)
        assert page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert len(page.content().encode()) < MOST_BYTES, path
        for field in page.locator("[type=number]").all():
            assert field.evaluate("e => getComputedStyle(e).direction") == "ltr", path
        axe(page)


def test_no_page_of_operators_is_wider_than_a_phone(visit: Callable[..., Any]) -> None:
    world, shown = operators_pages()
    Webhook.objects.update(is_failing=True)
    page = visit(viewport={"width": 320, "height": 700}, locale="fr").log_in(world.operator.username)
    for path in shown:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
