"""What a supervisor does with many orders of the list at once."""

import re
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.desk import claims, decisions, planning
from agents.desk.forms import OLD_PAGE
from agents.supervision import bulk, bulk_actions, bulk_changes
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, PersonChanged, User
from codservice.files import downloads, safe_csv
from orders import editing, export, lifecycle
from orders.models import CallNote, CallState, Order, Status, StatusChange
from tests.agents.states import statuses
from tests.factories import AgentFactory, make_order
from tests.harness.background import Background, open_transaction
from tests.harness.client import browser_of
from tests.harness.database import wait_for_lock
from tests.harness.plans import copy
from tests.harness.sheets import read_csv, read_records
from webhooks.models import Event

LIST, BULK = "/console/orders/order/", "/console/bulk/"
CHANGED = "The order has changed since you opened it. Read it again before you decide."
REFUSED = {"why": "Customer refused", "details": "", "to": ""}


@pytest.fixture
def browser(supervisor: User) -> Client:
    return browser_of(supervisor)


@pytest.fixture
def orders(alice: Account) -> list[Order]:
    return [make_order(alice, phone=f"055000000{n}", external_id=f"CMD-{n}", customer_name=f"C{n}") for n in range(4)]


def look(browser: Client, action: str, **query: Any) -> Any:
    response = browser.get(BULK, {"action": action, **query})
    assert response.status_code == 200
    return response


def press(browser: Client, action: str, data: dict[str, str] | None = None, **query: Any) -> list[str]:
    """Look, press the button, and return the messages shown then."""
    seen = look(browser, action, **query).context["seen"]
    return pressed(browser, seen, action, data, **query)


def pressed(browser: Client, seen: str, action: str, data: dict[str, str] | None = None, **query: Any) -> list[str]:
    response = browser.post(BULK, {"seen": seen, **(data or {})}, query_params={"action": action, **query})
    assert response.url.startswith(LIST)
    return [str(message) for message in browser.get(response.url).context["messages"]]


def offers(browser: Client, **query: str) -> set[str]:
    return set(browser.get(LIST, query).context["bulk_actions"])


# --- What is offered ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, {"assign", "requeue", "cancel", "export"}),
        ({"call": "review"}, {"assign", "requeue", "cancel", "export"}),
        ({"call": "callback"}, {"assign", "cancel", "export"}),
        ({"status": "confirmed"}, {"shipped", "delivered", "returned", "cancel", "export"}),
        ({"status": "shipped"}, {"delivered", "returned", "export"}),
        ({"status": "delivered"}, {"export"}),
        ({"status": "canceled"}, {"export"}),
        ({"status": "all"}, {"assign", "cancel", "requeue", "shipped", "delivered", "returned", "export"}),
        ({"q": "C1"}, {"assign", "cancel", "requeue", "shipped", "delivered", "returned", "export"}),
        ({"status": "x"}, set()),
        ({"status": "all", "call": "review"}, {"assign", "requeue", "cancel", "export"}),
        ({"status": "all", "holder": "anybody"}, {"assign", "requeue", "cancel", "export"}),
        ({"status": "all", "promised": "somebody"}, {"assign", "cancel", "export"}),
        ({"status": "confirmed", "call": "review"}, set()),
    ],
)
def test_only_what_can_succeed_is_offered(
    query: dict[str, str], names: set[str], orders: list[Order], browser: Client
) -> None:
    assert offers(browser, **query) == names


def test_agents_are_offered_nothing(orders: list[Order], agent: User) -> None:
    browser = browser_of(agent)
    assert offers(browser, status="all") == set()
    assert b'name="chosen"' not in browser.get(LIST).content
    chosen = {"action": "export", "chosen": str(orders[0].id)}
    assert browser.get(BULK, chosen).status_code == 403
    assert browser.post(BULK, {"seen": f"{orders[0].id}:1"}, query_params=chosen).status_code == 403


# --- A look at the chosen orders ---------------------------------------------------------------------------------


def test_a_look_says_what_can_be_changed_and_changes_nothing(orders: list[Order], agent: User, browser: Client) -> None:
    for order in orders[:2]:
        lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    lifecycle.move("ship", orders[0].id, actor=Actor.of_command("x"))
    before = list(Order.objects.order_by("id").values())
    response = look(browser, "cancel", every="1", status="all")
    assert response.context["able"] == 3
    assert [(status.value, can, stay) for status, can, stay in response.context["by_status"]] == [
        ("pending_confirmation", 2, 0), ("confirmed", 1, 0), ("shipped", 0, 1),
    ]  # fmt: skip
    assert "3 orders can be changed. Nothing has been changed yet." in response.content.decode()
    assert list(Order.objects.order_by("id").values()) == before


@pytest.mark.parametrize(
    "query",
    [
        {}, {"action": "x", "every": "1"}, {"action": "cancel"}, {"action": "cancel", "chosen": ["\0", "x", ""]},
        {"action": "cancel", "every": "1", "q": "nobody"}, {"action": "cancel", "every": "1", "first": "x"},
        {"action": "cancel", "every": "1", "p": "x", "sort": "\0"}, {"action": "ship", "every": "1", "status": "\0"},
        {"action": "cancel", "chosen": "01980000-0000-7000-8000-000000000000"},
    ],
)  # fmt: skip
def test_odd_choices_are_no_crash(query: dict[str, Any], browser: Client) -> None:
    for response in (browser.get(BULK, query), browser.post(BULK, {"seen": "x"}, query_params=query)):
        assert response.status_code == 302
        assert response.url.startswith(LIST)


def test_other_filters_than_the_lists_are_refused(orders: list[Order], browser: Client) -> None:
    query = {"action": "export", "every": "1", "account__holder__password__startswith": "a"}
    assert browser.get(BULK, query).status_code in (302, 400)


@pytest.mark.parametrize(
    "seen", ["", " ", "x", "{id}", "{id}:", "{id}:x", "{id}:1:1", "{id}:1 x", "x:1", ":", "\0", "9" * 90_000]
)
def test_nothing_is_done_without_a_look(seen: str, orders: list[Order], browser: Client) -> None:
    data = {"seen": seen.format(id=orders[0].id), **REFUSED}
    response = browser.post(BULK, data, query_params={"action": "cancel", "every": "1"})
    assert (response.status_code, response.url) == (302, f"{BULK}?action=cancel&every=1")
    preview = browser.get(response.url).context
    assert ([str(message) for message in preview["messages"]], preview["able"]) == ([OLD_PAGE], 4)
    assert set(statuses()) == {"pending_confirmation"}


@pytest.mark.parametrize("version", ["0", "-1", "2", "9" * 500])
def test_an_order_that_was_never_so_stays(version: str, orders: list[Order], browser: Client) -> None:
    unknown = "01980000-0000-7000-8000-000000000000"
    said = pressed(browser, f"{orders[0].id}:{version} {unknown}:1", "cancel", REFUSED, every="1")
    assert said == [f"1 order stays as it is: {CHANGED}"]
    assert set(statuses()) == {"pending_confirmation"}


# --- What is chosen ----------------------------------------------------------------------------------------------


def test_a_press_is_about_what_was_seen(orders: list[Order], alice: Account, browser: Client) -> None:
    """What came after the look is left alone. So is what was changed after it, and the page says why."""
    query = {"every": "1", "wilaya": "16"}
    Order.objects.filter(id=orders[3].id).update(wilaya_code="31")
    seen = look(browser, "cancel", **query).context["seen"]
    make_order(alice, phone="0661000000")
    Order.objects.filter(id=orders[0].id).update(version=2)
    said = pressed(browser, seen, "cancel", REFUSED, **query)
    assert said[0] == "2 orders are now “Canceled”."
    assert said[1].startswith("1 order stays as it is: The order has changed since you opened it.")
    assert statuses() == [
        "pending_confirmation",
        "canceled",
        "canceled",
        "pending_confirmation",
        "pending_confirmation",
    ]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("written", ["imported", "edited", "called"])
def test_what_was_being_written_during_the_look_stays(
    written: str, orders: list[Order], alice: Account, supervisor: User, agent: User, browser: Client
) -> None:
    """Nobody has seen it, although its time is earlier."""

    def write() -> UUID:
        if written == "imported":
            return make_order(alice, phone="0661000000").id
        if written == "edited":
            edit = editing.Edit(customer_address="Elsewhere")
            editing.edit(orders[1].id, edit, actor=Actor.of_staff(supervisor))
        else:
            lifecycle.add_call_note(orders[1].id, lifecycle.Call(agent, CallNote.Outcome.ANSWERED))
        return orders[1].id

    query = {"action": "cancel", "every": "1"}
    with open_transaction(write) as id_:
        form = sent(browser, query)
    browser.post(BULK, {**form, **REFUSED}, query_params=query)
    assert list(Order.objects.filter(status="pending_confirmation").values_list("id", flat=True)) == [id_]


def test_a_form_that_comes_back_is_about_what_was_seen(
    orders: list[Order], alice: Account, agent: User, browser: Client
) -> None:
    """Who mends it is told what can still be changed, and has not looked at what came or was called meanwhile."""
    query = {"action": "cancel", "every": "1"}
    seen = look(browser, **query).context["seen"]
    make_order(alice, phone="0661000000")
    lifecycle.add_call_note(orders[0].id, lifecycle.Call(agent, CallNote.Outcome.NOTE, note="Rang back"))
    response = browser.post(BULK, {"seen": seen, "why": "Other", "details": " "}, query_params=query)
    assert response.status_code == 422
    assert "Say why the order is canceled." in response.content.decode()
    still_able_first = sorted(seen.split(), key=lambda each: each.startswith(str(orders[0].id)))
    assert f'name="seen" value="{" ".join(still_able_first)}"' in response.content.decode()
    assert [row[1:] for row in response.context["by_status"]] == [(3, 1)]
    assert f"1 order stays as it is: {CHANGED}" in response.content.decode()
    assert pressed(browser, seen, "cancel", REFUSED, every="1") == [
        "3 orders are now “Canceled”.", f"1 order stays as it is: {CHANGED}",
    ]  # fmt: skip
    assert statuses() == ["pending_confirmation", "canceled", "canceled", "canceled", "pending_confirmation"]


@pytest.mark.parametrize(("changed", "at_once", "done"), [([], 2, 2), ([0], 2, 2), ([0, 1], 0, 2), ([0, 2, 3], 0, 1)])
def test_a_form_that_comes_back_says_what_one_press_takes(
    changed: list[int],
    at_once: int,
    done: int,
    orders: list[Order],
    agent: User,
    browser: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk_actions.Assign, "most", 2)
    query = {"action": "assign", "every": "1"}
    seen = look(browser, **query).context["seen"]
    for number in changed:
        lifecycle.add_call_note(orders[number].id, lifecycle.Call(agent, CallNote.Outcome.NOTE))
    back = browser.post(BULK, {"seen": seen, "to": ""}, query_params=query)
    assert (back.status_code, back.context["able"], back.context["at_once"]) == (422, 4 - len(changed), at_once)
    said = pressed(browser, back.context["seen"], "assign", {"to": str(agent.id)}, every="1")
    assert bool(at_once) == any("More than 2 at once." in each for each in said)
    assert Order.objects.filter(callback_agent=agent).count() == done


def test_what_has_come_of_age_since_the_look_stays(orders: list[Order], browser: Client) -> None:
    query = {"every": "1", "age": "1"}
    Order.objects.filter(id=orders[0].id).update(created_at=timezone.now() - timedelta(hours=5))
    seen = look(browser, "cancel", **query).context["seen"]
    Order.objects.filter(id=orders[1].id).update(created_at=timezone.now() - timedelta(hours=5))
    assert look(browser, "cancel", **query).context["able"] == 2
    assert pressed(browser, seen, "cancel", REFUSED, **query) == ["1 order is now “Canceled”."]
    assert statuses().count("canceled") == 1


def test_what_has_grown_too_old_since_the_look_is_changed(orders: list[Order], browser: Client) -> None:
    query = {"every": "1", "age": "0"}
    seen = look(browser, "cancel", **query).context["seen"]
    Order.objects.update(created_at=timezone.now() - timedelta(hours=5))
    assert pressed(browser, seen, "cancel", REFUSED, **query) == ["4 orders are now “Canceled”."]


def test_only_the_chosen_ones_are_changed(orders: list[Order], browser: Client) -> None:
    said = press(browser, "cancel", REFUSED, chosen=[str(orders[1].id), str(orders[2].id)])
    assert said == ["2 orders are now “Canceled”."]
    assert statuses() == ["pending_confirmation", "canceled", "canceled", "pending_confirmation"]


def test_one_press_takes_so_many_and_another_the_rest(
    orders: list[Order], browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST", 3)
    monkeypatch.setattr(bulk, "STEP", 2)
    assert "These are the first 3" in look(browser, "cancel", every="1").content.decode()
    assert press(browser, "cancel", REFUSED, every="1") == ["3 orders are now “Canceled”."]
    assert press(browser, "cancel", REFUSED, every="1") == ["1 order is now “Canceled”."]


def sent(browser: Client, query: dict[str, str]) -> dict[str, str]:
    """What the form of the preview sends."""
    inputs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', browser.get(BULK, query).content.decode())
    return dict(inputs)


def sent_twice(browser: Client, action: str, data: dict[str, str]) -> list[str]:
    """Look once, send the form as it stands there twice, and return what is said of the second."""
    seen = look(browser, action, every="1").context["seen"]
    pressed(browser, seen, action, data, every="1")
    return pressed(browser, seen, action, data, every="1")


def test_a_form_sent_twice_does_not_go_on_to_the_rest(
    orders: list[Order], browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was lost, say."""
    monkeypatch.setattr(bulk, "MOST", 3)
    assert sent_twice(browser, "cancel", REFUSED) == [f"3 orders stay as they are: {CHANGED}"]
    assert statuses().count("canceled") == 3
    assert press(browser, "cancel", REFUSED, every="1") == ["1 order is now “Canceled”."]


def test_an_assignment_sent_twice_does_not_go_on_to_the_rest(
    orders: list[Order], agent: User, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions.Assign, "most", 2)
    assert sent_twice(browser, "assign", {"to": str(agent.id)}) == [
        f"2 orders stay as they are: {CHANGED}", "2 orders stay as they are: More than 2 at once.",
    ]  # fmt: skip
    assert Order.objects.filter(callback_agent=agent).count() == 2


@pytest.mark.parametrize("noted", [CallNote.Outcome.NOTE, None])
def test_a_press_takes_nothing_for_what_was_changed_since_the_look(
    noted: CallNote.Outcome | None,
    orders: list[Order],
    agent: User,
    colleague: User,
    browser: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sent twice, the form would otherwise go on to the rest in its place."""
    monkeypatch.setattr(bulk_actions.Assign, "most", 2)
    seen = look(browser, "assign", every="1").context["seen"]
    if noted:
        lifecycle.add_call_note(orders[0].id, lifecycle.Call(colleague, noted, note="Rang back"))
    else:
        Order.objects.filter(id=orders[0].id).update(version=2)
    for _press in ("once", "again"):
        said = pressed(browser, seen, "assign", {"to": str(agent.id)}, every="1")
        assert "2 orders stay as they are: More than 2 at once." in said
    assert list(Order.objects.filter(callback_agent=agent)) == [orders[1]]


def test_many_are_counted_in_groups_of_three_before_the_press_too(orders: list[Order], browser: Client) -> None:
    copy(orders[0], 1230, days=1)
    assert "1\N{NARROW NO-BREAK SPACE}234 orders can be changed." in look(browser, "cancel", every="1").content.decode()
    assert "Only the first 1\u202f000 orders are shown. " in browser.get(LIST).content.decode()


@pytest.mark.parametrize("query", [{"status": "all", "sort": "oldest"}, {"q": "Amina"}])
def test_another_press_comes_to_the_rest_of_a_filter_that_finds_the_changed_ones_too(
    query: dict[str, str], orders: list[Order], browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    Order.objects.update(customer_name="Amina")
    monkeypatch.setattr(bulk, "MOST", 3)
    assert "These are the first 3" in look(browser, "cancel", every="1", **query).content.decode()
    assert press(browser, "cancel", REFUSED, every="1", **query) == ["3 orders are now “Canceled”."]
    rest = look(browser, "cancel", every="1", **query)
    assert "1 order can be changed." in rest.content.decode()
    assert "The list has more than 3 orders." in rest.content.decode()
    seen = rest.context["seen"]
    assert pressed(browser, seen, "cancel", REFUSED, every="1", **query) == ["1 order is now “Canceled”."]
    assert "0 orders can be changed." in look(browser, "cancel", every="1", **query).content.decode()
    for _page in ("as it stood", "once more"):
        said = pressed(browser, seen, "cancel", REFUSED, every="1", **query)
        assert said == [f"1 order stays as it is: {CHANGED}"]


@pytest.mark.parametrize(("able", "says"), [(4, "Come back for the rest."), (2, "The list has more than 2 orders.")])
def test_a_form_that_comes_back_says_what_it_leaves_out(
    able: int, says: str, orders: list[Order], browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST", 2)
    Order.objects.exclude(id__in=[order.id for order in orders[:able]]).update(status=Status.CANCELED)
    query = {"action": "cancel", "every": "1", "status": "all"}
    before = look(browser, **query)
    assert says in before.content.decode()
    back = browser.post(BULK, {name: before.context[name] for name in ("seen", "cut")}, query_params=query)
    assert (back.status_code, says in back.content.decode()) == (422, True)


def test_orders_for_review_behind_many_others_go_back_too(
    orders: list[Order], browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    Order.objects.filter(id=orders[3].id).update(call_state=CallState.REVIEW)
    monkeypatch.setattr(bulk, "MOST", 2)
    assert press(browser, "requeue", every="1") == ["1 order is back in the queue."]


# --- Cancel, ship ------------------------------------------------------------------------------------------------


def test_orders_are_canceled_with_the_reason_and_the_event(
    orders: list[Order], agent: User, supervisor: User, browser: Client
) -> None:
    lifecycle.confirm(orders[0].id, actor=Actor.of_staff(agent))
    lifecycle.confirm(orders[1].id, actor=Actor.of_staff(agent))
    lifecycle.move("ship", orders[1].id, actor=Actor.of_command("x"))
    claims.take(orders[2].id, agent=agent)
    query = {"every": "1", "status": "all"}
    before = look(browser, "cancel", **query)
    assert [row[1:] for row in before.context["by_status"]] == [(1, 1), (1, 0), (0, 1)]
    said = press(browser, "cancel", {"why": "Out of stock", "details": "sold"}, **query)
    assert sorted(said) == [
        "1 order stays as it is: Somebody is calling this customer.",
        "1 order stays as it is: This cannot be done to an order that is shipped.",
        "2 orders are now “Canceled”.",
    ]
    assert all(why in before.content.decode() for why in said if "stays" in why)
    assert statuses() == ["canceled", "shipped", "pending_confirmation", "canceled"]
    canceled = Order.objects.get(id=orders[0].id)
    assert (canceled.cancel_reason, canceled.version) == ("Out of stock: sold", 3)
    assert StatusChange.objects.filter(to_status="canceled", user=supervisor).count() == 2
    assert Event.objects.filter(kind="order.cancelled").count() == 2


@pytest.mark.parametrize("data", [{}, {"why": "x"}, {"why": "Other", "details": " "}])
def test_a_cancellation_needs_a_reason(data: dict[str, str], orders: list[Order], browser: Client) -> None:
    seen = look(browser, "cancel", every="1").context["seen"]
    response = browser.post(BULK, {"seen": seen, **data}, query_params={"action": "cancel", "every": "1"})
    assert response.status_code == 422
    assert set(statuses()) == {"pending_confirmation"}


def test_the_rule_itself_says_why_others_stay(orders: list[Order], supervisor: User, agent: User) -> None:
    """This holds however they got there between the look and the lock."""
    lifecycle.cancel(orders[0].id, actor=Actor.of_staff(agent), reason="x")
    lifecycle.confirm(orders[1].id, actor=Actor.of_staff(agent))
    lifecycle.move("ship", orders[1].id, actor=Actor.of_staff(supervisor))
    lifecycle.confirm(orders[2].id, actor=Actor.of_staff(agent))
    locked = lifecycle.lock(Order.objects.filter(id__in=[order.id for order in orders]))
    refused = lifecycle.cancel_many(locked, actor=Actor.of_staff(agent), reason="y")
    assert {str(type(why).__name__) for why in refused.values()} == {"AlreadyDecided", "NotCancellable", "NotAllowed"}
    assert statuses() == ["canceled", "shipped", "confirmed", "canceled"]
    assert Order.objects.get(id=orders[0].id).cancel_reason == "x"


def test_orders_are_shipped_and_delivered(orders: list[Order], agent: User, browser: Client) -> None:
    for order in orders[:3]:
        lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    assert press(browser, "shipped", every="1", status="confirmed") == ["3 orders are now “Shipped”."]
    said = press(browser, "delivered", every="1", status="all")
    assert said == [
        "3 orders are now “Delivered”.",
        "1 order stays as it is: This cannot be done to an order that is pending confirmation.",
    ]


# --- Assign, requeue ---------------------------------------------------------------------------------------------


def test_assigned_orders_are_the_agents_next_calls(
    orders: list[Order], agent: User, colleague: User, supervisor: User, browser: Client
) -> None:
    claims.take(orders[3].id, agent=colleague)
    later = timezone.now() + timedelta(days=1)
    Order.objects.filter(id=orders[2].id).update(call_state=CallState.RETRY, call_due_at=later, call_attempts=2)
    asked = look(browser, "assign", every="1")
    assert all(name in asked.content.decode() for name in ("Choose somebody", "Samira"))
    assert asked.context["able"] == 3
    assert "1 order stays as it is: Somebody is calling this customer." in asked.content.decode()
    said = press(browser, "assign", {"to": str(agent.id)}, every="1")
    assert said == [
        "3 orders are assigned to Samira.",
        "1 order stays as it is: Somebody is calling this customer.",
    ]
    first, second, third = Order.objects.filter(callback_agent=agent, call_state="callback").order_by("id")
    assert timedelta(0) < second.call_due_at - first.call_due_at < timedelta(minutes=15)
    assert (third.call_due_at, third.call_attempts) == (later, 2)
    note = CallNote.objects.get(order=first)
    assert (note.outcome, note.note, note.agent) == ("handed_over", "Assigned to Samira.", supervisor)
    browser.cookies["django_language"] = "fr"
    assert "Confiée à Samira." in browser.get(f"/console/orders/order/{first.id}/").content.decode()
    claims.release_all(colleague)
    assert claims.next_customer(agent)
    assert claims.on_customer(first.phone_e164).agent == agent


def test_people_of_one_name_are_told_apart(orders: list[Order], agent: User, colleague: User, browser: Client) -> None:
    AgentFactory(username="samira2", first_name=agent.first_name)
    asked = look(browser, "assign", every="1").content.decode()
    for name in ("Samira (samira)", "Samira (samira2)", colleague.display_name):
        assert f">{name}</option>" in asked, name


def test_a_customer_who_does_not_answer_is_not_rung_again_for_another_assigned_order(
    orders: list[Order], alice: Account, agent: User, browser: Client
) -> None:
    other = make_order(alice, phone="0550000000")
    press(browser, "assign", {"to": str(agent.id)}, every="1")
    due = dict(Order.objects.values_list("id", "call_due_at"))
    assert due[other.id] == due[orders[0].id] < due[orders[1].id] < due[orders[2].id] < due[orders[3].id]

    called(orders[0], agent, CallNote.Outcome.NO_ANSWER)

    theirs = Order.objects.filter(phone_e164=other.phone_e164)
    assert set(theirs.values_list("call_state", "call_attempts")) == {("retry", 1)}
    assert min(theirs.values_list("call_due_at", flat=True)) > timezone.now() + timedelta(minutes=90)


def test_nobody_is_given_more_than_a_days_work(
    orders: list[Order], agent: User, colleague: User, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions.Assign, "most", 3)
    claims.take(orders[0].id, agent=colleague)
    assert look(browser, "assign", every="1").context["able"] == 3
    assert press(browser, "assign", {"to": str(agent.id)}, every="1") == [
        "3 orders are assigned to Samira.", "1 order stays as it is: More than 3 at once.",
    ]  # fmt: skip


@pytest.mark.parametrize(("holder", "bound"), [(bulk_actions.Assign, "most"), (bulk, "MOST")])
def test_another_press_comes_to_the_orders_behind_those_that_one_press_takes(
    holder: Any,
    bound: str,
    orders: list[Order],
    agent: User,
    colleague: User,
    browser: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holder, bound, 2)
    for to in (agent, colleague):
        press(browser, "assign", {"to": str(to.id)}, every="1")
    given = Order.objects.order_by("id").values_list("callback_agent", flat=True)
    assert list(given) == [agent.id, agent.id, colleague.id, colleague.id]


@pytest.mark.django_db(transaction=True)
def test_who_assigns_to_the_same_agent_at_the_same_moment_begins_behind_the_first(
    orders: list[Order], agent: User, supervisor: User
) -> None:
    seen = [(order.id, order.version) for order in orders]
    assign = partial(bulk_changes.assign, to=agent, supervisor=supervisor)
    with open_transaction(lambda: assign(dict(seen[:2]))):
        other = Background(lambda: assign(dict(seen[2:])))
        wait_for_lock()
    assert other.result() == {}
    due = Order.objects.filter(callback_agent=agent).order_by("call_due_at").values_list("call_due_at", flat=True)
    assert len(due) == 4
    assert all(later - earlier >= planning.PACE for earlier, later in pairwise(due))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", ["assign", "cancel"])
def test_what_is_called_at_the_moment_of_the_press_stays(
    action: str, orders: list[Order], agent: User, supervisor: User
) -> None:
    """As its row shows only under the lock. The press has read the orders before."""
    seen = {order.id: order.version for order in orders}
    press = {
        "assign": partial(bulk_changes.assign, seen, to=agent, supervisor=supervisor),
        "cancel": partial(bulk_changes.cancel_many, seen, "Out of stock", supervisor=supervisor),
    }[action]
    note = lifecycle.Call(agent, CallNote.Outcome.NOTE, note="Rang back")
    with open_transaction(lambda: lifecycle.add_call_note(orders[0].id, note)):
        pressed = Background(press)
        wait_for_lock()
    refused = pressed.result()
    assert {id_: type(why) for id_, why in refused.items()} == {orders[0].id: lifecycle.Changed}
    untouched = Order.objects.filter(status="pending_confirmation", callback_agent=None)
    assert list(untouched) == [orders[0]]


@pytest.mark.django_db(transaction=True)
def test_who_is_deactivated_at_the_same_moment_is_assigned_nothing(
    orders: list[Order], agent: User, supervisor: User
) -> None:
    seen = {order.id: order.version for order in orders}
    with open_transaction(lambda: User.objects.filter(pk=agent.pk).update(is_active=False)):
        assigned = Background(lambda: bulk_changes.assign(seen, to=agent, supervisor=supervisor))
        wait_for_lock()
    refused = assigned.result()
    assert refused.keys() == seen.keys()
    assert {type(why) for why in refused.values()} == {PersonChanged}
    assert not Order.objects.exclude(callback_agent=None).exists()
    assert not CallNote.objects.exists()


def test_another_press_for_the_same_agent_begins_behind_the_first(
    orders: list[Order], agent: User, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two customers at each turn would be twice as many as the agent can call before others take them."""
    monkeypatch.setattr(bulk_actions.Assign, "most", 2)
    for _ in range(2):
        press(browser, "assign", {"to": str(agent.id)}, every="1")
    due = Order.objects.filter(callback_agent=agent).order_by("id").values_list("call_due_at", flat=True)
    assert len(due) == 4
    assert all(later - earlier >= planning.PACE for earlier, later in pairwise(due))


def test_orders_go_only_to_who_calls(orders: list[Order], alice: Account, agent: User, browser: Client) -> None:
    seen = look(browser, "assign", every="1").context["seen"]
    agent.is_active = False
    agent.save()
    for to in (alice.holder_id, agent.id, "x", ""):
        data = {"seen": seen, "to": str(to)}
        assert browser.post(BULK, data, query_params={"action": "assign", "every": "1"}).status_code == 422
    assert not Order.objects.exclude(callback_agent=None).exists()


def test_what_waits_for_review_goes_back(orders: list[Order], browser: Client) -> None:
    Order.objects.filter(id__in=[orders[0].id, orders[1].id]).update(call_state=CallState.REVIEW, call_attempts=6)
    assert press(browser, "requeue", every="1") == [
        "2 orders are back in the queue.",
        "2 orders stay as they are: Agents have this order in their queue.",
    ]
    assert list(Order.objects.filter(call_state="retry").values_list("call_attempts", flat=True)) == [0, 0]


def test_who_is_called_from_review_does_not_go_back(orders: list[Order], supervisor: User, browser: Client) -> None:
    Order.objects.update(call_state=CallState.REVIEW)
    asked = look(browser, "requeue", every="1")
    claims.take(orders[0].id, agent=supervisor)
    stays = "1 order stays as it is: Somebody is calling this customer."
    assert stays in look(browser, "requeue", every="1").content.decode()
    said = pressed(browser, asked.context["seen"], "requeue", every="1")
    assert said == ["3 orders are back in the queue.", stays]


def test_a_look_says_why_orders_stay(orders: list[Order], agent: User, browser: Client) -> None:
    """Each reason once, with its count, as after a press."""
    lifecycle.confirm(orders[0].id, actor=Actor.of_staff(agent))
    asked = look(browser, "requeue", every="1", status="all")
    assert asked.context["able"] == 0
    assert re.findall(r"<p>(\d orders? stay.*)</p>", asked.content.decode()) == [
        "3 orders stay as they are: Agents have this order in their queue.",
        "1 order stays as it is: This cannot be done to an order that is confirmed.",
    ]


# --- The file ----------------------------------------------------------------------------------------------------


def test_the_chosen_ones_are_downloaded_with_their_merchants(
    orders: list[Order], charlie: Account, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "DOWNLOADED", 2)
    make_order(charlie, customer_name="=1+1", phone="0661000000")
    response = browser.get(BULK, {"action": "export", "every": "1"})
    assert "attachment" in response.headers["Content-Disposition"]
    header, *rows = read_csv(b"".join(response))
    assert header[:3] == ["Merchant", "Id", "Order number"]
    assert [(row[0], row[2]) for row in rows] == [
        *(("Alice's shop", f"CMD-{n}") for n in range(4)), ("Charlie's shop", ""),
    ]  # fmt: skip
    assert "=1+1" not in rows[-1]
    chosen = browser.get(BULK, {"action": "export", "chosen": str(orders[2].id)})
    assert len(b"".join(chosen).decode().strip().splitlines()) == 2


def test_whoever_is_staff_no_more_gets_no_more_of_it(
    orders: list[Order], browser: Client, supervisor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((bulk, "STEP"), (export, "DOWNLOADED"), (safe_csv, "_PIECE")):
        monkeypatch.setattr(module, name, 1)
    monkeypatch.setattr(downloads, "ASKED_EVERY", 0)
    pieces = iter(browser.get(BULK, {"action": "export", "every": "1"}).streaming_content)
    assert b"CMD-0" in next(pieces) + next(pieces)
    User.objects.filter(pk=supervisor.pk).update(is_staff=False)
    with pytest.raises(PermissionDenied):
        next(pieces)


def test_a_file_is_the_oldest_first_however_the_list_is_sorted(
    orders: list[Order], browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((bulk, "STEP"), (export, "DOWNLOADED")):
        monkeypatch.setattr(module, name, 2)
    data = b"".join(browser.get(BULK, {"action": "export", "every": "1", "sort": "newest"}))
    assert [row["Order number"] for row in read_records(data)] == [f"CMD-{n}" for n in range(4)]


def test_a_file_is_whole_or_none(orders: list[Order], browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MOST", 3)
    refused = browser.get(BULK, {"action": "export", "every": "1", "status": "all"})
    assert refused.url == f"{LIST}?status=all"
    (said,) = browser.get(refused.url).context["messages"]
    assert str(said).startswith("A file can have at most 3 orders")
    monkeypatch.setattr(bulk, "MOST", 4)
    lines = b"".join(browser.get(BULK, {"action": "export", "every": "1"})).decode().strip().splitlines()
    assert len(lines) == 5


# --- Cost --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["cancel", "assign", "requeue", "shipped"])
def test_it_costs_the_same_for_one_and_many(action: str, alice: Account, agent: User, browser: Client) -> None:
    counts = []
    for number in (1, 12):
        Order.objects.update(status="returned")
        for n in range(number):
            order = make_order(alice, phone=f"05500{number:02}{n:03}")
            if action == "shipped":
                lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
        if action == "requeue":
            Order.objects.update(call_state=CallState.REVIEW)
        query = {
            "action": action,
            "every": "1",
            "status": "confirmed" if action == "shipped" else "pending_confirmation",
        }
        with CaptureQueriesContext(connection) as queries:
            seen = browser.get(BULK, query).context["seen"]
            data = {"seen": seen, **REFUSED, "to": str(agent.id)}
            assert browser.post(BULK, data, query_params=query).status_code == 302
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[0] < 50


# --- What was called after the look ----------------------------------------------------------------------------------


def called(order: Order, agent: User, outcome: CallNote.Outcome, **call: Any) -> None:
    screen = decisions.Screen(claims.take(order.id, agent=agent), agent, {order.id: order.version})
    decisions.note_call(screen, lifecycle.Call(agent, outcome, **call))


@pytest.mark.parametrize(
    ("action", "data"), [("cancel", {"why": "Customer unreachable"}), ("assign", {})], ids=["cancel", "assign"]
)
@pytest.mark.parametrize("outcome", [CallNote.Outcome.CALLBACK, CallNote.Outcome.WRONG_NUMBER])
def test_an_order_that_was_called_after_the_look_stays_as_it_is(
    action: str,
    data: dict[str, str],
    outcome: CallNote.Outcome,
    orders: list[Order],
    browser: Client,
    agent: User,
    colleague: User,
) -> None:
    order, others = orders[0], [order.id for order in orders[1:]]
    chosen = [str(order.id) for order in orders]
    seen = look(browser, action, chosen=chosen).context["seen"]
    promised = {"callback_at": timezone.now() + timedelta(hours=5)} if outcome == CallNote.Outcome.CALLBACK else {}
    called(order, agent, outcome, **promised)
    order.refresh_from_db()
    became = (order.status, order.call_state, order.call_due_at, order.callback_agent)

    said = pressed(browser, seen, action, {"to": str(colleague.pk), "details": "", **data}, chosen=chosen)

    order.refresh_from_db()
    assert (order.status, order.call_state, order.call_due_at, order.callback_agent) == became
    assert any("1 order stays as it is" in each for each in said)
    assert Order.objects.filter(id__in=others).exclude(status="pending_confirmation", callback_agent=None).count() == 3


def test_what_an_agent_hands_over_after_the_look_still_waits_for_a_supervisor(
    orders: list[Order], browser: Client, agent: User
) -> None:
    """Nobody who pressed the button had seen it."""
    Order.objects.filter(id=orders[0].id).update(call_state=CallState.REVIEW)
    query = {"every": "1", "call": "review"}
    seen = look(browser, "requeue", **query).context["seen"]
    called(orders[1], agent, CallNote.Outcome.HANDED_OVER, note="Asks for someone in charge")

    said = pressed(browser, seen, "requeue", **query)

    assert said == ["1 order is back in the queue."]
    states = Order.objects.order_by("id").values_list("call_state", flat=True)
    assert list(states)[:2] == ["retry", "review"]
