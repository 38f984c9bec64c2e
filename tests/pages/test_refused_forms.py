"""Who sends a form that is refused sees so at once, on a phone too, where the field may be far down the page."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from codservice.accounts.models import Account
from tests import factories
from tests.harness.browser import Visit

pytestmark = pytest.mark.django_db(transaction=True)
PHONE = {"width": 360, "height": 740}


def is_seen(page: Page, field: Locator) -> None:
    expect(field).to_be_focused()
    expect(field).to_be_in_viewport(ratio=1)
    error = page.locator(f"#{field.get_attribute('id')}_error")
    expect(error).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(
    ("path", "name", "text"),
    [
        ("/account/calling", "most_attempts", "99"),
        ("/account/webhooks", "url", "http://shop.example"),
        ("/account/team", "email", "nobody"),
        ("/account/products/new", "price", "much"),
    ],
)
def test_the_first_field_that_is_wrong_has_the_focus(
    path: str, name: str, text: str, visit: Callable[..., Visit], alice: Account
) -> None:
    page = visit(viewport=PHONE).sign_in(alice.holder.email, "/account/login")
    page.goto(path)
    field = page.locator(f"main [name={name}]")
    expect(field).not_to_be_focused()
    field.fill(text)
    field.evaluate("e => { e.form.noValidate = true; e.form.requestSubmit() }")
    page.locator("main [aria-invalid=true]").first.wait_for()
    is_seen(page, page.locator("main [aria-invalid=true]").first)


def test_so_has_a_supervisors(visit: Callable[..., Visit], alice: Account) -> None:
    supervisor = factories.AgentFactory(role="Supervisors")
    page = visit(viewport=PHONE).sign_in(supervisor.username)
    page.goto(f"/console/rules/{alice.id}/")
    field = page.locator("main [name=retry_minutes]")
    field.fill("-1")
    field.evaluate("e => { e.form.noValidate = true; e.form.requestSubmit() }")
    expect(field).to_have_attribute("aria-invalid", "true")
    is_seen(page, field)
