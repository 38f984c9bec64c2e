"""What supervisors do besides calling: review, claims, moves of many orders, calling rules."""

import re
from datetime import time, timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.formats import date_format

from agents.desk import claims, decisions
from agents.desk.forms import OLD_PAGE
from agents.models import CallingPeriod, CallingRules, Claim
from agents.supervision import bulk_update, people, periods, review, rules
from codservice import days
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, SecurityEntry, User
from codservice.long_lists import BoundedPaginator
from orders import editing, lifecycle
from orders.models import CallNote, CallState, Order, Status, StatusChange
from tests.factories import make_order
from tests.harness.client import browser_of

REVIEW, CLAIMS, MOVES, LIST = "/console/review/", "/console/claims/", "/console/moves/", "/console/orders/order/"


def said(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


@pytest.fixture
def browser(supervisor: User) -> Any:
    return browser_of(supervisor)


# --- Review ------------------------------------------------------------------------------------------------------


@pytest.fixture
def for_review(order: Order, agent: User) -> Order:
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.NO_ANSWER, note="Toujours éteint")
    )
    Order.objects.update(call_state=CallState.REVIEW, call_attempts=6)
    return order


def shown(browser: Any) -> list[str]:
    """The orders of the page, as its form sends those that are chosen."""
    return re.findall(r'name="order" value="([^"]+)"', browser.get(REVIEW).content.decode())


def test_the_review_list_says_why_an_order_is_there(for_review: Order, alice: Account, browser: Any) -> None:
    make_order(alice, customer_name="Somebody else", phone="0661 11 22 33")
    text = browser.get(REVIEW).content.decode()
    for piece in ("Amine Benali", "0550 12 34 56", "No answer", "Samira", "Toujours éteint", "Alice&#x27;s shop"):
        assert piece in text
    assert "Somebody else" not in text


def test_who_skips_an_order_is_not_why_it_is_there(for_review: Order, supervisor: User, browser: Any) -> None:
    skip = lifecycle.Call(supervisor, CallNote.Outcome.SKIPPED, "Bad line")
    decisions.note_call(decisions.Screen(claims.take(for_review.id, agent=supervisor), supervisor, {}), skip)
    text = browser.get(REVIEW).content.decode()
    assert "Toujours éteint" in text
    assert "Bad line" not in text


def test_a_call_in_vain_hides_not_why_an_order_is_there(
    order: Order, agent: User, supervisor: User, browser: Any
) -> None:
    def noted(by: User, outcome: CallNote.Outcome, note: str = "") -> None:
        call = lifecycle.Call(by, outcome, note)
        decisions.note_call(decisions.Screen(claims.take(order.id, agent=by), by, {}), call)

    def whys() -> list[tuple[str, str]]:
        cell = re.search(r'<td class="reason">(.+?)</td>', browser.get(REVIEW).content.decode())
        return re.findall(r"<div>([^<]+) · <bdi>([^<]+)</bdi>", cell[1]) if cell else []

    noted(agent, CallNote.Outcome.HANDED_OVER, "Speaks Kabyle only")
    noted(supervisor, CallNote.Outcome.BUSY)
    noted(supervisor, CallNote.Outcome.NO_ANSWER)
    assert whys() == [("Handed over", "Samira"), ("No answer", supervisor.display_name)]
    browser.post(REVIEW, {"order": shown(browser), "requeue": "1"})
    for _ in range(6):
        noted(agent, CallNote.Outcome.NO_ANSWER)
    assert whys() == [("No answer", "Samira")], "that was dealt with"
    noted(supervisor, CallNote.Outcome.WRONG_NUMBER)
    noted(supervisor, CallNote.Outcome.BUSY)
    assert whys() == [("Wrong number", supervisor.display_name), ("Busy", supervisor.display_name)]
    new = editing.Edit(customer_phone="0661223344", phone_e164="+213661223344")
    editing.edit(order.id, new, actor=Actor.of_staff(supervisor))
    for _ in range(6):
        noted(agent, CallNote.Outcome.NO_ANSWER)
    assert whys() == [("No answer", "Samira")], "at the new number"


def test_a_supervisor_calls_from_the_review_list(for_review: Order, supervisor: User, browser: Any) -> None:
    response = browser.post(REVIEW, {"take": str(for_review.id)})
    claim = Claim.objects.get()
    assert claim.agent == supervisor
    assert response.url == f"/console/desk/{claim.id}/"


def test_who_is_being_called_is_not_taken_away(for_review: Order, agent: User, browser: Any) -> None:
    claims.take(for_review.id, agent=agent)
    assert b"Samira is calling" in browser.get(REVIEW).content
    assert "Samira is calling this customer." in said(browser.post(REVIEW, {"take": str(for_review.id)}, follow=True))
    assert Claim.objects.get().agent == agent


def test_orders_go_back_to_the_agents_one_or_many(for_review: Order, alice: Account, agent: User, browser: Any) -> None:
    make_order(alice, phone="0661 11 22 33")
    Order.objects.update(call_state=CallState.REVIEW, call_attempts=6)
    response = browser.post(REVIEW, {"order": shown(browser), "requeue": "1"}, follow=True)
    assert said(response) == ["2 orders are back in the queue."]
    assert set(Order.objects.values_list("call_state", "call_attempts")) == {("retry", 0)}
    assert claims.next_customer(agent)
    assert said(browser.post(REVIEW, {"requeue": "1"}, follow=True)) == ["Choose at least one order."]


def test_what_a_colleague_has_dealt_with_since_stays(
    for_review: Order, alice: Account, agent: User, colleague: User, browser: Any
) -> None:
    """The page was opened before they did: nobody phones a stranger because the page was old."""
    other, decided = make_order(alice, phone="0661 11 22 33"), make_order(alice, phone="0661 11 22 44")
    Order.objects.update(call_state=CallState.REVIEW)
    seen = shown(browser)
    wrong = lifecycle.Call(colleague, CallNote.Outcome.WRONG_NUMBER, "C'est un autre")
    decisions.note_call(decisions.Screen(claims.take(for_review.id, agent=colleague), colleague, {}), wrong)
    lifecycle.cancel(decided.id, actor=Actor.of_staff(agent))

    response = browser.post(REVIEW, {"order": seen, "requeue": "1"}, follow=True)

    changed = lifecycle.Changed().message
    assert said(response) == ["1 order is back in the queue.", f"2 orders stay as they are: {changed}"]
    for_review.refresh_from_db()
    other.refresh_from_db()
    assert (for_review.call_state, other.call_state) == (CallState.REVIEW, CallState.RETRY)


def test_whom_a_supervisor_is_calling_does_not_go_back(
    for_review: Order, alice: Account, supervisor: User, browser: Any
) -> None:
    """Their own page had been opened before, or is a colleague's."""
    for phone in ("0661 11 22 33", "0661 11 22 44"):
        make_order(alice, phone=phone)
    Order.objects.update(call_state=CallState.REVIEW, call_attempts=6)
    seen = shown(browser)
    claims.take(for_review.id, agent=supervisor)
    changed = Order.objects.latest("id")
    lifecycle.cancel(changed.id, actor=Actor.of_staff(supervisor))

    response = browser.post(REVIEW, {"order": seen, "requeue": "1"}, follow=True)

    first, *others = said(response)
    assert first == "1 order is back in the queue."
    assert sorted(others) == [
        "1 order stays as it is: Somebody is calling this customer.",
        f"1 order stays as it is: {lifecycle.Changed().message}",
    ]
    for_review.refresh_from_db()
    assert (for_review.call_state, for_review.call_attempts) == (CallState.REVIEW, 6)


@pytest.mark.parametrize("sent", [["{id}"], ["{id}:x"], ["{id}:2", "no id"]])
def test_nothing_goes_back_from_a_page_that_does_not_say_what_it_showed(
    sent: list[str], for_review: Order, browser: Any
) -> None:
    orders = [text.format(id=for_review.id) for text in sent]
    response = browser.post(REVIEW, {"order": orders, "requeue": "1"}, follow=True)
    assert said(response) == [str(OLD_PAGE)]
    assert Order.objects.get().call_state == CallState.REVIEW


@pytest.mark.parametrize("data", [{"take": "x"}, {"take": "01980000-0000-7000-8000-000000000000"}, {}])
def test_odd_reviews_are_no_crash(data: dict[str, str], browser: Any) -> None:
    assert browser.post(REVIEW, data, follow=True).status_code == 200


# --- Claims ------------------------------------------------------------------------------------------------------


def test_everybody_sees_who_holds_whom_and_supervisors_release(
    order: Order, agent: User, colleague: User, browser: Any
) -> None:
    claim = claims.take(order.id, agent=agent)
    for page in (browser_of(colleague).get(CLAIMS), browser.get(CLAIMS)):
        text = page.content.decode()
        assert "Amine Benali" in text
        assert "Samira" in text
    assert b"Release" not in browser_of(colleague).get(CLAIMS).content
    assert b"Samira is calling" in browser_of(colleague).get(LIST).content
    assert "is released" in said(browser.post(CLAIMS, {"claim": str(claim)}, follow=True))[0]
    assert not Claim.objects.exists()
    again = said(browser.post(CLAIMS, {"claim": str(claim)}, follow=True))
    assert again == ["This customer was no longer being called."]
    assert browser.post(CLAIMS, {"claim": "x"}, follow=True).status_code == 200


def test_a_release_says_who_has_the_promised_call_and_when_others_get_it(
    alice: Account, agent: User, colleague: User, browser: Any
) -> None:
    due_at = days.at(days.today() + timedelta(days=2), time(17))
    promised = make_order(alice)
    planned = {"call_state": CallState.CALLBACK, "call_due_at": due_at, "callback_agent": colleague}
    Order.objects.filter(id=promised.id).update(**planned)
    make_order(alice, phone=promised.customer_phone)

    def released() -> str:
        claim = claims.take(promised.id, agent=agent)
        return said(browser.post(CLAIMS, {"claim": str(claim)}, follow=True))[0]

    assert "the next agent who presses Next order" in released(), "for the other order"
    Order.objects.exclude(id=promised.id).update(call_state=CallState.REVIEW)
    assert released() == (
        f"The customer is released. Nadia has the call planned for {date_format(due_at, 'j N, H:i')}; "
        "others get the customer once it is 15 minutes overdue."
    )


def test_a_customer_in_progress_is_called_as_on_the_desk(
    order: Order, agent: User, alice: Account, charlie: Account, browser: Any
) -> None:
    """The name is that of the order that has waited longest, or of the newest decided order if none waits."""
    for shop, name in ((alice, "A. Benali"), (charlie, "Amine B.")):
        make_order(shop, phone=order.customer_phone, customer_name=name)
    claims.take(order.id, agent=agent)
    for page in (CLAIMS, "/console/desk/"):
        assert re.findall("Amine Benali|A. Benali|Amine B[.]", browser.get(page).content.decode()) == ["Amine Benali"]
    Order.objects.update(status=Status.CANCELED)
    assert "Amine B." in browser.get(CLAIMS).content.decode()


def test_claims_that_ran_out_are_not_shown(order: Order, agent: User, browser: Any) -> None:
    claims.take(order.id, agent=agent)
    Claim.objects.update(expires_at="2020-01-01T00:00Z")
    assert b"No agent is calling a customer now." in browser.get(CLAIMS).content
    assert b"is calling" not in browser.get(LIST).content


# --- Filters of the list -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["First", "Second", "Third"]),
        ({"merchant": "charlie"}, ["Third"]),
        ({"merchant": '"Charlie\'s shop"'}, ["Third"]),
        ({"merchant": '"charlie\'s SHOP"'}, ["Third"]),
        ({"merchant": "“Charlie's shop”"}, ["Third"]),
        ({"merchant": "«Charlie's shop»"}, ["Third"]),
        ({"merchant": "«\u202fcharlie's shop\u202f»"}, ["Third"]),
        ({"merchant": '"shop"'}, []),
        ({"merchant": "«\u202fshop\u202f»"}, []),
        ({"merchant": "«\u202f»"}, []),
        ({"merchant": '"'}, []),
        ({"wilaya": "31"}, ["Second"]),
        ({"first": "2026-03-02", "last": "2026-03-02"}, ["Second"]),
        ({"last": "2026-03-01"}, ["First"]),
        ({"first": "2026-03-03"}, ["Third"]),
        ({"call": "callback"}, ["First"]),
        ({"holder": "anybody"}, ["Second"]),
        ({"wilaya": "31", "merchant": "charlie"}, []),
        ({"wilaya": "99"}, []),
        ({"first": "x"}, []),
        ({"holder": "01980000-0000-7000-8000-000000000000"}, []),
        ({"merchant": "\0"}, []),
        ({"q": "first", "wilaya": "16"}, ["First"]),
    ],
)
def test_filters(
    query: dict[str, str], names: list[str], alice: Account, charlie: Account, agent: User, browser: Any
) -> None:
    make_order(alice, customer_name="First", phone="0550 00 00 01")
    second = make_order(alice, customer_name="Second", phone="0550 00 00 02", customer_wilaya="31")
    make_order(charlie, customer_name="Third", phone="0550 00 00 03")
    for name, created_at in (
        ("First", "2026-03-01T12:00Z"), ("Second", "2026-03-01T23:30Z"), ("Third", "2026-03-02T23:30Z"),
    ):  # fmt: skip
        Order.objects.filter(customer_name=name).update(created_at=created_at)
    Order.objects.filter(customer_name="First").update(call_state=CallState.CALLBACK)
    claims.take(second.id, agent=agent)
    response = browser.get(LIST, query)
    assert [order.customer_name for order in response.context["cl"].result_list] == names


def test_the_holder_can_be_one_agent(order: Order, agent: User, colleague: User, browser: Any) -> None:
    claims.take(order.id, agent=agent)
    for holder, count in ((agent, 1), (colleague, 0)):
        assert browser.get(LIST, {"holder": str(holder.id)}).context["cl"].result_count == count


@pytest.mark.parametrize("name", ["call", "holder", "promised"])
def test_where_a_filter_can_find_nothing_the_list_says_where_it_can(
    name: str, order: Order, agent: User, browser: Any
) -> None:
    Order.objects.update(call_state=CallState.CALLBACK, callback_agent=agent)
    claims.take(order.id, agent=agent)
    query = {"q": "Amine", name: "callback" if name == "call" else str(agent.id), "wilaya": "16"}
    said = "Only orders that are pending confirmation can match these filters."
    page = browser.get(LIST, {**query, "status": "confirmed", "p": "1"})
    text = page.content.decode()
    assert said in text
    link = re.search(rf'<a href="([^"]+)">{said}', text)
    assert link
    found = browser.get(LIST + unescape(link[1]))
    assert [each.id for each in found.context["cl"].result_list] == [order.id]
    for other in ({"wilaya": "31", "status": "confirmed"}, {**query, "wilaya": "31", "status": "all"}):
        assert said not in browser.get(LIST, other).content.decode()


# --- Moves of many orders ----------------------------------------------------------------------------------------


@pytest.fixture
def confirmed(alice: Account, agent: User) -> list[Order]:
    orders = [make_order(alice, phone=f"055000000{n}", external_id=f"CMD-{n}") for n in range(3)]
    return [lifecycle.confirm(order.id, actor=Actor.of_staff(agent)) for order in orders]


def preview(browser: Any, to: str, **data: Any) -> Any:
    response = browser.post(MOVES, {"to": to, **data})
    assert response.status_code == 200
    return response


def test_a_preview_says_what_will_move_and_changes_nothing(
    confirmed: list[Order], order: Order, agent: User, browser: Any
) -> None:
    lifecycle.cancel(order.id, actor=Actor.of_staff(agent), reason="x")
    named = f"CMD-0\r\n{confirmed[1].id}\r\nCMD-77\r\n\r\nCMD-0\r\n{order.id}"
    response = preview(browser, "shipped", named=named)
    assert [order.id for order, _ in response.context["movable"]] == [confirmed[0].id, confirmed[1].id]
    assert [why for _, why in response.context["refused"]] == ["The order is canceled; it cannot become shipped."]
    assert response.context["missing"] == ["CMD-77"]
    assert set(Order.objects.values_list("status", flat=True)) == {"confirmed", "canceled"}
    assert not StatusChange.objects.filter(to_status="shipped").exists()


def test_a_preview_says_how_far_an_order_is_that_has_passed_the_status(
    confirmed: list[Order], supervisor: User, browser: Any
) -> None:
    for order, moves in zip(confirmed[:2], (["ship"], ["ship", "deliver"]), strict=True):
        for move in moves:
            lifecycle.move(move, order.id, actor=Actor.of_staff(supervisor))
    refused = preview(browser, "shipped", named="CMD-0\nCMD-1\nCMD-2").context["refused"]
    assert [why for _, why in refused] == ["It is already “Shipped”.", "It is already “Delivered”."]


@pytest.mark.parametrize("named", ["CMD-0\r\nCMD-77", "CMD-77"], ids=["some found", "none found"])
def test_who_chooses_others_finds_what_they_had_typed(named: str, confirmed: list[Order], browser: Any) -> None:
    text = preview(browser, "delivered", named=named).content.decode()
    kept = re.search(r'name="named" value="([^"]*)"', text)
    assert kept
    assert 'name="again" value="1"' in text
    form = preview(browser, "delivered", named=kept[1], again="1").context["form"]
    assert (form["to"].value(), form["named"].value().split()) == ("delivered", named.split())
    assert set(Order.objects.values_list("status", flat=True)) == {"confirmed"}


def test_what_was_seen_is_moved_in_one_go(confirmed: list[Order], browser: Any, supervisor: User) -> None:
    seen = [f"{order.id}:{order.version}" for order in confirmed]
    response = browser.post(MOVES, {"to": "shipped", "make": "1", "seen": seen}, follow=True)
    assert said(response) == ["3 orders are now “Shipped”."]
    assert set(Order.objects.values_list("status", flat=True)) == {"shipped"}
    assert StatusChange.objects.filter(to_status="shipped", user=supervisor).count() == 3
    again = browser.post(MOVES, {"to": "shipped", "make": "1", "seen": seen}, follow=True)
    assert said(again) == [f"3 orders stay as they are: {lifecycle.Changed.message}"]


def test_an_order_that_changed_after_the_preview_stays(confirmed: list[Order], browser: Any, supervisor: User) -> None:
    seen = [f"{order.id}:{order.version}" for order in confirmed]
    lifecycle.move("ship", confirmed[0].id, actor=Actor.of_staff(supervisor))
    response = browser.post(MOVES, {"to": "delivered", "make": "1", "seen": seen}, follow=True)
    assert said(response) == [
        "2 orders are now “Delivered”.",
        f"1 order stays as it is: {lifecycle.Changed.message}",
    ]
    assert Order.objects.get(id=confirmed[0].id).status == "shipped"


def test_a_number_that_two_shops_have_is_not_chosen_by_itself(
    confirmed: list[Order], charlie: Account, agent: User, browser: Any
) -> None:
    twin = make_order(charlie, external_id="CMD-0")
    lifecycle.confirm(twin.id, actor=Actor.of_staff(agent))
    rows = preview(browser, "shipped", named="CMD-0\nCMD-1").context["movable"]
    assert {(order.account.name, order.external_id, is_chosen) for order, is_chosen in rows} == {
        ("Alice's shop", "CMD-0", False),
        ("Charlie's shop", "CMD-0", False),
        ("Alice's shop", "CMD-1", True),
    }


@pytest.mark.parametrize("write", [str, str.upper])
def test_who_is_named_by_id_is_chosen(write: Any, alice: Account, agent: User, browser: Any) -> None:
    orders = [make_order(alice), make_order(alice)]  # neither has a number
    for order in orders:
        lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    movable = preview(browser, "shipped", named="\n".join(write(str(order.id)) for order in orders)).context["movable"]
    assert [is_chosen for _, is_chosen in movable] == [True, True]


@pytest.mark.parametrize("number", ["7d444840-9dc0-11d1-b245-5ffdce74fad2", "20261123000000000000000000000017"])
def test_a_number_that_reads_as_an_id_is_found(number: str, alice: Account, agent: User, browser: Any) -> None:
    order = make_order(alice, external_id=number)
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    context = preview(browser, "shipped", named=f"{number}\n{MOVES}").context
    assert [(found.id, is_chosen) for found, is_chosen in context["movable"]] == [(order.id, True)]
    assert context["missing"] == [MOVES]


def test_a_number_that_too_many_shops_have_is_not_said_to_be_nobodys(
    alice: Account, charlie: Account, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, account in (("1001", alice), ("1001", charlie), ("1002", alice)):
        make_order(account, external_id=number)
    monkeypatch.setattr(bulk_update, "MOST_FOUND", 2)
    assert len(preview(browser, "shipped", named="1001").context["refused"]) == 2
    response = browser.post(MOVES, {"to": "shipped", "named": "1001\n1002"})
    assert response.status_code == 422
    assert "Several shops have these numbers: more than 2 orders." in response.content.decode()


def test_what_one_press_does_not_take_is_said(
    confirmed: list[Order], browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_update, "MOST", 2)
    seen = [f"{order.id}:{order.version}" for order in confirmed]
    response = browser.post(MOVES, {"to": "shipped", "make": "1", "seen": seen}, follow=True)
    assert said(response) == ["2 orders are now “Shipped”.", "1 order stays as it is: More than 2 at once."]
    assert Order.objects.filter(status="shipped").count() == 2


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"to": "shipped"}, "Enter at least one order"),
        ({"to": "canceled", "named": "CMD-0"}, "errornote"),
        ({"to": "shipped", "named": "\n".join(map(str, range(201)))}, "Enter at most 200 orders at once."),
        ({"to": "shipped", "named": "\0"}, "errornote"),
        ({"to": "shipped", "named": " \r\n "}, "Enter at least one order"),
    ],
)
def test_odd_choices_are_explained(data: dict[str, Any], sentence: str, browser: Any) -> None:
    response = browser.post(MOVES, data)
    assert response.status_code == 422
    assert sentence in response.content.decode()


@pytest.mark.parametrize("seen", [[], ["x"], ["01980000-0000-7000-8000-000000000000:1"], [":"], ["\0:1"]])
def test_odd_moves_are_no_crash(seen: list[str], browser: Any) -> None:
    assert browser.post(MOVES, {"to": "shipped", "make": "1", "seen": seen}, follow=True).status_code == 200


@pytest.mark.parametrize(
    "named",
    [
        "CMD-0,CMD-1;CMD-2",
        "CMD-0 CMD-1  CMD-2",
        " CMD-0، CMD-1\tCMD-2,\r\n",
        "CMD-0 CMD-1\r\nCMD-2, CMD-0",
        "CMD-0; CMD-1 CMD-2",
        "\u200eCMD-0\u200e\r\nCMD-1\u200b\r\n\ufeffCMD-2",
        "\u200eCMD-0 CMD-1\u200f,\u200bCMD-2\r\nCMD-0",
        "cmd-0 cmd-1, Cmd-2",
    ],
)
def test_several_numbers_may_stand_in_a_line(named: str, confirmed: list[Order], browser: Any) -> None:
    context = preview(browser, "shipped", named=named).context
    assert {order.external_id for order, _ in context["movable"]} == {"CMD-0", "CMD-1", "CMD-2"}
    assert context["missing"] == []


def test_a_number_with_blanks_or_commas_is_taken_whole(alice: Account, agent: User, browser: Any) -> None:
    for number in ("A 17", "17", "B,1", "1"):
        lifecycle.confirm(make_order(alice, external_id=number).id, actor=Actor.of_staff(agent))
    context = preview(browser, "shipped", named="A 17\nB,1\nC 17\nx, 1").context
    assert [order.external_id for order, _ in context["movable"]] == ["A 17", "B,1", "1"]
    assert context["missing"] == ["C 17", "x"], "17 is no part of a number that nobody has"


def test_an_unknown_number_hides_not_the_others_of_its_line(confirmed: list[Order], browser: Any) -> None:
    context = preview(browser, "shipped", named="CMD-0 CMD-1 CMD-77\nCMD-2, CMD-78").context
    assert [order.external_id for order, _ in context["movable"]] == ["CMD-0", "CMD-1", "CMD-2"]
    assert context["missing"] == ["CMD-77", "CMD-78"]


def test_marks_around_a_number_are_left_out_where_no_order_has_it_with_them(
    alice: Account, agent: User, browser: Any
) -> None:
    marked, plain, unnumbered = (make_order(alice, external_id=number) for number in ("1\u200e", "1", None))
    for order in (marked, plain, unnumbered):
        lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    context = preview(browser, "shipped", named=f"1\u200e\n\u200e{unnumbered.id}\n\u200e2").context
    assert context["movable"] == [(marked, True), (unnumbered, True)]
    assert context["missing"] == ["\u200e2"]
    context = preview(browser, "shipped", named="\u200e1\n1").context
    assert context["movable"] == [(plain, True)]


def test_a_number_is_found_as_people_type_it(alice: Account, agent: User, browser: Any) -> None:
    """As the list's search finds it."""
    for number in ("CMD-1", "#1004", "2004", "cmd-2", "Cmd-2"):
        lifecycle.confirm(make_order(alice, external_id=number).id, actor=Actor.of_staff(agent))
    named = "cmd-1\n1004\n\u200e#2004\ncmd-2\ncmd-3"
    context = preview(browser, "shipped", named=named).context
    assert [(order.external_id, is_chosen) for order, is_chosen in context["movable"]] == [
        ("CMD-1", True),
        ("#1004", True),
        ("2004", True),
        ("cmd-2", False),
        ("Cmd-2", False),
    ]
    assert context["missing"] == ["cmd-3"]


@pytest.mark.parametrize("named", ["cmd-1", "cmd-1\nCmd-2"])
def test_a_number_that_may_mean_two_orders_is_not_chosen_by_itself(
    named: str, alice: Account, charlie: Account, agent: User, browser: Any
) -> None:
    orders = [make_order(alice, external_id="CMD-1"), make_order(charlie, external_id="Cmd-1")]
    for order in (*orders, make_order(alice, external_id="Cmd-2")):
        lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    rows = preview(browser, "shipped", named=named).context["movable"]
    assert [order for order, is_chosen in rows if not is_chosen] == orders
    assert [order.external_id for order, is_chosen in rows if is_chosen] == named.split()[1:]


def test_moves_cost_the_same_for_one_and_many(alice: Account, agent: User, browser: Any) -> None:
    counts = []
    for number in (1, 20):
        orders = [make_order(alice, phone=f"05500{number:02d}{n:03d}") for n in range(number)]
        for order in orders:
            lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
        for data in ({"named": "\n".join(str(order.id) for order in orders)},
                     {"named": " ".join(["CMD-77", *(str(order.id) for order in orders * 2)])},
                     {"make": "1", "seen": [f"{order.id}:2" for order in orders]}):  # fmt: skip
            with CaptureQueriesContext(connection) as queries:
                browser.post(MOVES, {"to": "shipped", **data})
            counts.append(len(queries))
    assert counts[:3] == counts[3:]


# --- Calling rules -----------------------------------------------------------------------------------------------

RULES = {"opens_at": "08:30", "closes_at": "19:00", "retry_minutes": "90", "most_attempts": "4", "days_off": ["5", "6"]}


def test_rules_are_set_for_one_merchant(alice: Account, charlie: Account, browser: Any) -> None:
    assert b"09:00" in browser.get("/console/rules/").content
    response = browser.post(f"/console/rules/{alice.id}/", RULES, follow=True)
    assert said(response) == ["The rules of Alice's shop are saved."]
    rules = CallingRules.objects.get()
    assert (rules.account, rules.opens_at, rules.closes_at) == (alice, time(8, 30), time(19))
    assert (rules.retry_minutes, rules.most_attempts, rules.days_off) == (90, 4, [5, 6])
    browser.post(f"/console/rules/{alice.id}/", {**RULES, "days_off": []})
    assert CallingRules.objects.get().days_off == []
    found = browser.get("/console/rules/", {"q": "\u200ealice\u200b"}).content.decode()
    assert "Charlie" not in found
    assert "08:30" in found


def test_the_merchant_reads_in_the_log_that_rules_were_changed_here(alice: Account, browser: Any) -> None:
    page = f"/console/rules/{alice.id}/"
    noted = SecurityEntry.objects.filter(action__in=["calling_rules", "call_script"]).order_by("id")
    for change in ({}, {}, {"script_fr": "Bonjour"}):
        browser.post(page, {**RULES, **change, "seen": browser.get(page).context["form"].initial["seen"]})
    assert list(noted.values_list("action", "target", "target_id", "account", "by")) == [
        ("calling_rules", alice.name, alice.id, alice.id, "staff"),
        ("call_script", alice.name, alice.id, alice.id, "staff"),
    ]


def test_a_script_that_the_merchant_has_written_since_the_page_was_opened_stays(alice: Account, browser: Any) -> None:
    CallingRules.objects.create(account=alice, script_fr="Bonjour", closes_at=time(19))
    page = f"/console/rules/{alice.id}/"
    seen = browser.get(page).context["form"].initial["seen"]
    assert seen in browser.get(page).content.decode()
    shown = {**RULES, "opens_at": "09:00", "days_off": ["5"], "script_fr": "Bonjour", "seen": seen}
    CallingRules.objects.update(script_fr="Bonjour {nom}", closes_at=time(12), days_off=[5, 6])
    assert browser.post(page, {**shown, "most_attempts": "3", "script_ar": "مرحبا"}).status_code == 302
    rules = CallingRules.objects.get()
    assert (rules.script_fr, rules.script_ar, rules.most_attempts) == ("Bonjour {nom}", "مرحبا", 3)
    assert (rules.opens_at, rules.closes_at, rules.days_off) == (time(9), time(12), [5, 6])
    shown |= {"most_attempts": "3"}
    refused = browser.post(page, {**shown, "opens_at": "13:00"})
    assert refused.status_code == 422
    assert list(refused.context["form"].errors) == ["closes_at"], "it would be 19:00 again"
    browser.post(page, {**shown, "opens_at": "13:00", "seen": refused.context["form"]["seen"].value()})
    rules.refresh_from_db()
    assert (rules.opens_at, rules.closes_at, rules.script_fr) == (time(13), time(19), "Bonjour {nom}")
    refused = browser.post(page, {**shown, "opens_at": "14:00"})
    assert refused.status_code == 422
    assert list(refused.context["form"].errors) == ["opens_at"]
    assert CallingRules.objects.filter(opens_at=time(13)).exists()


@pytest.mark.parametrize(
    "changes",
    [{"closes_at": "08:00"}, {"days_off": list("1234567")}, {"days_off": ["8"]}, {"retry_minutes": "1"},
     {"most_attempts": "0"}, {"opens_at": ""}, {"opens_at": "25:00"}],
)  # fmt: skip
def test_rules_that_nobody_could_follow_are_refused(changes: dict[str, Any], alice: Account, browser: Any) -> None:
    response = browser.post(f"/console/rules/{alice.id}/", {**RULES, **changes})
    assert response.status_code == 422
    assert b"errornote" in response.content
    assert not CallingRules.objects.exists()


def test_lists_say_where_they_stop(
    alice: Account, charlie: Account, agent: User, colleague: User, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    colleague.groups.set(agent.groups.all())
    monkeypatch.setattr(BoundedPaginator, "MOST", 2)
    monkeypatch.setattr(periods, "MOST", 1)
    for module in (people, review, rules):
        monkeypatch.setattr(module, "PER_PAGE", 1)
    for account in (alice, charlie):
        make_order(account)
    Order.objects.update(call_state="review")
    hours = {"first_day": days.today(), "last_day": days.today(), "opens_at": time(9), "closes_at": time(12)}
    CallingPeriod.objects.create(**hours)
    for page, most in (("people", 2), ("review", 2), ("rules", 2), ("periods", 1)):
        text = browser.get(reverse(f"admin:{page}")).content.decode()
        assert f"Only the first {most} are shown." in text, page
