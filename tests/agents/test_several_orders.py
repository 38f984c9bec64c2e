"""A customer with several orders: each is chosen and decided by itself, or all are confirmed by one answer."""

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from functools import partial

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import CallingRules
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, User
from orders import editing, lifecycle
from orders.models import MAX_LINES, CallNote, CallState, Order, Status
from tests.agents.screens import DESK, Screen, next_order, order_page, sums, take, told
from tests.agents.states import statuses
from tests.factories import ProductFactory, make_order, order_line
from tests.harness.background import at_once
from tests.harness.client import browser_of
from webhooks.models import Event


def orders_of(alice: Account, charlie: Account, count: int = 3) -> list[Order]:
    return [
        make_order(
            (alice, charlie)[number % 2], items=[order_line(quantity=1, product_name=f"P{number}", unit_price=1)]
        )
        for number in range(count)
    ]


def test_an_address_that_all_share_is_said_once(alice: Account, charlie: Account, browser: Client) -> None:
    orders = orders_of(alice, charlie)
    screen = take(browser, orders[0])
    assert screen.text.count("12 rue Didouche Mourad") == 1
    editing.edit(orders[1].id, editing.Edit(customer_address="Cité 5 juillet"), actor=Actor.of_command("test"))
    text = browser.get(screen.address).content.decode()
    assert text.count("<bdi>12 rue Didouche Mourad</bdi></dd>") == 2


def test_the_choice_moves_on_to_the_next_order(alice: Account, charlie: Account, browser: Client) -> None:
    first, second, third = orders_of(alice, charlie)
    screen = take(browser, first)
    response = screen.press("confirm", order=str(second.id))
    assert response.url == f"{screen.address}?order={third.id}"
    screen = Screen(browser, response.url)
    assert browser.get(response.url).context["chosen"] == str(third.id)
    assert screen.press("cancel", order=str(third.id)).url == screen.address  # back to the first
    assert statuses() == ["pending_confirmation", "confirmed", "canceled"]


def test_of_the_orders_that_are_not_chosen_ten_lines_are_shown(alice: Account, browser: Client) -> None:
    """Twenty such orders came to 18 MB in full, and to 250 MB with this text, which a merchant may write."""
    CallingRules.objects.create(account=alice, script_fr="{product}" * 222, script_ar="{product}" * 222)
    link, details = f"https://a.example/{'i' * 2000}", {f"{n}".ljust(64, "k"): "v" * 255 for n in range(20)}
    robes = [ProductFactory(account=alice, script="s" * 2000, image_url=link) for _ in range(MAX_LINES)]
    items = [
        order_line(quantity=1, product_id=robe.id, product_name=f"[{n}]".ljust(255, "p"), attributes=details)
        for n, robe in enumerate(robes)
    ]
    orders = [make_order(alice, items=items[: 11 if number == 18 else MAX_LINES]) for number in range(20)]
    screen = take(browser, orders[0])
    other = f"{screen.address}?order={orders[-1].id}"
    assert len(screen.text.encode()) < 6_000_000
    for text in (screen.text, browser.get(other).content.decode()):
        assert [text.count(f'<th scope="row"><bdi>[{n}]pp') for n in (0, 9, 10, 99)] == [20, 20, 1, 1]
        assert (text.count(">and 90 more lines</a>"), text.count(">and 1 more line</a>")) == (18, 1)
    assert f'<a href="{other}">and 90 more lines</a>' in screen.text
    assert screen.text.count("<h3><bdi>") == 100 + 19 * 10  # the products' texts


def test_a_discount_counts_the_lines_that_are_not_shown_too(alice: Account, browser: Client) -> None:
    items = [order_line(quantity=1, product_name=f"P{n}", unit_price=100) for n in range(MAX_LINES)]
    orders = [make_order(alice, items=items, total_amount=total) for total in (10_000, 9_700, 9_600)]
    screen = take(browser, orders[0])
    assert screen.text.count(">and 90 more lines</a>") == 2
    assert sums(screen.text) == [
        "Shipping fee 0 DA To pay on delivery 10 000 DA",
        "Shipping fee 0 DA Discount \N{MINUS SIGN}300 DA To pay on delivery 9 700 DA",
        "Shipping fee 0 DA Discount \N{MINUS SIGN}400 DA To pay on delivery 9 600 DA",
    ]


def test_the_lines_in_short_keep_their_quantities_in_a_text_from_right_to_left(alice: Account, browser: Client) -> None:
    names = ("قفطان", "Robe 3", "قميص")
    items = [order_line(quantity=n, product_name=name, unit_price=1) for n, name in enumerate(names, start=1)]
    order = make_order(alice, items=items)
    make_order(alice)
    browser.cookies["django_language"] = "ar-dz"
    text = take(browser, order).text
    assert "<bdi>1 × قفطان، \u20682 × Robe 3\u2069، 3 × قميص</bdi>" in text


def test_a_pause_comes_after_the_call_and_not_amid_it(alice: Account, charlie: Account, browser: Client) -> None:
    """What was ticked stays ticked while the customer has orders left to decide."""
    ticked = re.compile('<input type="checkbox" name="pause"[^>]* checked')
    first, second, _third = orders_of(alice, charlie)
    screen = take(browser, second)
    assert not ticked.search(screen.text)
    for order, outcome in ((first, "confirm"), (second, "cancel")):
        response = screen.press(outcome, order=str(order.id), pause="on")
        assert response.url.startswith(f"{screen.address}?")
        screen = Screen(browser, response.url)
        assert ticked.search(screen.text)
    assert not ticked.search(browser.get(screen.address).content.decode())
    assert screen.press("busy", pause="on").url == DESK


def test_a_duplicate_is_cancelled_by_one_button(alice: Account, browser: Client) -> None:
    """The button of an order's own card, whichever order is chosen: not every browser hides the other cards."""
    first, second = make_order(alice), make_order(alice)
    screen = next_order(browser)
    for order in (first, second):
        assert screen.text.count(f'name="duplicate" value="{order.id}" form="outcome"') == 1
    screen.press("", order=str(first.id), duplicate=str(second.id))
    second.refresh_from_db()
    assert (second.status, second.cancel_reason) == (Status.CANCELED, "Duplicate")


@pytest.mark.parametrize("by", ["box", "panel"])
@pytest.mark.parametrize("who", ["merchant", "colleague", "another tab"])
def test_the_last_order_is_not_cancelled_as_a_duplicate(
    who: str, by: str, alice: Account, browser: Client, colleague: User
) -> None:
    first = make_order(alice)
    second = make_order(alice, phone="0770999999" if who == "colleague" else first.customer_phone)
    other = take(browser_of(colleague) if who == "colleague" else browser, first)
    screen = take(browser, second)
    assert "Cancel as duplicate" in screen.text
    if who == "merchant":
        lifecycle.cancel(first.id, actor=Actor(Role.MERCHANT, "API key shop"))
    else:
        other.press("", duplicate=str(first.id))
    presses = {"box": ("", {"duplicate": str(second.id)}), "panel": ("cancel:Duplicate", {"flagged": str(second.id)})}
    outcome, data = presses[by]
    back = screen.press(outcome, **{"order": str(second.id), **data})
    assert (back.status_code, statuses()) == (409, ["canceled", "pending_confirmation"])
    assert told(back).endswith("Nothing was saved.")
    if who == "colleague":
        assert "this one may be the only one left" in told(back)
    screen.read(back)
    assert "Cancel as duplicate" not in screen.text
    assert CallNote.objects.filter(order=second).count() == 0
    assert screen.press("cancel:Duplicate").status_code == 302  # the agent knows better


@pytest.mark.django_db(transaction=True)
def test_of_two_cancelled_at_once_as_duplicates_of_each_other_one_stays(
    alice: Account, agent: User, colleague: User
) -> None:
    for number in range(4):
        phones, name = (f"055012340{number}", f"066012340{number}"), f"Amine {number}"
        twins = [make_order(alice, phone=phone, customer_name=name) for phone in phones]
        screens = [take(browser_of(who), twin) for who, twin in zip((agent, colleague), twins, strict=True)]
        assert all("Cancel as duplicate" in screen.text for screen in screens)
        answers = at_once(2, partial(_press_duplicate, screens, twins))
        assert sorted(answers) == [302, 409]
    assert sorted(statuses()) == ["canceled"] * 4 + ["pending_confirmation"] * 4


def _press_duplicate(screens: list[Screen], orders: list[Order], number: int) -> int:
    return screens[number].press("", pause="on", duplicate=str(orders[number].id)).status_code


@pytest.mark.parametrize("details", ["", "CMD-12"])
def test_what_was_cancelled_as_a_duplicate_flags_the_order_that_stays_no_more(
    details: str, alice: Account, browser: Client
) -> None:
    make_order(alice)
    second = make_order(alice)
    screen = next_order(browser)
    response = screen.press("cancel", why="Duplicate", details=details, order=str(second.id))
    screen = Screen(browser, response.url)
    assert "uplicate of" not in screen.text
    assert "Cancel as duplicate" not in screen.text
    assert "is confirmed" in told(screen.press("confirm", asked=""))
    assert statuses() == ["confirmed", "canceled"]


def test_what_takes_the_place_of_an_order_that_the_merchant_cancelled_is_no_duplicate(
    alice: Account, browser: Client
) -> None:
    """Whichever key or person of the merchant did it, the customer's last order must not be canceled."""
    lifecycle.cancel(make_order(alice).id, actor=Actor(Role.MERCHANT, "API key shop"))
    lifecycle.cancel(make_order(alice).id, actor=Actor.of_merchant(alice.holder))
    make_order(alice)
    screen = next_order(browser)
    assert "uplicate of" not in screen.text
    assert "is confirmed" in told(screen.press("confirm", asked=""))


def test_an_order_like_one_that_was_refused_is_flagged_still(alice: Account, browser: Client) -> None:
    make_order(alice)
    second = make_order(alice)
    Screen(browser, next_order(browser).press("cancel", why="Customer refused").url).press("confirm", asked="")
    second.refresh_from_db()
    assert second.status == Status.PENDING


def test_all_orders_are_confirmed_by_one_answer(alice: Account, charlie: Account, browser: Client) -> None:
    orders = orders_of(alice, charlie)
    screen = next_order(browser)
    assert "Does the customer want all 3 orders, 13\u202f501.50 DA together?" in screen.text
    response = screen.press("confirm_all", note="Livrer ensemble")
    assert response.url == DESK
    assert told(response).startswith("3 orders of Amine Benali are confirmed.")
    assert statuses() == ["confirmed"] * 3
    assert Event.objects.filter(kind=Event.Kind.ORDER_CONFIRMED).count() == 3
    notes = CallNote.objects.filter(order__in=orders)
    assert set(notes.values_list("outcome", "note")) == {("answered", "Livrer ensemble")}
    assert notes.count() == 3
    screen.press("confirm_all", note="Livrer ensemble")  # the same answer again
    assert CallNote.objects.count() == 3


def test_one_order_is_not_confirmed_by_an_answer_for_all(order: Order, screen_of: Callable[[], Screen]) -> None:
    assert 'value="confirm_all"' not in screen_of().text


@pytest.fixture
def screen_of(browser: Client) -> Callable[[], Screen]:
    return lambda: next_order(browser)


def test_all_or_none_are_confirmed(alice: Account, charlie: Account, browser: Client) -> None:
    orders = orders_of(alice, charlie)
    screen = next_order(browser)
    lifecycle.cancel(orders[1].id, actor=Actor(Role.MERCHANT, "Shop"))
    response = screen.press("confirm_all")
    assert response.status_code == 409
    assert statuses() == ["pending_confirmation", "canceled", "pending_confirmation"]
    assert CallNote.objects.count() == 0


@pytest.mark.parametrize(
    ("outcome", "forged"), [("confirm", {}), ("cancel", {}), ("confirm_all", {}), ("confirm_all", {"seal": "x"})]
)
def test_a_screen_comes_back_with_no_panel_open_if_it_would_be_about_other_orders(
    outcome: str, forged: dict[str, str], alice: Account, charlie: Account, browser: Client
) -> None:
    _first, second = orders_of(alice, charlie, 2)
    screen = next_order(browser)
    editing.edit(second.id, editing.Edit(total_amount=Decimal(7)), actor=Actor(Role.MERCHANT, "Shop"))
    back = screen.press("cancel", order=str(second.id))
    assert (back.status_code, " open>" in back.content.decode()) == (409, True)  # still about the same order
    screen.read(back)
    if not forged:
        lifecycle.cancel(second.id, actor=Actor(Role.MERCHANT, "Shop"))
    back = screen.press(outcome, order=str(second.id), **forged)
    assert back.status_code == (422 if forged else 409)
    assert " open>" not in back.content.decode()
    assert " data-about-others" in back.content.decode()


def test_an_order_that_nobody_has_seen_is_not_confirmed(alice: Account, charlie: Account, browser: Client) -> None:
    orders_of(alice, charlie, 2)
    screen = next_order(browser)
    make_order(charlie)
    assert screen.press("confirm_all").url == screen.address
    assert statuses() == ["confirmed", "confirmed", "pending_confirmation"]


def test_a_stranger_confirms_nothing(alice: Account, charlie: Account, browser: Client, colleague: User) -> None:
    orders_of(alice, charlie)
    screen = next_order(browser)
    screen.browser = browser_of(colleague)
    assert screen.press("confirm_all").status_code == 409
    assert set(statuses()) == {"pending_confirmation"}


def test_twenty_orders_cost_as_much_as_two(alice: Account, charlie: Account, browser: Client) -> None:
    counts = []
    for count in (2, 12):
        orders_of(alice, charlie, count)
        screen = next_order(browser)
        with CaptureQueriesContext(connection) as queries:
            assert screen.press("confirm_all", pause="on").url == DESK
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_the_orders_page_shows_the_customers_others_and_duplicates(
    alice: Account, charlie: Account, browser: Client
) -> None:
    first, second = make_order(alice), make_order(charlie, external_id="OTHER-1")
    elsewhere = make_order(alice, phone="0770999999", external_id="TWICE")
    text = browser.get(order_page(first)).content.decode()
    assert text.index("Perhaps a duplicate of") < text.index("TWICE") < text.index("Other orders of this number")
    others = text.partition("Other orders of this number")[2].partition("</section>")[0]
    assert order_page(second) in others
    assert order_page(first) not in others
    assert order_page(elsewhere) not in others


@pytest.mark.parametrize("outcome", ["no_answer", "skipped"])
def test_a_colleagues_promise_outlives_a_call_about_another_order(
    outcome: str, alice: Account, charlie: Account, colleague: User, browser: Client
) -> None:
    promised, due_at = make_order(alice), timezone.now() + timedelta(days=1)
    Order.objects.filter(id=promised.id).update(
        call_state=CallState.CALLBACK, call_due_at=due_at, callback_agent=colleague
    )
    other = make_order(charlie)  # of the same customer, and the agent serves this merchant
    next_order(browser).press(outcome, skip_reason="Ligne coupée")
    for order in (promised, other):
        order.refresh_from_db()
    assert (promised.call_state, promised.callback_agent, promised.call_due_at) == ("callback", colleague, due_at)
    assert promised.call_attempts == other.call_attempts == (outcome == "no_answer")
    assert timezone.now() < other.call_due_at < due_at
