"""The console in a real browser: an agent's way to a decision, a printed order, a phone."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from playwright.sync_api import expect

from agents.desk import claims
from agents.models import CallingRules
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from orders import lifecycle
from tests import factories
from tests.agents.desk_browser import customers, settled
from tests.harness.browser import Visit

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_agent_finds_an_order_and_calls_its_customer(
    visit: Callable[..., Visit], alice: Account, agent: User, colleague: User
) -> None:
    factories.make_order(alice, customer_name="Lynda Aït", phone="0770 98 76 54")
    order = factories.make_order(alice)
    late = visit().sign_in("nadia")
    late.goto(f"/console/orders/order/{order.id}/")

    page = visit().log_in("samira")
    page.goto("/console/orders/order/")
    expect(page.get_by_label("Find an order")).to_be_focused()
    page.keyboard.type("0550 12 34 56")
    page.keyboard.press("Enter")
    expect(page.locator(".order-list tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Amine Benali").click()
    expect(page.get_by_role("link", name="0550 12 34 56")).to_have_attribute("href", "tel:+213550123456")
    page.get_by_role("button", name="Call this customer").click()
    expect(page.get_by_role("link", name="0550 12 34 56")).to_have_attribute("href", "tel:+213550123456")

    late.get_by_role("button", name="Call this customer").click()
    expect(late.locator(".messagelist .error")).to_have_text("Samira is calling this customer.")
    expect(late.get_by_role("button", name="Call this customer")).to_have_count(0)

    settled(page)
    page.get_by_label("Note").fill("Livrer le matin")
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator(".messagelist .success")).to_contain_text("The order of Amine Benali is confirmed.")
    order.refresh_from_db()
    assert (order.status, order.version, order.call_notes.count()) == ("confirmed", 2, 1)


def test_what_to_say_is_open_as_it_was_left(visit: Callable[..., Visit], alice: Account, agent: User) -> None:
    CallingRules.objects.create(account=alice, script_fr="Bonjour {nom}")
    first, second, third = (f"/console/desk/{claims.take(order.id, agent=agent)}/" for order in customers(alice, 3))
    page = visit(viewport={"width": 1366, "height": 768}).sign_in("samira")

    page.goto(first)
    expect(page.get_by_text("Bonjour Customer 0")).to_be_hidden()
    page.get_by_text("What to say").click()
    page.goto(second)
    expect(page.get_by_text("Bonjour Customer 1")).to_be_visible()
    page.get_by_text("What to say").click()
    expect(page.get_by_text("Bonjour Customer 1")).to_be_hidden()
    page.goto(third)
    settled(page)
    expect(page.get_by_text("Bonjour Customer 2")).to_be_hidden()


def test_what_to_say_is_open_on_wide_screens_until_somebody_closes_it(
    visit: Callable[..., Visit], alice: Account, agent: User
) -> None:
    CallingRules.objects.create(account=alice, script_fr="Bonjour {nom}")
    first, second = (f"/console/desk/{claims.take(order.id, agent=agent)}/" for order in customers(alice, 2))
    page = visit(viewport={"width": 1600, "height": 900}).sign_in("samira")
    for width, is_open in ((1600, True), (1366, False), (1600, True)):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(first)
        settled(page)
        expect(page.get_by_text("Bonjour Customer 0")).to_be_visible(visible=is_open)
    page.get_by_text("What to say").click()
    page.goto(second)
    settled(page)
    expect(page.get_by_text("Bonjour Customer 1")).to_be_hidden()


@pytest.mark.parametrize("is_secure", [True, False], ids=["secure", "insecure"])
def test_a_phone_number_is_copied_and_a_screen_reader_says_so(
    is_secure: bool, visit: Callable[..., Visit], alice: Account, agent: User
) -> None:
    claim_id = claims.take(factories.make_order(alice).id, agent=agent)
    person = visit(permissions=["clipboard-read", "clipboard-write"])
    if not is_secure:  # browsers have no clipboard over HTTP
        person.page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page = person.sign_in("samira", to=f"/console/desk/{claim_id}/")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    other = person.context.new_page()
    other.goto("/healthz")
    assert other.evaluate("navigator.clipboard.readText()") == "0550 12 34 56"


def test_what_could_not_be_copied_is_not_called_copied_and_stays_selected(
    visit: Callable[..., Visit], alice: Account, agent: User
) -> None:
    claim_id = claims.take(factories.make_order(alice).id, agent=agent)
    person = visit()
    person.page.add_init_script("""
        Object.defineProperty(navigator, 'clipboard', { value: { writeText: () => Promise.reject() } });
        document.execCommand = () => false""")
    page = person.sign_in("samira", to=f"/console/desk/{claim_id}/")
    page.get_by_role("button", name="Copy").click()
    page.wait_for_timeout(500)
    assert page.get_by_role("button", name="Copied").count() == 0
    assert page.evaluate("getSelection().toString()") == "0550 12 34 56"


def test_a_decided_order_takes_notes_and_a_supervisors_moves(
    visit: Callable[..., Visit], alice: Account, agent: User, supervisor: User
) -> None:
    order = factories.make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    page = visit().sign_in("karim", to=f"/console/orders/order/{order.id}/")
    offered = page.get_by_label("The call").locator("option").all_text_contents()
    assert not {"Call back later", "Handed over", "Skipped"} & set(offered)  # no queue would bring it back
    page.get_by_label("The call").select_option("Answered")
    page.get_by_label("Note", exact=True).fill("Livrer le matin")
    page.get_by_role("button", name="Save the note").click()
    expect(page.locator(".messagelist")).to_have_text("The call is noted.")
    expect(page.locator(".log").first).to_contain_text("Livrer le matin")

    settled(page)
    page.get_by_role("button", name="Handed to the courier").focus()
    for key in ("Tab", "Enter", "Tab"):  # to “Cancel the order…”, open it, to the reason
        page.keyboard.press(key)
    page.keyboard.type("Dup")
    page.keyboard.press("Tab")
    page.keyboard.type("CMD-12")
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist")).to_have_text("The order is now “Canceled”.")
    order.refresh_from_db()
    assert order.cancel_reason == "Duplicate: CMD-12"


def test_an_order_is_printed_without_what_is_pressed(visit: Callable[..., Visit], alice: Account, agent: User) -> None:
    order = factories.make_order(alice, customer_phone_2="0660123456")
    page = visit(viewport={"width": 360, "height": 740}).sign_in(
        agent.username, to=f"/console/orders/order/{order.id}/"
    )
    second = page.locator("dd a[href^='tel:']")
    assert second.bounding_box()["height"] >= 44
    pressed = page.locator("#header, .breadcrumbs, button")
    assert pressed.filter(visible=True).count() > 2
    page.emulate_media(media="print")
    for kept in (page.locator("h1"), second, page.locator(".sums .total"), page.get_by_text("History")):
        expect(kept).to_be_visible()
    assert pressed.filter(visible=True).count() == 0


@pytest.mark.parametrize("language", ["en", "ar"])
def test_pages_fit_a_phone_and_a_finger(
    language: str, visit: Callable[..., Visit], alice: Account, supervisor: User
) -> None:
    """At 360 pixels nothing runs off the page, and everything that is pressed is 44 pixels high."""
    order = factories.make_order(alice, customer_name="محمد الأمين بن عبد الرحمان " * 3, notes="x" * 300)
    long = {"external_id": "W" * 64, "customer_address": "W" * 200, "source": "W" * 40}
    long["items"] = [
        factories.order_line(
            quantity=2, unit_price=Decimal("2050.25"), product_name="W" * 200, attributes={"W" * 64: "W" * 64}
        )
    ]
    other, dead = (
        factories.make_order(alice, customer_name="W" * 200, **long | {"external_id": f"{n}{'W' * 60}"}) for n in "12"
    )
    lifecycle.cancel(dead.id, actor=Actor.of_staff(supervisor), reason="W" * 200)
    claim = claims.take(order.id, agent=supervisor)
    orders, call = "/console/orders/order/", f"/console/desk/{claim}/"
    pressed = (
        "main :is(button:not(.visually-hidden), select, summary,"
        "input:not([type=hidden], [type=checkbox], [type=radio])), .tabs a,"
        "a.phone, a.button, .people a, .edit, tbody a, label:has([type=checkbox], [type=radio])"
    )
    small = """selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
        .map(e => [e.outerHTML.slice(0, 80), e.getBoundingClientRect().height]).filter(([_, height]) => height < 44)"""
    person = visit(viewport={"width": 360, "height": 740})
    person.sign_in("karim")
    person.page.set_extra_http_headers({"Accept-Language": language})
    for path in (
        *(f"{orders}?q={number}" for number in ("", other.external_id)),
        *(f"{orders}{each.id}/" for each in (order, other, dead)),
        *("/console/desk/", call, f"{call}edit/{order.id}/", f"{call}edit/{other.id}/"),
    ):
        person.page.goto(path)
        assert person.page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr")
        assert person.page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert person.page.evaluate(small, pressed) == []
