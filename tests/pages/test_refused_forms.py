"""Someone whose form is refused sees so at once, even on a phone, where the field may be far down the page."""

import re
from collections.abc import Callable

import pytest
from django_otp.plugins.otp_totp.models import TOTPDevice
from playwright.sync_api import Locator, Page, expect

from codservice.accounts.models import MOST_WORKING_KEYS, Account, ApiKey
from tests import factories
from tests.harness.browser import PASSWORD, Visit

pytestmark = pytest.mark.django_db(transaction=True)
PHONE = {"width": 360, "height": 740}
# Chooses nothing in a group, or something that nobody can choose.
SENT_WRONG = """e => {
    for (const each of e.form.elements[e.name]) { each.checked = e.type === 'radio'; each.value = 'nothing' }
    e.form.noValidate = true
    e.form.requestSubmit()
}"""


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
    page = visit(viewport=PHONE).sign_in(alice.holder.email, "/account/login", to=path)
    field = page.locator(f"main [name={name}]")
    expect(field).not_to_be_focused()
    field.fill(text)
    field.evaluate("e => { e.form.noValidate = true; e.form.requestSubmit() }")
    page.locator("main [aria-invalid=true]").first.wait_for()
    is_seen(page, page.locator("main [aria-invalid=true]").first)


def test_so_has_a_supervisors(visit: Callable[..., Visit], alice: Account) -> None:
    supervisor = factories.AgentFactory(role="Supervisors")
    page = visit(viewport=PHONE).sign_in(supervisor.username, to="/console/password_change/")
    for name, text in (("old_password", PASSWORD), ("new_password1", "1234"), ("new_password2", "1234")):
        page.locator(f"[name={name}]").fill(text)
    page.locator("[name=new_password2]").press("Enter")
    expect(page.locator("[name=new_password1]")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("[name=new_password1]")).to_be_focused()
    page.goto(f"/console/rules/{alice.id}/")
    field = page.locator("main [name=retry_minutes]")
    field.fill("-1")
    field.evaluate("e => { e.form.noValidate = true; e.form.requestSubmit() }")
    expect(field).to_have_attribute("aria-invalid", "true")
    is_seen(page, field)


def test_what_is_wrong_with_a_sign_in_is_said_of_the_field_where_it_begins_anew(
    visit: Callable[..., Visit], alice: Account
) -> None:
    """When only the code is missing or wrong, that is the password: the username is still there."""
    page, agent = visit().page, factories.AgentFactory()
    for door, person in (("/account/login", alice.holder), ("/console/login/", agent)):
        TOTPDevice.objects.create(user=person)
        page.goto(door)
        for password, code, said, first in (
            ("wrong", "", "The username or the password is wrong.", "username"),
            (PASSWORD, "", "Type your password again, and the code that your phone shows.", "password"),
            (PASSWORD, "x", "The one-time code is wrong or already used.", "password"),
        ):
            page.locator("[name=username]").fill(person.username)
            if code:
                page.locator("[name=code]").fill(code)
            page.locator("[name=password]").fill(password)
            page.locator("[name=password]").press("Enter")
            expect(page.get_by_text(said)).to_be_visible()
            expect(page.locator(f"[name={first}]")).to_be_focused()
            expect(page.locator(f"[name={first}]")).to_have_accessible_description(re.compile(said))
        expect(page.locator("[name=username]")).to_have_value(person.username)
        expect(page.locator("[name=code]")).to_be_visible()


def test_what_is_wrong_with_a_choice_is_said_of_it(visit: Callable[..., Visit], alice: Account) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login")
    for path, legend, name in (
        ("/account/webhooks", "Notify it when", "events"),
        ("/account/keys", "Scopes", "scopes"),
        ("/account/keys", "It works", "works"),
        ("/account/team", "Role", "role"),
    ):
        page.goto(path)
        page.locator(f"main [name={name}]").first.evaluate(SENT_WRONG)
        group = page.get_by_role("group", name=legend)
        expect(group.locator(f"[name={name}]").first).to_have_attribute("aria-invalid", "true")
        expect(group).to_have_accessible_description(re.compile("Choose at least one|Select a valid choice"))
        group.evaluate("e => { e.form.dataset.sent = '' }")  # otherwise the browser asks whether to leave the page


def test_what_is_wrong_with_a_file_or_a_list_of_orders_is_said_of_its_field(
    visit: Callable[..., Visit], alice: Account
) -> None:
    supervisor = factories.AgentFactory(role="Supervisors")
    for username, door, path, name, said in (
        (alice.holder.email, "/account/login", "/account/orders/upload", "file", "Choose a file."),
        (supervisor.username, "/console/login/", "/console/moves/", "named", "Enter at least one order"),
    ):
        page = visit().sign_in(username, door, to=path)
        field = page.locator(f"main [name={name}]")
        field.evaluate("e => { e.form.noValidate = true; e.form.requestSubmit() }")
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(re.compile(said))


def test_what_is_wrong_with_a_whole_form_has_the_focus(visit: Callable[..., Visit], alice: Account) -> None:
    """It was in sight, but not read out, because no field belongs to it."""
    page = visit(viewport=PHONE).sign_in(alice.holder.email, "/account/login", to="/account/keys")
    for number in range(MOST_WORKING_KEYS):
        ApiKey.issue(alice, name=str(number))
    page.locator("main [name=name]").fill("One too many")
    page.locator("main [name=name]").press("Enter")
    expect(page.locator("main form .problem")).to_be_focused()
