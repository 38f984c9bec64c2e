"""Someone signed out while writing keeps what they wrote, and sends it once they have signed in again."""

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from agents.models import CallingRules
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, ApiKey, Membership
from orders import lifecycle
from orders.models import CallNote, Order
from tests import factories
from tests.harness.browser import TOKENS_LEFT_TO_WEBKIT, Visits, log_in
from tests.harness.client import browser_of
from tests.uploads.files import csv_of, row, send
from webhooks.models import Webhook

pytestmark = pytest.mark.django_db(transaction=True)
SAID = "You have been signed out. What you wrote is kept here"


def write(page: Page, address: str, **texts: str) -> None:
    """Fill the form in, over more than a moment."""
    page.clock.install()
    page.goto(address)
    for name, text in texts.items():
        field = page.locator(f"main [name={name}]")
        if field.evaluate("field => field.matches('select')"):
            field.select_option(text)
        else:
            field.fill(text)
    page.clock.fast_forward("10:00")


def sign_in_elsewhere(page: Page, username: str) -> None:
    """Sign in, in the tab that the warning opens."""
    with page.expect_popup() as opened:
        page.locator("#not-sent a").click()
    log_in(opened.value, username)
    opened.value.close()


def test_a_merchants_form_waits_for_the_next_sign_in(visit: Visits, alice: Account) -> None:
    page = visit(viewport={"width": 360, "height": 740}).sign_in(alice.holder.email, "/account/login")
    write(page, "/account/webhooks", url="https://203.0.114.1/hooks", description="stock of the shop")
    page.locator("[name=events][value='order.shipped']").check()
    Session.objects.all().delete()
    for _ in range(2):
        page.get_by_role("button", name="Register it").click()
        expect(page.get_by_role("alert")).to_contain_text(SAID)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    sign_in_elsewhere(page, alice.holder.email)
    page.get_by_role("button", name="Register it").click()
    expect(page.locator("#secret")).to_be_visible()
    webhook = Webhook.objects.get()
    assert (webhook.account_id, webhook.description) == (alice.id, "stock of the shop")
    assert "order.shipped" in webhook.events


def test_the_button_that_was_pressed_is_the_one_that_is_sent(visit: Visits, alice: Account) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login")
    write(page, "/account/orders/new", customer_name="Lynda Aït")
    tokens = f"document.querySelectorAll('{TOKENS_LEFT_TO_WEBKIT}').length"
    page.evaluate(f"addEventListener('submit', () => localStorage.setItem('left', {tokens}))")
    page.get_by_role("button", name="Add lines").click()
    expect(page.locator("fieldset.order-line").nth(3)).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Lynda Aït")
    assert not Order.objects.exists()
    assert page.evaluate("localStorage.getItem('left')") == "0"


def test_a_managers_form_waits_too_while_they_may_only_read(visit: Visits, alice: Account) -> None:
    manager = factories.UserFactory()
    membership = Membership.objects.create(account=alice, user=manager, role="manager")
    person = visit()
    page = person.sign_in(manager.username, "/account/login")
    write(page, "/account/orders/new", customer_name="Lynda Aït")
    Membership.objects.filter(pk=membership.pk).update(role="reader")
    page.get_by_role("button", name="Add lines").click()
    expect(page.locator("#not-sent")).to_contain_text("You no longer have access to this page. What you wrote is kept")
    assert person.wrongs.pop().startswith("403 ")
    Membership.objects.filter(pk=membership.pk).update(role="manager")
    page.get_by_role("button", name="Add lines").click()
    expect(page.locator("fieldset.order-line").nth(3)).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Lynda Aït")


@pytest.mark.parametrize("kind", ["product", "fees", "upload"])
def test_so_does_one_of_a_page_that_they_may_still_look_at(kind: str, visit: Visits, alice: Account) -> None:
    manager = factories.UserFactory()
    membership = Membership.objects.create(account=alice, user=manager, role="manager")
    product = factories.ProductFactory(account=alice, sku="ROBE-1")
    upload = send(browser_of(manager), csv_of([row("A1")]))
    address, name, text = {
        "product": (f"/account/products/{product.id}", "name", "Robe kabyle"),
        "fees": ("/account/fees", "home-16", "400"),
        "upload": (f"/account/uploads/{upload.id}", "source", "0"),
    }[kind]
    person = visit()
    page = person.sign_in(manager.username, "/account/login")
    write(page, address, **{name: text})
    Membership.objects.filter(pk=membership.pk).update(role="reader")
    save = page.locator("main form.card button.primary").first
    save.click()
    expect(page.locator("#not-sent")).to_contain_text("You no longer have access to this page. What you wrote is kept")
    expect(page.locator(f"main [name={name}]")).to_have_value(text)
    Membership.objects.filter(pk=membership.pk).update(role="manager")
    with page.expect_request(lambda request: request.method == "POST") as sent:
        save.click()
    response = sent.value.response()
    assert response
    assert response.status == 302


def test_a_form_waits_too_while_the_account_is_closed(visit: Visits, alice: Account) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login")
    Account.objects.filter(pk=alice.pk).update(is_active=False)
    page.goto("/account/orders/new")
    page.locator("main [name=customer_name]").fill("Lynda Aït")
    page.get_by_role("button", name="Add lines").click()
    expect(page.locator("#not-sent")).to_contain_text("This account is closed and can no longer be changed.")
    Account.objects.filter(pk=alice.pk).update(is_active=True)
    page.get_by_role("button", name="Add lines").click()
    expect(page.locator("fieldset.order-line").nth(3)).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Lynda Aït")


def test_the_data_of_a_closed_account_is_taken_out_with_scripts_too(visit: Visits, alice: Account) -> None:
    order = factories.make_order(alice)
    Account.objects.filter(pk=alice.pk).update(is_active=False)
    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/data")
    page.get_by_label("The customer's phone").fill(order.customer_phone)
    page.get_by_role("button", name="Search").click()
    for button in ("Download everything", "Download this customer's data"):
        with page.expect_download():
            page.get_by_role("button", name=button).click()


def test_test_mode_is_begun_in_a_closed_account_too(visit: Visits, alice: Account) -> None:
    ApiKey.issue(alice, name="Till", is_test=True)
    Account.objects.filter(pk=alice.pk).update(is_active=False)
    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/quick-start")
    page.get_by_role("button", name="Switch to test mode").click()
    expect(page.get_by_role("button", name="Switch to the live account")).to_be_visible()


def test_a_supervisors_form_waits_too(visit: Visits, alice: Account) -> None:
    supervisor = factories.AgentFactory(role="Supervisors")
    page = visit().sign_in(supervisor.username)
    write(page, f"/console/rules/{alice.id}/", script_fr="Bonjour {nom}, " * 20)
    Session.objects.all().delete()
    page.get_by_role("button", name="Save the rules").click()
    expect(page.locator("#not-sent")).to_contain_text(SAID)
    sign_in_elsewhere(page, supervisor.username)
    page.get_by_role("button", name="Save the rules").click()
    page.wait_for_url("**/console/rules/")
    assert CallingRules.objects.get(account=alice).script_fr.startswith("Bonjour {nom}")


@pytest.mark.parametrize("is_refused", [False, True])
def test_an_agents_note_on_an_orders_page_waits_too(is_refused: bool, visit: Visits, alice: Account) -> None:
    agent = factories.AgentFactory()
    order = factories.make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    page = visit().sign_in(agent.username)
    write(page, f"/console/orders/order/{order.id}/", outcome="note")
    save = page.get_by_role("button", name="Save the note")
    if is_refused:  # at the form's own address, which nobody can look at
        save.click()
        expect(page.locator(".errornote")).to_contain_text("Write the note.")
        page.wait_for_load_state()
        page.clock.fast_forward("10:00")
    page.locator("[name=note]").fill("Livrer le matin")
    Session.objects.all().delete()
    save.click()
    expect(page.locator("#not-sent")).to_contain_text(SAID)
    sign_in_elsewhere(page, agent.username)
    save.click()
    expect(page.locator(".messagelist")).to_contain_text("The call is noted.")
    assert CallNote.objects.get(outcome="note").note == "Livrer le matin"


def test_nothing_is_sent_for_another_person(visit: Visits, alice: Account, charlie: Account) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login")
    write(page, "/account/webhooks", url="https://203.0.114.1/hooks")
    Session.objects.all().delete()
    page.get_by_role("button", name="Register it").click()
    sign_in_elsewhere(page, charlie.holder.email)
    page.get_by_role("button", name="Register it").click()
    expect(page.locator("#not-sent")).to_contain_text(SAID)
    assert not Webhook.objects.exists()


def test_nothing_that_was_meant_for_test_mode_is_sent_to_the_live_account(visit: Visits, alice: Account) -> None:
    ApiKey.issue(alice, name="Till", is_test=True)
    page = visit().sign_in(alice.holder.email, "/account/login")
    page.get_by_text(alice.holder.email).click()
    page.get_by_role("button", name="Test mode", exact=True).click()
    write(page, "/account/fees")
    Session.objects.all().delete()
    page.locator("main button.primary").first.click()
    sign_in_elsewhere(page, alice.holder.email)
    page.locator("main button.primary").first.click()
    expect(page.locator("#not-sent")).to_contain_text("Test mode was switched on or off in another page")


@pytest.mark.parametrize("is_staff", [False, True])
def test_a_form_that_was_just_opened_is_sent_after_another_sign_in(
    is_staff: bool, visit: Visits, alice: Account
) -> None:
    """The sign-in is in another tab, and at once, so the form has the token from before."""
    username = factories.AgentFactory(role="Supervisors").username if is_staff else alice.holder.email
    visited = visit()
    page = visited.sign_in(username, "/console/login/" if is_staff else "/account/login")
    page.goto(f"/console/rules/{alice.id}/" if is_staff else "/account/script")
    page.locator("[name=script_fr]").fill("Bonjour {nom}")
    other = visited.context.new_page()
    other.goto("/console/desk/" if is_staff else "/account/")
    other.locator("details.menu:has(form.languages) summary").click()
    other.get_by_role("button", name="Sign out").click()
    other.wait_for_url("**/login**")
    log_in(other, username)
    page.locator("main button.primary").click()
    page.wait_for_url("**/console/rules/" if is_staff else "**/account/script")
    expect(page.locator(".messagelist, .message.success")).to_be_visible()
    assert CallingRules.objects.get(account=alice).script_fr == "Bonjour {nom}"


def test_nothing_that_was_just_written_is_lost_by_a_switch_of_the_mode_in_another_tab(
    visit: Visits, alice: Account
) -> None:
    ApiKey.issue(alice, name="Till", is_test=True)
    visited = visit()
    page = visited.sign_in(alice.holder.email, "/account/login", to="/account/script")
    page.locator("[name=script_fr]").fill("Bonjour {nom}")
    other = visited.context.new_page()
    for mode in ("Test mode", "Switch to the live account"):
        other.goto("/account/")
        if mode == "Test mode":
            other.locator("details.menu summary").click()
        with other.expect_navigation():
            other.get_by_role("button", name=mode, exact=True).click()
        page.locator("main button.primary").click()
        if mode == "Test mode":
            expect(page.locator("#not-sent")).to_contain_text("Test mode was switched on or off in another page")
    expect(page.locator(".message.success")).to_be_visible()
    assert CallingRules.objects.get(account=alice).script_fr == "Bonjour {nom}"
