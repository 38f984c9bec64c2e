"""Someone who has written something is asked before leaving its page; anyone else is never asked.

That no page asks who has not touched it is in test_hostile_texts.py, which opens them all.
"""

import pytest
from playwright.sync_api import Locator, Page, expect

from agents.models import CallingRules
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, ApiKey
from inventory.models import Product
from orders import lifecycle
from orders.models import Order
from tests import factories
from tests.harness.browser import OLDER, PASSWORD, Visit, Visits

pytestmark = pytest.mark.django_db(transaction=True)
NEW_PRODUCT = "/account/products/new"


def type_into(page: Page, name: str, text: str) -> Locator:
    """Type by hand: a browser does not ask people who have not touched the page."""
    field = page.locator(f"main [name={name}]")
    field.click()
    page.keyboard.type(text)
    return field


def press_in_menu(page: Page, button: str) -> None:
    menu = page.locator("details.menu:has(form.languages)")
    if menu.get_attribute("open") is None:
        menu.locator("summary").first.click()
    menu.get_by_role("button", name=button, exact=True).click()


@pytest.fixture
def visited(visit: Visits, alice: Account) -> Visit:
    """Alice's browser, on the form of a new product."""
    ApiKey.issue(alice, name="Till", is_test=True)
    visited = visit()
    visited.sign_in(alice.holder.email, "/account/login", to=NEW_PRODUCT)
    return visited


@pytest.mark.parametrize("button", ["Français", "Test mode", "Sign out"])
def test_a_button_that_leads_away_asks_first_however_often(button: str, visited: Visit) -> None:
    page = visited.page
    field = type_into(page, "name", "Robe")
    for _ in range(2):
        with visited.asked():
            press_in_menu(page, button)
    expect(field).to_have_value("Robe")
    with visited.asked(leaves=True), page.expect_navigation():
        press_in_menu(page, button)


@pytest.mark.parametrize("browser", OLDER)
def test_an_older_browser_asks_too(browser: str, visited: Visit) -> None:
    page = visited.page
    page.add_init_script(OLDER[browser])
    page.reload()
    field = type_into(page, "name", "Robe")
    with visited.asked():
        page.get_by_role("link", name="Orders", exact=True).click()
    expect(field).to_have_value("Robe")


def test_so_does_a_link_and_what_was_written_is_saved_without_a_question(visited: Visit) -> None:
    page = visited.page
    type_into(page, "name", "Robe")
    with visited.asked():
        page.get_by_role("link", name="Orders", exact=True).click()
    type_into(page, "sku", "ROBE-1")
    type_into(page, "price", "2500")
    page.get_by_role("button", name="Create the product").click()
    page.wait_for_url(lambda url: not url.endswith(NEW_PRODUCT))
    assert Product.objects.get().name == "Robe"
    page.get_by_role("link", name="Orders", exact=True).click()
    page.wait_for_url("**/account/orders")


def test_what_was_refused_is_not_saved_yet(visited: Visit) -> None:
    page = visited.page
    type_into(page, "name", "Robe")
    page.get_by_role("button", name="Create the product").click()
    expect(page.locator("[name=price][aria-invalid=true]")).to_be_visible()
    page.wait_for_load_state()
    with visited.asked():
        page.get_by_role("link", name="Orders", exact=True).click()


def test_a_refused_form_is_not_sent_again_by_going_back_to_its_page(visited: Visit) -> None:
    """The browser would show an error page in its place, or ask whether to send the form once more."""
    page = visited.page
    for name, text in {"name": "Robe", "sku": "ROBE-1"}.items():
        type_into(page, name, text)
    page.get_by_role("button", name="Create the product").click()
    expect(page.locator("[name=price][aria-invalid=true]")).to_be_visible()
    type_into(page, "price", "2500")
    page.get_by_role("button", name="Create the product").click()
    expect(page.locator(".message.success")).to_be_visible()
    with page.expect_request(lambda request: request.is_navigation_request()) as asked:
        page.go_back()
    assert (asked.value.method, asked.value.url) == ("GET", f"{visited.address}{NEW_PRODUCT}")
    expect(page.locator("[name=sku]")).to_have_value("")
    assert Product.objects.count() == 1


def test_nor_by_reloading_it_which_asks_first_and_shows_what_is_stored_now(visited: Visit, alice: Account) -> None:
    page, product = visited.page, factories.ProductFactory(account=alice, price=1200)
    page.goto(f"/account/products/{product.id}")
    Product.objects.update(price=77)
    page.locator("[name=price]").fill("")
    type_into(page, "price", "1300")
    page.get_by_role("button", name="Save the product").click()
    expect(page.locator("[name=price][aria-invalid=true]")).to_be_visible()
    page.locator("[name=price]").click()
    with visited.asked(leaves=True):
        page.reload()
    expect(page.locator("[name=price]")).to_have_value("77")
    expect(page.locator("[aria-invalid=true]")).to_have_count(0)


def test_nor_is_an_order_to_which_lines_were_added(visited: Visit) -> None:
    page = visited.page
    page.goto("/account/orders/new")
    type_into(page, "customer_name", "Lynda Aït")
    page.get_by_role("button", name="Add lines").click()
    expect(page.locator("fieldset.order-line").nth(3)).to_be_visible()
    page.wait_for_load_state()
    with visited.asked():
        page.get_by_role("link", name="Back to the orders").click()
    expect(page.locator("[name=customer_name]")).to_have_value("Lynda Aït")
    assert not Order.objects.exists()


def test_nor_is_what_was_sent_from_before_another_sign_in(visited: Visit, alice: Account) -> None:
    """It keeps the mode of its page, however long the answer stays open."""
    page = visited.page
    press_in_menu(page, "Test mode")
    page.goto(NEW_PRODUCT)
    for name, text in {"name": "Robe", "sku": "ROBE-1", "price": "2500"}.items():
        type_into(page, name, text)
    visited.context.add_cookies([{"name": "csrftoken", "value": "n" * 32, "url": visited.address}])
    page.get_by_role("button", name="Create the product").click()
    send = page.get_by_role("button", name="Send it again")
    send.focus()
    page.keyboard.press("Shift")  # a browser does not ask people who have not touched the page
    with visited.asked():
        page.get_by_role("link", name="Orders", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-mode", "test")
    page.evaluate("dispatchEvent(new StorageEvent('storage', { key: 'pages' }))")
    send.click()
    page.wait_for_url(lambda url: not url.endswith(NEW_PRODUCT))
    assert Product.objects.get().account == alice.twin


def test_nor_is_a_script_that_was_looked_at(visited: Visit) -> None:
    page = visited.page
    page.goto("/account/script")
    type_into(page, "script_fr", "Bonjour {nom}")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("div[lang=fr]")).to_contain_text("Bonjour")
    page.wait_for_load_state()
    with visited.asked():
        page.get_by_role("link", name="Orders", exact=True).click()


def test_one_form_of_two_is_not_forgotten_by_sending_the_other(visited: Visit, alice: Account) -> None:
    page = visited.page
    product = factories.ProductFactory(account=alice, name="Robe", stock_quantity=5)
    page.goto(f"/account/products/{product.id}")
    field = type_into(page, "script", "Tailles 38 à 44")
    page.locator("[name=quantity]").fill("9")
    with visited.asked():
        page.get_by_role("button", name="Set the stock").click()
    expect(field).to_have_value("Tailles 38 à 44")
    with visited.asked(leaves=True):
        page.get_by_role("button", name="Set the stock").click()
    expect(page.locator(".message.success")).to_be_visible()


def test_nobody_is_asked_for_nothing(visited: Visit) -> None:
    """Not about what was taken back, nor about search fields, nor about passwords."""
    page = visited.page
    type_into(page, "name", "R")
    page.keyboard.press("Backspace")
    page.locator("[name=is_active]").click()
    page.locator("[name=is_active]").click()
    page.get_by_role("link", name="Products", exact=True).first.click()
    page.wait_for_url("**/account/products")
    type_into(page, "q", "Robe")
    page.locator("[name=is_active]").select_option("true")
    page.get_by_role("link", name="Orders", exact=True).click()
    page.wait_for_url("**/account/orders")
    page.goto("/account/password")
    type_into(page, "old_password", PASSWORD)
    page.get_by_role("link", name="Orders", exact=True).click()
    page.wait_for_url("**/account/orders")


def test_a_file_that_is_chosen_is_asked_about_until_it_is_sent(visited: Visit) -> None:
    page = visited.page
    page.goto("/account/products/upload")
    chosen = {"name": "stock.csv", "mimeType": "text/csv", "buffer": b"sku,name,price\nA,Robe,2500\n"}
    page.locator("main h1").click()
    page.locator("input[type=file]").set_input_files(chosen)
    with visited.asked():
        page.get_by_role("link", name="Orders", exact=True).click()
    page.get_by_role("button", name="Send the file").click()
    page.wait_for_url("**/account/uploads/**")


def test_a_supervisor_is_asked_too(visit: Visits, alice: Account) -> None:
    supervisor = factories.AgentFactory(role="Supervisors")
    visited = visit()
    page = visited.sign_in(supervisor.username, to=f"/console/rules/{alice.id}/")
    page.locator("[name=script_fr]").click()
    page.keyboard.type("Bonjour {nom}")
    for _ in range(2):  # a press that came to nothing does not block the next
        with visited.asked():
            press_in_menu(page, "Français")
    with visited.asked():
        page.get_by_role("link", name="Orders", exact=True).first.click()
    page.get_by_role("button", name="Save the rules").click()
    page.wait_for_url("**/console/rules/")
    assert CallingRules.objects.get(account=alice).script_fr == "Bonjour {nom}"


def test_orders_that_are_chosen_of_a_list_are_let_go_without_a_question(visit: Visits, alice: Account) -> None:
    order = factories.make_order(alice)
    Order.objects.update(call_state="review")
    page = visit().sign_in(factories.AgentFactory(role="Supervisors").username, to="/console/review/")
    page.locator(f"[value^='{order.id}'][name=order]").click()
    page.locator(f"#name-{order.id}").click()
    page.wait_for_url(f"**/console/orders/order/{order.id}/")


def test_to_phone_is_not_to_leave(visit: Visits, alice: Account) -> None:
    agent = factories.AgentFactory()
    order = factories.make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    visited = visit()
    page = visited.sign_in(agent.username, to=f"/console/orders/order/{order.id}/")
    field = type_into(page, "note", "Livrer le matin")
    page.locator("a.phone").click()
    with visited.asked():
        page.get_by_role("link", name="Orders", exact=True).first.click()
    expect(field).to_have_value("Livrer le matin")
