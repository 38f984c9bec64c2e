"""A supervisor's pages in a real browser: the keyboard alone, both directions, a phone; and what axe-core says."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from agents.desk import claims
from agents.models import Claim
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from orders import lifecycle
from orders.models import CallNote, CallState, Order
from tests import factories
from tests.harness.browser import TIMES_LEFT_TO_WEBKIT

pytestmark = pytest.mark.django_db(transaction=True)

# How high the first words of a row's cells stand.
LINES = """row => [...row.cells].map(cell => {
    const range = document.createRange();
    range.selectNodeContents(document.createTreeWalker(cell, NodeFilter.SHOW_TEXT).nextNode());
    return Math.round(range.getBoundingClientRect().top);
})"""


@pytest.fixture
def pages(alice: Account, agent: User, supervisor: User) -> list[str]:
    """Every page of a supervisor, with something on it."""
    orders = [
        factories.make_order(alice, customer_name=name, phone=f"055000000{n}", external_id=f"CMD-{n}")
        for n, name in enumerate(["محمد الأمين بن عبد الرحمان " * 3, "Lynda Aït", "Amine Benali"])
    ]
    for order, outcome in zip(orders, ("no_answer", "answered", "busy"), strict=True):
        lifecycle.add_call_note(
            order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome(outcome), note="x" * 150)
        )
    lifecycle.confirm(orders[1].id, actor=Actor.of_staff(agent))
    claims.take(orders[2].id, agent=agent)
    Order.objects.filter(id=orders[0].id).update(call_state=CallState.REVIEW, call_attempts=6)
    lists = ["orders/order/?status=all&wilaya=16", "review/", "claims/", "moves/", "people/", "rules/", "codes/"]
    every = ["bulk/?every=1&status=all&action=cancel", "bulk/?every=1&action=assign", "bulk/?every=1&action=delivered"]
    figures = ["figures/", "figures/?by=agent&show=calls", f"figures/?first=x&show={'x' * 100}"]
    own = [f"people/{agent.id}/{page}" for page in ("", "day/", "serves/")]
    singles = ["people/new/", *own, f"rules/{alice.id}/"]
    return [f"/console/{path}" for path in [*lists, *every, *figures, *singles]]


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("ar", "dark")])
def test_every_page_is_for_everybody(
    language: str,
    scheme: str,
    visit: Callable[..., Any],
    axe: Callable[[Page], None],
    supervisor: User,
    pages: list[str],
) -> None:
    """No rule of axe-core is broken, in light or dark. On a phone nothing runs off, and fingers hit their targets."""
    pressed = (
        "main :is(button:not(.visually-hidden), select, summary, input:not([type=hidden], [type=checkbox])),"
        "#rooms a, .tabs a, tbody th a"
    )
    small = """selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
        .map(e => [e.outerHTML.slice(0, 80), e.getBoundingClientRect().height]).filter(([_, height]) => height < 44)"""
    person = visit(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = person.sign_in(supervisor.username)
    page.set_extra_http_headers({"Accept-Language": language})
    for path in pages:
        page.goto(path)
        assert page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert page.evaluate(TIMES_LEFT_TO_WEBKIT) == 0, path
        assert page.locator("h1").evaluate("e => getComputedStyle(e).fontWeight") == "600", path
        assert page.evaluate(small, pressed) == [], path
        assert len(page.content().encode()) < 100_000
        for field in page.locator("[type=number]").all():
            assert field.evaluate("e => getComputedStyle(e).direction") == "ltr", path
        axe(page)
        page.set_viewport_size({"width": 1366, "height": 768})
        axe(page)
        page.set_viewport_size({"width": 360, "height": 740})
    person.wrongs[:] = [wrong for wrong in person.wrongs if "422" not in wrong]  # the page of an invalid period


def test_on_a_phone_a_bar_stands_whole_with_its_value(
    visit: Callable[..., Any], alice: Account, supervisor: User, agent: User
) -> None:
    order = factories.make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    page = visit(viewport={"width": 360, "height": 740}).sign_in(supervisor.username)
    for language, direction in (("ar", "rtl"), ("en", "ltr")):
        page.set_extra_http_headers({"Accept-Language": language})
        page.goto("/console/figures/?by=agent")
        assert page.evaluate("document.documentElement.dir") == direction
        row = page.locator("dl[aria-labelledby=chart-title] > div").filter(has_text="Samira")
        assert "100" in row.locator("dd bdi").inner_text()
        for part in ("svg", "dd bdi"):
            box = row.locator(part).bounding_box()
            assert box, (part, language)
            assert 0 < box["x"] < box["x"] + box["width"] < 360, (part, language)
    assert len(set(page.locator(".figures .total").evaluate(LINES))) == 1  # whether or not a number is a link


def test_the_days_under_bars_stand_apart_on_a_small_phone(
    visit: Callable[..., Any], alice: Account, supervisor: User
) -> None:
    factories.make_order(alice)
    of_merchant = visit().sign_in(alice.holder.email, "/account/login", to="/account/")
    of_supervisor = visit().sign_in(supervisor.username, to="/console/figures/")
    for page in (of_merchant, of_supervisor):
        for width, least in ((320, 4), (360, 4), (412, 7)):
            page.set_viewport_size({"width": width, "height": 740})
            for chart in page.locator("svg.chart").all():
                days = chart.locator("text", has_text="/").filter(visible=True)
                boxes = [day.bounding_box() for day in days.all()]
                assert len(boxes) >= least
                assert all(left["x"] + left["width"] + 2 < right["x"] for left, right in pairwise(boxes)), width


def test_orders_are_moved_with_the_keyboard_alone(
    visit: Callable[..., Any], axe: Callable[[Page], None], alice: Account, supervisor: User, agent: User
) -> None:
    for number in range(2):
        order = factories.make_order(alice, phone=f"055000000{number}", customer_name=f"Customer {number}")
        lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    page = visit().sign_in(supervisor.username, to="/console/orders/order/?status=confirmed")
    page.get_by_label("Choose the order of Customer 0").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("status")).to_have_text("Chosen: 1")
    page.get_by_label("With the chosen orders").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Change to “Shipped”")).to_be_visible()
    expect(page.locator("main")).to_contain_text("1 order can be changed. Nothing has been changed yet.")
    axe(page)
    page.get_by_role("button", name="Change to “Shipped”").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist")).to_have_text("1 order is now “Shipped”.")
    assert sorted(Order.objects.values_list("customer_name", "status")) == [
        ("Customer 0", "shipped"),
        ("Customer 1", "confirmed"),
    ]


def test_enter_at_a_box_of_the_review_list_calls_nobody(
    visit: Callable[..., Any], order: Order, supervisor: User
) -> None:
    Order.objects.update(call_state=CallState.REVIEW)
    page = visit().sign_in(supervisor.username, to="/console/review/")
    box, sent = page.get_by_label("Choose the order of Amine Benali"), list[str]()
    page.on("request", lambda request: sent.append(request.url))
    box.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    first = page.locator(f"form:has(#call-{order.id}) button").first
    assert first.bounding_box() is not None, "Safari passes over a button that is not rendered"
    page.get_by_role("link", name="In progress").click()
    page.wait_for_url("**/console/claims/")
    assert not [address for address in sent if "/desk/" in address or "/review/" in address]
    assert not Claim.objects.exists()


def test_enter_at_a_box_of_a_bulk_update_changes_nothing(
    visit: Callable[..., Any], order: Order, agent: User, supervisor: User
) -> None:
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    page = visit().sign_in(supervisor.username, to="/console/moves/")
    page.get_by_label("Orders").fill(str(order.id))
    page.get_by_label("Change status to").select_option("shipped")
    page.get_by_role("button", name="Show the orders").click()
    box, sent = page.get_by_label("Choose the order of Amine Benali"), list[str]()
    expect(box).to_be_checked()
    page.on("request", lambda request: sent.append(request.url))
    box.focus()
    page.keyboard.press("Enter")
    first = page.locator("form:has([name=seen]) button").first
    assert first.bounding_box() is not None, "Safari passes over a button that is not rendered"
    page.get_by_role("link", name="In progress").click()
    page.wait_for_url("**/console/claims/")
    assert not [address for address in sent if "/moves/" in address]
    order.refresh_from_db()
    assert order.status == "confirmed"


def test_the_bar_says_how_many_are_chosen_and_hides_nothing(
    visit: Callable[..., Any], alice: Account, supervisor: User
) -> None:
    for number in range(12):
        factories.make_order(alice, phone=f"05500000{number:02}", customer_name=f"Customer {number}")
    page = visit(viewport={"width": 1366, "height": 500}).sign_in(supervisor.username, to="/console/orders/order/")
    said, boxes = page.get_by_role("status"), page.get_by_role("checkbox", name="Choose the order of")
    expect(said).to_have_text("Chosen: 0")
    expect(page.get_by_role("button", name="Continue")).to_be_hidden()  # until there is something to do it to
    page.get_by_label("This page").check()
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    expect(said).to_have_text("Chosen: 12")
    boxes.first.uncheck()
    expect(said).to_have_text("Chosen: 11")
    page.get_by_label("All that match the filter: 12").check()
    expect(said).to_have_text("Chosen: 12")
    expect(boxes.first).to_be_disabled()
    page.get_by_label("All that match the filter: 12").uncheck()
    boxes.first.focus()
    for _number in range(23):  # each row has a box and a link
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement.getBoundingClientRect().bottom"
            " <= document.querySelector('.bulk').getBoundingClientRect().top + 1"
        )
    # After going back, the same orders are chosen, though the list has changed.
    page.goto("/console/review/")
    lifecycle.cancel(Order.objects.get(customer_name="Customer 0").id, actor=Actor.of_staff(supervisor))
    page.go_back()
    expect(boxes).to_have_count(11)
    expect(said).to_have_text("Chosen: 11")


def test_a_supervisor_sets_a_customer_free_and_calls_from_the_review_list(
    visit: Callable[..., Any], order: Order, agent: User, supervisor: User
) -> None:
    claims.take(order.id, agent=agent)
    Order.objects.update(call_state=CallState.REVIEW, call_attempts=6)
    page = visit().sign_in(supervisor.username)
    page.get_by_role("link", name="Review").click()
    expect(page.get_by_text("Samira is calling")).to_be_visible()
    page.get_by_role("link", name="In progress").click()
    expect(page.locator("#rooms [aria-current]")).to_have_text("In progress")
    page.get_by_role("button", name="Release Amine Benali").click()
    expect(page.locator(".messagelist")).to_contain_text("The customer is released")
    page.get_by_role("link", name="Review").click()
    page.get_by_role("button", name="Call Amine Benali").click()
    page.wait_for_url("**/console/desk/*/")
    expect(page.locator("main")).to_contain_text("Amine Benali")
