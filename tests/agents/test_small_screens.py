"""The desk on phones, on low screens and magnified: everything to press or read is in sight."""

from datetime import time, timedelta
from itertools import product

import pytest
from playwright.sync_api import Page, expect

from agents.desk import claims
from agents.models import CallingPeriod
from codservice import days
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from orders import lifecycle
from orders.models import Order
from tests.agents.desk_browser import BROKEN, DESK, open_panel, settled
from tests.factories import ProductFactory, make_order, order_line
from tests.harness.browser import Visits

pytestmark = pytest.mark.django_db(transaction=True)

LAPTOP_AT_200_PERCENT, PHONE_ON_ITS_SIDE, PHONE, SMALL_PHONE = (683, 384), (740, 360), (360, 740), (320, 640)
LANGUAGES = ["en", "fr", "ar-DZ"]
TOO_NARROW = """() => [...document.querySelectorAll(".button")].filter(e => e.checkVisibility())
    .filter(e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight).map(e => e.textContent)"""
LINES = "all => all.map(e => new Set([...e.getClientRects()].map(part => part.top)).size)"
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


def visit_screen(visit: Visits, agent: User, account: Account, size: tuple[int, int]) -> Page:
    """Visit a call of a customer with two orders."""
    for name in ("Chargeur rapide", "Écouteurs sans fil"):
        ProductFactory(account=account, name=name, price=1200)
    line = order_line(quantity=2, product_name="Robe", unit_price=1200)
    phones = {"phone": "00213550123456", "customer_phone_2": "0660123456"}
    of_karim = {"customer_name": "Karim", "items": [line], **phones}
    order, _ = (make_order(account, **of_karim, external_id=f"DEMO-{number}") for number in "12")
    claim_id = claims.take(order.id, agent=agent)
    page = visit(viewport={"width": size[0], "height": size[1]}).sign_in(agent.username)
    page.set_extra_http_headers({"Accept-Language": "fr"})
    page.goto(f"{DESK}{claim_id}/")
    settled(page)
    return page


def test_no_word_runs_out_of_its_button(visit: Visits, alice: Account, agent: User) -> None:
    tomorrow = days.today() + timedelta(days=1)
    closed = {"first_day": tomorrow, "last_day": tomorrow, "is_closed": True}  # so that a button has a longer text
    CallingPeriod.objects.create(account=alice, opens_at=time.min, closes_at=time.max, **closed)
    page = visit_screen(visit, agent, alice, PHONE)
    for language, (width, height) in product(LANGUAGES, (PHONE, SMALL_PHONE)):
        page.set_extra_http_headers({"Accept-Language": language})
        page.set_viewport_size({"width": width, "height": height})
        page.reload()
        assert page.evaluate("document.documentElement.lang") == language.lower()
        assert page.evaluate(TOO_NARROW) == []
        settled(page)
        panels = page.locator("#outcome summary").all()
        assert len(panels) > 3
        for panel in panels:
            panel.click()
            assert page.evaluate(TOO_NARROW) == [], (language, width)


def test_what_stays_in_sight_leaves_room_for_the_order(visit: Visits, alice: Account, agent: User) -> None:
    """Nor does it lie over what was opened, or has the focus."""
    page = visit_screen(visit, agent, alice, LAPTOP_AT_200_PERCENT)
    for width, height in (LAPTOP_AT_200_PERCENT, PHONE_ON_ITS_SIDE, PHONE):
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate(STAYS) < 0.6, width
    assert page.locator(".row:has(:checked) .short-of").bounding_box() is None, "an empty line in the open order"
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    focused = "document.activeElement.closest('.facts a, .facts button, .facts input, .facts summary')"
    seen = 0
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate(f"!!{focused}"):
            assert page.evaluate_handle(focused).evaluate(IS_ON_TOP), page.evaluate(f"{focused}.outerHTML")
            seen += 1
    assert seen > 4
    page.set_viewport_size({"width": SMALL_PHONE[0], "height": SMALL_PHONE[1]})
    open_panel(page, "Annuler")
    page.evaluate("scrollTo(0, 0)")
    assert page.locator("#outcome [name=note]").evaluate(IS_ON_TOP)


def test_what_tells_closed_orders_apart_can_be_read(visit: Visits, alice: Account, agent: User) -> None:
    names = ("Robe kabyle brodée", "Foulard en soie")
    items = [order_line(quantity=2, product_name=name, unit_price=1200) for name in names]
    order, _ = (make_order(alice, items=items, external_id=f"DEMO-{number}") for number in "12")
    page = visit().sign_in(agent.username, to=f"{DESK}{claims.take(order.id, agent=agent)}/")
    closed = page.locator(".row:has(.flag):not(:has(:checked)) .short-of")
    expect(closed).to_have_text("2 × Robe kabyle brodée, 2 × Foulard en soie")
    for width in (1024, 1280, 1366, 1440):
        page.set_viewport_size({"width": width, "height": 768})
        assert closed.evaluate("e => e.scrollWidth <= e.clientWidth && e.clientWidth >= 150"), width
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert closed.bounding_box()["width"] >= 150


def test_the_field_for_a_note_is_named_where_its_label_has_no_room(visit: Visits, alice: Account, agent: User) -> None:
    page = visit_screen(visit, agent, alice, PHONE)
    assert page.locator("label[for=call-note]").evaluate("e => getComputedStyle(e).clipPath") == "inset(50%)"
    expect(page.get_by_placeholder("Note", exact=True)).to_be_visible()


def test_numbers_are_as_high_as_a_finger_and_no_amount_is_broken(visit: Visits, alice: Account, agent: User) -> None:
    page = visit_screen(visit, agent, alice, PHONE)
    numbers = page.locator("a[href^='tel:']").filter(visible=True).all()
    assert len(numbers) == 2
    assert min(each.bounding_box()["height"] for each in numbers) >= 44
    page.locator(".edit").first.click()
    for width, height in (PHONE, SMALL_PHONE):
        page.set_viewport_size({"width": width, "height": height})
        expect(page.locator("#found li").filter(visible=True)).to_have_count(2)  # every product, unasked
        amounts = "all => all.map(e => [e.textContent, e.getClientRects().length])"
        assert page.eval_on_selector_all("#found button span:last-child bdi", amounts) == [["1\u202f200", 1]] * 2
        assert page.evaluate(BROKEN, "#found .button") == [], width
    page.goto(f"/console/orders/order/{Order.objects.earliest('id').id}/")
    for width, height in (PHONE, SMALL_PHONE):
        page.set_viewport_size({"width": width, "height": height})
        heights = page.locator(".sums dd").evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
        assert len(heights) == 3  # fee, supplement and total
        assert max(heights) < 40, "the currency stands below the amount"


def test_a_number_can_be_copied_on_a_phone(visit: Visits, alice: Account, agent: User) -> None:
    """To call with another one."""
    page = visit_screen(visit, agent, alice, PHONE)
    copy = page.locator("[data-copy=phone]")
    for language, (width, height) in product(LANGUAGES, (PHONE, SMALL_PHONE)):
        page.set_extra_http_headers({"Accept-Language": language})
        page.set_viewport_size({"width": width, "height": height})
        page.reload()
        expect(copy).to_be_visible()
        assert copy.evaluate(IS_ON_TOP), (language, width)
        assert page.evaluate(BROKEN, ".phone-row") == [], (language, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (language, width)
    copy.click()
    expect(copy).to_have_text("تم النسخ")


def test_keys_are_shown_where_they_are(visit: Visits, alice: Account, agent: User) -> None:
    """A laptop has them at 200 % zoom too, and a phone on its side has none."""
    page = visit_screen(visit, agent, alice, LAPTOP_AT_200_PERCENT)
    expect(page.locator(".call kbd").filter(visible=True)).to_have_count(15)
    for language in LANGUAGES:
        page.set_extra_http_headers({"Accept-Language": language})
        page.reload()
        settled(page)
        arrows = [each.bounding_box() for each in page.locator(".hint kbd").all()[:2]]
        assert arrows[0]["x"] + arrows[0]["width"] + 2 < arrows[1]["x"], language
        for panel in page.locator("#outcome summary").all():
            assert page.evaluate(TOO_NARROW) == []
            panel.click()
            expect(page.locator("#outcome details[open] .panel kbd").first).to_be_visible()
    claim = page.url
    phone = visit(viewport={"width": 740, "height": 360}, has_touch=True, is_mobile=True).sign_in("samira", to=claim)
    expect(phone.get_by_role("heading", level=1)).to_have_text("Karim")
    expect(phone.locator(".call kbd, .hint").filter(visible=True)).to_have_count(0)


def test_a_rate_keeps_its_percent_sign(visit: Visits, alice: Account, agent: User) -> None:
    lifecycle.confirm(make_order(alice).id, actor=Actor.of_staff(agent))
    page = visit().sign_in(agent.username)
    rates = page.locator(".today :is(strong, span)", has_text="%")
    for language in LANGUAGES:
        page.set_extra_http_headers({"Accept-Language": language})
        page.reload()
        for width in range(320, 720, 10):
            page.set_viewport_size({"width": width, "height": 640})
            assert rates.evaluate_all(LINES) == [1, 1], (language, width)


def test_the_list_fits_every_screen(visit: Visits, alice: Account, supervisor: User) -> None:
    """320 pixels, which is also a screen of 1280 at 400 %; tablets; and the narrowest one that has it as a table."""
    make_order(alice, customer_wilaya="55", external_id="DEMO-1", customer_name="Abdelkader Benabderrahmane")
    page = visit().sign_in(supervisor.username)
    for language in LANGUAGES:
        page.set_extra_http_headers({"Accept-Language": language})
        page.goto("/console/orders/order/")
        assert page.evaluate("document.documentElement.lang") == language.lower()
        for width in (320, 768, 820, 1024, 1240, 1241):
            page.set_viewport_size({"width": width, "height": 640})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, language


def test_no_word_of_the_seasons_is_broken(visit: Visits, alice: Account, supervisor: User) -> None:
    """Whatever the notes about other seasons need beside it."""
    today, whole_day = days.today(), {"opens_at": time(8), "closes_at": time(20)}
    for account, name, first, last, is_closed in (
        (None, "Ramadan", 0, 29, False),
        (alice, "Inventaire", 3, 3, True),
        (None, "Aïd", 30, 31, True),
        (alice, "fermé aujourd'hui", 0, 0, True),
    ):
        span = {"first_day": today + timedelta(days=first), "last_day": today + timedelta(days=last)}
        CallingPeriod.objects.create(account=account, name=name, is_closed=is_closed, **span, **whole_day)
    page = visit().sign_in(supervisor.username)
    for language in LANGUAGES:
        page.set_extra_http_headers({"Accept-Language": language})
        page.goto("/console/periods/")
        assert page.locator(".row-action .button").count() >= 4
        for width in (1280, 1024, 800, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate(BROKEN, ".plain-list tbody") == [], (language, width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (language, width)


def test_the_words_of_an_empty_field_begin_where_the_page_does(visit: Visits, agent: User) -> None:
    """In Arabic that is the right, where long hints used to lose their first word. Typed text has its own direction."""
    page = visit(locale="ar-DZ", viewport={"width": 360, "height": 740}).sign_in(agent.username)
    field = page.locator("[name=q]")
    assert field.evaluate("e => getComputedStyle(e).textOverflow") == "ellipsis", "a hint that is cut without a sign"
    direction = "e => getComputedStyle(e).direction"
    assert field.evaluate(direction) == "rtl"
    field.fill("0550")
    assert field.evaluate(direction) == "ltr"


def test_the_hint_of_the_desks_search_is_whole_on_a_phone(visit: Visits, agent: User) -> None:
    page = visit(viewport={"width": 390, "height": 740}).sign_in(agent.username)
    left_over = """field => {
        const { font, paddingLeft, paddingRight } = getComputedStyle(field);
        const words = Object.assign(document.createElement("canvas").getContext("2d"), { font });
        const room = field.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
        return room - words.measureText(field.placeholder).width;
    }"""
    for language in LANGUAGES:
        page.set_extra_http_headers({"Accept-Language": language})
        page.goto(DESK)
        assert page.locator("[name=q]").evaluate(left_over) > 0, language


@pytest.mark.parametrize("where", ["list", "edit"])
def test_magnified_four_times_no_bar_lies_over_what_has_the_focus(
    where: str, visit: Visits, alice: Account, agent: User, supervisor: User
) -> None:
    order = make_order(alice)
    for _ in range(3):
        make_order(alice, customer_name="Lynda")
    claim_id = claims.take(order.id, agent=agent)
    person = visit(viewport={"width": 320, "height": 180})
    if where == "edit":
        page = person.sign_in("samira", to=f"{DESK}{claim_id}/edit/{order.id}/")
        bar, all_of = ".bar", page.locator("section input:visible")
    else:
        page = person.sign_in("karim", to="/console/orders/order/?status=all")
        bar, all_of = ".bulk", page.locator("tbody a:visible")
        page.locator("[name=chosen]").first.check()
    expect(page.locator(bar)).to_have_count(1)
    page.wait_for_load_state()
    assert all_of.count() > 3
    assert page.evaluate(STAYS) < 0.6
    for each in all_of.all():
        each.focus()
        assert each.evaluate(IS_ON_TOP), each.evaluate("e => e.outerHTML")
