"""The buttons of the call screen and of the order page: who may press which, what it does, and who was faster."""

from typing import Any

import psycopg
import pytest
from django.contrib.messages import get_messages
from django.test import Client
from uuid_utils.compat import uuid7

from agents.models import Claim
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from orders import lifecycle
from orders.models import CallNote, Order, StatusChange
from tests.agents.screens import DESK, Screen, order_page, take, told
from tests.factories import make_order
from tests.harness.background import at_once
from tests.harness.client import browser_of
from tests.harness.database import database_url
from webhooks.models import Event

CALL_ATTEMPTED = "order.call_attempted"
MOVES = ("cancel", "ship", "deliver", "return")  # of the order page; pending orders are decided on the call screen


def press(browser: Client, order: Order, move: str, **data: Any) -> tuple[int, str]:
    """POST a button of the order page as it is now. Return the status and what the agent is told."""
    if move == "cancel":
        data = {"why": "Customer refused", **data}
    response = browser.post(order_page(order, move), {"version": order.version, **data})
    return response.status_code, " ".join(str(message) for message in get_messages(response.wsgi_request))


@pytest.fixture
def screen(order: Order, agent: User) -> Screen:
    """Samira's call to the customer of the order."""
    return take(browser_of(agent), order)


# --- The call screen ---------------------------------------------------------------------------------------------


def test_confirm_confirms_once_with_its_event(order: Order, agent: User, screen: Screen) -> None:
    response = screen.press("confirm", note="Livrer le matin")
    assert (response.status_code, response.url) == (302, DESK)
    assert told(response).startswith("The order of Amine Benali is confirmed.")
    order.refresh_from_db()
    assert order.status == "confirmed"
    assert order.status_changes.latest("at").user_id == agent.id
    assert Event.objects.filter(kind="order.confirmed").count() == 1
    note = CallNote.objects.get()
    assert (note.outcome, note.note, note.agent_id) == ("answered", "Livrer le matin", agent.id)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"why": "Customer refused"}, "Customer refused"),
        ({"why": "Duplicate", "details": " CMD-12 "}, "Duplicate: CMD-12"),
        ({"why": "Other", "details": "Déménage à Oran"}, "Déménage à Oran"),
    ],
)
def test_cancel_keeps_the_reason(data: dict, reason: str, order: Order, screen: Screen) -> None:
    assert screen.press("cancel", **data).status_code == 302
    order.refresh_from_db()
    assert (order.status, order.cancel_reason) == ("canceled", reason)
    assert Event.objects.filter(kind="order.cancelled").count() == 1


@pytest.mark.parametrize(
    "data",
    [
        {"why": ""},
        {"why": "Whatever"},
        {"why": "Other"},
        {"why": "Other", "details": "x" * 461},
        {"why": "Other", "details": "\x01"},
    ],
)
def test_cancel_asks_for_a_reason(data: dict, order: Order, screen: Screen) -> None:
    response = screen.press("cancel", note="Porte bleue", **data)
    assert response.status_code == 422
    assert b"errornote" in response.content
    assert b"Porte bleue" in response.content
    order.refresh_from_db()
    assert (order.status, CallNote.objects.count()) == ("pending_confirmation", 0)


@pytest.mark.parametrize("outcome", ["confirm", "cancel", "no_answer", "skipped"])
def test_no_outcome_without_the_csrf_token(outcome: str, order: Order, agent: User) -> None:
    screen = take(browser_of(agent), order)
    screen.browser = browser_of(agent, enforce_csrf_checks=True)
    assert screen.press(outcome, skip_reason="x").status_code == 403
    form = screen.filled(outcome)
    headers = {"Origin": "https://evil.example"}
    assert screen.browser.post(f"{screen.address}outcome/", form, headers=headers).status_code == 403
    order.refresh_from_db()
    assert (order.version, order.call_notes.count()) == (1, 0)


@pytest.mark.parametrize("address", ["next/", "take/{order}/", "{claim}/keep/"])
def test_what_changes_something_answers_no_get(address: str, order: Order, screen: Screen) -> None:
    path = DESK + address.format(order=order.id, claim=screen.claim_id)
    for client in (screen.browser, Client()):
        response = client.get(path)
        assert response.status_code == 405
        assert response.headers["Allow"] == "POST"


def test_an_address_that_showed_a_refused_outcome_leads_to_the_call(order: Order, screen: Screen) -> None:
    assert screen.press("handed_over").status_code == 422
    path = f"{screen.address}outcome/"
    assert screen.browser.get(path, {"outcome": "confirm"}).url == screen.address
    response = screen.browser.put(path)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    order.refresh_from_db()
    assert (order.status, order.call_notes.count()) == ("pending_confirmation", 0)


def test_who_was_signed_out_comes_back_to_the_call(order: Order, screen: Screen) -> None:
    screen.browser = Client()
    assert screen.press("confirm").url == f"/console/login/?next={screen.address}"
    assert Client().get(screen.address).url == f"/console/login/?next={screen.address}"
    order.refresh_from_db()
    assert order.version == 1


def test_nobody_but_the_holder_decides(order: Order, colleague: User, supervisor: User, screen: Screen) -> None:
    for user in (colleague, supervisor):
        screen.browser = browser_of(user)
        response = screen.press("confirm", note="Elle veut la commande")
        assert response.status_code == 409
        assert "Samira is calling this customer now." in told(response)
        assert "Elle veut la commande" in response.content.decode()
    order.refresh_from_db()
    assert (order.version, CallNote.objects.count()) == (1, 0)


def test_an_order_of_another_customer_is_out_of_reach(alice: Account, order: Order, screen: Screen) -> None:
    other = make_order(alice, phone="0770123456")
    response = screen.press("confirm", order=str(other.id), seen=[f"{other.id}:1"])
    assert response.status_code == 409
    other.refresh_from_db()
    assert other.version == 1


# --- Somebody was faster -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["confirm", "cancel", "no_answer"])
def test_a_stale_page_is_told_who_and_when(
    outcome: str, alice: Account, order: Order, supervisor: User, screen: Screen
) -> None:
    lifecycle.cancel(order.id, actor=Actor.of_staff(supervisor), reason="Changed their mind")
    StatusChange.objects.filter(to_status="pending_confirmation").update(at="2026-07-01T12:00:00Z")
    StatusChange.objects.filter(to_status="canceled").update(at="2026-07-01T13:05:00Z")
    response = screen.press(outcome, note="Elle veut la commande")
    assert response.status_code == 409
    assert told(response).startswith("Already canceled by Karim at 14:05 on 1 July 2026.")
    assert "Elle veut la commande" in response.content.decode()
    order.refresh_from_db()
    assert (order.version, order.cancel_reason, CallNote.objects.count()) == (2, "Changed their mind", 0)
    assert Event.objects.exclude(kind="order.created").count() == 1


def test_the_api_was_faster(alice: Account, order: Order, screen: Screen, api: Client) -> None:
    waiting = make_order(alice)  # of the same customer: the screen stays
    assert api.post(f"/api/v1/orders/{order.id}/cancel").status_code == 200
    response = screen.press("confirm", note="Livrer le matin")
    assert response.status_code == 409
    assert told(response).startswith("Already canceled by API key Test at ")
    assert "Livrer le matin" in response.content.decode()
    assert dict(Order.objects.values_list("id", "status")) == {
        order.id: "canceled",
        waiting.id: "pending_confirmation",
    }


@pytest.mark.parametrize("outcome", ["confirm", "cancel", "no_answer", "callback_hour"])
def test_pressing_twice_is_harmless_and_no_error(outcome: str, order: Order, screen: Screen) -> None:
    responses = [screen.press(outcome) for _ in range(2)]
    assert [response.status_code for response in responses] == [302, 302]
    assert CallNote.objects.count() == 1
    decided = outcome in ("confirm", "cancel")
    told = ["order.created", {"confirm": "order.confirmed", "cancel": "order.cancelled"}.get(outcome, CALL_ATTEMPTED)]
    assert list(Event.objects.order_by("id").values_list("kind", flat=True)) == told
    assert order.status_changes.count() == 1 + decided


@pytest.mark.parametrize("version", ["", "0", "-1", "abc", "9" * 5000, None])
def test_without_a_usable_version_nothing_happens(version: str | None, order: Order, screen: Screen) -> None:
    seen = [] if version is None else [f"{order.id}:{version}"]
    assert screen.press("confirm", seen=seen).status_code in (409, 422)
    order.refresh_from_db()
    assert (order.version, CallNote.objects.count()) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_many_at_once_have_one_winner(agent: User, colleague: User, alice: Account, api: Client) -> None:
    """The holder's confirm and cancel, a colleague's confirm and the merchant's cancel, from one page at one moment."""
    orders = [make_order(alice, phone=f"055012340{number}") for number in range(5)]
    screens = [take(browser_of(agent), order) for order in orders]
    calls: list[tuple[Client, str, dict[str, Any] | None]] = []
    for order, screen in zip(orders, screens, strict=True):
        path = f"{screen.address}outcome/"
        key = api.defaults["HTTP_AUTHORIZATION"].split()[1]
        calls += [
            (browser_of(agent), path, screen.filled("confirm", pause="on")),
            (browser_of(agent), path, screen.filled("cancel", pause="on", note_id=str(uuid7()))),
            (browser_of(colleague), path, screen.filled("confirm", pause="on", note_id=str(uuid7()))),
            (type(api)(key), f"/api/v1/orders/{order.id}/cancel", None),
        ]

    def send(number: int) -> int:
        client, path, data = calls[number]
        return (client.post(path, data) if data else client.post(path)).status_code

    assert set(at_once(len(calls), send)) <= {200, 302, 409}
    for order in orders:
        history = list(order.status_changes.order_by("id").values_list("from_status", "to_status"))
        order.refresh_from_db()
        # The merchant may cancel what was just confirmed; nothing else follows a first decision.
        assert history[1:] in (
            [("pending_confirmation", "canceled")],
            [("pending_confirmation", "confirmed"), ("confirmed", "canceled")],
        )
        assert order.status == history[-1][1]
        assert order.version == len(history)
    assert StatusChange.objects.filter(user=colleague).count() == 0
    told = Event.objects.exclude(kind__in=["order.created", CALL_ATTEMPTED, "order.updated"])
    assert told.count() == StatusChange.objects.exclude(from_status=None).count()


# --- The order page ----------------------------------------------------------------------------------------------


def test_the_table_of_moves_is_what_the_buttons_are(alice: Account, agent: User, supervisor: User) -> None:
    """For each status and role, the page offers exactly the table's moves, and no other POST changes anything."""
    allowed = {
        "pending_confirmation": (set(), set()),  # decided on the call screen
        "confirmed": (set(), {"cancel", "ship"}),
        "canceled": (set(), set()),
        "shipped": (set(), {"deliver", "return"}),
        "delivered": (set(), set()),
        "returned": (set(), set()),
    }
    for status, moves_of_roles in allowed.items():
        for user, moves in zip((agent, supervisor), moves_of_roles, strict=True):
            browser = browser_of(user)
            for move in MOVES:
                order = make_order(alice)
                Order.objects.filter(id=order.id).update(status=status)
                page = browser.get(order_page(order)).content.decode()
                assert (f'action="{order_page(order, move)}"' in page) == (move in moves), (status, user, move)
                assert press(browser, order, move)[0] == 302
                order.refresh_from_db()
                assert (order.status != status) == (move in moves), (status, user, move)
                assert order.version == (2 if move in moves else 1)


def test_a_supervisor_takes_an_order_to_its_end(order: Order, supervisor: User) -> None:
    browser = browser_of(supervisor)
    assert take(browser, order).press("confirm").status_code == 302
    for move, status in [("ship", "shipped"), ("deliver", "delivered")]:
        order.refresh_from_db()
        assert press(browser, order, move)[0] == 302
        order.refresh_from_db()
        assert order.status == status


def test_a_pending_order_is_called_from_its_page(order: Order, agent: User, colleague: User) -> None:
    browser = browser_of(agent)
    assert f'action="{DESK}take/{order.id}/"' in browser.get(order_page(order)).content.decode()
    screen = take(browser, order)
    assert f'href="{screen.address}?order={order.id}"' in browser.get(order_page(order)).content.decode()

    other = browser_of(colleague)
    page = other.get(order_page(order)).content.decode()
    assert "Samira is calling this customer" in page
    assert "/take/" not in page
    response = other.post(f"{DESK}take/{order.id}/")
    assert (response.url, told(response)) == (order_page(order), "Samira is calling this customer.")
    assert Claim.objects.get().agent == agent


@pytest.mark.parametrize("action", [*MOVES, "note"])
def test_an_address_of_a_button_leads_to_the_orders_page(action: str, order: Order, supervisor: User) -> None:
    """A form that is refused is shown again there, and who opens the address again changes nothing."""
    Order.objects.update(status="shipped" if action in ("deliver", "return") else "confirmed")
    for client in (browser_of(supervisor), Client()):
        for method in ("get", "head"):
            sent = {"version": 1, "why": "Duplicate", "outcome": "busy", "note_id": str(uuid7())}
            assert getattr(client, method)(order_page(order, action), sent).url == order_page(order)
        response = client.put(order_page(order, action))
        assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    order.refresh_from_db()
    assert (order.version, order.call_notes.count()) == (1, 0)


@pytest.mark.parametrize("action", [*MOVES, "note"])
def test_no_button_works_without_the_csrf_token(action: str, order: Order, supervisor: User) -> None:
    Order.objects.update(status="shipped" if action in ("deliver", "return") else "confirmed")
    browser = browser_of(supervisor, enforce_csrf_checks=True)
    data = {"version": 1, "why": "Duplicate", "outcome": "busy", "note_id": str(uuid7())}
    assert browser.post(order_page(order, action), data).status_code == 403
    headers = {"Origin": "https://evil.example"}
    assert browser.post(order_page(order, action), data, headers=headers).status_code == 403
    order.refresh_from_db()
    assert (order.version, order.call_notes.count()) == (1, 0)


def test_who_was_signed_out_comes_back_to_the_order(order: Order) -> None:
    response = Client().post(order_page(order, "ship"), {"version": 1})
    assert response.url == f"/console/login/?next={order_page(order)}"


def test_a_supervisors_stale_button_is_told_who_and_when(confirmed: Order, agent: User, supervisor: User) -> None:
    lifecycle.move("ship", confirmed.id, actor=Actor.of_staff(supervisor))
    StatusChange.objects.filter(to_status="shipped").update(at="2099-12-01T13:05:00Z")
    for move in ("ship", "cancel"):
        status, said = press(browser_of(supervisor), confirmed, move)
        assert status == 302
        assert said == "Already shipped by Karim at 14:05 on 1 December 2099. Nothing was changed."
    confirmed.refresh_from_db()
    assert confirmed.status == "shipped"


def test_a_supervisor_pressing_twice_is_no_error(confirmed: Order, supervisor: User) -> None:
    browser = browser_of(supervisor)
    press(browser, confirmed, "ship")
    response = browser.post(order_page(confirmed, "ship"), {"version": 2})
    (message,) = list(get_messages(response.wsgi_request))[-1:]
    assert message.level_tag == "info"
    assert str(message).startswith("Already shipped by Karim at ")
    assert confirmed.status_changes.count() == 3


@pytest.mark.parametrize(
    "data", [{"why": ""}, {"why": "Whatever"}, {"why": "Other"}, {"why": "Other", "details": "x" * 461}]
)
def test_a_supervisors_cancel_asks_for_a_reason(data: dict, confirmed: Order, supervisor: User) -> None:
    response = browser_of(supervisor).post(order_page(confirmed, "cancel"), {"version": 2, **data})
    assert response.status_code == 422
    assert b"errornote" in response.content
    confirmed.refresh_from_db()
    assert confirmed.status == "confirmed"


# --- Notes about orders that are decided ---------------------------------------------------------------------------


@pytest.fixture
def confirmed(order: Order, agent: User) -> Order:
    return lifecycle.confirm(order.id, actor=Actor.of_staff(agent))


def note_data(order: Order, **data: Any) -> dict[str, Any]:
    return {"version": order.version, "note_id": str(uuid7()), "outcome": "no_answer", "note": "", **data}


def test_a_note_of_a_pending_order_needs_its_customer(order: Order, agent: User) -> None:
    response = browser_of(agent).post(order_page(order, "note"), note_data(order))
    assert told(response) == "This order is waiting for a call. Call the customer to decide it."
    assert CallNote.objects.count() == 0


def test_a_note_keeps_outcome_text_and_agent(confirmed: Order, agent: User) -> None:
    data = note_data(confirmed, outcome="answered", note="Rappelle demain\r\n  إن شاء الله ")
    assert browser_of(agent).post(order_page(confirmed, "note"), data).url == order_page(confirmed)
    note = CallNote.objects.get()
    assert (note.outcome, note.note) == ("answered", "Rappelle demain\n  إن شاء الله")
    assert (note.agent_id, note.agent_name, note.account_id) == (agent.id, "Samira", confirmed.account_id)
    assert note.id.version == 7
    confirmed.refresh_from_db()
    assert confirmed.status == "confirmed"


def test_a_note_sent_twice_is_one_note(confirmed: Order, agent: User) -> None:
    browser, data = browser_of(agent), note_data(confirmed)
    assert [browser.post(order_page(confirmed, "note"), data).status_code for _ in range(2)] == [302, 302]
    assert CallNote.objects.count() == 1


def test_another_note_in_the_same_form_is_another_note(confirmed: Order, agent: User) -> None:
    """Browsers show a page again as it was left, with the id that its note has."""
    browser, data = browser_of(agent), note_data(confirmed, note="Elle rappelle")
    for note in ("Elle rappelle", "Porte bleue"):
        assert "The call is noted." in told(browser.post(order_page(confirmed, "note"), data | {"note": note}))
    assert {note.note for note in CallNote.objects.all()} == {"Elle rappelle", "Porte bleue"}


def test_a_note_is_kept_though_the_order_has_moved_on(confirmed: Order, agent: User, supervisor: User) -> None:
    lifecycle.cancel(confirmed.id, actor=Actor.of_staff(supervisor), reason="Duplicate")
    data = note_data(confirmed, note="Elle veut la commande")
    response = browser_of(agent).post(order_page(confirmed, "note"), data)
    assert "Already canceled by Karim at " in told(response)
    assert CallNote.objects.get().note == "Elle veut la commande"


@pytest.mark.parametrize(
    "data",
    [
        {"outcome": ""},
        {"outcome": "sold"},
        {"outcome": "note", "note": ""},
        {"note": "x" * 2001},
        {"note": "a\x00b"},
        {"note": "a\x07b"},
        {"note_id": "1"},
        {"note_id": "6f1b6c1e-8a5d-4c3b-9f0e-2d7a5b1c4e88"},  # of version 4
        {"version": ""},
        {"outcome": "callback"},
        {"outcome": "handed_over"},
        {"outcome": "skipped"},
    ],
)
def test_an_unusable_note_comes_back_with_its_text(data: dict, confirmed: Order, agent: User) -> None:
    form = {**note_data(confirmed, note="Porte bleue"), **data}
    response = browser_of(agent).post(order_page(confirmed, "note"), form)
    assert response.status_code == 422
    assert CallNote.objects.count() == 0
    if "note" not in data:
        assert "Porte bleue" in response.content.decode()


# --- Waiting ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_decision_that_waits_too_long_for_the_order_is_not_made_and_can_be_made_again(
    order: Order, screen: Screen
) -> None:
    """The same form is sent again. Its note's id ensures that a second press is not a second call."""
    screen.browser.raise_request_exception = False
    with psycopg.connect(database_url()) as other:
        other.execute("SELECT FROM orders_order WHERE id = %s FOR UPDATE", [order.id])
        answer = screen.press("confirm", note="Livrer le matin")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        other.rollback()
    order.refresh_from_db()
    assert (order.status, CallNote.objects.count()) == ("pending_confirmation", 0)
    assert screen.press("confirm", note="Livrer le matin").status_code == 302
    assert (CallNote.objects.count(), Event.objects.exclude(kind="order.created").count()) == (1, 1)
