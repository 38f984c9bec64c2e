"""Pressed twice, pressed too soon, pressed out of reach: in a browser, with a stopwatch."""

import asyncio
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from agents.desk import claims
from codservice import days
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from orders import lifecycle
from orders.models import CallNote, CallState, Order
from tests.agents.desk_browser import (
    DESK,
    SCREEN,
    SECOND,
    call,
    call_next,
    calls,
    customers,
    open_panel,
    press,
    settled,
    told,
)
from tests.agents.states import waits
from tests.chaos.doors import Door, Doors
from tests.factories import make_order, order_line
from tests.harness.background import Listening, eventually
from tests.harness.browser import OLDER, WITHOUT_HAS, Visit, Visits, intercept, log_in

pytestmark = pytest.mark.django_db(transaction=True)


def press_twice(page: Page, key: str, *, apart: int, by_mouse: bool) -> None:
    """Press twice, this many milliseconds apart, on whatever is there by then."""
    box = page.locator(f"[data-key='{key}']").bounding_box()
    assert box
    for pause in (apart, 0):
        if by_mouse:
            page.mouse.click(box["x"] + 10, box["y"] + 10)
        else:
            page.keyboard.press(key)
        page.wait_for_timeout(pause)


@pytest.mark.parametrize("apart", [150, 800])  # while the next screen is on its way, and when it is there
@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_double_press_decides_one_customer(
    script: bool, apart: int, visit: Visits, alice: Account, agent: User
) -> None:
    customers(alice, 3)
    page = visit(java_script_enabled=script).sign_in("samira")
    page.get_by_role("button", name="Next order").click()
    page.wait_for_url(SCREEN)
    for noted, (key, status) in enumerate((("1", "confirmed"), ("3", "pending_confirmation")), start=1):
        if script:
            settled(page)
        page.wait_for_timeout(SECOND)
        press_twice(page, key, apart=apart, by_mouse=not script)
        eventually(lambda noted=noted: page.wait_for_timeout(10) or CallNote.objects.count() >= noted)
        page.wait_for_timeout(SECOND)
        assert CallNote.objects.count() == noted, "the second customer was not called"
        expect(page.get_by_role("button", name="Confirm")).to_be_enabled()
        assert CallNote.objects.latest("created_at").order.status == status


def two_orders(account: Account) -> list[Order]:
    """Of one customer, and not alike."""
    names = ("Robe", "Montre")
    return [make_order(account, items=[order_line(quantity=1, product_name=name, unit_price=1)]) for name in names]


def test_nor_two_orders_of_one_customer(visit: Visits, alice: Account, agent: User) -> None:
    two_orders(alice)
    page = call(visit())
    settled(page)
    press_twice(page, "1", apart=400, by_mouse=False)
    told(page, "is confirmed")
    page.wait_for_timeout(SECOND)
    assert sorted(Order.objects.values_list("status", flat=True)) == ["confirmed", "pending_confirmation"]


def test_a_possible_duplicate_is_confirmed_with_a_second_press_that_is_no_double_one(
    visit: Visits, alice: Account, agent: User
) -> None:
    for _ in range(2):
        make_order(alice)
    page = call(visit())
    settled(page)
    press_twice(page, "1", apart=400, by_mouse=False)
    expect(page.locator(".sure")).to_contain_text("Confirm it all the same?")
    settled(page)
    assert CallNote.objects.count() == 0
    page.keyboard.press("1")
    told(page, "is confirmed")
    page.get_by_role("link", name="See the order").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Amine Benali")
    assert Order.objects.filter(status="confirmed").count() == 1


def test_a_double_click_ships_and_does_not_deliver(
    visit: Visits, alice: Account, agent: User, supervisor: User
) -> None:
    order = make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    page = visit().sign_in("karim", to=f"/console/orders/order/{order.id}/")
    ship = page.get_by_role("button", name="Handed to the courier")
    expect(ship).to_be_enabled()
    box = ship.bounding_box()
    assert box
    for _ in range(2):  # by then, Delivered and paid is there
        page.mouse.click(box["x"] + 10, box["y"] + 10)
        page.wait_for_timeout(500)
    expect(page.get_by_role("button", name="Delivered and paid")).to_be_enabled()
    order.refresh_from_db()
    assert order.status == "shipped"


@pytest.mark.parametrize("gone", ["offline", "the service"])
def test_out_of_reach_nothing_can_be_pressed_and_the_note_is_kept(
    gone: str, visit: Visits, live_server: Any, alice: Account, agent: User
) -> None:
    customers(alice, 1)
    there = urlsplit(live_server.url)
    with Doors(service=(there.hostname, there.port)) as doors:
        door = doors["service"]
        person = visit(address=f"http://localhost:{door.port}")
        _lose_and_find(person, door, gone)
    assert CallNote.objects.get().note == "Livrer le matin"


def _lose_and_find(person: Visit, door: Door, gone: str) -> None:
    page = call(person)
    settled(page)
    screen = page.url
    page.get_by_label("Note").fill("Livrer le matin")
    page.get_by_label("Note").blur()

    if gone == "offline":
        person.context.set_offline(True)
    else:
        door.is_closed = True
        door.cut()
    for key in ("1", "3", "e"):
        page.keyboard.press(key)
    expect(page.locator(".away")).to_contain_text("The service does not answer.")
    expect(page.get_by_role("button", name="Confirm")).to_be_disabled()
    for works in (page.get_by_role("button", name="Copy"), page.get_by_role("link", name="WhatsApp")):
        expect(works).to_have_css("opacity", "1")
    page.get_by_role("link", name="Edit").click()
    assert page.url == screen

    person.context.set_offline(False)
    door.open()
    expect(page.get_by_role("button", name="Confirm")).to_be_enabled()
    expect(page.get_by_label("Note")).to_have_value("Livrer le matin")
    person.wrongs.clear()  # the browser reports that it could not connect
    page.keyboard.press("1")
    told(page, "is confirmed")


def test_who_types_while_the_line_is_lost_for_a_moment_types_on_and_decides_nothing(
    visit: Visits, alice: Account, agent: User
) -> None:
    """Browsers take the focus from a disabled field, and a digit typed outside of a field is a decision."""
    (order,) = customers(alice, 1)
    person = visit()
    page = call(person)
    settled(page)
    open_panel(page, "Cancel…")
    details = page.locator("[name=details]")
    details.fill("a")
    person.context.set_offline(True)
    expect(details).to_be_disabled()
    expect(page.locator(".away")).to_contain_text("The service does not answer.")
    eventually(lambda: page.evaluate("document.activeElement === document.body"))
    page.keyboard.press("2")
    person.context.set_offline(False)
    settled(page)
    page.keyboard.press("2")
    expect(details).to_have_value("a2")

    person.context.set_offline(True)
    page.get_by_label("Note").click()  # and stays there
    person.context.set_offline(False)
    settled(page)
    page.keyboard.press("2")
    expect(page.get_by_label("Note")).to_have_value("2")
    page.wait_for_timeout(500)
    order.refresh_from_db()
    assert (order.status, CallNote.objects.count()) == ("pending_confirmation", 0)
    person.wrongs.clear()  # the browser reports that it could not connect


def test_so_does_who_writes_why_an_order_is_canceled(visit: Visits, alice: Account, supervisor: User) -> None:
    order = make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(supervisor))
    person = visit()
    page = person.sign_in("karim", to=f"/console/orders/order/{order.id}/")
    settled(page)
    page.get_by_text("Cancel the order…").click()
    details = page.locator("[name=details]")
    details.press_sequentially("CMD")
    person.context.set_offline(True)
    expect(details).to_be_disabled()
    eventually(lambda: page.evaluate("document.activeElement === document.body"))
    person.context.set_offline(False)
    settled(page)
    page.keyboard.type("-12")
    expect(details).to_have_value("CMD-12")
    person.wrongs.clear()  # the browser reports that it could not connect


def test_the_desk_stays_out_of_reach_too(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    person = visit()
    page = person.sign_in("samira")
    person.context.set_offline(True)
    page.keyboard.press("0")
    expect(page.locator(".away")).to_contain_text("The service does not answer.")
    assert page.url.endswith(DESK)
    person.context.set_offline(False)
    page.locator("html:not([data-dead])").wait_for(state="attached")
    call_next(page)
    calls(page, "Customer 0")
    person.wrongs.clear()


def test_the_desk_says_so_before_anything_is_pressed(visit: Visits, alice: Account, agent: User) -> None:
    person = visit()
    person.page.clock.install()
    page = person.sign_in("samira", to=DESK)
    intercept(page, "**/desk/now/", lambda route: route.abort())
    intercept(page, "**/healthz", lambda route: route.abort())
    page.clock.fast_forward(10_000)
    expect(page.locator(".away")).to_contain_text("The service does not answer.")
    page.unroute("**/desk/now/")
    page.unroute("**/healthz")
    page.clock.fast_forward(3_000)
    expect(page.locator(".away")).to_be_empty()


def test_the_desk_goes_on_though_a_link_in_its_lists_keeps_the_focus(
    visit: Visits, alice: Account, agent: User
) -> None:
    """As after a promise's order was opened in another tab. What is about to be pressed stays for half a minute."""
    (order,) = customers(alice, 1)
    waits(order, CallState.CALLBACK, agent=agent)
    person = visit()
    person.page.clock.install(time="2026-03-02T08:00")
    person.page.clock.pause_at("2026-03-02T08:01")
    page = person.sign_in("samira", to=DESK)
    promise, counts = page.get_by_role("link", name="Customer 0"), page.get_by_label("What waits")
    promise.focus()
    lifecycle.cancel(order.id, actor=Actor.of_staff(agent))
    page.clock.fast_forward(20_000)
    expect(counts).to_contain_text("0 calls I promised")
    expect(promise).to_be_visible()
    page.keyboard.press("Shift")
    make_order(alice, phone="0770000000")
    page.clock.fast_forward(20_000)
    expect(counts).to_contain_text("1 due now")
    expect(promise).to_be_visible()
    page.clock.fast_forward(10_000)
    expect(promise).to_have_count(0)


def test_the_desk_gives_the_focus_back_to_what_it_brings_anew(visit: Visits, alice: Account, agent: User) -> None:
    orders = customers(alice, 4)
    for order in orders:
        waits(order, CallState.CALLBACK, agent=agent)
    person = visit()
    person.page.clock.install(time="2026-03-02T08:00")
    person.page.clock.pause_at("2026-03-02T08:01")
    page = person.sign_in("samira", to=DESK)
    link, button = page.get_by_role("link", name="Customer 3"), page.get_by_role("button", name="Customer 3")
    # The focus given back is no use of the page, which would keep the list for half a minute more.
    for order, focused, wait in zip(orders, (link, button, button), (31_000, 31_000, 11_000), strict=False):
        if wait == 31_000:
            focused.focus()
        lifecycle.cancel(order.id, actor=Actor.of_staff(agent))
        page.clock.fast_forward(wait)
        expect(page.get_by_role("link", name=order.customer_name)).to_have_count(0)
        expect(focused).to_be_focused()
    page.keyboard.press("Enter")
    calls(page, "Customer 3")


def test_the_desk_brings_what_only_looks_the_same(
    visit: Visits, alice: Account, agent: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the focus lies in its lists, too; of what is the same, it takes no focus away."""
    later = timezone.now() + timedelta(minutes=20)
    monkeypatch.setattr(days, "today", later.astimezone(days.ALGIERS).date)  # the desk shows promises for today
    first, second = (waits(make_order(alice, customer_name="Customer 0"), CallState.CALLBACK, 10, agent) for _ in "12")
    person = visit()
    person.page.clock.install(time="2026-03-02T08:00")
    person.page.clock.pause_at("2026-03-02T08:01")
    page = person.sign_in("samira", to=DESK)
    promise, times = page.get_by_role("link", name="Customer 0"), page.locator("#now-lists time")
    promise.focus()
    promise.evaluate("link => { link.isKept = true; }")
    with page.expect_response("**/now/"):
        page.clock.fast_forward(31_000)
    page.wait_for_timeout(500)
    assert promise.evaluate("link => link.isKept && link === document.activeElement")

    expect(times).not_to_have_class("overdue")
    monkeypatch.setattr(timezone, "now", lambda: later)
    page.clock.fast_forward(11_000)
    expect(times).to_have_class("overdue")
    expect(promise).to_be_focused()

    lifecycle.cancel(first.id, actor=Actor.of_staff(agent))
    page.clock.fast_forward(11_000)
    expect(promise).to_have_attribute("href", f"/console/orders/order/{second.id}/")
    page.get_by_role("button", name="Call now").click()
    calls(page, "Customer 0")


def test_the_title_of_a_hidden_desk_counts_on(visit: Visits, alice: Account, agent: User) -> None:
    """Nothing else of it can be seen. It looks once a minute."""
    (order,) = customers(alice, 1)
    person, looks = visit(), list[str]()
    person.page.clock.install(time="2026-03-02T08:00")
    person.page.clock.pause_at("2026-03-02T08:01")
    page = person.sign_in("samira", to=DESK)
    intercept(page, "**/*", lambda route: (looks.append(route.request.url), route.continue_()))
    title = page.title()
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true })")
    waits(order, CallState.CALLBACK, agent=agent)
    page.clock.run_for(50_000)
    page.clock.run_for(10_000)
    expect(page).to_have_title(f"(1) {title}")
    assert len(looks) == 1


@pytest.mark.parametrize("minutes", [0, 90])
def test_the_desk_does_not_go_on_saying_that_nobody_is_due(
    minutes: int, visit: Visits, alice: Account, agent: User
) -> None:
    order = waits(customers(alice, 1)[0], CallState.RETRY, 30)
    person = visit()
    person.page.clock.install()
    page = person.sign_in("samira", to=DESK)
    page.keyboard.press("0")
    told(page, "No calls are due now.")
    said, line = page.locator(".messagelist .nobody"), page.locator("#now-next p")
    with page.expect_response("**/now/"):
        page.clock.fast_forward(10_000)
    page.wait_for_timeout(500)
    expect(said).to_be_visible()
    expect(line).to_be_hidden()  # it says the same
    waits(order, CallState.RETRY, minutes)
    page.clock.fast_forward(10_000)
    expect(said).to_have_count(0)
    if minutes:
        expect(line).to_be_visible()
    else:
        expect(page.get_by_label("What waits")).to_contain_text("1 due now")
        expect(line).to_have_count(0)


@pytest.mark.parametrize("change", ["another customer", "released"])
def test_the_desk_does_not_go_on_saying_that_colleagues_call_all_who_are_due(
    change: str, visit: Visits, alice: Account, agent: User, colleague: User
) -> None:
    customers(alice, 1)
    held = claims.next_customer(colleague)
    assert held is not None
    person = visit()
    person.page.clock.install()
    page = person.sign_in("samira", to=DESK)
    page.keyboard.press("0")
    told(page, "Your colleagues are already calling every customer who is due.")
    if change == "released":
        claims.release(held)
    else:
        make_order(alice, phone="0770000000")
    page.clock.fast_forward(10_000)
    expect(page.locator(".messagelist .nobody")).to_have_count(0)


@pytest.mark.parametrize("button", ["Next order", "Call now"])
def test_the_desk_may_be_used_after_signing_in_anew_in_another_tab(
    button: str, visit: Visits, alice: Account, agent: User
) -> None:
    (order,) = customers(alice, 1)
    waits(order, CallState.CALLBACK, agent=agent)
    person = visit()
    person.page.clock.install(time="2026-03-02T08:00")
    person.page.clock.pause_at("2026-03-02T08:01")
    page = person.sign_in("samira", to=DESK)
    page.get_by_role("link", name="Customer 0").focus()
    Session.objects.all().delete()
    person.context.clear_cookies()
    other = person.context.new_page()
    other.goto("/console/login/")
    log_in(other, "samira")
    with page.expect_response("**/now/"):
        page.clock.fast_forward(31_000)
    page.wait_for_timeout(500)
    page.get_by_role("button", name=button).click()
    calls(page, "Customer 0")


@pytest.mark.parametrize("focused", [True, False])
def test_the_desk_takes_nothing_away_under_a_finger(focused: bool, visit: Visits, alice: Account, agent: User) -> None:
    """A press moves no focus on what has it, nor at all in Safari and on some phones."""
    (order,) = customers(alice, 1)
    waits(order, CallState.CALLBACK, agent=agent)
    person = visit()
    person.page.clock.install(time="2026-03-02T08:00")
    person.page.clock.pause_at("2026-03-02T08:01")
    page = person.sign_in("samira", to=DESK)
    button, counts = page.get_by_role("button", name="Call now"), page.get_by_label("What waits")
    if focused:  # for so long that it is not in use, and the line was away
        button.focus()
        intercept(page, "**/now/", lambda route: route.abort())
        with page.expect_event("requestfailed"):
            page.clock.fast_forward(31_000)
        page.unroute("**/now/")
    else:
        page.evaluate("addEventListener('mousedown', event => event.preventDefault())")
    button.hover()
    page.mouse.down()
    before = counts.inner_text()
    make_order(alice, phone="0770000000")
    page.clock.fast_forward(11_000)
    expect(counts).not_to_have_text(before, use_inner_text=True)
    page.mouse.up()
    calls(page, "Customer 0")


class Cut(Listening):
    """A server whose answers break off behind their headers."""

    async def listen(self) -> list[asyncio.Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return [server]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<p>")
        writer.close()


def test_the_desk_says_so_when_an_answer_breaks_off(visit: Visits, alice: Account, agent: User) -> None:
    person = visit()
    person.page.clock.install()
    page = person.sign_in("samira", to=DESK)
    with Cut() as there:
        intercept(page, "**/desk/now/", lambda route: route.continue_(url=f"http://127.0.0.1:{there.port}/"))
        intercept(page, "**/healthz", lambda route: route.abort())
        page.clock.fast_forward(10_000)
        expect(page.locator(".away")).to_contain_text("The service does not answer.")


def test_a_browser_that_is_wrong_that_it_is_offline_does_not_stop_an_agent(
    visit: Visits, alice: Account, agent: User
) -> None:
    customers(alice, 1)
    person = visit()
    person.page.add_init_script("Object.defineProperty(navigator, 'onLine', { get: () => false })")
    page = person.sign_in("samira")
    page.get_by_role("button", name="Next order").click()
    calls(page, "Customer 0")


def test_the_desk_leads_to_the_login_when_the_session_has_ended(visit: Visits, agent: User) -> None:
    person = visit()
    person.page.clock.install()
    page = person.sign_in("samira", to=DESK)
    Session.objects.all().delete()
    page.clock.fast_forward(10_000)
    page.wait_for_url("**/console/login/**")


def test_the_desk_of_who_may_not_work_on_orders_any_more_says_so_once(visit: Visits, agent: User) -> None:
    person = visit()
    person.page.clock.install()
    page = person.sign_in("samira", to=DESK)
    agent.groups.clear()
    page.clock.fast_forward(10_000)
    expect(page.get_by_role("heading", level=1)).to_have_text("You cannot open this page")
    opened: list[str] = []
    page.on("request", lambda request: opened.append(request.url))
    page.clock.fast_forward(30_000)
    page.wait_for_timeout(500)
    assert opened == []
    assert person.wrongs == [f"403 {person.address}{DESK}now/"]
    person.wrongs.clear()


def test_what_is_stopped_may_be_pressed_again(visit: Visits, alice: Account, agent: User) -> None:
    """Stopped by Escape or the browser's own button while the service is slow; or no page came for half a minute."""
    customers(alice, 1)
    page = visit().sign_in("samira")
    page.clock.install()
    call_next(page)
    settled(page)
    page.get_by_label("Note").fill("Livrer le matin")
    page.get_by_label("Note").blur()
    begun, held = [], list[Route]()
    browser = page.context.new_cdp_session(page)
    browser.send("Page.enable")
    browser.on("Page.frameRequestedNavigation", lambda event: begun.append(event))
    intercept(page, "**/outcome/", lambda route: held.append(route), times=1)
    page.keyboard.press("1")
    # If Playwright heard of a navigation's beginning only after its end, it would wait for the end for ever.
    eventually(lambda: page.wait_for_timeout(10) or (begun and held))
    with page.expect_event("requestfailed"):
        held[0].abort("aborted")
    page.clock.fast_forward(30_000)
    settled(page)
    expect(page.get_by_label("Note")).to_have_value("Livrer le matin")
    page.keyboard.press("1")
    told(page, "is confirmed")
    assert CallNote.objects.get().note == "Livrer le matin"


@pytest.mark.parametrize("browser", OLDER)
def test_an_older_browser_decides_and_saves_an_old_form_too(
    browser: str, visit: Visits, alice: Account, agent: User
) -> None:
    (order,) = customers(alice, 1)
    page = visit().sign_in("samira")
    page.add_init_script(OLDER[browser])
    call_next(page)
    settled(page)
    page.get_by_role("button", name="Confirm").click()
    told(page, "is confirmed")
    page.goto(f"/console/orders/order/{order.id}/")
    page.locator("[name=outcome]").select_option("note")
    page.locator("[name=note]").fill("Livrer le matin")
    page.evaluate("dispatchEvent(new StorageEvent('storage', { key: 'pages' }))")
    page.get_by_role("button", name="Save the note").click()
    told(page, "The call is noted.")
    assert CallNote.objects.get(outcome="note").note == "Livrer le matin"


@pytest.mark.parametrize("browser", OLDER)
def test_an_older_browser_takes_keys_and_edits_the_chosen_order_too(
    browser: str, visit: Visits, alice: Account, agent: User
) -> None:
    _first, second = two_orders(alice)
    person = visit()
    person.page.add_init_script(OLDER[browser])
    if WITHOUT_HAS in OLDER[browser]:
        person.page.route("**/desk*.css", without_has)
    page = call(person)
    settled(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("e")
    page.wait_for_url(f"**/edit/{second.id}/")
    page.go_back()
    settled(page)
    page.keyboard.press("3")
    told(page, "“No answer” is noted")


def without_has(route: Route) -> None:
    """Answer with the style sheet as a browser without `:has` reads it."""
    answer = route.fetch()
    css = answer.text()
    assert "selector(:has(*))" in css
    route.fulfill(response=answer, body=css.replace("selector(:has(*))", "selector(:nothing)"))


@pytest.mark.parametrize("meanwhile", ["the page grows old", "another tab sends something"])
def test_what_makes_a_page_old_does_not_stop_what_is_being_sent(
    meanwhile: str, visit: Visits, alice: Account, agent: User
) -> None:
    """session.js asks for an old page before it sends a form, but not again for one that pressing.js is sending."""
    order = make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    person = visit()
    person.page.clock.install(time="2026-03-02T08:00")
    person.page.clock.pause_at("2026-03-02T08:01")
    page = person.sign_in("samira", to=f"/console/orders/order/{order.id}/")
    page.locator("[name=outcome]").select_option("note")
    page.locator("[name=note]").fill("Livrer le matin")
    asked, posted = list[Route](), list[str]()
    intercept(page, "**/healthz", lambda route: asked.append(route), times=1)
    page.on("request", lambda request: posted.append(request.url) if request.method == "POST" else None)
    page.clock.fast_forward(58_000)  # not a minute yet
    page.get_by_role("button", name="Save the note").click()
    eventually(lambda: page.wait_for_timeout(10) or asked)
    if meanwhile == "the page grows old":
        page.clock.fast_forward(4_000)
    else:
        page.evaluate("dispatchEvent(new StorageEvent('storage', { key: 'pages' }))")
    asked[0].continue_()
    told(page, "The call is noted.")
    assert posted == [f"{person.address}/console/orders/order/{order.id}/note/"]
    assert CallNote.objects.get(outcome="note").note == "Livrer le matin"


def test_the_desk_takes_nothing_away_that_is_being_sent(visit: Visits, alice: Account, agent: User) -> None:
    """Not every browser focuses a button that is clicked."""
    (order,) = customers(alice, 1)
    waits(order, CallState.CALLBACK, agent=agent)
    page = visit().sign_in("samira", to=DESK)
    looks: list[Route] = []
    intercept(page, "**/now/", lambda route: looks.append(route))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    eventually(lambda: page.wait_for_timeout(10) or looks)
    intercept(page, "**/healthz", lambda route: (page.wait_for_timeout(500), route.continue_()))
    page.get_by_role("button", name="Call now").evaluate("button => button.click()")
    looks[0].continue_()
    calls(page, "Customer 0")


# --- Keys that must not act twice --------------------------------------------------------------------------------


def test_the_key_that_opens_a_panel_chooses_nothing_in_it_at_once(visit: Visits, alice: Account, agent: User) -> None:
    """A trembling hand's double `2` must not choose “Customer unreachable”, and no key decides beside an open panel."""
    (order,) = customers(alice, 1)
    person = visit()
    person.page.clock.install()
    page = call(person)
    settled(page)
    page.clock.pause_at(timezone.now() + timedelta(minutes=1))  # its own clock does not wait for a busy browser
    page.keyboard.press("2")
    page.clock.fast_forward(300)
    page.keyboard.press("2")
    page.keyboard.press("Escape")
    for key in "75":  # 5 is “Switched off” when no panel is open
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    assert CallNote.objects.count() == 0
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    page.clock.fast_forward(SECOND)
    page.keyboard.press("2")
    told(page, "is canceled")
    order.refresh_from_db()
    assert order.cancel_reason == "Customer unreachable"


@pytest.mark.parametrize("by_mouse", [False, True])
def test_a_second_key_is_for_the_panel_opened_last_in_a_browser_that_leaves_others_open(
    by_mouse: bool, visit: Visits, alice: Account, agent: User
) -> None:
    """Before Chrome 120, Firefox 130 and Safari 17.2, panels of one name do not shut each other, as here of two."""
    (order,) = customers(alice, 1)
    page = call(visit())
    settled(page)
    page.locator("details:has(> [data-key='2'])").evaluate("panel => { panel.name = 'x' }")
    for key in "28":
        if by_mouse:
            page.locator(f"[data-key='{key}']").click()
            expect(page.locator(f"details[open]:has(> [data-key='{key}']) button").first).to_be_focused()
        else:
            page.keyboard.press(key)
    expect(page.locator("details[name][open]")).to_have_count(1)
    page.keyboard.press("1")
    told(page, "“Handed over” is noted")
    order.refresh_from_db()
    assert (order.status, CallNote.objects.get().outcome) == ("pending_confirmation", "handed_over")


@pytest.mark.parametrize("keys", ["1", "21"], ids=["confirm", "cancel"])
def test_a_key_that_was_meant_for_another_order_decides_nothing_once_the_screen_came_back(
    keys: str, visit: Visits, alice: Account, agent: User
) -> None:
    first, second = two_orders(alice)
    person = visit()
    page = call(person)
    settled(page)
    page.keyboard.press("ArrowRight")
    intercept(page, "**/state/*", lambda route: route.abort())  # or a look may say it before the keys do
    lifecycle.cancel(second.id, actor=Actor.of_staff(agent))
    for key in keys:
        page.keyboard.press(key)
        page.wait_for_timeout(SECOND)
    expect(page.get_by_text("Nothing was saved.")).to_be_visible()
    settled(page)
    page.keyboard.press("1")  # again
    expect(page.get_by_role("alert").filter(has_text="Nothing was saved.")).to_be_focused()
    page.wait_for_timeout(SECOND)
    assert Order.objects.get(id=first.id).status == "pending_confirmation"
    page.keyboard.press("1")
    told(page, "is confirmed")
    person.wrongs.clear()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_enter_decides_nothing_at_a_box_or_at_another_order_or_in_a_line(
    script: bool, visit: Visits, alice: Account, agent: User
) -> None:
    for _ in range(2):
        make_order(alice)
    page = call(visit(java_script_enabled=script))
    expect(page.get_by_role("button", name="Cancel as duplicate").first).to_be_visible()  # before all others
    if script:
        settled(page)
    page.wait_for_timeout(SECOND)
    page.locator("[name=pause]").focus()
    page.keyboard.press("Enter")
    page.get_by_role("radio", name="Order 2 of 2").focus()
    page.keyboard.press("Enter")
    if not script:  # a script presses the panel's button
        open_panel(page, "Cancel…")
        page.get_by_label("In your own words").first.fill("CMD-12")
        page.keyboard.press("Enter")
    page.wait_for_timeout(SECOND)
    press(page, "No answer")
    told(page, "“No answer” is noted")
    assert set(CallNote.objects.values_list("outcome", flat=True)) == {"no_answer"}
    assert set(Order.objects.values_list("status", flat=True)) == {"pending_confirmation"}


def test_a_half_typed_time_is_told_by_its_own_button_and_stops_no_other(
    visit: Visits, alice: Account, agent: User
) -> None:
    """A browser would refuse the whole form, and say so only where the field can be seen."""
    customers(alice, 1)
    page = call(visit())
    settled(page)
    at = page.locator("[name=at]")
    at.evaluate("field => { field.told = 0; field.addEventListener('invalid', () => { field.told += 1 }) }")
    page.keyboard.press("7")
    page.keyboard.press("4")
    expect(at).to_be_focused()
    page.keyboard.type("25")
    press(page, "Call back at this time")
    expect(at).to_be_focused()
    assert at.evaluate("field => [field.validity.badInput, field.told]") == [True, 1]
    for _ in range(2):  # out of the field, out of the panel
        page.keyboard.press("Escape")
    page.keyboard.press("1")
    told(page, "is confirmed")


def test_what_is_pressed_is_about_the_order_that_was_chosen_then(visit: Visits, alice: Account, agent: User) -> None:
    first, second = two_orders(alice)
    page = call(visit())
    settled(page)
    held: list[Route] = []
    intercept(page, "**/healthz", lambda route: held.append(route))
    page.keyboard.press("1")
    eventually(lambda: page.wait_for_timeout(10) or held)
    page.keyboard.press("ArrowRight")
    expect(page.locator("[type=radio][name=order]").nth(1)).to_be_disabled()
    held[0].continue_()
    told(page, "is confirmed")
    statuses = {order.id: order.status for order in Order.objects.all()}
    assert statuses == {first.id: "confirmed", second.id: "pending_confirmation"}


def test_shortcuts_are_switched_off_by_who_wants_none(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    page = visit().sign_in("samira")
    page.locator(".menu.person summary").click()
    page.get_by_role("button", name="Turn shortcuts off").click()
    told(page, "Shortcuts are off")
    page = visit().sign_in("samira")  # in another browser too
    page.keyboard.press("0")
    page.wait_for_timeout(500)
    assert page.url.endswith(DESK)
    expect(page.locator("kbd").first).to_be_hidden()
    page.get_by_role("button", name="Next order").click()
    calls(page, "Customer 0")
    settled(page)
    page.keyboard.press("1")
    page.wait_for_timeout(500)
    assert CallNote.objects.count() == 0
    page.locator(".menu.person summary").click()
    page.get_by_role("button", name="Turn shortcuts on").click()
    told(page, "Shortcuts are on.")
