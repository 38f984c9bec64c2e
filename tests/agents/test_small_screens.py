"""The desk on phones, on low screens and magnified: everything to press or read is in sight."""

import pytest
from playwright.sync_api import expect

from agents.desk import claims
from codservice.accounts.models import Account, User
from tests.agents.desk_browser import DESK, open_panel, settled
from tests.factories import ProductFactory, make_order, order_line
from tests.harness.browser import Visit, Visits

pytestmark = pytest.mark.django_db(transaction=True)

LAPTOP_AT_200_PERCENT, PHONE_ON_ITS_SIDE, PHONE, SMALL_PHONE = (683, 384), (740, 360), (360, 740), (320, 640)
LANGUAGES = ["en", "fr", "ar-DZ"]
TOO_NARROW = """() => [...document.querySelectorAll(".button")].filter(e => e.checkVisibility())
    .filter(e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight).map(e => e.textContent)"""
# What stays in place while the page scrolls under it.
STAYS = """() => {
    scrollTo(0, (document.documentElement.scrollHeight - innerHeight) / 2);
    return [...document.querySelectorAll("main *")].filter(e => getComputedStyle(e).position === "sticky")
        .map(e => e.getBoundingClientRect()).reduce((sum, { top, bottom }) =>
            sum + Math.max(0, Math.min(bottom, innerHeight) - Math.max(top, 0)), 0) / innerHeight;
}"""
IS_ON_TOP = """e => {
    const { x, y, width, height } = e.getBoundingClientRect();
    return e.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}"""


def visit_screen(visit: Visits, agent: User, account: Account, size: tuple[int, int], language: str = "fr") -> Visit:
    """Visit a call of a customer with two orders."""
    for name in ("Chargeur rapide", "Écouteurs sans fil"):
        ProductFactory(account=account, name=name, price=1200)
    line = order_line(quantity=2, product_name="Robe", unit_price=1200)
    phones = {"phone": "00213550123456", "customer_phone_2": "0660123456"}
    of_karim = {"customer_name": "Karim", "items": [line], **phones}
    order, _ = (make_order(account, **of_karim, external_id=f"DEMO-{number}") for number in "12")
    claim_id = claims.take(order.id, agent=agent)
    person = visit(locale=language, viewport={"width": size[0], "height": size[1]})
    person.sign_in(agent.username)
    person.page.goto(f"{DESK}{claim_id}/")
    settled(person.page)
    return person


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("size", [PHONE, SMALL_PHONE])
def test_no_word_runs_out_of_its_button(
    size: tuple[int, int], language: str, visit: Visits, alice: Account, agent: User
) -> None:
    page = visit_screen(visit, agent, alice, size, language).page
    assert page.evaluate(TOO_NARROW) == []
    panels = page.locator("#outcome summary").all()
    assert len(panels) > 3
    for panel in panels:
        panel.click()
        assert page.evaluate(TOO_NARROW) == []


@pytest.mark.parametrize("size", [LAPTOP_AT_200_PERCENT, PHONE_ON_ITS_SIDE, PHONE])
def test_what_stays_in_sight_leaves_room_for_the_order(
    size: tuple[int, int], visit: Visits, alice: Account, agent: User
) -> None:
    page = visit_screen(visit, agent, alice, size).page
    assert page.evaluate(STAYS) < 0.6


def test_nothing_lies_over_what_was_opened(visit: Visits, alice: Account, agent: User) -> None:
    page = visit_screen(visit, agent, alice, SMALL_PHONE).page
    open_panel(page, "Annuler")
    page.evaluate("scrollTo(0, 0)")
    assert page.locator("#outcome [name=note]").evaluate(IS_ON_TOP)


def test_what_has_the_focus_is_not_under_what_stays(visit: Visits, alice: Account, agent: User) -> None:
    page = visit_screen(visit, agent, alice, PHONE).page
    page.evaluate("document.activeElement.blur()")
    focused = "document.activeElement.closest('.facts a, .facts button, .facts input, .facts summary')"
    seen = 0
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate(f"!!{focused}"):
            assert page.evaluate_handle(focused).evaluate(IS_ON_TOP), page.evaluate(f"{focused}.outerHTML")
            seen += 1
    assert seen > 4


def test_the_second_number_is_as_high_as_a_finger(visit: Visits, alice: Account, agent: User) -> None:
    page = visit_screen(visit, agent, alice, PHONE).page
    numbers = page.locator("a[href^='tel:']").filter(visible=True).all()
    assert len(numbers) == 2
    assert min(each.bounding_box()["height"] for each in numbers) >= 44


@pytest.mark.parametrize("size", [PHONE, SMALL_PHONE])
def test_no_amount_is_broken(size: tuple[int, int], visit: Visits, alice: Account, agent: User) -> None:
    page = visit_screen(visit, agent, alice, size).page
    page.locator(".edit").first.click()
    expect(page.locator("#found li").filter(visible=True)).to_have_count(2)  # every product, unasked
    amounts = "all => all.map(e => [e.textContent, e.getClientRects().length])"
    assert page.eval_on_selector_all("#found button span:last-child bdi", amounts) == [["1\u202f200", 1]] * 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_list_fits_every_screen(language: str, visit: Visits, alice: Account, supervisor: User) -> None:
    """320 pixels, which is also a screen of 1280 at 400 %; tablets; and the narrowest one that has it as a table."""
    make_order(alice, customer_wilaya="55", external_id="DEMO-1", customer_name="Abdelkader Benabderrahmane")
    person = visit(locale=language, viewport={"width": 320, "height": 640})
    person.sign_in(supervisor.username).goto("/console/orders/order/")
    for width in (320, 768, 820, 1024, 1240, 1241):
        person.page.set_viewport_size({"width": width, "height": 640})
        assert person.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_words_of_an_empty_field_begin_where_the_page_does(visit: Visits, agent: User) -> None:
    """In Arabic that is the right, where long hints used to lose their first word. Typed text has its own direction."""
    page = visit(locale="ar-DZ", viewport={"width": 360, "height": 740}).sign_in(agent.username)
    field = page.locator("[name=q]")
    direction = "e => getComputedStyle(e).direction"
    assert field.evaluate(direction) == "rtl"
    field.fill("0550")
    assert field.evaluate(direction) == "ltr"
