"""The account's pages about orders: find, read and cancel one's own alone."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.signals import post_init
from django.test import Client
from django.utils import timezone

from codservice import days
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, SecurityEntry, User
from orders import amending, editing, importing, lifecycle, shipments
from orders.account_pages import timeline
from orders.models import CallNote, Order, OrderCount, OrderEdit, Status, StatusChange
from tests.factories import AgentFactory, ProductFactory, UserFactory, make_order, order_body
from tests.harness.client import browser_of
from webhooks import registry
from webhooks.models import Delivery, Webhook

HOME = "/account/orders"


@pytest.fixture
def agent(db: None) -> User:
    return AgentFactory(first_name="Samira")


@pytest.fixture
def webhook(alice: Account) -> Webhook:
    return registry.register(alice.id, url="https://203.0.114.1/hooks", events=["order.confirmed", "order.cancelled"])[
        0
    ]


def page(browser: Client, path: str = HOME, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status
    return " ".join(answer.content.decode().split())


def listed(browser: Client, query: str = "") -> list[str]:
    return re.findall(
        r'<th scope="row"><a href="/account/orders/[0-9a-f-]+"><bdi>(.*?)</bdi>', page(browser, HOME + query)
    )


def of(order: Order, what: str = "") -> str:
    return f"{HOME}/{order.id}{what}"


# --- The list --------------------------------------------------------------------------------------------------------


def test_orders_are_found_as_by_the_api(alice: Account, browser: Client, agent: User) -> None:
    make_order(alice, customer_name="Amine", external_id="1042", customer_address="Cité 5 Juillet")
    make_order(alice, customer_name="Lynda", phone="0770 98 76 54")
    sara = make_order(alice, customer_name="سارة", external_id="20260101")  # a number that might be a phone number
    lifecycle.confirm(sara.id, actor=Actor.of_staff(agent))
    make_order(alice, customer_name="Nadia", phone="020 26 01 01")
    Order.objects.filter(customer_name="Amine").update(created_at=datetime(2026, 3, 5, 23, 30, tzinfo=UTC))
    Order.objects.filter(customer_name="سارة").update(updated_at=datetime(2126, 3, 5, 23, 30, tzinfo=UTC))
    for query, expected in {
        "": ["Nadia", "سارة", "Lynda", "Amine"],
        "?q=lyn": ["Lynda"],
        "?q=juillet": ["Amine"],
        "?q=1042": ["Amine"],
        "?q=%E2%80%AAjuillet%E2%80%AC%EF%BB%BF": ["Amine"],  # as copied from another program
        "?q=20260101": ["Nadia", "سارة"],
        "?q=70987654": ["Lynda"],
        "?q=+213770987654": ["Lynda"],
        "?q=0770-98-76-54": ["Lynda"],
        "?phone=٠٧٧٠٩٨٧٦٥٤": ["Lynda"],
        "?phone=00213 770 98 76 54&q=": ["Lynda"],
        "?status=confirmed": ["سارة"],
        "?status=confirmed&q=lyn": [],
        "?created_from=2026-03-06&created_to=2026-03-06": ["Amine"],  # a day of Algeria
        "?created_to=2026-03-05": [],
        "?status=confirmed&updated_from=2126-03-05&updated_to=2126-03-06": ["سارة"],  # in which days it was confirmed
    }.items():
        assert listed(browser, query.replace("+", "%2B")) == expected, query


def test_the_days_of_all_filters_are_in_the_form(alice: Account, browser: Client) -> None:
    """Both pairs of days say what they are of: orders delivered in November may have come in before."""
    days = {"created_from": "01", "created_to": "02", "updated_from": "03", "updated_to": "04"}
    text = page(browser, f"{HOME}?{'&'.join(f'{name}=2026-03-{day}' for name, day in days.items())}")
    labels = ("Received from", "Received until", "Last change from", "Last change until")
    assert ("<details open>" in text, "<details>" in page(browser, HOME)) == (True, True)  # folded until they are used
    for (name, day), label in zip(days.items(), labels, strict=True):
        assert f'<label for="id_{name}">{label}' in text
        assert f'name="{name}" value="2026-03-{day}"' in text


def test_unusable_filters_are_said_and_show_nothing(alice: Account, browser: Client) -> None:
    make_order(alice)
    for query in ("?status=lost", "?phone=12", "?created_from=soon", "?q=%00", "?wilaya=nowhere"):
        text = page(browser, HOME + query, 422)
        assert ('class="problem"' in text, "No orders match" in text) == (True, False)
    assert "Test orders are shown only in test mode" in page(browser, f"{HOME}?q=Nobody")
    page(browser, f"{HOME}?before=x", 404)


def test_what_is_unusable_about_filters_is_said_in_the_persons_language(browser: Client) -> None:
    for query in ("?status=lost", "?phone=12", "?created_from=soon", f"?q={'x' * 101}", "?q=%01", "?wilaya=Msla"):
        text = browser.get(HOME + query, headers={"Accept-Language": "fr"}).content.decode()
        problems = re.findall(r'(?s)class="(?:problem|errorlist)[^"]*"[^>]*>(.*?)</', text)
        assert problems, query
        assert [said for said in problems if re.search(r"\b(Must|is|not)\b", said)] == [], query


def test_a_period_that_ends_before_it_begins_is_said(browser: Client) -> None:
    query = "?created_from=2026-03-06&created_to=2026-03-05"
    answer = browser.get(f"{HOME}{query}")
    assert answer.status_code == 422
    assert "The period must end after it begins." in answer.content.decode()
    download = browser.get(f"{HOME}/download.csv{query}", follow=True)
    assert download.status_code == 422
    assert "The period must end after it begins." in download.content.decode()


def test_the_list_is_read_page_by_page_and_orders_are_never_counted(
    alice: Account, browser: Client, django_assert_num_queries: Any
) -> None:
    names = [f"C{number:02}" for number in range(60)]
    now = timezone.now()
    for number, name in enumerate(names):
        order = make_order(alice, customer_name=name)
        Order.objects.filter(id=order.id).update(created_at=now + timedelta(seconds=number // 3))
    query, seen = "", []
    while True:
        with django_assert_num_queries(5) as used:  # session, person, account, orders, counters
            text = page(browser, HOME + query)
        assert not [each for each in used if "COUNT(" in each["sql"].upper()]
        seen += re.findall(r'orders/[0-9a-f-]+"><bdi>(C\d\d)</bdi>', text)
        older = re.search(r'href="(\?[^"]*before=[^"]*)"[^>]*>Older', text)
        if older is None:
            break
        query = older[1].replace("&amp;", "&")
    newest_first = Order.objects.order_by("-created_at", "-id").values_list("customer_name", flat=True)
    assert seen == list(newest_first)


def test_tabs_say_how_many_there_are(alice: Account, charlie: Account, browser: Client, agent: User) -> None:
    orders = [make_order(alice) for _ in range(3)]
    make_order(charlie)
    lifecycle.confirm(orders[0].id, actor=Actor.of_staff(agent))
    assert OrderCount.objects.exists()
    tabs = re.findall(r'>([A-Z][a-z ]+) <span class="count">(\d+)</span>', page(browser))
    assert dict(tabs) == {"All": "3", "Pending confirmation": "2", "Confirmed": "1", "Canceled": "0", "Shipped": "0",
                          "Delivered": "0", "Returned": "0"}  # fmt: skip


def test_an_empty_account_is_shown_the_way(browser: Client) -> None:
    assert "/account/quick-start" in page(browser).partition('class="empty"')[2]
    assert "Use fewer words" in page(browser, f"{HOME}?q=nobody")
    for nothing in ("?sort=-created_at", "?q=+", "?status="):
        assert "/account/quick-start" in page(browser, f"{HOME}{nothing}").partition('class="empty"')[2], nothing


# --- One order -------------------------------------------------------------------------------------------------------


def test_an_order_tells_all_that_happened_to_it(
    alice: Account, browser: Client, agent: User, webhook: Webhook, django_assert_num_queries: Any
) -> None:
    order = make_order(alice, notes="Appeler le soir", external_id="1042")
    other = make_order(alice)
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.NO_ANSWER, note="Sonne dans le vide")
    )
    editing.edit(
        order.id,
        editing.Edit(customer_address="3 rue Hassiba", shipping_fee=Decimal(500)),
        actor=Actor.of_staff(agent),
    )
    for each in (order, other):
        lifecycle.confirm(each.id, actor=Actor.of_staff(agent))
    # Two orders that move in the same microsecond must still be told apart.
    at = StatusChange.objects.get(order=order, to_status="confirmed").at
    StatusChange.objects.filter(order=other, to_status="confirmed").update(at=at)
    Delivery.objects.update(created_at=at)
    ours, theirs = (Delivery.objects.get(event__body__contains=str(each.id)) for each in (order, other))

    # session, person, account, order, items, changes, deliveries, calls, edits
    with django_assert_num_queries(9):
        text = page(browser, of(order))

    said_by_all = ["Appeler le soir", "1042", "Sonne dans le vide", "Samira", "No answer", "3 rue Hassiba"]
    for said in (*said_by_all, "Robe kabyle", "0550 12 34 56", "الجزائر"):
        assert said in text, said
    assert "Address: <del><bdi>12 rue Didouche Mourad</bdi></del> <ins><bdi>3 rue Hassiba</bdi></ins>" in text
    assert f"/account/webhooks/deliveries/{ours.id}" in text
    assert str(theirs.id) not in text
    happened = [text.index(f"<strong>{what}</strong>") for what in ("Confirmed", "Changed", "No answer", "Received")]
    assert happened == sorted(happened), "the newest comes first"
    assert OrderEdit.objects.filter(order=order).count() == 3


def test_a_pending_order_says_what_it_waits_for(alice: Account, browser: Client) -> None:
    """For the merchant whose customer says that nobody has called."""
    order = make_order(alice)
    said = re.compile(r"<dt>Waits for</dt><dd>(.*?)</dd>")
    time = " <small><bdi>5 March 2126, 15:30</bdi></small>"
    later = {"call_due_at": datetime(2126, 3, 5, 14, 30, tzinfo=UTC)}
    for changed, expected in (
        ({}, "First call"),
        ({"call_state": "retry"}, "Another attempt"),
        ({"call_state": "retry"} | later, "Another attempt" + time),
        ({"call_state": "callback"} | later, "Promised call" + time),
        ({"call_state": "review"}, "A supervisor&#x27;s review"),
    ):
        Order.objects.filter(id=order.id).update(**changed)
        assert said.findall(page(browser, f"{HOME}/{order.id}")) == [expected]
    lifecycle.cancel(order.id, reason="", actor=Actor(Role.MERCHANT, "Alice"))
    assert said.findall(page(browser, f"{HOME}/{order.id}")) == []


def test_moves_of_one_moment_stand_in_their_order_each_with_what_was_told_of_it(
    alice: Account, agent: User, browser: Client
) -> None:
    """A courier reports as delivered an order that nobody had marked as shipped."""
    registry.register(alice.id, url="https://203.0.114.1/hooks", events=["order.shipped", "order.delivered"])
    order = make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    shipments.record([shipments.Shipment(Status.DELIVERED, order_id=order.id)], actor=Actor.of_command("courier"))
    moves = [entry for entry in timeline(order)[0] if entry.change]
    assert [entry.change.to_status for entry in moves if entry.change] == [
        "delivered", "shipped", "confirmed", "pending_confirmation",
    ]  # fmt: skip
    told = [[delivery.event.kind for delivery in entry.deliveries] for entry in moves]
    assert told == [["order.delivered"], ["order.shipped"], [], []]


def test_of_what_happened_ten_thousand_times_a_page_has_a_hundred(alice: Account, browser: Client, agent: User) -> None:
    order, now = make_order(alice), timezone.now()
    of_it = {"account": alice, "order": order}
    OrderEdit.objects.bulk_create(
        OrderEdit(**of_it, field="notes", old=f"[{n}]".ljust(500, "x"), new="y" * 500, at=now - timedelta(seconds=n))
        for n in range(editing.MOST_EDITS)
    )
    CallNote.objects.bulk_create(
        CallNote(**of_it, outcome="note", note=f"({n})".ljust(2000, "z"), created_at=now - timedelta(seconds=n))
        for n in range(150)
    )
    for query, first, older in (("", 0, "100"), ("?before=100", 100, "200"), ("?before=9900", 9900, "")):
        text = page(browser, of(order) + query)
        assert len(text) < 500_000
        assert re.findall(r"<del><bdi>\[(\d+)\]x", text) == [str(n) for n in range(first, first + 100)]
        assert re.findall(r"<bdi>\((\d+)\)z", text) == [str(n) for n in range(first, min(first + 100, 150))]
        assert re.findall(r'href="\?before=(\d+)">Older<', text) == [older] * bool(older)
    assert "[0]" in page(browser, of(order, "?before=soon"))


def test_of_orders_that_came_at_once_a_page_reads_what_was_told_of_its_own(alice: Account, browser: Client) -> None:
    registry.register(alice.id, url="https://203.0.114.1/hooks", events=["order.created"])
    bodies = [order_body(external_id=f"N{number}", total_amount="4500.50") for number in range(20)]
    importing.import_orders(alice.id, bodies, actor=Actor(Role.MERCHANT, "A file"))
    assert Delivery.objects.values("created_at").distinct().count() == 1
    read = []

    def note(instance: Delivery, **kwargs: Any) -> None:
        read.append(instance)

    post_init.connect(note, sender=Delivery)
    try:
        page(browser, of(Order.objects.get(external_id="N7")))
    finally:
        post_init.disconnect(note, sender=Delivery)
    assert len(read) == 1


def test_an_order_tells_how_it_is_delivered_and_what_its_merchant_changed(alice: Account, browser: Client) -> None:
    order = make_order(alice, customer_phone_2="0661112233", delivery_type="desk", source="facebook")
    lines = [{"product_name": "Sac", "quantity": 3, "unit_price": 900}, {**order_body()["items"][0], "quantity": 1}]
    key = Actor(Role.MERCHANT, "API key Shop")
    amending.amend(alice.id, order.id, {"items": lines, "notes": "Sonnez", "customer_phone_2": None}, actor=key)
    text = page(browser, of(order))

    assert "<dt>Delivery type</dt><dd>Stop desk</dd>" in text
    assert "<dt>Source</dt><dd><bdi>facebook</bdi></dd>" in text
    assert "<dt>Second phone</dt>" not in text
    for name, old, new in (
        ("Second phone", "0661112233", "–"),
        ("Notes", "–", "Sonnez"),
        ("Product in line 1", "Robe kabyle", "Sac"),
        ("Quantity in line 1", "2", "3"),
        ("Price in line 1", "2 050.25 DA", "900 DA"),
        ("Line 2", "–", "1 × Robe kabyle (size: M), 2 050.25 DA"),
    ):
        assert f"{name}: <del><bdi>{old}</bdi></del> <ins><bdi>{new}</bdi></ins>" in text, name
    browser.cookies["django_language"] = "ar-dz"
    assert "<ins><bdi>\u20681 × Robe kabyle (size: M)\u2069، 2 050,25 دج</bdi></ins>" in page(browser, of(order))
    browser.cookies["django_language"] = "en"
    amending.amend(alice.id, order.id, {"customer_phone_2": "0661 11 22 33"}, actor=key)
    assert "<dt>Second phone</dt>" in page(browser, of(order))
    browser.cookies["django_language"] = "fr"
    assert "<bdi>Clé API Shop</bdi>" in page(browser, of(order))


@pytest.mark.parametrize(("language", "first"), [("fr", "Bab El Oued"), ("ar", "باب الوادي")])
def test_places_stand_in_the_readers_script_first(language: str, first: str, alice: Account, browser: Client) -> None:
    order = make_order(alice, customer_commune="Bab El Oued")
    text = browser.get(f"/account/orders/{order.id}", headers={"Accept-Language": language}).content.decode()
    both = sorted(("Bab El Oued", "باب الوادي"), key=text.index)
    assert both[0] == first


def test_amounts_are_dinars_in_the_readers_script(alice: Account, browser: Client) -> None:
    order = make_order(alice)
    browser.cookies["django_language"] = "ar-dz"
    for path in (HOME, of(order), "/account/"):
        text = page(browser, path)
        assert " دج</bdi>" in text, path
        assert " DA<" not in text, path


@pytest.mark.parametrize(
    ("total", "line"),
    [
        ("4200.50", " Discount \N{MINUS SIGN}300 DA"),
        ("3000", " Discount \N{MINUS SIGN}1 500.50 DA"),
        ("4500.50", ""),
        ("4600", " Supplement 99.50 DA"),
    ],
)
def test_a_discount_or_supplement_stands_between_the_fee_and_the_total(
    alice: Account, browser: Client, total: str, line: str
) -> None:
    order = make_order(alice, shipping_fee=400, total_amount=Decimal(total))
    (sums,) = re.findall('<dl class="sums">(.*?)</dl>', page(browser, of(order)))
    said = " ".join(re.sub("<[^>]*>", " ", sums).split())
    assert re.fullmatch(rf"Shipping fee 400 DA{line} To pay on delivery [\d .]+ DA", said)


def test_a_deleted_webhooks_delivery_is_told_without_a_link(
    alice: Account, browser: Client, agent: User, webhook: Webhook
) -> None:
    order = make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    Webhook.objects.update(deleted_at=timezone.now())
    text = page(browser, of(order))
    assert '<span class="status dropped">Dropped</span> <bdi dir="ltr" class="address">https://203.0.114.1' in text


# --- Canceling -------------------------------------------------------------------------------------------------------


def cancel(browser: Client, order: Order, **data: Any) -> Any:
    return browser.post(of(order, "/cancel"), {"version": order.version, "reason": "", **data})


def test_a_customers_name_does_not_turn_the_question_around(alice: Account, browser: Client) -> None:
    order = make_order(alice, customer_name="\u202eSamira\u2066")
    assert "The order of Samira will no longer be called or shipped." in page(browser, of(order, "/cancel"))


def test_an_order_is_canceled_after_a_question(alice: Account, browser: Client, webhook: Webhook) -> None:
    order = make_order(alice)
    assert 'name="version" value="1"' in page(browser, of(order, "/cancel"))
    order.refresh_from_db()
    assert order.status == "pending_confirmation"
    assert cancel(browser, order, reason="Out of stock").url == of(order)
    order.refresh_from_db()
    change = order.status_changes.get(to_status="canceled")
    assert (order.status, order.cancel_reason) == ("canceled", "Out of stock")
    assert (change.actor, change.user_id, change.reason) == (
        alice.holder.display_name, alice.holder_id, "Out of stock")  # fmt: skip
    assert Delivery.objects.get().event.kind == "order.cancelled"
    assert "The order is canceled." in page(browser, of(order))


def test_an_order_that_has_changed_is_asked_about_again_with_the_reason(alice: Account, browser: Client) -> None:
    order = make_order(alice)
    Order.objects.update(version=2)
    answer = cancel(browser, order, reason="Out of stock")
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "The order has changed since you opened it." in text
    assert 'name="version" value="2"' in text
    assert 'value="Out of stock"' in text
    order.refresh_from_db()
    assert order.status == "pending_confirmation"
    assert cancel(browser, order, reason="Out of stock").url == of(order)
    order.refresh_from_db()
    assert (order.status, order.cancel_reason) == ("canceled", "Out of stock")


def test_who_was_faster_is_told_by_the_pages_clock(alice: Account, browser: Client, agent: User) -> None:
    """It is a day later in Algeria than in UTC."""
    order = make_order(alice)
    order = lifecycle.cancel(order.id, actor=Actor.of_staff(agent))
    StatusChange.objects.update(at=datetime(2026, 3, 1, 23, 30, tzinfo=UTC))
    answer = browser.post(of(order, "/cancel"), {"version": order.version}, follow=True)
    text = " ".join(answer.content.decode().split())
    assert "Already canceled by Samira at 00:30 on 2026-03-02." in text
    assert "2 March 2026, 00:30" in text


@pytest.mark.parametrize(
    ("moves", "may"),
    [
        ([], True),
        (["confirm"], True),
        (["confirm", "ship"], False),
        (["confirm", "ship", "deliver"], False),
        (["confirm", "ship", "return"], False),
        (["cancel"], False),
    ],
)
def test_canceling_is_offered_where_the_api_would_do_it(
    moves: list[str], may: bool, alice: Account, browser: Client, api: Any
) -> None:
    order = make_order(alice)
    for move in moves:
        lifecycle.move(move, order.id, actor=Actor(Role.SUPERVISOR, "Karim"))
    order.refresh_from_db()
    assert (of(order, "/cancel") in page(browser, of(order))) is may
    status = order.status
    asked = browser.get(of(order, "/cancel"), follow=True)
    assert asked.context["request"].path == of(order, "/cancel" if may else "")
    said = f"The order is {status}; it can no longer be canceled." if status != "canceled" else "Already canceled by"
    assert (said in asked.content.decode()) is not may
    assert cancel(browser, order).status_code == 302
    order.refresh_from_db()
    assert order.status == ("canceled" if may else status)
    assert api.post(f"/api/v1/orders/{order.id}/cancel").status_code == (200 if order.status == "canceled" else 422)


def test_an_order_that_changed_meanwhile_is_not_canceled(alice: Account, browser: Client, agent: User) -> None:
    order = make_order(alice)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    for version in (order.version, "", "x", "9" * 30, "١"):
        answer = cancel(browser, order, version=version)
        assert answer.status_code == 409
        assert "has changed since you opened it" in answer.content.decode()
    order.refresh_from_db()
    assert order.status == "confirmed"


def test_the_log_names_who_canceled_alone(alice: Account, browser: Client, agent: User) -> None:
    """Someone who came too late to cancel is told so, and not logged."""
    order = make_order(alice)
    lifecycle.cancel(order.id, actor=Actor.of_staff(agent))
    assert cancel(browser, order).url == of(order)
    assert "Already canceled by Samira" in page(browser, of(order))
    assert not SecurityEntry.objects.filter(action="order_canceled").exists()


def test_who_comes_too_late_is_told_in_their_language(alice: Account, browser: Client, agent: User) -> None:
    order = make_order(alice)
    canceled = lifecycle.cancel(order.id, actor=Actor.of_staff(agent))
    browser.cookies["django_language"] = "fr"
    cancel(browser, order)
    when = f"{canceled.canceled_at.astimezone(days.ALGIERS):%H:%M le %Y-%m-%d}"
    assert f"par Samira à {when}." in page(browser, of(order))


@pytest.mark.parametrize(
    ("reason", "said"), [("x" * 501, "Doit avoir 500 caractères au plus."), ("a\x00b", "Contient des caractères")]
)
def test_an_unusable_reason_cancels_nothing(reason: str, said: str, alice: Account, browser: Client) -> None:
    order = make_order(alice)
    data = {"version": order.version, "reason": reason}
    answer = browser.post(of(order, "/cancel"), data, headers={"Accept-Language": "fr"})
    assert answer.status_code == 422
    text = answer.content.decode()
    assert f'<div id="reason_error"><p class="problem" role="alert">{said}' in text
    assert 'aria-invalid="true" aria-describedby="reason_error"' in text, "begin.js gives it the focus"
    assert answer.context["reason"] == reason, "what was typed is there to be mended"
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


# --- Who may look, and cancel ----------------------------------------------------------------------------------------


def test_another_accounts_orders_are_not_there(
    charlie: Account, browser: Client, agent: User, webhook: Webhook
) -> None:
    foreign = make_order(charlie, customer_name="Charlie's customer")
    assert listed(browser) == []
    assert listed(browser, "?phone=0550123456") == []
    for path in ("", "/cancel"):
        there, nowhere = browser.get(of(foreign, path)), browser.get(f"{HOME}/{uuid4()}{path}")
        assert (there.status_code, nowhere.status_code) == (404, 404)
        assert "Charlie" not in there.content.decode()
        assert "<h1>There is no such order in your account.</h1>" in nowhere.content.decode()
        assert "<p>Test orders are shown only in test mode" in nowhere.content.decode()
        assert len(there.content) == len(nowhere.content)
    assert cancel(browser, foreign).status_code == 404
    foreign.refresh_from_db()
    assert foreign.status == "pending_confirmation"


def test_strangers_and_people_without_an_account_see_nothing(alice: Account) -> None:
    order = make_order(alice)
    nobody = browser_of(UserFactory())
    for path in (HOME, of(order), of(order, "/cancel")):
        assert Client().get(path).url == f"/account/login?next={path}"
        assert nobody.get(path).status_code == 403
    assert cancel(nobody, order).status_code == 403


def test_canceling_needs_the_csrf_token(alice: Account) -> None:
    order = make_order(alice)
    strict = browser_of(alice.holder, enforce_csrf_checks=True)
    assert cancel(strict, order).status_code == 403
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


def test_who_signs_in_lands_where_there_is_something_to_do(alice: Account, browser: Client) -> None:
    assert browser.get("/account/").url == "/account/quick-start"
    make_order(alice)
    assert browser.get("/account/").status_code == 200


def test_search_by_order_number_is_the_accounts_own(alice: Account, charlie: Account, browser: Client) -> None:
    make_order(charlie, external_id="77")
    assert listed(browser, "?q=77") == []
    make_order(alice, external_id="77", customer_name="Ours")
    assert listed(browser, "?q=77") == ["Ours"]


def test_the_api_finds_an_order_number_too(alice: Account, api_for: Callable[..., Any]) -> None:
    order = make_order(alice, external_id="CMD-77")
    found = api_for(alice).get("/api/v1/orders?q=CMD-77").json()
    assert [row["id"] for row in found["data"]] == [str(order.id)]


def test_the_titles_of_two_open_pages_tell_them_apart(browser: Client, alice: Account, webhook: Webhook) -> None:
    order, product = make_order(alice, customer_name="Amine <Saadi>"), ProductFactory(account=alice, name="Robe")
    told = {
        f"/account/orders/{order.id}": "Amine &lt;Saadi&gt; · Order · codservice",
        f"/account/products/{product.id}": "Robe · Product · codservice",
        f"/account/webhooks/{webhook.id}": "https://203.0.114.1/hooks · Webhook · codservice",
    }
    assert {path: re.search("<title>(.*?)</title>", page(browser, path))[1] for path in told} == told
