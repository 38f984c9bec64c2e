"""Test mode's agent and courier do to test orders just what agents and couriers do, events included."""

import json
from collections.abc import Callable
from datetime import time, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from agents.models import CallingPeriod, CallingRules
from agents.test_mode import simulation
from codservice.accounts.models import Account
from codservice.days import ALGIERS
from orders.models import CallNote, CallState, Order, Status
from tests.factories import make_order
from tests.harness.client import ApiClient
from tests.harness.receivers import Receiver
from tests.orders.moves import PATHS
from webhooks.engine import Engine
from webhooks.models import Delivery, Event, Webhook

MOVES = ("confirm", "cancel", "ship", "deliver", "return")
ENDS = {"confirm": Status.CONFIRMED, "cancel": Status.CANCELED, "ship": Status.SHIPPED, "deliver": Status.DELIVERED,
        "return": Status.RETURNED}  # fmt: skip


@pytest.fixture
def play(twins_api: ApiClient) -> Callable[..., Any]:
    def play(order: Order, name: str, body: Any = None, **headers: Any) -> Any:
        return twins_api.post(f"/api/v1/test/orders/{order.id}/{name}", body, **headers)

    return play


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("name", MOVES)
def test_each_move_from_each_status(status: Status, name: str, twin: Account, play: Callable[..., Any]) -> None:
    order = make_order(twin)
    for step in PATHS[status]:
        assert play(order, step).status_code == 200
    events, version = Event.objects.count(), Order.objects.get(id=order.id).version

    answer = play(order, name)

    order.refresh_from_db()
    if (status, name) in Order.MOVES:
        assert (answer.status_code, answer.json()["status"], order.status) == (200, ENDS[name], ENDS[name])
        assert answer.json()["status_history"][-1]["actor"] == "Test agent"
        assert answer["X-Service-Mode"] == "test"
    elif status == ENDS[name]:
        assert (answer.status_code, answer.json()["status"]) == (200, status), "to try again is safe"
        assert (Event.objects.count(), order.version) == (events, version)
    else:
        left = name == "cancel" and status in (Status.SHIPPED, Status.DELIVERED, Status.RETURNED)
        code = "order_not_cancellable" if left else "order_already_decided"
        assert (answer.status_code, answer.json()["error"], order.status) == (422, code, status)
        assert (Event.objects.count(), order.version) == (events, version)


def test_the_answer_is_the_orders_detail(twin: Account, twins_api: ApiClient, play: Callable[..., Any]) -> None:
    order = make_order(twin)
    assert play(order, "confirm").json() == twins_api.get(f"/api/v1/orders/{order.id}").json()


def test_a_cancel_may_have_a_reason(twin: Account, play: Callable[..., Any]) -> None:
    order = make_order(twin)
    assert play(order, "cancel", {"reason": 7}).status_code == 422
    assert play(order, "cancel", {"reason": "Customer refused"}).json()["cancel_reason"] == "Customer refused"


@pytest.mark.parametrize("outcome", simulation.OUTCOMES)
def test_a_call_is_noted_and_planned(outcome: CallNote.Outcome, twin: Account, play: Callable[..., Any]) -> None:
    order = make_order(twin)
    answer = play(order, "call", {"outcome": outcome})
    assert answer.status_code == 200
    (note,) = answer.json()["call_notes"]
    assert (note["outcome"], note["agent"], note["callback_at"] is not None) == (
        outcome, "Test agent", outcome == "callback"
    )  # fmt: skip
    before, order = order, Order.objects.get(id=order.id)
    assert (order.status, order.call_state) == (Status.PENDING, CallState.TEST), "nobody is ever called for it"
    assert order.call_due_at > before.call_due_at
    assert order.call_attempts == (outcome in ("no_answer", "busy", "switched_off"))


def test_a_call_is_planned_by_the_live_accounts_rules(alice: Account, twin: Account, play: Callable[..., Any]) -> None:
    CallingRules.objects.create(
        account=alice, opens_at=time(0), closes_at=time(23, 59), retry_minutes=5, days_off=[], most_attempts=9
    )
    order = make_order(twin)
    play(order, "call", {"outcome": "busy"})
    note = CallNote.objects.get()
    assert timedelta(minutes=5) <= Order.objects.get().call_due_at - note.created_at < timedelta(hours=20)


def test_the_next_call_is_in_the_live_accounts_hours(alice: Account, twin: Account, play: Callable[..., Any]) -> None:
    CallingPeriod.objects.all().delete()
    CallingRules.objects.create(account=alice, opens_at=time(6), closes_at=time(7), days_off=[])
    play(make_order(twin), "call", {"outcome": "no_answer"})
    assert time(6) <= Order.objects.get().call_due_at.astimezone(ALGIERS).time() < time(7)


def next_call() -> str | None:
    """What the last event says of the next call."""
    return json.loads(Event.objects.latest("id").body)["data"]["next_call_at"]


def test_a_promise_stays_when_its_customer_does_not_answer_before(twin: Account, play: Callable[..., Any]) -> None:
    order = make_order(twin)
    for outcome in ("callback", "no_answer", "busy"):
        play(order, "call", {"outcome": outcome})
    promised = CallNote.objects.get(outcome="callback").callback_at
    order.refresh_from_db()
    assert (order.call_due_at, order.call_attempts) == (promised, 2)


def test_a_promise_that_is_over_is_followed_by_another_attempt(twin: Account, play: Callable[..., Any]) -> None:
    order = make_order(twin)
    play(order, "call", {"outcome": "callback"})
    CallNote.objects.update(callback_at=timezone.now() - timedelta(hours=1))
    soon = timezone.now() + timedelta(minutes=5)
    Order.objects.update(call_due_at=soon)  # for an attempt after the promise
    play(order, "call", {"outcome": "no_answer"})
    assert Order.objects.get().call_due_at > soon


def test_an_order_stays_in_review_until_its_number_is_corrected(
    twin: Account, twins_api: ApiClient, play: Callable[..., Any]
) -> None:
    order = make_order(twin)
    for outcome in ("wrong_number", "no_answer", "busy"):
        play(order, "call", {"outcome": outcome})
        assert next_call() is None
    twins_api.patch(f"/api/v1/orders/{order.id}", {"customer_phone": "0661 22 33 44"})
    order.refresh_from_db()
    assert (order.call_attempts, order.call_state) == (0, CallState.TEST)
    play(order, "call", {"outcome": "no_answer"})
    assert next_call() is not None
    play(order, "call", {"outcome": "wrong_number"})
    play(order, "call", {"outcome": "callback"})
    assert next_call() is not None


@pytest.mark.parametrize(
    "body", [{}, {"outcome": None}, {"outcome": "answered"}, {"outcome": ["busy"]}, {"outcome": 1}]
)
def test_an_outcome_that_decides_or_does_not_exist_is_refused(
    body: dict[str, Any], twin: Account, play: Callable[..., Any]
) -> None:
    answer = play(make_order(twin), "call", body)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["outcome"])
    assert CallNote.objects.count() == 0


def test_nobody_is_called_for_what_is_decided(twin: Account, play: Callable[..., Any]) -> None:
    order = make_order(twin)
    play(order, "confirm")
    answer = play(order, "call", {"outcome": "busy"})
    assert (answer.status_code, answer.json()["error"]) == (422, "order_already_decided")


def test_an_end_to_calls(twin: Account, play: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "MOST_CALLS", 2)
    order = make_order(twin)
    answers = [play(order, "call", {"outcome": "busy"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 422]
    assert list(answers[2].json()["errors"]) == ["outcome"]
    assert CallNote.objects.count() == 2


def test_a_call_that_is_sent_again_with_its_key_is_noted_once(twin: Account, play: Callable[..., Any]) -> None:
    order = make_order(twin)
    for _ in range(2):
        assert play(order, "call", {"outcome": "busy"}, headers={"Idempotency-Key": "1"}).status_code == 200
    assert CallNote.objects.count() == 1


@pytest.mark.parametrize(("name", "body"), [("cancel", {"reason": 5}), ("call", {}), ("call", {"outcome": 5})])
def test_anothers_is_unknown_whatever_the_body_says(
    name: str, body: dict[str, Any], twin: Account, charlie: Account, play: Callable[..., Any]
) -> None:
    assert play(make_order(charlie), name, body).status_code == 404
    assert play(make_order(twin), name, body).status_code == 422


def test_to_a_live_key_there_is_no_such_path(alice: Account, api: ApiClient, api_for: Callable[..., ApiClient]) -> None:
    order = make_order(alice)

    def said(client: ApiClient, method: str, path: str) -> tuple[Any, ...]:
        answer = client.generic(method, path)
        names = {n: v for n, v in answer.headers.items() if not n.startswith("X-R")}
        return answer.status_code, answer.content, names

    for client in (api, api_for(alice, scopes=["orders:read"])):
        for method in ("GET", "POST", "OPTIONS", "DELETE"):
            unknown = said(client, method, f"/api/v1/test/orders/{order.id}/nothing")
            assert unknown[0] == 404
            assert b"need a test key" in unknown[1]
            for name in (*MOVES, "call"):
                assert said(client, method, f"/api/v1/test/orders/{order.id}/{name}") == unknown
    assert Order.objects.get().status == Status.PENDING


def test_only_the_twins_orders_are_played_with(
    alice: Account, charlie: Account, play: Callable[..., Any], api_for: Callable[..., ApiClient]
) -> None:
    charlies_twin = make_order(charlie)
    for order in (make_order(alice), charlies_twin, Order(id=uuid4())):
        for name in MOVES:
            assert play(order, name).status_code == 404
        assert play(order, "call", {"outcome": "busy"}).status_code == 404
    assert set(Order.objects.values_list("status", flat=True)) == {Status.PENDING}


def test_it_needs_the_scope(alice: Account, twin: Account, api_for: Callable[..., ApiClient]) -> None:
    order = make_order(twin)
    answer = api_for(alice, is_test=True, scopes=["orders:read"]).post(f"/api/v1/test/orders/{order.id}/confirm")
    assert answer.status_code == 403


def test_a_move_costs_few_statements(
    twin: Account, play: Callable[..., Any], django_assert_max_num_queries: Any
) -> None:
    order = make_order(twin)
    play(order, "nothing")  # so that the key is cached
    with django_assert_max_num_queries(7):
        play(order, "confirm")


@pytest.mark.django_db(transaction=True)
def test_a_confirmed_test_order_reaches_the_webhook_of_the_twin(
    alice: Account,
    twin: Account,
    play: Callable[..., Any],
    webhook_to: Callable[..., Webhook],
    receiver: Receiver,
    engine: Engine,
    settings: Any,
) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    webhook_to(receiver.url("/live"))
    webhook_to(receiver.url("/test"), account=twin)
    play(make_order(twin), "confirm")
    engine.drain()
    (request,) = receiver.requests
    assert (request.path, request.headers["x-service-mode"]) == ("/test", "test")
    assert json.loads(request.body)["event"] == "order.confirmed"
    assert Delivery.objects.get().status == "delivered"


@pytest.mark.django_db(transaction=True)
def test_deliveries_of_the_live_account_have_no_mode(
    alice: Account, webhook_to: Callable[..., Webhook], receiver: Receiver, engine: Engine, settings: Any,
    delivery_of: Callable[..., Delivery],
) -> None:  # fmt: skip
    settings.WEBHOOK_ALLOW_PRIVATE = True
    delivery_of(webhook_to(receiver.url("/live")))
    engine.drain()
    assert "x-service-mode" not in receiver.requests[0].headers
