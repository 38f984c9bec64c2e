"""The desk and the call screen without JavaScript: what they show, what each outcome writes, what they cost."""

import re
from dataclasses import replace
from datetime import datetime, time, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models.functions import Now
from django.forms import Select
from django.http import QueryDict
from django.test import Client
from django.test.html import parse_html
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from uuid_utils.compat import uuid7

from agents.desk import claims, customer, forms, overview, shown
from agents.models import CallingPeriod, CallingRules, Claim
from codservice import days
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, User
from codservice.days import ALGIERS
from inventory.models import Product
from orders import amending, editing, lifecycle
from orders.call_words import HandoverReason
from orders.models import CallNote, CallState, Order, OrderEdit, OrderItem
from tests.agents.screens import DESK, Screen, next_order, order_page, take, told
from tests.agents.states import waits
from tests.factories import AgentFactory, ProductFactory, make_order, order_line
from tests.harness.client import ApiClient, browser_of
from tests.orders.moves import edits

STRANGE = "01980000-0000-7000-8000-000000000000"


@pytest.fixture
def screen(order: Order, browser: Client) -> Screen:
    return take(browser, order)


# --- The desk ----------------------------------------------------------------------------------------------------


def test_the_desk_counts_what_waits(
    alice: Account, agent: User, colleague: User, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_order(alice, phone="0550000001")
    waits(make_order(alice, phone="0550000002"), CallState.CALLBACK, -1, agent)
    waits(make_order(alice, phone="0550000003"), CallState.REVIEW, 0)
    due, _, promised, review, *_ = re.findall(r"<strong>([0-9+]+)</strong>", browser.get(DESK).content.decode())
    assert (due, promised, review) == ("2", "1", "1")
    monkeypatch.setattr(overview, "COUNTED_TO", 2)
    assert "<strong>1+</strong>" in browser.get(DESK).content.decode()


def test_the_desk_says_when_the_next_call_is_due(alice: Account, agent: User, colleague: User, browser: Client) -> None:
    assert "No calls are due or planned." in browser.get(DESK).content.decode()
    waits(make_order(alice, phone="0550000001"), CallState.RETRY, 600)
    waits(make_order(alice, phone="0550000002"), CallState.CALLBACK, 60, colleague)  # mine when overdue: in 75 minutes
    waits(make_order(alice, phone="0550000003"), CallState.REVIEW, 1)
    due = browser.get(DESK).context["next_call"].at
    assert timedelta(minutes=74) < due - timezone.now() < timedelta(minutes=76)
    waits(make_order(alice, phone="0550000004"), CallState.CALLBACK, 30, agent)
    page = browser.get(DESK)
    assert timedelta(minutes=29) < page.context["next_call"].at - timezone.now() < timedelta(minutes=31)
    assert f"{page.context['next_call'].at.astimezone(ALGIERS):%H:%M}" in page.content.decode()
    assert browser.post(f"{DESK}next/").url == DESK
    assert browser.get(DESK).content.decode().count("No calls are due now. The next one is due on") == 2


def test_a_call_that_is_far_ahead_is_planned(alice: Account, agent: User, browser: Client) -> None:
    waits(make_order(alice), CallState.CALLBACK, 60 * 24 * 90, agent)
    assert "No calls are due now. The next one is due on" in told(browser.post(f"{DESK}next/"))


def test_the_desk_shows_promises_and_who_holds_whom(
    alice: Account, agent: User, colleague: User, browser: Client
) -> None:
    mine = make_order(alice, customer_name="Amine Benali", phone="0550000001")
    hers = make_order(alice, customer_name="Lynda Aït", phone="0550000002")
    promised = waits(
        make_order(alice, customer_name="Meriem Cherif", phone="0550000003"), CallState.CALLBACK, -1, agent
    )
    waits(make_order(alice, customer_name="Omar Toumi", phone="0550000004"), CallState.CALLBACK, 24 * 60, agent)
    claim_id = claims.take(mine.id, agent=agent)
    claims.take(hers.id, agent=colleague)
    text = browser.get(DESK).content.decode()
    assert f'href="{DESK}{claim_id}/"' in text
    assert f'action="{DESK}take/{promised.id}/"' in text
    assert re.search(r"Nadia.*Lynda Aït", text)
    assert "Omar Toumi" not in text
    assert not re.search(r"(?<![\w-])0550", text)  # the page's ids may contain it


def test_a_promise_about_several_orders_is_one_call(
    alice: Account, charlie: Account, agent: User, browser: Client
) -> None:
    """The desk counts and shows it once, with all shops' names. The browser's tab counts it once when it is due."""
    first, second, third = (make_order(account) for account in (alice, charlie, alice))
    make_order(alice, phone="0550000001")
    take(browser, first).press("callback_hour", pause="on")
    waits(make_order(alice, phone="0550000002"), CallState.CALLBACK, 0, agent)
    tonight = days.end_of(days.today()) - timedelta(seconds=1)
    Order.objects.filter(id__in=[first.id, second.id, third.id]).update(call_due_at=tonight)
    for due_at, overdue in ((tonight, 1), (Now(), 2)):
        Order.objects.filter(id=first.id).update(call_due_at=due_at)
        text = browser.get(DESK).content.decode()
        assert f'data-overdue="{overdue}"' in text
        assert "<strong>2</strong> calls I promised" in text
        assert text.count("Call now") == 2
        shops = "<bdi>Alice&#x27;s shop</bdi>, <bdi>Charlie&#x27;s shop</bdi>"
        assert text.count(shops) == 1


def test_a_promise_of_another_day_is_shown_with_its_day(alice: Account, agent: User, browser: Client) -> None:
    """Without its day it would read as one that is still to come today."""
    yesterday = days.at(days.today() - timedelta(days=1), time(23, 50))
    order = waits(make_order(alice), CallState.CALLBACK, -1, agent)
    Order.objects.filter(id=order.id).update(call_due_at=yesterday)
    assert re.search(rf">{yesterday.day} \S+, 23:50</time>", browser.get(DESK).content.decode())


def test_who_leaves_no_sign_is_no_longer_listed(order: Order, colleague: User, browser: Client) -> None:
    claims.take(order.id, agent=colleague)
    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert "Nadia" not in browser.get(DESK).content.decode()


def test_the_desk_tells_what_was_done_today_and_renews_itself(
    alice: Account, agent: User, colleague: User, browser: Client
) -> None:
    for number in (0, 1, 2, 2, 3):
        make_order(alice, phone=f"055000000{number}")
    next_order(browser).press("confirm", pause="on")
    next_order(browser).press("cancel", pause="on")
    next_order(browser).press("busy", pause="on")
    others = browser_of(colleague)
    next_order(others).press("confirm", pause="on")
    text = browser.get(DESK).content.decode()
    parts = browser.get(f"{DESK}now/").content.decode()
    assert "<html" not in parts
    for page in (text, parts):
        said = " ".join(re.sub(r"<[^>]*>", "", page).split())
        assert "Today: 4 calls · 1 confirmed · 50 % of my decisions · the team: 2 · 67 %" in said
    assert browser.get("/console/day/").context["summary"].calls == 4, "that is where the desk's number leads to"
    one_of_each = {"en": "1 call · 1 confirmed", "fr": "1 appel · 1 confirmée", "ar-dz": "1 مكالمة · 1 مؤكدة"}
    for language, one in one_of_each.items():
        others.cookies["django_language"] = language
        assert one in " ".join(re.sub(r"<[^>]*>", "", others.get(DESK).content.decode()).split())


# --- The call screen ---------------------------------------------------------------------------------------------


def test_everything_about_the_customer_is_on_one_screen(
    alice: Account, charlie: Account, agent: User, colleague: User, browser: Client
) -> None:
    robe = ProductFactory(
        account=alice, sku="ROB-01", name="Robe kabyle", stock_quantity=1, script="S, M; <b>pas de L</b>"
    )
    old = make_order(charlie, external_id="OLD-1", total_amount=Decimal("777"))
    lifecycle.cancel(old.id, actor=Actor.of_staff(colleague), reason="Trop cher")
    order = make_order(
        alice,
        customer_wilaya="W. d'Alger",
        customer_commune="bab ezouar",
        shipping_fee=Decimal("400.00"),
        notes="Après 17 h",
        external_id="CMD-9",
        items=[order_line(quantity=3, product_id=robe.id, unit_price=Decimal("2050.25"), attributes={"Taille": "M"})],
    )
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=colleague, outcome=CallNote.Outcome.BUSY, note="Occupé deux fois")
    )
    editing.edit(order.id, editing.Edit(customer_address="14 rue des Oliviers"), actor=Actor.of_staff(colleague))
    screen = take(browser, order)
    pieces = [
        "Amine Benali", 'href="tel:+213550123456"', "0550 12 34 56", 'href="https://wa.me/213550123456"',
        "14 rue des Oliviers", "12 rue Didouche Mourad", "Alger", "الجزائر", "W. d&#x27;Alger", "Bab Ezzouar",
        "باب الزوار", "bab ezouar", "Robe kabyle", "ROB-01", '<span class="stock short">1</span>',
        "<li><bdi>Taille</bdi>: <bdi>M</bdi></li>", "<bdi>Après 17 h</bdi></p>",
        "6\u202f150.75", "400", "4\u202f500.50", "Alice&#x27;s shop", "CMD-9", "Busy", "Nadia",
        "S, M; &lt;b&gt;pas de L&lt;/b&gt;",
        "Occupé deux fois", "Charlie&#x27;s shop", "777", "Trop cher", "Canceled 1",
    ]  # fmt: skip
    assert [piece for piece in pieces if piece not in screen.text] == []
    assert "550123456" not in screen.address


@pytest.mark.parametrize("stock", [2, 3])
@pytest.mark.parametrize("is_active", [True, False], ids=["for sale", "not for sale"])
def test_the_call_and_its_edit_form_mark_too_little_stock_and_what_is_not_for_sale(
    stock: int, is_active: bool, alice: Account, browser: Client
) -> None:
    robe = ProductFactory(account=alice, stock_quantity=stock)
    order = make_order(alice, items=[order_line(quantity=3, product_id=robe.id)])
    Product.objects.update(is_active=is_active)
    screen = take(browser, order)
    for text in (screen.text, browser.get(f"{screen.address}edit/{order.id}/").content.decode()):
        marked = "stock short" if stock < 3 else "stock"
        assert re.findall(r'<span class="(stock[^"]*)">(\d)</span>', text) == [(marked, str(stock))]
        assert text.count("not for sale") == (not is_active)


def test_the_counts_of_a_customer_with_many_orders_say_of_how_many_they_are(
    alice: Account, agent: User, browser: Client
) -> None:
    made = [make_order(alice, external_id=f"C-{number}") for number in range(customer.MOST_EARLIER + 2)]
    for number, order in enumerate(made[:-1]):
        if number == customer.MOST_EARLIER - 1:
            assert "of the latest" not in take(browser, made[-1]).text
        lifecycle.cancel(order.id, actor=Actor.of_staff(agent))
    counts = take(browser, made[-1]).text.partition('class="earlier-counts">')[2].partition("</p>")[0]
    assert re.sub("<[^>]*>", "", counts) == "Canceled 30 of the latest 30 orders"


def test_possible_duplicates_are_flagged_with_the_other_order(
    alice: Account, charlie: Account, browser: Client
) -> None:
    other = make_order(charlie, phone="0770999999", external_id="A-1")  # the same name, address and product
    order = make_order(alice)
    screen = take(browser, order)
    flagged = screen.text.partition("Perhaps a duplicate of")[2]
    assert f'href="{order_page(other)}"' in flagged
    assert "A-1" in flagged


def test_all_pending_orders_of_the_customer_are_on_it(alice: Account, charlie: Account, browser: Client) -> None:
    first, second = make_order(alice), make_order(charlie)
    screen = next_order(browser)
    assert [order.id for order in screen.pending] == [first.id, second.id]
    assert screen.press("confirm", order=str(second.id)).url == screen.address
    assert dict(Order.objects.values_list("id", "status")) == {
        first.id: "pending_confirmation",
        second.id: "confirmed",
    }
    again = Screen(browser, screen.address)
    assert again.press("no_answer").url == DESK
    first.refresh_from_db()
    assert (first.call_state, first.call_attempts) == ("retry", 1)


# --- Outcomes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["no_answer", "busy", "switched_off"])
def test_silence_comes_back_later(outcome: str, order: Order, screen: Screen) -> None:
    response = screen.press(outcome, note="Sonne longtemps")
    assert "is noted for Amine Benali." in told(response)
    order.refresh_from_db()
    assert (order.status, order.call_state, order.call_attempts) == ("pending_confirmation", "retry", 1)
    assert order.call_due_at > timezone.now()
    assert CallNote.objects.get().note == "Sonne longtemps"
    assert not Claim.objects.exists()


def test_a_wrong_number_waits_for_review(order: Order, screen: Screen) -> None:
    screen.press("wrong_number")
    order.refresh_from_db()
    assert order.call_state == "review"


@pytest.mark.parametrize("since", [None, "no_answer", "skipped:Bad line", "note"])
def test_a_wrong_number_that_its_merchant_corrects_is_called_again(
    since: str | None, order: Order, agent: User, screen: Screen
) -> None:
    shop = Actor(Role.MERCHANT, "shop")
    screen.press("wrong_number")
    if since == "note":
        lifecycle.add_call_note(
            order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.NOTE, note="I have asked the shop")
        )
    elif since:
        take(screen.browser, order).press(since)
    amending.amend(order.account_id, order.id, {"notes": "Try once more"}, actor=shop)
    order.refresh_from_db()
    assert order.call_state == "review", "nobody has a number to call"
    amending.amend(order.account_id, order.id, {"customer_phone": "0661 22 33 44"}, actor=shop)
    order.refresh_from_db()
    assert (order.call_state, order.call_attempts) == ("retry", 0)
    assert next_order(screen.browser).pending == [order]


def test_a_notes_reason_is_in_the_language_of_whoever_reads_it(
    alice: Account, order: Order, agent: User, screen: Screen, supervisor: User
) -> None:
    """An agent reads French, the supervisor Arabic, and the merchant English."""
    screen.browser.cookies["django_language"] = "fr"
    screen.press("handed_over:Abusive or threatening", note="Très fâché")
    assert CallNote.objects.get().note == "Abusive or threatening\nTrès fâché"
    above, merchant = browser_of(supervisor), browser_of(alice.holder)
    above.cookies["django_language"] = "ar-dz"
    for browser, path, said in (
        (screen.browser, order_page(order), "Insulte ou menace\nTrès fâché"),
        (above, order_page(order), "يشتم أو يهدد\nTrès fâché"),
        (above, "/console/review/", "يشتم أو يهدد\nTrès fâché"),
        (above, f"/console/people/{agent.id}/day/", "يشتم أو يهدد\nTrès fâché"),
        (above, take(above, order).address, "يشتم أو يهدد\nTrès fâché"),
        (merchant, f"/account/orders/{order.id}", "Abusive or threatening\nTrès fâché"),
    ):
        assert said in browser.get(path).content.decode(), path


def test_to_whom_a_customer_was_handed_is_in_the_language_of_whoever_reads_it(
    alice: Account, order: Order, colleague: User, screen: Screen, supervisor: User
) -> None:
    screen.press("handed_over:Abusive or threatening", to=str(colleague.id), note="Très fâché")
    assert CallNote.objects.get().note == "Assigned to Nadia.\nAbusive or threatening\nTrès fâché"
    above, next_caller, merchant = browser_of(supervisor), browser_of(colleague), browser_of(alice.holder)
    above.cookies["django_language"], next_caller.cookies["django_language"] = "ar-dz", "fr"
    for browser, path, said in (
        (above, order_page(order), "أُسندت إلى \u2068Nadia\u2069.\nيشتم أو يهدد\nTrès fâché"),
        (next_caller, take(next_caller, order).address, "Confiée à Nadia.\nInsulte ou menace\nTrès fâché"),
        (merchant, f"/account/orders/{order.id}", "Assigned to Nadia.\nAbusive or threatening\nTrès fâché"),
    ):
        assert said in browser.get(path).content.decode(), path


def test_what_was_handed_to_a_supervisor_stays_theirs_when_its_number_is_corrected(
    order: Order, screen: Screen
) -> None:
    screen.press("handed_over:Abusive or threatening")
    amending.amend(order.account_id, order.id, {"customer_phone": "0661 22 33 44"}, actor=Actor(Role.MERCHANT, "shop"))
    order.refresh_from_db()
    assert order.call_state == "review"


@pytest.mark.parametrize(("outcome", "within"), [("callback_hour", 61), ("callback_tomorrow", 48 * 60)])
def test_a_promised_call_is_the_agents(outcome: str, within: int, order: Order, agent: User, screen: Screen) -> None:
    assert told(screen.press(outcome)).startswith("You will call Amine Benali back on ")
    order.refresh_from_db()
    assert (order.call_state, order.callback_agent) == ("callback", agent)
    assert timezone.now() < order.call_due_at < timezone.now() + timedelta(minutes=within)
    assert CallNote.objects.get().callback_at == order.call_due_at


def test_a_chosen_time_is_algerias(order: Order, screen: Screen) -> None:
    when = (timezone.now() + timedelta(days=3)).astimezone(ALGIERS).replace(second=0, microsecond=0)
    screen.press("callback", at=f"{when:%Y-%m-%dT%H:%M}")
    order.refresh_from_db()
    assert order.call_due_at == when


@pytest.mark.parametrize("at", ["", "2020-01-01T10:00", "9999-12-31T23:59", "soon"])
def test_a_chosen_time_must_lie_ahead(at: str, order: Order, screen: Screen) -> None:
    response = screen.press("callback", at=at, note="Porte bleue")
    assert response.status_code == 422
    assert "Porte bleue" in response.content.decode()
    assert CallNote.objects.count() == 0


def test_the_time_on_the_button_is_promised_though_the_day_is_over(
    order: Order, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    midnight = days.start_of(days.today())
    screen.form["shown_at"] = (midnight - timedelta(minutes=1)).isoformat()
    monkeypatch.setattr(forms, "timezone", SimpleNamespace(now=lambda: midnight))
    screen.press("callback_tomorrow")
    order.refresh_from_db()
    assert order.call_due_at == midnight + timedelta(hours=10)


@pytest.mark.parametrize("shown", ["", "soon", "0001-01-01T00:00", "0001-01-01T00:00+14:00", "9999-12-31T23:59Z", 13])
def test_a_page_without_a_usable_time_is_read_again(shown: str | int, order: Order, screen: Screen) -> None:
    if isinstance(shown, int):
        shown = (timezone.now() - timedelta(hours=shown)).isoformat()
    response = screen.press("callback_hour", shown_at=shown, note="Porte bleue")
    assert response.status_code == 422
    assert "Porte bleue" in response.content.decode()


def test_a_time_that_is_over_is_chosen_again(screen: Screen) -> None:
    response = screen.press("callback_hour", shown_at=(timezone.now() - timedelta(minutes=61)).isoformat())
    assert (response.status_code, CallNote.objects.count()) == (422, 0)
    assert "This time can no longer be chosen. Choose another." in response.content.decode()
    assert datetime.fromisoformat(response.context["shown_at"]) > timezone.now() - timedelta(minutes=10)


def test_a_time_that_has_left_the_hours_is_chosen_again(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = days.at(days.today(), time(12))
    monkeypatch.setattr(forms, "timezone", SimpleNamespace(now=lambda: noon))
    CallingPeriod.objects.update(closes_at=time(12, 30))
    response = screen.press("callback_hour", shown_at=(noon - timedelta(minutes=1)).isoformat())
    assert (response.status_code, CallNote.objects.count()) == (422, 0)
    assert "This time can no longer be chosen. Choose another." in response.content.decode()


def on_button(screen: Screen) -> str:
    """The time of the button for the next day, as its page sends it."""
    found = re.search(r'name="tomorrow" value="([^"]*)"', screen.text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("change", [{"is_closed": True}, {"is_opening": True}])
def test_a_time_on_the_button_that_has_left_the_hours_is_not_moved_to_another(
    change: dict[str, bool], order: Order, screen: Screen
) -> None:
    tomorrow = days.today() + timedelta(days=1)
    hours = {"opens_at": time(14), "closes_at": time(20)}
    CallingPeriod.objects.create(first_day=tomorrow, last_day=tomorrow + timedelta(days=4), **hours, **change)
    response = screen.press("callback_tomorrow", tomorrow=on_button(screen), note="Porte bleue")
    assert (response.status_code, CallNote.objects.count()) == (422, 0)
    assert "This time can no longer be chosen. Choose another." in response.content.decode()
    screen.read(response)
    assert screen.press("callback_tomorrow", tomorrow=on_button(screen)).status_code == 302
    order.refresh_from_db()
    assert order.call_due_at == datetime.fromisoformat(on_button(screen)) > days.at(tomorrow, time(10))


def test_the_time_on_the_button_is_promised_though_an_earlier_one_has_opened(order: Order, browser: Client) -> None:
    tomorrow = days.today() + timedelta(days=1)
    hours = {"opens_at": time(14), "closes_at": time(20)}
    closing = CallingPeriod.objects.create(first_day=tomorrow, last_day=tomorrow, **hours, is_closed=True)
    screen = take(browser, order)
    closing.delete()
    assert screen.press("callback_tomorrow", tomorrow=on_button(screen)).status_code == 302
    order.refresh_from_db()
    assert order.call_due_at == days.at(tomorrow + timedelta(days=1), time(10))


def test_a_customer_is_handed_to_a_colleague_or_a_supervisor(
    alice: Account, order: Order, colleague: User, browser: Client, screen: Screen
) -> None:
    assert screen.press("handed_over", handover_reason="").status_code == 422
    asked = {"to": str(colleague.id), "handover_reason": "Parle tamazight"}
    response = screen.press("handed_over", **asked, note="Très gentille")
    assert "Handed to Nadia: Amine Benali." in told(response)
    assert CallNote.objects.get().note == "Assigned to Nadia.\nParle tamazight\nTrès gentille"
    assert next_order(browser_of(colleague)).pending == [order]

    other = make_order(alice, phone="0770123456")
    response = take(browser, other).press("handed_over", handover_reason="Menace")
    assert "“Handed over” is noted for Amine Benali." in told(response)
    assert other.call_notes.get().note == "Menace"
    other.refresh_from_db()
    assert other.call_state == "review"


def test_the_longest_handover_has_room_for_everything(screen: Screen) -> None:
    to = AgentFactory(first_name="N" * 150, last_name="B" * 150)
    written = {"handover_reason": "r" * forms.MAX_OWN_WORDS, "note": "n" * forms.MAX_NOTE}
    longest = max(HandoverReason, key=len)
    assert screen.press(f"handed_over:{longest}", to=str(to.id), **written).status_code == 302
    said = (f"Assigned to {to.display_name}.", longest, *written.values())
    assert CallNote.objects.get().note == "\n".join(said)


def test_only_those_who_work_are_handed_customers(alice: Account, agent: User, operator: User, screen: Screen) -> None:
    gone = AgentFactory(is_active=False)
    for person in (agent, operator, gone, alice.holder):
        answer = screen.press("handed_over", handover_reason="x", to=str(person.id))
        assert answer.status_code == 422
        assert "This person no longer calls customers. Choose somebody else." in answer.content.decode()
    assert CallNote.objects.count() == 0


@pytest.mark.parametrize(
    ("outcome", "field"),
    [
        *(("no_answer", field) for field in ("details", "at", "to", "handover_reason", "skip_reason")),
        ("confirm", "to"),
        ("confirm_all", "details"),
        ("cancel", "handover_reason"),
        ("callback_tomorrow", "at"),
        ("handed_over:Abusive or threatening", "details"),
        ("skipped:Bad line", "to"),
    ],
)
def test_what_was_left_in_a_closed_panel_refuses_no_other_button(outcome: str, field: str, screen: Screen) -> None:
    left = str(AgentFactory(is_active=False).id) if field == "to" else "a\x92b"
    assert screen.press(outcome, **{field: left}).status_code == 302
    assert CallNote.objects.count() == 1


def test_skipping_asks_for_a_reason(order: Order, browser: Client, screen: Screen) -> None:
    assert screen.press("skipped", skip_reason="").status_code == 422
    assert screen.press("skipped", skip_reason="Ligne coupée").url == DESK
    assert (CallNote.objects.get().outcome, CallNote.objects.get().note) == ("skipped", "Ligne coupée")


def test_what_was_done_is_said_with_the_way_to_the_order(alice: Account, browser: Client, supervisor: User) -> None:
    order = make_order(alice, external_id="CMD-9", customer_name="<b>Amine</b>")
    response = take(browser, order).press("confirm", follow=True)
    assert told(response) == (
        "The order of &lt;b&gt;Amine&lt;/b&gt; is confirmed. See the order: CMD-9, Alice&#x27;s shop"
        " No calls are due or planned."
    )
    assert f'href="{order_page(order)}"' in browser.get(DESK).content.decode()
    # There a supervisor takes back what was confirmed by mistake.
    assert order_page(order, "cancel") in browser_of(supervisor).get(order_page(order)).content.decode()


def test_a_confirm_of_a_possible_duplicate_asks_once_more(alice: Account, browser: Client) -> None:
    make_order(alice, phone="0770999999")  # the same name, address and product
    montre = order_line(quantity=1, product_name="Montre", unit_price=1)
    order, other = make_order(alice), make_order(alice, items=[montre])
    screen = take(browser, order)
    asked = screen.press("confirm", note="Porte bleue", asked="")
    assert asked.status_code == 422
    assert "Confirm it all the same?" in asked.content.decode()
    assert "Porte bleue" in asked.content.decode()
    order.refresh_from_db()
    assert (order.status, CallNote.objects.count()) == ("pending_confirmation", 0)

    screen.read(asked)  # the answer is about this order and no other
    assert screen.press("confirm", asked=str(other.id)).status_code == 422
    assert screen.press("confirm", asked=str(order.id), age=-timedelta(minutes=1)).status_code == 409
    assert screen.press("confirm", asked=str(order.id)).status_code == 302
    assert screen.press("confirm", asked="").status_code == 302  # the form again, after its answer was lost
    order.refresh_from_db()
    assert (order.status, CallNote.objects.count()) == ("confirmed", 1)
    assert Screen(browser, screen.address).press("confirm", asked="").status_code == 302  # nothing is flagged


@pytest.mark.parametrize(
    ("press", "left"),
    [
        ({"outcome": "confirm", "asked": ""}, "Porte bleue"),  # asks about the duplicate
        ({"outcome": "skipped", "skip_reason": ""}, "Say why you are skipping"),
        ({"outcome": "callback", "at": "2020-01-01T10:00"}, "2020-01-01T10:00"),
    ],
)
def test_a_form_that_comes_back_says_what_has_changed_meanwhile(
    press: dict[str, str], left: str, alice: Account, browser: Client
) -> None:
    """The screen that comes back is sealed with the new versions, so nothing would tell of the change later."""
    make_order(alice, phone="0770999999")  # the same name, address and product
    order = make_order(alice)
    screen = take(browser, order)
    amending.amend(order.account_id, order.id, {"total_amount": 5500}, actor=Actor(Role.MERCHANT, "shop"))
    response = screen.press(press.pop("outcome"), note="Porte bleue", **press)
    assert (response.status_code, CallNote.objects.count()) == (409, 0)
    assert told(response) == "The order has changed since you opened it. Nothing was saved."
    text = response.content.decode()
    assert "Confirm it all the same?" not in text
    assert "Porte bleue" in text
    assert left in text
    screen.read(response)
    assert "Confirm it all the same?" in screen.press("confirm", asked="").content.decode()
    assert screen.press("confirm").status_code == 302


@pytest.mark.parametrize(
    "press", [{"outcome": "confirm", "asked": ""}, {"outcome": "confirm_all", "note": "a\x07b"}, {"outcome": "skipped"}]
)
def test_a_form_that_comes_back_says_that_there_is_another_order(
    press: dict[str, str], alice: Account, browser: Client
) -> None:
    """It is sealed as seen, too: no question is asked about it, and no panel is open, in which a key confirms all."""
    first, _second = (make_order(alice, customer_address=f"{number} rue X") for number in range(2))
    screen = take(browser, first)
    make_order(alice)
    response = screen.press(press.pop("outcome"), **press)
    assert (response.status_code, CallNote.objects.count()) == (409, 0)
    assert told(response) == "This customer has another order, which is on this page now. Nothing was saved."
    screen.read(response)
    assert len(screen.pending) == 3
    assert "Confirm it all the same?" not in screen.text
    assert "Confirm all…" in screen.text
    assert not re.search(r"<details[^>]* open>\s*<summary[^>]*>\s*Confirm all…", screen.text)
    assert "Confirm it all the same?" in screen.press("confirm", asked="").content.decode()
    assert screen.press("confirm_all").status_code == 302
    assert set(Order.objects.values_list("status", flat=True)) == {"confirmed"}


@pytest.mark.parametrize(
    "data",
    [
        {"outcome": "sold"},
        {"outcome": ""},
        {"note": "x" * 1800},
        {"note": "a\x07b"},
        {"note_id": "1"},
        {"note_id": "6f1b6c1e-8a5d-4c3b-9f0e-2d7a5b1c4e88"},  # of version 4
    ],
)
def test_an_unusable_outcome_writes_nothing(data: dict[str, Any], order: Order, screen: Screen) -> None:
    assert screen.press(data.pop("outcome", "no_answer"), **data).status_code == 422
    assert CallNote.objects.count() == 0
    assert Claim.objects.exists()


def test_a_note_has_an_id_that_sorts_by_time(order: Order, screen: Screen, api: ApiClient) -> None:
    second = make_order(order.account)
    for outcome in ("no_answer", "busy"):
        screen.press(outcome)
        screen = take(screen.browser, order)
    noted = [api.get(f"/api/v1/orders/{each.id}").json()["call_notes"] for each in (order, second)]
    assert [[note["outcome"] for note in notes] for notes in noted] == [["no_answer", "busy"]] * 2
    for notes in noted:
        ids = [UUID(note["id"]) for note in notes]
        assert [id_.version for id_ in ids] == [7, 7]
        assert ids == sorted(ids)


def test_the_next_customer_comes_by_itself_or_a_pause(alice: Account, browser: Client) -> None:
    orders = [make_order(alice, phone=f"055000000{number}") for number in range(3)]
    first = next_order(browser)
    second = Screen(browser, first.press("confirm").url)
    assert second.pending == orders[1:2]
    assert second.press("no_answer", pause="on").url == DESK
    assert not Claim.objects.exists()


def test_a_page_after_the_outcome_knows_whose_draft_is_done(
    order: Order, agent: User, browser: Client, screen: Screen
) -> None:
    screen.press("confirm")
    assert f"done-{shown.draft_name(order.phone_e164, agent)}" in browser.get(DESK).content.decode()


@pytest.mark.parametrize("outcome", ["confirm", "cancel", "no_answer", "callback_hour"])
def test_a_name_does_not_turn_our_sentences_around(outcome: str, alice: Account, browser: Client) -> None:
    order = make_order(alice, customer_name="\u202eSamira", external_id="\u2067C-1")
    said = told(take(browser, order).press(outcome))
    assert "Samira" in said
    assert "See the order: C-1, " in said
    assert not {"\u202e", "\u2067"} & set(said)


def test_nor_does_the_name_of_who_came_first(order: Order, agent: User, colleague: User, browser: Client) -> None:
    colleague.first_name = "\u202eNadia"
    colleague.save()
    claims.take(order.id, agent=colleague)
    assert told(browser.post(f"{DESK}take/{order.id}/")) == "Nadia is calling this customer."


def test_of_a_refusal_it_is_said_once_that_nothing_was_written(order: Order, screen: Screen, supervisor: User) -> None:
    lifecycle.cancel(order.id, actor=Actor.of_staff(supervisor))
    for outcome in ("no_answer", "skipped"):  # the second lacks its reason
        text = screen.press(outcome, note="Livrer le matin").content.decode()
        assert "Livrer le matin" in text
        assert text.count("Nothing was saved.") == 1


# --- Customers who cannot be shown -------------------------------------------------------------------------------


def test_who_cannot_be_shown_waits_for_a_supervisor_and_the_agent_goes_on(
    alice: Account, agent: User, supervisor: User, browser: Client, caplog: Any
) -> None:
    broken, good = (make_order(alice, phone=f"055000000{number}") for number in range(2))
    OrderItem.objects.filter(order=broken).update(attributes=["no", "pairs"])
    response = browser.post(f"{DESK}next/", follow=True)
    assert response.redirect_chain[-1] == (DESK, 302)
    assert "cannot be shown" in response.content.decode()
    assert any(record.exc_info for record in caplog.records)
    assert next_order(browser).pending == [good]

    broken.refresh_from_db()
    assert (broken.status, broken.call_state) == ("pending_confirmation", "review")
    assert (CallNote.objects.get().outcome, CallNote.objects.get().agent) == ("handed_over", agent)
    above = browser_of(supervisor)
    assert "could not be shown" in above.get("/console/review/").content.decode()
    assert above.post("/console/review/", {"take": str(broken.id)}, follow=True).redirect_chain[-1] == (DESK, 302)
    assert not Claim.objects.filter(agent=supervisor).exists()


def test_a_fault_of_the_database_sends_nobody_to_review(order: Order, agent: User) -> None:
    browser = browser_of(agent, raise_request_exception=False)
    claim = claims.take(order.id, agent=agent)
    with transaction.atomic():
        connection.cursor().execute("ALTER TABLE orders_orderitem RENAME TO nowhere")
        assert browser.get(f"{DESK}{claim}/").status_code >= 500
        transaction.set_rollback(True)
    order.refresh_from_db()
    assert (order.call_state, CallNote.objects.count()) == ("new", 0)
    assert claims.held(claim, agent=agent).exists()


# --- What changes while the agent has the screen open ------------------------------------------------------------


def test_the_screen_learns_of_a_merchants_cancel(order: Order, screen: Screen, api: Client) -> None:
    assert screen.state()["says"] == []
    api.post(f"/api/v1/orders/{order.id}/cancel")
    state = screen.state()
    assert (state["held"], state["changed"]) == (True, [str(order.id)])
    assert state["says"][0].startswith("Already canceled by API key Test at ")


def test_the_screen_learns_of_edits_and_new_orders(
    alice: Account, agent: User, colleague: User, order: Order, screen: Screen
) -> None:
    editing.edit(order.id, editing.Edit(customer_name="Amina"), actor=Actor.of_staff(agent))
    assert screen.state()["says"][0].startswith("You changed the order yourself at ")
    editing.edit(order.id, editing.Edit(customer_name="Amine"), actor=Actor.of_staff(colleague))
    make_order(alice)
    assert screen.state()["says"] == [
        "The order has changed since you opened it.",
        "This customer has another order that is not on this page yet.",
    ]


@pytest.mark.parametrize(
    ("outcome", "field"),
    [("cancel", "details"), ("handed_over", "handover_reason"), ("skipped", "skip_reason")],
)
def test_all_that_was_written_about_a_customer_who_is_gone_is_shown_again(
    outcome: str, field: str, screen: Screen
) -> None:
    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    response = screen.press(outcome, note="Porte bleue", **{field: "Demande le gérant"})
    assert (response.status_code, CallNote.objects.count()) == (409, 0)
    assert "Demande le gérant\nPorte bleue</textarea>" in response.content.decode()


def test_a_customer_who_was_lost_meanwhile_stays_lost_by_inactivity(
    alice: Account, order: Order, agent: User, browser: Client, screen: Screen
) -> None:
    """In another tab the agent goes on with other customers."""
    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    Order.objects.update(call_due_at=Now() + timedelta(hours=1))  # or they would be the next
    other = make_order(alice, phone="0770 11 22 33")
    take(browser, other).press("confirm")
    assert screen.state()["says"] == ["You were inactive for ten minutes, so the customer was released."]
    assert f"{DESK}take/{order.id}/" in browser.get(screen.address).content.decode()


def test_the_screen_learns_that_the_customer_is_gone(
    order: Order, agent: User, colleague: User, browser: Client, screen: Screen
) -> None:
    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    state = screen.state()
    assert (state["held"], state["says"]) == (
        False,
        ["You were inactive for ten minutes, so the customer was released."],
    )
    assert f"{DESK}take/{order.id}/" in browser.get(screen.address).content.decode()

    claims.take(order.id, agent=agent)
    assert screen.state()["says"] == ["You are calling this customer on another page."]
    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    claims.take(order.id, agent=colleague)
    assert screen.state()["says"] == ["Nadia is calling this customer now."]
    claims.release(Claim.objects.get().id)
    assert screen.state()["says"] == ["The call was finished, or a supervisor released the customer."]
    response = screen.press("confirm", note="Livrer le matin")
    assert (response.status_code, CallNote.objects.count()) == (409, 0)
    assert "Livrer le matin" in response.content.decode()


@pytest.mark.parametrize(
    ("outcome", "why"),
    [("busy", r"You noted “Busy” at \d\d:\d\d\."), ("confirm", r"Already confirmed by Samira at \d\d:\d\d\.")],
)
def test_who_comes_back_from_a_lost_answer_learns_what_is_noted(
    outcome: str, why: str, order: Order, colleague: User, browser: Client, screen: Screen
) -> None:
    screen.press(outcome, note="Livrer le matin")
    assert re.fullmatch(why, screen.state()["says"][0])
    back = browser.get(f"{screen.address}?order={order.id}")
    assert re.fullmatch(why, told(back))
    assert f'<a href="{order_page(order)}">See the order: ' in back.content.decode()
    if outcome == "busy":
        claim_id = claims.take(order.id, agent=colleague)
        assert re.fullmatch(why, screen.state()["says"][0])
        other = browser_of(colleague).get(f"{DESK}{claim_id}/state/", {"seen": screen.form["seen"]})
        assert "noted" not in other.content.decode()


def test_what_was_noted_of_one_order_says_nothing_of_the_others(
    alice: Account, order: Order, agent: User, browser: Client
) -> None:
    make_order(alice)
    screen = take(browser, order)
    screen.press("confirm")
    claims.release(Claim.objects.get().id)
    assert screen.state()["says"] == ["The call was finished, or a supervisor released the customer."]


def test_who_loads_the_page_again_or_comes_back_to_it_learns_why_the_customer_is_gone(
    order: Order, agent: User, colleague: User, browser: Client, screen: Screen
) -> None:
    pages = (f"{screen.address}?order={order.id}", f"{screen.address}edit/{order.id}/")
    for taker, why in (
        (agent, "You are calling this customer on another page."),
        (colleague, "Nadia is calling this customer now."),
    ):
        Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
        claims.take(order.id, agent=taker)
        for page in pages:
            assert told(browser.get(page, follow=True)) == why


def test_of_an_order_whose_number_was_corrected_meanwhile_the_page_shows_the_way(
    alice: Account, colleague: User, browser: Client
) -> None:
    order = make_order(alice, external_id="C-1")
    screen = take(browser, order)
    reload = re.search(rf'href="({screen.address}[^"]*)">Reload', screen.text)
    shop = Actor(Role.MERCHANT, "shop")
    amending.amend(order.account_id, order.id, {"customer_phone": "0661 22 33 44"}, actor=shop)
    pressed = screen.press("confirm", note="Livrer le matin")
    assert (pressed.status_code, CallNote.objects.count()) == (409, 0)
    assert reload is not None
    for page in (pressed, browser.get(reload[1]), browser.get(f"{screen.address}edit/{order.id}/", follow=True)):
        assert f'<a href="{order_page(order)}">See the order: C-1, Alice' in page.content.decode()
        assert "Nothing is left to decide." not in page.content.decode()
        assert f'action="{DESK}take/{order.id}/"' in page.content.decode()
    called = claims.take(order.id, agent=colleague)
    assert f"{DESK}take/" not in browser.get(reload[1]).content.decode()
    claims.release(called)
    assert "The order&#x27;s phone number has changed." in browser.get(reload[1]).content.decode()
    assert f"{DESK}take/{order.id}/" in browser.get(order_page(order)).content.decode()
    assert browser.get(f"{screen.address}?order=x").status_code == 200
    again = browser.post(f"{DESK}take/{order.id}/", follow=True)
    assert "0661 22 33 44" in again.content.decode()


@pytest.mark.parametrize("orders", [1, 2])
def test_an_open_call_says_that_the_number_is_another_and_who_calls_it(
    orders: int, alice: Account, colleague: User, browser: Client
) -> None:
    """The agent may be talking to somebody else, whatever else was edited since."""
    order, *rest = [make_order(alice) for _ in range(orders)]
    screen = take(browser, order)
    says = "Order 1: The order's phone number has changed." if rest else "The order's phone number has changed."
    shop = Actor(Role.MERCHANT, "shop")
    amending.amend(order.account_id, order.id, {"customer_phone": "+213 550 12 34 56"}, actor=shop)
    assert screen.state()["says"][0].endswith("The order has changed since you opened it.")  # the same number
    amending.amend(order.account_id, order.id, {"customer_phone": "0661 22 33 44"}, actor=shop)
    assert screen.state()["says"] == [says]
    editing.edit(order.id, editing.Edit(customer_name="Amina"), actor=Actor.of_staff(colleague))
    assert screen.state()["says"] == [says]
    claims.take(order.id, agent=colleague)
    pressed = screen.press("no_answer")
    assert (pressed.status_code, CallNote.objects.count()) == (409, 0)
    called = "" if rest else " Nadia is calling this customer now."  # the page goes on with the other order
    assert told(pressed) == f"{says} Nothing was saved.{called}"
    assert f"{DESK}take/" not in pressed.content.decode()
    if not rest:
        reloaded = browser.get(f"{screen.address}?order={order.id}")
        assert told(reloaded) == says + called
    lifecycle.cancel(order.id, actor=Actor.of_staff(colleague))
    assert "Already canceled by Nadia at " in screen.state()["says"][0]


def test_the_clock_of_a_web_host_decides_about_no_lease(
    order: Order, colleague: User, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = timezone.now() + timedelta(minutes=20)
    monkeypatch.setattr(timezone, "now", lambda: late)
    state = screen.state()
    assert (state["held"], state["lease"] > 500) == (True, True)
    claims.release(screen.claim_id)
    claims.take(order.id, agent=colleague)
    assert screen.state()["says"] == ["Nadia is calling this customer now."]


def test_signs_of_life_renew_the_lease_and_looking_does_not(order: Order, browser: Client, screen: Screen) -> None:
    Claim.objects.update(expires_at=Now() + timedelta(seconds=30))
    assert screen.state()["lease"] <= 30
    assert browser.post(f"{screen.address}keep/").json() == {"held": True, "lease": 600}
    assert screen.state()["lease"] > 590
    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert browser.post(f"{screen.address}keep/").json() == {"held": False, "lease": 0}


@pytest.mark.parametrize("seen", ["", "x", "1:2:3", f"{STRANGE}:1", f"{STRANGE}:{'9' * 5000}"])
def test_state_bears_any_question(seen: str, screen: Screen) -> None:
    assert screen.browser.get(f"{screen.address}state/", {"seen": seen}).json()["held"] is True


# --- Editing -----------------------------------------------------------------------------------------------------


def edit_form(order: Order, **changes: Any) -> dict[str, Any]:
    items = list(order.items.order_by("position"))
    return {
        "version": order.version,
        "customer_name": order.customer_name,
        "customer_address": order.customer_address,
        "wilaya": "Alger",
        "commune": "",
        "shipping_fee": str(order.shipping_fee),
        **{f"quantity-{item.id}": item.quantity for item in items},
        **changes,
    }


def two_lines(account: Account) -> Order:
    lines = [order_line(quantity=2, product_name=f"P{n}", unit_price=Decimal(1000)) for n in range(2)]
    return make_order(account, items=lines, total_amount=Decimal(4400), shipping_fee=Decimal(400))


def test_an_edit_is_written_down_and_the_total_follows(alice: Account, browser: Client) -> None:
    order = two_lines(alice)
    first, second = order.items.order_by("position")
    screen = take(browser, order)
    form = edit_form(
        order,
        customer_name=" Amina Benali ",
        wilaya="وهران",
        commune="Bir el Djir",
        shipping_fee="600,50",
        **{f"quantity-{first.id}": 3, f"remove-{second.id}": "on"},
    )
    response = browser.post(f"{screen.address}edit/{order.id}/", form)
    assert response.url == f"{screen.address}?order={order.id}"
    order.refresh_from_db()
    assert (order.wilaya_code, order.commune_code, order.total_amount) == ("31", "3103", Decimal("3600.50"))
    assert edits(order)["customer_name"] == ("Amine Benali", "Amina Benali")
    assert edits(order)["total_amount"] == ("4400.00", "3600.50")
    assert edits(order)["items.1.quantity"] == ("2", "0")
    assert "Amina Benali" in browser.get(screen.address).content.decode()
    assert "Quantity in line 2" in browser.get(screen.address).content.decode()


def test_of_an_order_that_was_changed_often_the_screen_has_the_latest_changes(
    alice: Account, browser: Client, order: Order
) -> None:
    """One order may have ten thousand changes, and a customer twenty such orders. All of them made a page of 264 MB."""
    made = {"account": alice, "order": order, "field": "notes", "actor": "Shop"}
    OrderEdit.objects.bulk_create(
        OrderEdit(**made, old=f"[{n}]", new=f"[{n + 1}]", at=timezone.now() - timedelta(seconds=150 - n))
        for n in range(customer.MOST_LATEST)
    )
    screen = take(browser, order)
    older = "Older calls and changes are on the order's page."
    page = browser.get(screen.address).content.decode()
    assert page.count("[0]") == 1
    assert older not in page
    OrderEdit.objects.create(**made, old="[last]", new="", at=timezone.now())
    page = browser.get(screen.address).content.decode()
    assert (page.count("[0]"), page.count("[1]"), page.count("[last]")) == (0, 1, 1)
    assert page.index("[last]") < page.index("[1]")
    assert older in page


def test_of_an_order_that_was_called_often_the_screen_has_the_latest_calls(
    alice: Account, browser: Client, order: Order
) -> None:
    CallNote.objects.bulk_create(
        CallNote(
            account=alice, order=order, outcome="note", note=f"[{n}]", created_at=timezone.now() - timedelta(days=n)
        )
        for n in range(customer.MOST_LATEST + 1)
    )
    page = browser.get(take(browser, order).address).content.decode()
    assert re.findall(r"\[(\d+)\]", page) == [str(n) for n in range(customer.MOST_LATEST)]
    assert "Older calls and changes are on the order's page." in page


def test_what_stays_the_same_is_no_edit(alice: Account, browser: Client) -> None:
    order = make_order(alice, customer_wilaya="W. d'Alger", customer_commune="bab ezouar")
    screen = take(browser, order)
    browser.post(f"{screen.address}edit/{order.id}/", edit_form(order, commune="Bab Ezzouar"))
    order.refresh_from_db()
    assert (order.version, order.customer_commune, edits(order)) == (1, "bab ezouar", {})


def test_a_commune_may_be_left_out(alice: Account, browser: Client) -> None:
    order = make_order(alice, customer_commune="Bab Ezzouar")
    screen = take(browser, order)
    browser.post(f"{screen.address}edit/{order.id}/", edit_form(order))
    order.refresh_from_db()
    assert (order.customer_commune, order.commune_code) == ("", None)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"customer_name": ""}, "This field is required."),
        ({"customer_name": "a\x07b"}, "This text has characters that cannot be stored."),
        ({"customer_address": "x" * 501}, "at most 500 characters"),
        ({"wilaya": "Milia"}, "“Milia” is not a wilaya."),
        ({"commune": "Bab Ezzouat"}, "Bab Ezzouar"),
        ({"shipping_fee": "4e2"}, "Enter an amount such as 400 or 400.50."),
        ({"shipping_fee": "1.005"}, "Enter an amount such as 400 or 400.50."),
        ({"shipping_fee": "99999999"}, "The total would become"),
    ],
)
def test_an_unusable_edit_comes_back_with_words(
    data: dict[str, str], sentence: str, alice: Account, browser: Client
) -> None:
    order = two_lines(alice)
    screen = take(browser, order)
    response = browser.post(f"{screen.address}edit/{order.id}/", edit_form(order, customer_name="Amina") | data)
    assert response.status_code == 422
    assert sentence in response.content.decode()
    order.refresh_from_db()
    assert order.version == 1


@pytest.mark.parametrize("quantity", ["", "-1", "1.5", "10001", "1_0", "١٢", "9" * 40])
def test_quantities_are_whole_numbers(quantity: str, alice: Account, browser: Client) -> None:
    order = two_lines(alice)
    item = order.items.first()
    screen = take(browser, order)
    form = edit_form(order, **{f"quantity-{item.id}": quantity})
    assert browser.post(f"{screen.address}edit/{order.id}/", form).status_code == 422
    assert order.edits.count() == 0


def test_an_order_keeps_a_line(alice: Account, browser: Client) -> None:
    order = two_lines(alice)
    screen = take(browser, order)
    form = edit_form(order, **{f"remove-{item.id}": "on" for item in order.items.all()})
    response = browser.post(f"{screen.address}edit/{order.id}/", form)
    assert "An order must keep at least one line." in response.content.decode()


def test_an_edit_writes_nothing_over_what_the_merchant_did(
    alice: Account, order: Order, browser: Client, screen: Screen, api: Client
) -> None:
    make_order(alice)  # of the same customer, who stays the agent's
    address, form = f"{screen.address}edit/{order.id}/", edit_form(order, customer_name="Aminata")
    assert browser.get(address).status_code == 200
    assert api.post(f"/api/v1/orders/{order.id}/cancel").status_code == 200
    for sent in ({}, {"search": "1"}):
        kept = browser.post(address, form | sent)
        assert 'value="Aminata"' in kept.content.decode()
    assert browser.get(address).url == f"{screen.address}?order={order.id}"
    assert "Already canceled by" in told(browser.get(address))
    order.refresh_from_db()
    assert (order.status, order.customer_name, order.version) == ("canceled", "Amine Benali", 2)


def test_an_edit_needs_the_customer_and_the_version(alice: Account, colleague: User, browser: Client) -> None:
    order = two_lines(alice)
    screen = take(browser, order)
    address = f"{screen.address}edit/{order.id}/"
    form = edit_form(order, customer_name="Amina")
    assert browser_of(colleague).post(address, form).url == f"{screen.address}?order={order.id}"
    other = make_order(alice, phone="0770123456")
    assert browser.get(f"{screen.address}edit/{other.id}/").url == f"{screen.address}?order={other.id}"
    assert browser.get(address).status_code == 200
    editing.edit(order.id, editing.Edit(customer_name="Aminata"), actor=Actor.of_staff(colleague))
    response = browser.post(address, form)
    assert response.status_code == 422
    assert response.context["form"].non_field_errors()[0].startswith("The order has changed since you opened it.")
    assert 'value="Amina"' in response.content.decode()  # what was typed is still there
    order.refresh_from_db()
    assert order.customer_name == "Aminata"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"q": "oran"}, ["Oran"]),
        ({"q": "وهر"}, ["Oran"]),
        ({"q": "bejai"}, ["Bejaïa"]),
        ({"q": "bab", "wilaya": "الجزائر"}, ["Bab El Oued", "Bab Ezzouar", "Baba Hassen"]),
        ({"q": "باب", "wilaya": "16"}, ["Bab El Oued", "Bab Ezzouar", "Baba Hassen"]),
        ({"q": "إليزي", "wilaya": "33"}, ["Illizi"]),  # the commune itself is spelled إيليزي
        ({"q": "عين تي", "wilaya": "46"}, ["Aïn Témouchent"]),  # and this one عين تموشنت
        ({"q": "bab", "wilaya": "no such place"}, []),
        ({"q": "zzz"}, []),
    ],
)
def test_places_are_found_while_typing_in_both_scripts(
    query: dict[str, str], names: list[str], browser: Client
) -> None:
    places = browser.get("/console/regions/", query).json()["places"]
    assert [place["name"] for place in places] == names


# --- What it costs -----------------------------------------------------------------------------------------------


def crowded(alice: Account, charlie: Account, agent: User, phone: str, orders: int) -> None:
    """A customer with several orders, lines with stock, calls, earlier orders and a duplicate under another number."""
    products = [ProductFactory(account=alice) for _ in range(3)]
    lines = [order_line(quantity=1, product_id=product.id) for product in products]
    for number in range(orders):
        earlier = make_order(charlie, phone=phone)
        lifecycle.cancel(earlier.id, actor=Actor.of_staff(agent), reason="Duplicate")
        order = make_order(alice, phone=phone, items=lines)
        make_order(charlie, phone=f"07{number}{phone[3:]}")
        for _ in range(number):
            lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.BUSY))


@pytest.mark.parametrize("chosen", ["nobody", "colleague"])
def test_to_whom_is_asked_as_django_asks(chosen: str, agent: User, colleague: User) -> None:
    AgentFactory(username="mallory", first_name='"><b onclick=x>&amp;')
    to = {"nobody": "", "colleague": str(colleague.pk)}[chosen]
    form = forms.OutcomeForm(QueryDict(f"to={to}"), claim_id=uuid7(), agent=agent)
    ours = str(form["to"])
    form.fields["to"].widget = Select(choices=form.fields["to"].choices)
    assert parse_html(ours) == parse_html(str(form["to"]))


def test_to_whom_is_asked_of_everybody_else_by_the_name_that_histories_keep(agent: User, colleague: User) -> None:
    for names in ({"first_name": " Lina "}, {"last_name": "Ziani"}, {"first_name": "y" * 150, "last_name": "z" * 150}):
        AgentFactory(**{"first_name": "", **names})
    AgentFactory(is_active=False)
    field = forms.OutcomeForm(QueryDict(f"to={agent.pk}"), claim_id=uuid7(), agent=agent).fields["to"]
    workers = User.objects.filter(is_active=True, groups__permissions__codename="work_order").distinct()
    others = workers.exclude(pk=agent.pk).order_by("first_name", "username")
    assert list(field.choices)[1:] == [(each.pk, each.display_name) for each in others]
    assert field.clean(str(colleague.pk)) == colleague
    with pytest.raises(ValidationError):
        field.clean(str(agent.pk))


@pytest.mark.parametrize("orders", [1, 5])
def test_next_and_the_screen_take_fifteen_statements(
    orders: int, alice: Account, charlie: Account, agent: User, colleague: User, browser: Client
) -> None:
    crowded(alice, charlie, colleague, "0550123456", orders)
    with CaptureQueriesContext(connection) as queries:
        screen = browser.post(f"{DESK}next/").url
        response = browser.get(screen)
    assert len(response.context["customer"].pending) == orders
    statements = [query["sql"] for query in queries]
    assert len(statements) <= 15, "\n".join(statements)


def test_the_look_of_an_open_screen_is_one_statement(screen: Screen) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert screen.state()["held"]
    ours = [query["sql"] for query in queries if re.search("agents_|orders_", query["sql"])]
    assert (len(ours), len(queries)) == (1, 3), ours  # the others look up the session, and its person with their rights


def test_that_many_orders_have_changed_is_learnt_by_three_statements_more(
    alice: Account, colleague: User, order: Order, browser: Client
) -> None:
    orders = [order, *(make_order(alice) for _ in range(4))]
    screen = take(browser, order)
    for each in orders[:3]:
        editing.edit(each.id, editing.Edit(customer_name="Amina"), actor=Actor.of_staff(colleague))
    for each in orders[3:]:
        lifecycle.confirm(each.id, actor=Actor.of_staff(colleague))
    with CaptureQueriesContext(connection) as queries:
        says = screen.state()["says"]
    assert len(says) == 5
    assert says[0] == "Order 1: The order has changed since you opened it."
    assert says[4].startswith("Order 5: Already confirmed by Nadia at ")
    assert len(queries) == 6


def test_pages_of_the_desk_cost_the_same_whatever_waits(
    alice: Account, charlie: Account, agent: User, colleague: User, browser: Client
) -> None:
    counts = []
    for number in range(2):
        for row in range(1 + 4 * number):
            crowded(alice, charlie, colleague, f"055012{number}{row}00", 1 + number)
            waits(make_order(alice, phone=f"066012{number}{row}00"), CallState.CALLBACK, -1, agent)
            claims.take(make_order(alice, phone=f"077012{number}{row}00").id, agent=AgentFactory())
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(DESK).status_code == 200
        counts.append(len(queries))
    few, many = counts
    assert few == many
    assert many <= 8


# --- Nothing is said to be done that was not -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "untrue"),
    [
        ("confirm", "cancel", "is canceled"),
        ("cancel", "confirm", "is confirmed"),
        ("no_answer", "confirm", "is confirmed"),
        ("no_answer", "callback_hour", "You will call"),
    ],
)
def test_another_button_of_the_same_screen_is_no_repetition(
    first: str, second: str, untrue: str, screen: Screen, order: Order
) -> None:
    """The first answer was lost, or the browser went back to the page."""
    assert screen.press(first).status_code == 302
    order.refresh_from_db()
    became = (order.status, order.call_state, order.call_due_at)
    assert untrue not in told(screen.press(second))
    order.refresh_from_db()
    assert (order.status, order.call_state, order.call_due_at) == became
    assert CallNote.objects.count() == 1


def test_the_same_button_for_another_order_decides_that_one(alice: Account, screen: Screen) -> None:
    other = make_order(alice)
    screen.read(screen.browser.get(screen.address))
    for order in screen.pending:
        assert "is confirmed" in told(screen.press("confirm", order=str(order.id), asked=str(order.id)))
    other.refresh_from_db()
    assert (other.status, CallNote.objects.count()) == ("confirmed", 2)


def test_the_customer_on_the_line_stays_on_the_screen(alice: Account, browser: Client) -> None:
    """This holds even though another customer has been in hand for longer."""
    make_order(alice, phone="0550000001")
    one, two = (make_order(alice, phone="0550000002") for _ in range(2))
    next_order(browser)
    screen = take(browser, one)
    assert Screen(browser, screen.press("confirm").url).pending == [two]


def test_in_a_night_the_button_of_the_day_that_has_begun_says_today(
    alice: Account, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    CallingPeriod.objects.all().delete()
    night = {"opens_at": time.min, "closes_at": time(23, 59), "break_from": time(1), "break_until": time(18)}
    CallingRules.objects.create(account=alice, **night, days_off=[])
    read = customer.read

    def at_night(*args: Any, **named: Any) -> customer.Customer | None:
        found = read(*args, **named)
        return found and replace(found, shown_at=days.at(days.today(), time(0, 30)))

    monkeypatch.setattr(customer, "read", at_night)
    text = take(browser, make_order(alice)).text
    assert "Today <small>18:00</small>" in text
    assert "callback_evening" not in text


# --- Two merchants with no common hour except in a season far ahead --------------------------------------------------


@pytest.fixture
def apart(alice: Account, charlie: Account, browser: Client) -> Screen:
    CallingPeriod.objects.all().delete()
    CallingRules.objects.create(account=alice, opens_at=time(9), closes_at=time(12), days_off=[])
    CallingRules.objects.create(account=charlie, opens_at=time(14), closes_at=time(18), days_off=[])
    first = days.today() + timedelta(days=40)
    CallingPeriod.objects.create(
        first_day=first, last_day=first + timedelta(days=29), opens_at=time(10), closes_at=time(15, 30)
    )
    make_order(charlie)
    return take(browser, make_order(alice))


def test_the_time_on_the_button_is_promised(apart: Screen) -> None:
    assert "Tomorrow <small>10:00</small>" in apart.text
    assert apart.press("callback_tomorrow").status_code == 302
    tomorrow = datetime.combine(days.today() + timedelta(days=1), time(10), ALGIERS)
    assert {order.call_due_at for order in Order.objects.all()} == {tomorrow}


def test_a_time_in_the_hours_of_one_of_them_can_be_promised(apart: Screen) -> None:
    at = (days.today() + timedelta(days=1)).isoformat() + "T10:30"
    assert apart.press("callback", at=at).status_code == 302
