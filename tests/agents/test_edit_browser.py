"""The page on which an agent edits an order, in a real browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from urllib.parse import urljoin

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, Route, expect

from agents.desk import claims
from agents.models import Claim
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, User
from orders import lifecycle
from orders.models import Order, ShippingFee
from tests.agents.desk_browser import DESK, call_next, calls, settled, told, warned
from tests.factories import ProductFactory, make_order, order_line
from tests.harness.background import eventually
from tests.harness.browser import OLDER, TOKENS_LEFT_TO_WEBKIT, Visit, Visits, intercept, log_in

pytestmark = pytest.mark.django_db(transaction=True)


def edit_next(person: Visit) -> Page:
    """Sign in and open the edit page of the next customer's order at once, without the pages that lead there."""
    claim_id = claims.next_customer(User.objects.get(username="samira"))
    return person.sign_in("samira", to=f"{DESK}{claim_id}/edit/{Order.objects.earliest('id').id}/")


@contextmanager
def held_up(page: Page, address: str = "**/edit/*/") -> Iterator[list[Route]]:
    """Answer the page's requests of this block for `address` only after it."""
    held: list[Route] = []
    intercept(page, address, lambda route: held.append(route) if is_held else route.continue_())
    is_held = True
    yield held
    is_held = False
    for route in held:
        route.continue_()


def test_an_order_is_edited_with_the_keyboard(visit: Visits, alice: Account, agent: User) -> None:
    lines = [order_line(quantity=1, product_name=name, unit_price=Decimal(1000)) for name in ("Robe", "Foulard")]
    order = make_order(alice, items=lines, total_amount=Decimal("2400.50"), shipping_fee=Decimal("400.50"))
    page = visit().sign_in("samira")
    call_next(page)
    page.keyboard.press("e")
    page.wait_for_url("**/edit/**")
    page.get_by_label("Quantity of Robe").fill("3")
    expect(page.locator("#total")).to_have_text("4\u202f400.50")
    page.get_by_label("Remove Foulard").check()
    page.get_by_label("Shipping fee").fill("600")
    expect(page.locator("#total")).to_have_text("3\u202f600")
    page.get_by_role("combobox", name="Wilaya").fill("وهر")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="Wilaya")).to_have_value("Oran")
    page.get_by_role("combobox", name="Commune").fill("es se")
    page.get_by_role("option").first.click()
    page.get_by_role("button", name="Save the changes").click()
    told(page, "The changes are saved.")
    expect(page.locator(".log")).to_contain_text("Shipping fee")
    order.refresh_from_db()
    assert (order.wilaya_code, order.customer_commune, order.total_amount) == ("31", "Es Senia", Decimal(3600))
    settled(page)
    page.keyboard.press("1")
    told(page, "is confirmed")


@pytest.mark.parametrize(("language", "point"), [("en", "."), ("fr", ","), ("ar-DZ", ",")])
def test_amounts_are_written_as_the_language_does(
    language: str, point: str, visit: Visits, alice: Account, agent: User
) -> None:
    order = make_order(alice, total_amount=Decimal("2400.50"), shipping_fee=Decimal("400.50"))
    page = edit_next(visit(locale=language))
    answer = page.evaluate("fetch(location.href).then(answer => answer.text())")
    assert f"2\u202f400{point}50</output>" in answer
    fee = page.locator("[name=shipping_fee]")
    expect(fee).to_have_value(f"400{point}50")
    fee.fill(f"1400{point}25")
    expect(page.locator("#total")).to_have_text(f"3\u202f400{point}25")
    page.locator(".bar button").click()
    expect(page.locator(".log")).to_contain_text(f"1\u202f400{point}25")
    order.refresh_from_db()
    assert order.shipping_fee == Decimal("1400.25")


def test_the_total_in_the_page_keeps_a_supplement_above_the_sum(visit: Visits, alice: Account, agent: User) -> None:
    line = order_line(product_name="Montre", quantity=2, unit_price=0)
    order = make_order(alice, items=[line], total_amount=6500, shipping_fee=400)
    page = edit_next(visit())
    supplement = page.locator(".sums > div", has_text="Supplement").locator("dd")
    expect(supplement).to_have_text("6\u202f100 DA")
    page.get_by_label("Discount").fill("1000")
    expect(page.locator("#total")).to_have_text("5\u202f500")
    page.get_by_role("button", name="Save the changes").click()
    told(page, "The changes are saved.")
    expect(supplement).to_have_text("5\u202f100 DA")
    order.refresh_from_db()
    assert order.total_amount == 5500


def test_the_quantity_of_a_chosen_product_is_what_is_written_next(visit: Visits, alice: Account, agent: User) -> None:
    order = make_order(
        alice, items=[order_line(quantity=1, product_name=name, unit_price=1) for name in ("Robe", "Sac")]
    )
    for name in ("Montre", "Foulard"):
        ProductFactory(account=alice, name=name)
    page = edit_next(visit())
    for name, instead in (("Montre", "in place of Robe"), ("Foulard", "as a line of its own")):
        page.get_by_label("Find a product").fill(name)
        expect(page.locator("#found li")).to_have_count(1)
        expect(page.locator("#found li")).to_contain_text(name)
        page.get_by_label("Add the chosen product").select_option(instead)
        page.get_by_role("button", name=name).click()
        expect(page.get_by_label(f"Quantity of {name}")).to_be_focused()
        page.keyboard.type("5")
    page.get_by_role("button", name="Save the changes").click()
    told(page, "The changes are saved.")
    lines = order.items.order_by("position").values_list("product_name", "quantity")
    assert list(lines) == [("Montre", 5), ("Sac", 1), ("Foulard", 5)]


def test_a_product_is_chosen_however_shortly_after_the_last_letter(visit: Visits, alice: Account, agent: User) -> None:
    make_order(alice)
    ProductFactory(account=alice, name="Montre")
    page = edit_next(visit())
    with held_up(page):
        page.get_by_label("Find a product").fill("Mon")
        page.get_by_role("button", name="Montre").evaluate("button => button.click()")
        page.wait_for_timeout(500)  # longer than the page waits for another letter
    expect(page.get_by_label("Quantity of Montre")).to_be_focused()


# --- Typed and pressed while a product is on its way ---------------------------------------------------------------


@pytest.fixture
def order(alice: Account) -> Order:
    """An order of a dress, from a merchant who sells two other things."""
    for name in ("Montre", "Foulard"):
        ProductFactory(account=alice, name=name)
    return make_order(alice, items=[order_line(quantity=1, product_name="Robe", unit_price=1)])


@pytest.fixture
def page(visit: Visits, order: Order, agent: User) -> Page:
    """The order's edit page, with everything on sale to choose from."""
    page = edit_next(visit())
    expect(page.locator("#found li")).to_have_count(2)
    return page


def saved(page: Page, order: Order) -> list[tuple[str, int]]:
    told(page, "The changes are saved.")
    return list(order.items.order_by("position").values_list("product_name", "quantity"))


def test_the_next_product_is_searched_while_one_is_on_its_way(page: Page, order: Order) -> None:
    search = page.get_by_label("Find a product")
    with held_up(page):
        page.get_by_role("button", name="Montre").click()
        search.fill("Fou")
        page.wait_for_timeout(500)
    expect(page.get_by_label("Quantity of Montre")).to_have_value("1")
    expect(page.locator("#found li")).to_have_count(1)
    expect(page.locator("#found li")).to_contain_text("Foulard")
    expect(search).to_be_focused()
    page.get_by_role("button", name="Save the changes").click()
    assert saved(page, order) == [("Robe", 1), ("Montre", 1)]


def test_products_pressed_one_after_the_other_all_come(page: Page, order: Order) -> None:
    with held_up(page):
        page.get_by_role("button", name="Montre").click()
        page.get_by_role("button", name="Foulard").click()
    expect(page.get_by_label("Quantity of Foulard")).to_be_focused()
    page.get_by_role("button", name="Save the changes").click()
    assert saved(page, order) == [("Robe", 1), ("Montre", 1), ("Foulard", 1)]


def test_saving_waits_for_the_product_that_is_on_its_way(page: Page, order: Order) -> None:
    with held_up(page) as held:
        page.get_by_role("button", name="Montre").click()
        page.get_by_role("button", name="Save the changes").click()
        page.wait_for_timeout(500)
        assert len(held) == 1
    assert saved(page, order) == [("Robe", 1), ("Montre", 1)]


def test_nothing_is_saved_without_a_product_that_did_not_come(page: Page, order: Order) -> None:
    with held_up(page) as held:
        page.get_by_role("button", name="Montre").click()
        page.get_by_label("Quantity of Robe").fill("7")
        page.get_by_role("button", name="Save the changes").click()
        eventually(lambda: page.wait_for_timeout(10) or held)
        held.pop().abort()
        page.wait_for_timeout(500)
        assert held == []
    page.get_by_role("button", name="Montre").click()
    expect(page.get_by_label("Quantity of Montre")).to_have_value("1")
    page.get_by_role("button", name="Save the changes").click()
    assert saved(page, order) == [("Robe", 7), ("Montre", 1)]


@pytest.mark.parametrize("browser", OLDER)
def test_an_older_browser_saves_the_product_that_is_on_its_way_too(
    browser: str, visit: Visits, order: Order, agent: User
) -> None:
    person = visit()
    person.page.add_init_script(OLDER[browser])
    page = edit_next(person)
    with held_up(page):
        page.get_by_role("button", name="Montre").click()
        page.get_by_role("button", name="Save the changes").click()
    assert saved(page, order) == [("Robe", 1), ("Montre", 1)]


def test_a_page_that_cannot_be_taken_over_is_told_and_keeps_nobody_from_saving(page: Page, order: Order) -> None:
    page.get_by_label("Quantity of Robe").fill("7")
    intercept(
        page, "**/edit/*/", lambda route: route.fulfill(body="<p>Another page</p>", content_type="text/html"), times=1
    )
    page.get_by_role("button", name="Montre").click()
    expect(page.locator("#failed")).to_contain_text("This could not be done just now.")
    page.get_by_role("button", name="Montre").click()
    expect(page.get_by_label("Quantity of Montre")).to_have_value("1")
    page.get_by_role("button", name="Save the changes").click()
    assert saved(page, order) == [("Robe", 7), ("Montre", 1)]


@pytest.mark.parametrize("changes", ["a line", "a field", "nothing"])
def test_who_goes_back_to_the_call_is_asked_about_what_is_not_saved(
    changes: str, visit: Visits, order: Order, agent: User
) -> None:
    visited = visit()
    page = edit_next(visited)
    expect(page.locator("#found li")).to_have_count(2)
    back = page.get_by_role("link", name="Back to the call")
    if changes == "nothing":
        back.click()
    elif changes == "a line":
        page.get_by_role("button", name="Montre").click()
        expect(page.get_by_label("Quantity of Montre")).to_be_focused()
    else:
        page.get_by_label("Quantity of Robe").click()
        page.keyboard.type("2")
    if changes != "nothing":
        with visited.asked():
            back.click()
        page.get_by_role("button", name="Save the changes").click()
        told(page, "The changes are saved.")
    calls(page, order.customer_name)
    if changes == "a field":  # typed over what somebody else has saved since, it would be saved anew
        order.items.update(quantity=5)
        page.go_back()
        expect(page.get_by_label("Quantity of Robe")).to_have_value("5")


def test_so_is_who_has_gone_back_to_what_was_refused(visit: Visits, order: Order, agent: User) -> None:
    """A browser may show the page as it was left. Playwright turns this off, so that only its event is tried."""
    visited = visit()
    page = edit_next(visited)
    page.evaluate("""
        document.querySelector('form[data-surcharge]').dataset.sent = "";
        dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))""")
    page.get_by_label("Quantity of Robe").click()
    page.keyboard.type("2")
    with visited.asked():
        page.get_by_role("link", name="Back to the call").click()


def test_who_has_saved_and_goes_back_writes_more_on_a_fresh_page(page: Page, order: Order) -> None:
    """The page as it was left would be refused as out of date, and ask about what is saved."""
    quantity, save = page.get_by_label("Quantity of Robe"), page.get_by_role("button", name="Save the changes")
    back = page.get_by_role("link", name="Back to the call")
    call = back.evaluate("link => link.href")
    quantity.fill("2")
    intercept(page, call, lambda route: route.fulfill(status=204), times=1)  # or the page would be left
    with page.expect_response(call):
        save.click()
    with page.expect_event("load"):
        # Where it is loaded only later, nobody is asked whether to leave what is saved.
        assert page.evaluate("""
            dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
            "sent" in document.querySelector('form[data-surcharge]').dataset""")
    expect(quantity).to_have_value("2")
    quantity.click()
    back.click()
    calls(page, order.customer_name)
    page.go_back()
    quantity.fill("3")
    save.click()
    assert saved(page, order) == [("Robe", 3)]


@pytest.mark.parametrize(
    ("language", "said"),
    [("fr-FR", "Cela n’a pas abouti. Ce que vous avez écrit"), ("ar-DZ", "لم يتم ذلك الآن. ما كتبته باق هنا")],
)
def test_who_presses_what_the_service_cannot_do_just_now_is_told(
    language: str, said: str, visit: Visits, order: Order, agent: User
) -> None:
    """A lone 5xx while the service is there says so."""
    person = visit(locale=language)
    page = edit_next(person)
    failed, address = page.locator("#failed"), page.locator("[name=customer_address]")
    address.fill("Cité 5 Juillet")
    for press in ("search", "choose", "propose"):
        found = page.locator("#found li").first.element_handle()
        intercept(page, "**/edit/*/", lambda route: route.fulfill(status=503), times=1)
        page.locator(f"button[name={press}]").first.click()
        expect(failed).to_contain_text(said)
        expect(address).to_have_value("Cité 5 Juillet")
        page.locator(f"button[name={press}]").first.click()
        expect(failed).to_be_empty()
        if press != "propose":  # the list is about to be replaced, and would lose the next press
            found.wait_for_element_state("hidden")
    expect(page.locator("#lines tr")).to_have_count(2)
    assert len(person.wrongs) == 3
    person.wrongs.clear()


@pytest.mark.parametrize("field", ["Address", "Quantity of Robe"])
def test_what_is_typed_while_a_product_comes_stays_where_it_was_typed(field: str, page: Page) -> None:
    quantity, written = page.get_by_label("Quantity of Robe"), page.get_by_label(field)
    with held_up(page):
        page.get_by_role("button", name="Montre").click()
        quantity.fill("7")
        written.click()
        page.keyboard.press("End")
        before = written.input_value()
    expect(page.get_by_label("Quantity of Montre")).to_have_value("1")
    page.keyboard.type("12")
    expect(written).to_have_value(before + "12")
    expect(page.get_by_label("Quantity of Montre")).to_have_value("1")
    assert quantity.input_value().startswith("7")


def test_so_does_what_is_typed_of_the_line_in_whose_place_it_comes(page: Page, order: Order) -> None:
    page.get_by_label("Add the chosen product").select_option("in place of Robe")
    with held_up(page):
        page.get_by_role("button", name="Montre").click()
        page.get_by_label("Quantity of Robe").fill("7")
        page.get_by_label("Remove Robe").check()
    expect(page.get_by_label("Remove Montre")).to_be_focused()
    expect(page.get_by_label("Remove Montre")).to_be_checked()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Save the changes").click()
    assert saved(page, order) == [("Montre", 7)]


def test_the_fee_comes_though_a_product_is_searched_and_not_where_one_was_written(
    page: Page, alice: Account, order: Order
) -> None:
    ShippingFee.objects.create(account=alice, wilaya_code="31", home=700)
    fee = page.get_by_label("Shipping fee", exact=True)
    with held_up(page):
        page.get_by_role("combobox", name="Wilaya").fill("Oran")
        page.get_by_label("Find a product").fill("Fou")
        page.wait_for_timeout(500)
    expect(fee).to_have_value("700")
    expect(page.locator("#found li")).to_have_count(1)
    with page.expect_response("**/edit/*/"), held_up(page):
        page.get_by_role("button", name="Take the merchant's fee").click()
        fee.fill("250")
    page.wait_for_timeout(100)
    expect(fee).to_have_value("250")


# --- By keyboard -------------------------------------------------------------------------------------------------

# Whether the middle of the focused element is in sight, if that lies in a card; null otherwise.
SEEN = """() => {
    const focused = document.activeElement;
    const { left, top, bottom, right } = focused.getBoundingClientRect();
    const shown = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    return focused.closest("section") && focused.contains(shown);
}"""


def test_what_has_the_focus_lies_under_neither_the_head_nor_the_bar(visit: Visits, alice: Account, agent: User) -> None:
    for number in range(3):
        ProductFactory(account=alice, name=f"Robe {number}")
    make_order(alice)
    page = edit_next(visit(viewport={"width": 375, "height": 740}))
    seen = []
    for key in ["Tab"] * 30 + ["Shift+Tab"] * 30:
        page.keyboard.press(key)
        seen.append(page.evaluate(SEEN))
    assert seen.count(True) > 20
    assert False not in seen


def test_nor_on_a_low_screen_under_what_is_told(visit: Visits, alice: Account, agent: User) -> None:
    order = make_order(alice)
    page = edit_next(visit(viewport={"width": 740, "height": 360}))
    lifecycle.cancel(order.id, actor=Actor(Role.MERCHANT, "Boutique"))
    warned(page, "Already canceled by Boutique at")
    seen = []
    for key in ["Tab"] * 30 + ["Shift+Tab"] * 30:
        page.keyboard.press(key)
        seen.append(page.evaluate(SEEN))
    assert seen.count(True) > 20
    assert False not in seen


def test_a_sku_is_not_broken_at_its_hyphen(visit: Visits, alice: Account, agent: User) -> None:
    for length in range(6, 18):
        product = ProductFactory(account=alice, name=f"Kaftan {'n' * length}", sku=f"KAF-{length}")
    make_order(alice, items=[order_line(product_id=product.id, quantity=1)])
    page = edit_next(visit(viewport={"width": 375, "height": 740}))
    lines = page.locator("main small bdi").evaluate_all("all => all.map(sku => sku.getClientRects().length)")
    assert len(lines) > 6
    assert set(lines) == {1}


def test_how_much_is_found_is_read_out_and_not_all_of_it(visit: Visits, alice: Account, agent: User) -> None:
    for name in ("Robe noire", "Robe rouge", "Foulard"):
        ProductFactory(account=alice, name=name)
    make_order(alice)
    page = edit_next(visit())
    said = page.locator(".catalog").get_by_role("status")
    for typed, words in (("robe", "2 products to choose from"), ("nothing", "No product of this merchant")):
        page.get_by_label("Find a product").fill(typed)
        expect(said).to_contain_text(words)
    expect(page.locator(".catalog [aria-live]")).to_have_count(0)


# --- What is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [("customer_name", "\u200b"), ("wilaya", "nowhere"), ("discount", "999999999"), ("name0", "")],
)
def test_a_refused_edit_leads_to_what_was_refused(
    name: str, text: str, visit: Visits, alice: Account, agent: User
) -> None:
    order = make_order(alice)
    person = visit()
    page = person.sign_in("samira")
    call_next(page)
    page.goto(urljoin(page.url, f"edit/{order.id}/"))
    for width in (1366, 375):
        page.set_viewport_size({"width": width, "height": 740})
        page.locator(f"[name^={name}]").evaluate("(field, text) => { field.value = text }", text)
        if name == "name0":  # inside folded details
            page.locator("[name^=value0]").evaluate("field => { field.value = 'XL' }")
        page.locator(".bar button").click()
        expect(page.locator(f"[name^={name}]")).to_be_focused()
        error, bar = (page.locator(each).bounding_box() for each in (".edit-grid .errornote", ".bar"))
        assert error
        assert bar
        assert 0 < error["y"] < error["y"] + error["height"] <= bar["y"]
        assert person.wrongs == [f"422 {page.url}"]  # requested before the page was left
        person.wrongs.clear()


# --- Places ------------------------------------------------------------------------------------------------------


def test_enter_in_a_place_takes_the_first_and_saves_nothing(visit: Visits, alice: Account, agent: User) -> None:
    order = make_order(alice, customer_wilaya="Alger", customer_commune="Bab Ezzouar")
    page = edit_next(visit())
    address = page.url
    wilaya, commune = (page.get_by_role("combobox", name=name) for name in ("Wilaya", "Commune"))
    wilaya.fill("ora")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(wilaya).to_have_value("Oran")
    expect(page.get_by_role("listbox")).to_have_count(0)
    page.keyboard.press("Enter")  # with the list closed, too

    commune.focus()
    page.keyboard.type("es se")
    page.keyboard.press("Enter")  # before the list has come
    expect(commune).to_have_value("Es Senia")

    wilaya.fill("bli")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(wilaya).to_have_value("Blida")
    expect(commune).to_be_focused()
    assert page.url == address
    order.refresh_from_db()
    assert (order.wilaya_code, order.version) == ("16", 1)


@pytest.mark.parametrize("is_marked", [False, True])
def test_enter_takes_no_place_of_what_was_written_before(
    is_marked: bool, visit: Visits, alice: Account, agent: User
) -> None:
    make_order(alice)
    page = edit_next(visit())
    wilaya = page.get_by_role("combobox", name="Wilaya")
    wilaya.fill("o")
    expect(page.get_by_role("option").first).to_be_visible()
    if is_marked:
        page.keyboard.press("ArrowDown")
    held: list[Route] = []
    intercept(page, "**/regions/**", lambda route: held.append(route))
    wilaya.press_sequentially("ran")
    wilaya.press("Enter")
    eventually(lambda: page.wait_for_timeout(10) or len(held) == len("ran"))
    expect(wilaya).to_have_value("oran")
    for route in held:
        route.continue_()
    expect(wilaya).to_have_value("Oran")


def test_escape_dismisses_places_that_are_still_on_their_way(visit: Visits, alice: Account, agent: User) -> None:
    make_order(alice)
    page = edit_next(visit())
    wilaya = page.get_by_role("combobox", name="Wilaya")
    held: list[Route] = []
    intercept(page, "**/regions/**", lambda route: held.append(route), times=1)
    wilaya.fill("ora")
    eventually(lambda: page.wait_for_timeout(10) or held)
    wilaya.press("Escape")
    with page.expect_response("**/regions/**"):
        held[0].continue_()
    page.wait_for_timeout(500)
    expect(page.get_by_role("listbox")).to_have_count(0)
    expect(wilaya).to_be_focused()
    wilaya.press("ArrowDown")
    expect(page.get_by_role("option").first).to_contain_text("Oran")


def test_the_arrows_reach_every_place_from_both_ends(visit: Visits, alice: Account, agent: User) -> None:
    make_order(alice)
    page = edit_next(visit())
    page.get_by_role("combobox", name="Wilaya").fill("o")
    options = page.get_by_role("option")
    expect(options.first).to_be_visible()
    for key, marked in ("ArrowUp", -1), ("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0), ("ArrowUp", -1):
        page.keyboard.press(key)
        expect(options.nth(marked)).to_have_attribute("aria-selected", "true")
        expect(page.locator("[aria-selected=true]")).to_have_count(1)


def test_on_a_phone_the_places_are_scrolled_and_a_tap_chooses_one(visit: Visits, alice: Account, agent: User) -> None:
    make_order(alice)
    page = edit_next(visit(viewport={"width": 390, "height": 740}, has_touch=True, is_mobile=True))
    wilaya, places = page.get_by_role("combobox", name="Wilaya"), page.get_by_role("listbox")
    wilaya.fill("a")
    expect(page.get_by_role("option").nth(7)).to_be_visible()
    box = places.bounding_box()
    assert box
    finger = page.context.new_cdp_session(page)

    def touch(kind: str, up: int = 0) -> None:
        points = [{"x": box["x"] + box["width"] / 2, "y": box["y"] + 200 - up}] if kind != "touchEnd" else []
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart")
    for up in range(10, 121, 10):
        touch("touchMove", up)
    touch("touchEnd")
    expect(places).to_be_visible()
    assert places.evaluate("list => list.scrollTop") > 0
    expect(wilaya).to_have_value("a")
    expect(wilaya).to_be_focused()

    last = page.get_by_role("option").last
    name = last.locator("bdi").first.inner_text()
    last.tap()
    expect(wilaya).to_have_value(name)
    expect(places).to_have_count(0)
    expect(wilaya).to_be_focused()


def test_a_tap_chooses_no_place_that_came_under_the_finger(visit: Visits, alice: Account, agent: User) -> None:
    make_order(alice)
    page = edit_next(visit(viewport={"width": 390, "height": 740}, has_touch=True, is_mobile=True))
    wilaya, second = page.get_by_role("combobox", name="Wilaya"), page.get_by_role("option").nth(1)
    wilaya.fill("a")
    expect(second).to_be_visible()
    before, box = second.inner_text(), second.bounding_box()
    assert box
    finger = page.context.new_cdp_session(page)
    touched = [{"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}]
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": touched})
    wilaya.fill("t")
    expect(second).not_to_have_text(before)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": touched})
    now = second.locator("bdi").first.inner_text()
    expect(wilaya).to_have_value("t")
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(wilaya).to_have_value(now)


def test_places_of_which_half_arrives_are_not_those_of_the_text_before(
    visit: Visits, alice: Account, agent: User
) -> None:
    make_order(alice)
    page = edit_next(visit())
    wilaya = page.get_by_role("combobox", name="Wilaya")
    wilaya.fill("ora")
    expect(page.get_by_role("option").first).to_be_visible()
    intercept(page, "**/regions/**", lambda route: route.fulfill(body='{"places": ['), times=1)
    wilaya.fill("bli")
    expect(page.get_by_role("listbox")).to_have_count(0)
    wilaya.fill("blid")
    expect(page.get_by_role("option").first).to_contain_text("Blida")


def test_the_commune_stays_while_the_wilaya_is_the_same_place(visit: Visits, alice: Account, agent: User) -> None:
    """However the wilaya is spelled, even with a slip. Another one drops the commune; with its own it comes back."""
    order = make_order(alice, customer_wilaya="Alger", customer_commune="Bab Ezzouar")
    page = edit_next(visit())
    wilaya, commune = (page.get_by_role("combobox", name=name) for name in ("Wilaya", "Commune"))

    def write(text: str) -> None:
        with page.expect_response("**/edit/*/"):  # the page asks for the fee
            wilaya.fill(text)
            wilaya.blur()

    for text in ("Algerr", "nowhere", "Alger", "الجزائر"):
        write(text)
        expect(commune).to_have_value("Bab Ezzouar")
    write("Oran")
    expect(commune).to_have_value("")
    commune.fill("Es Senia")
    write("16")
    expect(commune).to_have_value("Bab Ezzouar")
    write("wahran")
    expect(commune).to_have_value("Es Senia")
    write("Alger")
    expect(commune).to_have_value("Bab Ezzouar")
    page.get_by_role("button", name="Save the changes").click()
    told(page, "The changes are saved.")
    order.refresh_from_db()
    assert (order.wilaya_code, order.customer_commune, order.commune_code) == ("16", "Bab Ezzouar", "1621")


def test_a_fee_that_was_agreed_stays_while_the_wilaya_does(visit: Visits, alice: Account, agent: User) -> None:
    make_order(alice, customer_wilaya="Alger")
    for wilaya_code, fee in (("16", 400), ("31", 700)):
        ShippingFee.objects.create(account=alice, wilaya_code=wilaya_code, home=fee)
    page = edit_next(visit())
    fee = page.get_by_label("Shipping fee", exact=True)
    fee.fill("250")
    for text, expected in (("Algerr", "250"), ("Alger", "250"), ("Oran", "700")):
        with page.expect_response("**/edit/*/"):
            page.get_by_role("combobox", name="Wilaya").fill(text)
            page.get_by_role("combobox", name="Wilaya").blur()
        expect(fee).to_have_value(expected)


def test_who_was_signed_out_signs_in_elsewhere_and_saves(visit: Visits, alice: Account, agent: User) -> None:
    order = make_order(alice)
    person = visit()
    page = edit_next(person)
    page.get_by_label("Name", exact=True).fill("Nadia Hamidi")
    Session.objects.all().delete()
    warned(page, "You have been signed out. What you wrote is kept here")
    warned(page, "If your password is refused, ask your supervisor.")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Open in a new tab").click()
    login = opened.value
    log_in(login, "samira")
    assert "/desk/" in login.url.partition("?")[0]
    expect(page.locator("#news")).to_be_hidden()
    assert page.locator(TOKENS_LEFT_TO_WEBKIT).count() == 0
    save = page.get_by_role("button", name="Save the changes")
    intercept(page, "**/edit/*/", lambda route: route.fulfill(status=503), times=1)
    save.click()
    expect(page.locator("#failed")).to_contain_text("This could not be done just now.")  # after other news, too
    settled(page)
    save.click()
    told(page, "The changes are saved.")
    assert len(person.wrongs) == 1
    person.wrongs.clear()
    order.refresh_from_db()
    assert order.customer_name == "Nadia Hamidi"


@pytest.mark.parametrize("statuses", [[500, 503], [302]])
def test_what_is_typed_outlives_a_save_that_failed(
    statuses: list[int], visit: Visits, alice: Account, agent: User
) -> None:
    """302: someone who has just been signed out is sent to the login."""
    order = make_order(alice)
    person = visit()
    page = edit_next(person)
    page.get_by_label("Name", exact=True).fill("Nadia Hamidi")
    save = page.get_by_role("button", name="Save the changes")
    if statuses == [302]:
        cookies, sessions = person.context.cookies(), list(Session.objects.all())
        Session.objects.all().delete()
        with page.expect_request(lambda request: request.method == "POST" and "/edit/" in request.url):
            save.click()
        settled(page)  # the page has found out that nobody is signed in
        Session.objects.bulk_create(sessions)
        person.context.add_cookies(cookies)
    else:
        for status in statuses:
            intercept(page, "**/edit/*/", lambda route, _, status=status: route.fulfill(status=status), times=1)
            with page.expect_response("**/edit/*/") as answer:
                save.click()
            assert answer.value.status == status
            expect(page.locator("#failed")).to_contain_text("This could not be done just now.")
            settled(page)
    expect(page.get_by_label("Name", exact=True)).to_have_value("Nadia Hamidi")
    save.click()
    told(page, "The changes are saved.")
    order.refresh_from_db()
    assert order.customer_name == "Nadia Hamidi"
    person.wrongs.clear()


def test_what_is_typed_outlives_a_save_after_the_customer_was_released(page: Page) -> None:
    intercept(page, "**/state/*", lambda route: route.abort())  # the page has not heard of it yet
    page.get_by_label("Name", exact=True).fill("Nadia Hamidi")
    Claim.objects.all().delete()
    page.unroute("**/state/*")
    page.get_by_role("button", name="Save the changes").click()
    warned(page, "The call was finished, or a supervisor released the customer.")
    settled(page)
    expect(page.get_by_label("Name", exact=True)).to_have_value("Nadia Hamidi")
    expect(page.get_by_role("button", name="Save the changes")).to_be_disabled()


@pytest.mark.parametrize("others", [0, 1])
def test_what_is_typed_outlives_a_save_after_the_order_was_decided(
    others: int, visit: Visits, alice: Account, order: Order, agent: User
) -> None:
    for _ in range(others):
        make_order(alice)  # of the same customer, who stays the agent's either way
    person = visit()
    page = edit_next(person)
    intercept(page, "**/state/**", lambda route: route.fulfill(status=503))  # the page has not heard of it yet
    page.get_by_label("Name", exact=True).fill("Nadia Hamidi")
    lifecycle.cancel(order.id, actor=Actor(Role.MERCHANT, "Boutique"))
    page.get_by_role("button", name="Save the changes").click()
    expect(page.locator("main .errornote")).to_contain_text("Already canceled by Boutique at")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Nadia Hamidi")
    page.unroute("**/state/**")
    warned(page, "Order 1: Already canceled by Boutique at" if others else "Already canceled by Boutique at")
    expect(page.get_by_text("Already canceled by Boutique at")).to_have_count(1)
    expect(page.get_by_role("button", name="Save the changes")).to_be_disabled()
    person.wrongs.clear()


def test_who_cannot_learn_whether_an_edit_is_saved_is_told(visit: Visits, order: Order, agent: User) -> None:
    person = visit()
    page = edit_next(person)
    page.get_by_label("Name", exact=True).fill("Nadia Hamidi")
    # The page's other looks, which say what it has seen, go through.
    intercept(page, "**/state/", lambda route: route.fulfill(status=503), times=1)
    page.get_by_role("button", name="Save the changes").click()
    expect(page.locator("#failed")).to_contain_text("The service does not answer. What you wrote is kept.")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Nadia Hamidi")
    warned(page, "You changed the order yourself at")
    assert len(person.wrongs) == 1
    person.wrongs.clear()


def test_who_has_saved_and_got_no_answer_is_told_so_when_they_press_again(
    visit: Visits, order: Order, agent: User
) -> None:
    person = visit()
    page = edit_next(person)
    page.get_by_label("Name", exact=True).fill("Nadia Hamidi")
    save = page.get_by_role("button", name="Save the changes")
    intercept(page, "**/state/**", lambda route: route.abort())  # or the page would hear of it before

    def lose_the_answer(route: Route) -> None:
        route.fetch(max_redirects=0)
        route.abort()

    intercept(page, "**/edit/*/", lose_the_answer, times=1)
    save.click()
    expect(page.locator("#failed")).to_contain_text("The service does not answer. What you wrote is kept.")
    settled(page)
    save.click()
    expect(page.locator("main .errornote")).to_contain_text("You changed the order yourself at")
    order.refresh_from_db()
    assert (order.customer_name, order.version) == ("Nadia Hamidi", 2)
    person.wrongs.clear()


def test_a_save_whose_page_does_not_come_can_be_pressed_again(visit: Visits, order: Order, agent: User) -> None:
    """After a refusal the form is sent once more for its page. Whoever stops that has half a minute to wait."""
    person = visit()
    person.page.clock.install()
    page = edit_next(person)
    page.get_by_label("Name", exact=True).fill("")
    page.locator("form[data-surcharge]").evaluate("form => { form.noValidate = true; form.submit = () => {}; }")
    save = page.get_by_role("button", name="Save the changes")
    with page.expect_response(lambda answer: answer.status == 422):
        save.click()
    page.clock.fast_forward(31_000)
    with page.expect_response(lambda answer: answer.status == 422):
        save.click()
    person.wrongs.clear()


def test_a_save_pressed_twice_is_sent_once_by_browsers_without_our_guard_too(
    visit: Visits, order: Order, agent: User
) -> None:
    """Safari 15 has no `requestSubmit`, without which pressing.js lets forms go at once."""
    person = visit()
    person.page.add_init_script("delete HTMLFormElement.prototype.requestSubmit")
    page = edit_next(person)
    page.get_by_label("Name", exact=True).fill("Nadia Hamidi")
    with held_up(page) as held:
        page.get_by_role("button", name="Save the changes").dblclick()
        page.wait_for_timeout(500)
    assert len(held) == 1
    told(page, "The changes are saved.")


def test_nor_is_it_sent_again_while_the_calls_page_is_on_its_way(visit: Visits, order: Order, agent: User) -> None:
    person = visit()
    person.page.add_init_script("delete HTMLFormElement.prototype.requestSubmit")
    page = edit_next(person)
    sent: list[Route] = []
    intercept(page, "**/edit/*/", lambda route: (sent.append(route), route.continue_()))  # none passes uncounted
    call = page.get_by_role("link", name="Back to the call").evaluate("link => link.href")
    page.get_by_label("Name", exact=True).fill("Nadia Hamidi")
    page.get_by_role("button", name="Save the changes").focus()
    with held_up(page, call) as held:
        page.keyboard.press("Enter")  # a click would wait for the page that is on its way
        eventually(lambda: page.wait_for_timeout(10) or held)
        page.keyboard.press("Enter")
        page.wait_for_timeout(500)
    told(page, "The changes are saved.")
    assert len(sent) == 1


def test_what_is_written_while_the_calls_page_is_on_its_way_is_sent_and_stays(
    visit: Visits, order: Order, agent: User
) -> None:
    person = visit()
    person.page.add_init_script("delete HTMLFormElement.prototype.requestSubmit")
    page = edit_next(person)
    sent, held, dropped = [], [], []
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    page.on("requestfailed", lambda request: dropped.append(request.url))
    call = page.get_by_role("link", name="Back to the call").evaluate("link => link.href")
    intercept(page, call, lambda route: held.append(route))  # never answered
    name = page.get_by_label("Name", exact=True)
    name.fill("Nadia Hamidi")
    name.press("Enter", no_wait_after=True)
    eventually(lambda: page.wait_for_timeout(10) or held)
    page.keyboard.type("-Saadi")
    with held_up(page):
        page.keyboard.press("Enter")
        eventually(lambda: page.wait_for_timeout(10) or len(sent) == 2)
        eventually(lambda: page.wait_for_timeout(10) or call in dropped)  # or it would replace what was written
    expect(page.locator("main .errornote")).to_contain_text("You changed the order yourself at")
    expect(name).to_have_value("Nadia Hamidi-Saadi")
    person.wrongs.clear()


def test_what_is_written_while_a_save_is_under_way_is_not_left_unasked(
    visit: Visits, order: Order, agent: User
) -> None:
    person = visit()
    page = edit_next(person)
    name = page.get_by_label("Name", exact=True)
    name.fill("Nadia Hamidi")
    with person.asked(), held_up(page) as held:
        name.press("Enter", no_wait_after=True)
        eventually(lambda: page.wait_for_timeout(10) or held)
        page.keyboard.type("-Saadi")
    expect(name).to_have_value("Nadia Hamidi-Saadi")
    name.press("Enter", no_wait_after=True)
    expect(page.locator("main .errornote")).to_contain_text("You changed the order yourself at")
    expect(name).to_have_value("Nadia Hamidi-Saadi")
    person.wrongs.clear()


def test_a_search_for_products_is_nothing_to_be_saved(visit: Visits, order: Order, agent: User) -> None:
    person = visit()
    person.page.add_init_script("delete HTMLFormElement.prototype.requestSubmit")
    page = edit_next(person)
    saves: list[Route] = []
    intercept(page, "**/edit/*/", lambda route: (saves.append(route), route.continue_()))  # none passes uncounted
    call = page.get_by_role("link", name="Back to the call").evaluate("link => link.href")
    name = page.get_by_label("Name", exact=True)
    name.fill("Nadia Hamidi")
    page.evaluate("""() => setInterval(() => {
        const form = document.querySelector("form[data-surcharge]");
        if ("saved" in form.dataset) form.elements.q.value = "Robe";
    }, 10)""")
    page.get_by_role("button", name="Save the changes").focus()
    with held_up(page, call) as held:
        page.keyboard.press("Enter")
        eventually(lambda: page.wait_for_timeout(10) or held)
        page.wait_for_timeout(500)
        page.keyboard.press("Enter")
        page.wait_for_timeout(500)
    told(page, "The changes are saved.")
    assert len(saves) == 1


def test_who_goes_back_to_a_save_that_was_refused_before_sends_nothing_again(
    visit: Visits, order: Order, agent: User
) -> None:
    person = visit()
    page = edit_next(person)
    commune, save = page.get_by_role("combobox", name="Commune"), page.get_by_role("button", name="Save the changes")
    commune.fill("Xyz")
    save.click()
    expect(commune).to_have_attribute("aria-invalid", "true")
    commune.fill(order.customer_commune)
    page.get_by_label("Quantity of Robe").fill("2")
    save.click()
    assert saved(page, order) == [("Robe", 2)]
    with page.expect_request("**/edit/*/") as request:
        page.go_back()
    assert request.value.method == "GET"
    expect(page.get_by_label("Quantity of Robe")).to_have_value("2")
    person.wrongs.clear()  # the refusal


def test_a_save_is_not_pressed_twice_when_half_a_minute_has_passed_since_the_one_before(
    visit: Visits, order: Order, agent: User
) -> None:
    person = visit()
    person.page.clock.install()
    page = edit_next(person)
    page.get_by_label("Name", exact=True).fill("Nadia Hamidi")
    save = page.get_by_role("button", name="Save the changes")
    intercept(page, "**/edit/*/", lambda route: route.fulfill(status=503), times=1)
    save.click()
    expect(page.locator("#failed")).to_contain_text("This could not be done just now.")
    settled(page)
    page.clock.fast_forward(28_000)
    with held_up(page) as held:
        save.click()
        eventually(lambda: page.wait_for_timeout(10) or held)
        page.clock.fast_forward(2_000)
        save.click()
        page.wait_for_timeout(500)
        assert len(held) == 1
    told(page, "The changes are saved.")
    assert len(person.wrongs) == 1
    person.wrongs.clear()


def test_no_old_total_is_shown_for_an_amount_that_only_the_service_can_read(
    visit: Visits, alice: Account, agent: User
) -> None:
    order = make_order(alice)
    page = edit_next(visit())
    fee = page.get_by_label("Shipping fee", exact=True)
    fee.fill("1.500,50")
    expect(page.locator("#total")).to_have_text("…")
    page.get_by_role("button", name="Save the changes").click()
    told(page, "The changes are saved.")
    order.refresh_from_db()
    assert (order.shipping_fee, order.total_amount) == (Decimal("1500.50"), Decimal("6001.00"))


def test_amounts_may_be_typed_in_arabic(visit: Visits, alice: Account, agent: User) -> None:
    order = make_order(alice)
    page = edit_next(visit())
    page.get_by_label("Shipping fee", exact=True).fill("١٬٥٠٠٫٢٥")
    expect(page.locator("#total")).to_have_text("6\u202f000.75")
    page.get_by_role("button", name="Save the changes").click()
    told(page, "The changes are saved.")
    order.refresh_from_db()
    assert (order.shipping_fee, order.total_amount) == (Decimal("1500.25"), Decimal("6000.75"))
