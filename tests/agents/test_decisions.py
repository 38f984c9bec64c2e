"""Buttons of the order page: who may press which, what happens, and what happens when somebody was faster."""

import threading
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from orders import lifecycle
from orders.models import CallNote, Order, StatusChange
from tests.factories import make_order
from webhooks.models import Event

MOVES = ("confirm", "cancel", "ship", "deliver", "return")


def at(order: Order, action: str = "") -> str:
    return f"/console/orders/order/{order.id}/{action and action + '/'}"


def press(browser: Client, order: Order, move: str, **data: Any) -> tuple[int, str]:
    """POST a button as the page has it now; the status and what the agent is told."""
    if move == "cancel":
        data = {"why": "Customer refused", **data}
    response = browser.post(at(order, move), {"version": order.version, **data})
    return response.status_code, " ".join(str(message) for message in get_messages(response.wsgi_request))


def test_confirm_confirms_once_with_its_event(order: Order, agent: User, browser_of: Any) -> None:
    status, said = press(browser_of(agent), order, "confirm")
    assert (status, said) == (302, "The order is now “Confirmed”.")
    order.refresh_from_db()
    assert order.status == "confirmed"
    assert order.status_changes.latest("at").user_id == agent.id
    assert Event.objects.filter(kind="order.confirmed").count() == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"why": "Customer refused"}, "Customer refused"),
        ({"why": "Duplicate", "details": " CMD-12 "}, "Duplicate: CMD-12"),
        ({"why": "Other", "details": "Déménage à Oran"}, "Déménage à Oran"),
    ],
)
def test_cancel_keeps_the_reason(data: dict, reason: str, order: Order, agent: User, browser_of: Any) -> None:
    assert press(browser_of(agent), order, "cancel", **data)[0] == 302
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
def test_cancel_asks_for_a_reason(data: dict, order: Order, agent: User, browser_of: Any) -> None:
    response = browser_of(agent).post(at(order, "cancel"), {"version": 1, **data})
    assert response.status_code == 422
    assert b"errornote" in response.content
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


def test_the_table_of_moves_is_what_the_buttons_are(
    alice: Account, agent: User, supervisor: User, browser_of: Any
) -> None:
    """For each status and role: the page offers exactly the table's moves, and no other POST changes anything."""
    allowed = {
        "pending_confirmation": ({"confirm", "cancel"}, {"confirm", "cancel"}),
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
                page = browser.get(at(order)).content.decode()
                assert (f'action="{at(order, move)}"' in page) == (move in moves), (status, user, move)
                assert press(browser, order, move)[0] == 302
                order.refresh_from_db()
                assert (order.status != status) == (move in moves), (status, user, move)
                assert order.version == (2 if move in moves else 1)


def test_a_supervisor_takes_an_order_to_its_end(order: Order, supervisor: User, browser_of: Any) -> None:
    browser = browser_of(supervisor)
    for move, status in [("confirm", "confirmed"), ("ship", "shipped"), ("deliver", "delivered")]:
        assert press(browser, order, move)[0] == 302
        order.refresh_from_db()
        assert order.status == status


@pytest.mark.parametrize("action", [*MOVES, "note"])
def test_no_address_of_a_button_answers_get(action: str, order: Order, agent: User, browser_of: Any) -> None:
    for client in (browser_of(agent), Client()):
        response = client.get(at(order, action))
        assert response.status_code == 405
        assert response.headers["Allow"] == "POST"


@pytest.mark.parametrize("action", [*MOVES, "note"])
def test_no_button_works_without_the_csrf_token(action: str, order: Order, agent: User, browser_of: Any) -> None:
    browser = browser_of(agent, enforce_csrf_checks=True)
    data = {"version": 1, "why": "Duplicate", "outcome": "busy", "note_id": str(uuid4())}
    assert browser.post(at(order, action), data).status_code == 403
    headers = {"Origin": "https://evil.example"}
    assert browser.post(at(order, action), data, headers=headers).status_code == 403
    order.refresh_from_db()
    assert (order.version, order.call_notes.count()) == (1, 0)


def test_who_was_signed_out_comes_back_to_the_order(order: Order) -> None:
    response = Client().post(at(order, "confirm"), {"version": 1})
    assert response.url == f"/console/login/?next={at(order)}"


# --- Somebody was faster -------------------------------------------------------------------------------------------


def test_a_stale_confirm_is_told_who_and_when(order: Order, agent: User, colleague: User, browser_of: Any) -> None:
    lifecycle.confirm(order.id, actor=Actor.of_user(colleague))
    StatusChange.objects.filter(to_status="pending_confirmation").update(at="2026-07-01T12:00:00Z")
    StatusChange.objects.filter(to_status="confirmed").update(at="2026-07-01T13:05:00Z")
    status, said = press(browser_of(agent), order, "confirm")
    assert status == 302
    assert said == "Already confirmed by Nadia at 14:05 on 1 July 2026. Nothing was changed now."
    assert Event.objects.count() == 1


@pytest.mark.parametrize("move", ["confirm", "cancel"])
def test_a_stale_page_changes_nothing(move: str, order: Order, agent: User, supervisor: User, browser_of: Any) -> None:
    lifecycle.cancel(order.id, actor=Actor.of_user(supervisor), reason="Changed their mind")
    for user in (agent, supervisor):
        said = press(browser_of(user), order, move)[1]
        assert said.startswith("Already canceled by Karim at ")
    order.refresh_from_db()
    assert (order.version, order.cancel_reason) == (2, "Changed their mind")
    assert Event.objects.count() == 1


def test_a_supervisors_stale_cancel_does_not_hit_the_confirmed_order(
    order: Order, agent: User, supervisor: User, browser_of: Any
) -> None:
    """The move exists for the new status too, but it is not what the supervisor saw."""
    lifecycle.confirm(order.id, actor=Actor.of_user(agent))
    assert press(browser_of(supervisor), order, "cancel")[1].startswith("Already confirmed by Samira at ")
    assert Order.objects.get().status == "confirmed"


def test_the_api_was_faster(order: Order, agent: User, browser_of: Any, api: Client) -> None:
    assert api.post(f"/api/v1/orders/{order.id}/cancel").status_code == 200
    assert press(browser_of(agent), order, "confirm")[1].startswith("Already canceled by API key Test at ")
    assert Order.objects.get().status == "canceled"


def test_pressing_twice_is_harmless_and_no_error(order: Order, agent: User, browser_of: Any) -> None:
    browser = browser_of(agent)
    press(browser, order, "confirm")
    response = browser.post(at(order, "confirm"), {"version": 1})
    (message,) = list(get_messages(response.wsgi_request))[-1:]
    assert message.level_tag == "info"
    assert str(message).startswith("Already confirmed by Samira at ")
    assert order.status_changes.count() == 2
    assert Event.objects.count() == 1


@pytest.mark.parametrize("version", ["", "0", "-1", "abc", "9" * 5000, None])
def test_without_a_usable_version_nothing_happens(
    version: str | None, order: Order, agent: User, browser_of: Any
) -> None:
    data = {} if version is None else {"version": version}
    assert browser_of(agent).post(at(order, "confirm"), data).status_code in (302, 422)
    order.refresh_from_db()
    assert order.version == 1


@pytest.mark.django_db(transaction=True)
def test_many_at_once_have_one_winner(
    agent: User, supervisor: User, alice: Account, browser_of: Any, api: Client
) -> None:
    """Agents' confirms, a supervisor's cancels and the merchant's cancels, all of a version-1 page, at one moment."""
    orders = [make_order(alice) for _ in range(5)]
    answers: list[tuple[str, int]] = []
    start = threading.Barrier(3 * len(orders))

    def send(client: Client, path: str, data: dict[str, Any] | None) -> None:
        start.wait()
        try:
            answers.append((path, (client.post(path, data) if data else client.post(path)).status_code))
        finally:
            connection.close()

    threads = []
    for order in orders:
        for client, path, data in (
            (browser_of(agent), at(order, "confirm"), {"version": 1}),
            (browser_of(supervisor), at(order, "cancel"), {"version": 1, "why": "Duplicate"}),
            (type(api)(api.defaults["HTTP_AUTHORIZATION"].split()[1]), f"/api/v1/orders/{order.id}/cancel", None),
        ):
            threads.append(threading.Thread(target=send, args=(client, path, data)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {status for _, status in answers} <= {200, 302}
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
    assert Event.objects.count() == StatusChange.objects.exclude(from_status=None).count()


# --- Call notes --------------------------------------------------------------------------------------------------


def note_data(order: Order, **data: Any) -> dict[str, Any]:
    return {"version": order.version, "note_id": str(uuid4()), "outcome": "no_answer", "note": "", **data}


def test_a_note_keeps_outcome_text_and_agent(order: Order, agent: User, browser_of: Any) -> None:
    data = note_data(order, outcome="answered", note="Rappelle demain\r\n  إن شاء الله ")
    assert browser_of(agent).post(at(order, "note"), data).url == at(order)
    note = CallNote.objects.get()
    assert (note.outcome, note.note) == ("answered", "Rappelle demain\n  إن شاء الله")
    assert (note.agent_id, note.agent_name, note.account_id) == (agent.id, "Samira", order.account_id)
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


def test_a_note_sent_twice_is_one_note(order: Order, agent: User, browser_of: Any) -> None:
    browser, data = browser_of(agent), note_data(order)
    assert [browser.post(at(order, "note"), data).status_code for _ in range(2)] == [302, 302]
    assert CallNote.objects.count() == 1


def test_a_note_is_kept_though_the_order_has_moved_on(
    order: Order, agent: User, colleague: User, browser_of: Any
) -> None:
    lifecycle.cancel(order.id, actor=Actor.of_user(colleague), reason="Duplicate")
    response = browser_of(agent).post(at(order, "note"), note_data(order, note="Elle veut la commande"))
    said = " ".join(str(message) for message in get_messages(response.wsgi_request))
    assert "Already canceled by Nadia at " in said
    assert CallNote.objects.get().note == "Elle veut la commande"


def test_a_callback_has_a_time_in_algeria(order: Order, agent: User, browser_of: Any) -> None:
    from datetime import timedelta
    from zoneinfo import ZoneInfo

    from django.utils import timezone

    when = (timezone.now() + timedelta(days=1)).astimezone(ZoneInfo("Africa/Algiers")).replace(second=0, microsecond=0)
    data = note_data(order, outcome="callback", callback_at=f"{when:%Y-%m-%dT%H:%M}")
    browser_of(agent).post(at(order, "note"), data)
    assert CallNote.objects.get().callback_at == when


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
        {"version": ""},
        {"outcome": "callback", "callback_at": "2020-01-01T10:00"},
        {"outcome": "callback", "callback_at": "9999-12-31T23:59"},
    ],
)
def test_an_unusable_note_comes_back_with_its_text(data: dict, order: Order, agent: User, browser_of: Any) -> None:
    response = browser_of(agent).post(at(order, "note"), {**note_data(order, note="Porte bleue"), **data})
    assert response.status_code == 422
    assert CallNote.objects.count() == 0
    if "note" not in data:
        assert "Porte bleue" in response.content.decode()
