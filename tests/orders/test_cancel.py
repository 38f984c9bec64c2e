"""POST /api/v1/orders/{id}/cancel: possible until the order is shipped, harmless to repeat, and told exactly once."""

import json
from datetime import datetime
from uuid import uuid4

import pytest

from codservice.accounts.actor import Actor, Role
from orders import lifecycle
from orders.models import Order, StatusChange
from tests.factories import make_order
from tests.harness.background import at_once
from tests.harness.client import ApiClient
from webhooks.models import Event

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db
SAMIRA = Actor(Role.SUPERVISOR, "Samira")


@pytest.fixture
def order(alice):
    return make_order(alice)


def cancel(api, order, *args, **kwargs):
    return api.post(f"{ORDERS}/{order.id}/cancel", *args, **kwargs)


def history(order):
    return list(order.status_changes.order_by("id").values_list("from_status", "to_status", "actor", "reason"))


def test_the_answer_is_the_whole_order(api, order):
    answer = cancel(api, order, {"reason": "out of stock"})
    assert answer.status_code == 200
    assert answer.json() == api.get(f"{ORDERS}/{order.id}").json()
    assert (answer.json()["status"], answer.json()["cancel_reason"]) == ("canceled", "out of stock")
    assert answer.json()["canceled_at"] == answer.json()["updated_at"]
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_event_tells_of_the_order_as_it_now_is(api, order):
    cancel(api, order)
    event = Event.objects.exclude(kind="order.created").get()
    order.refresh_from_db()
    assert (event.kind, event.account_id, event.created_at) == ("order.cancelled", order.account_id, order.updated_at)
    body = json.loads(event.body)
    assert body.keys() == {"event", "timestamp", "data"}
    assert body["event"] == "order.cancelled"
    assert datetime.fromisoformat(body["timestamp"]) == order.canceled_at
    assert body["data"] == {
        "id": str(order.id),
        "status": "canceled",
        "customer_name": "Amine Benali",
        "customer_phone": "0550123456",
        "total_amount": 4500.50,
        "updated_at": body["timestamp"],
    }
    assert '"total_amount":4500.50' in event.body


@pytest.mark.parametrize(
    ("moves", "status"),
    [
        ([], 200),
        (["confirm"], 200),
        (["cancel"], 200),
        (["confirm", "ship"], 422),
        (["confirm", "ship", "deliver"], 422),
        (["confirm", "ship", "return"], 422),
    ],
)
def test_it_is_possible_until_the_order_is_shipped(api, order, moves, status):
    for move in moves:
        lifecycle.move(move, order.id, actor=SAMIRA)
    before, events = history(order), Event.objects.exclude(kind="order.created").count()
    answer = cancel(api, order)
    order.refresh_from_db()
    assert answer.status_code == status
    if status == 422:
        body = answer.json()
        assert body["error"] == "order_not_cancellable"
        assert body.keys() == {"error", "message", "errors"}
        assert body["errors"] == {"status": [body["message"]]}
        assert order.status == {"ship": "shipped", "deliver": "delivered", "return": "returned"}[moves[-1]]
        assert (history(order), Event.objects.exclude(kind="order.created").count(), order.canceled_at) == (
            before,
            events,
            None,
        )
    else:
        assert order.status == "canceled"


def test_a_confirmed_order_is_told_of_twice_once_for_each_move(api, order):
    lifecycle.confirm(order.id, actor=SAMIRA)
    cancel(api, order)
    assert list(Event.objects.exclude(kind="order.created").order_by("id").values_list("kind", flat=True)) == [
        "order.confirmed",
        "order.cancelled",
    ]
    assert [change[:3] for change in history(order)] == [
        (None, "pending_confirmation", "test"),
        ("pending_confirmation", "confirmed", "Samira"),
        ("confirmed", "canceled", "API key Test"),
    ]


def test_to_cancel_again_changes_nothing(api, order):
    first = cancel(api, order, {"reason": "first"})
    again = cancel(api, order, {"reason": "second"})
    assert (again.status_code, again.content) == (200, first.content)
    assert Event.objects.exclude(kind="order.created").count() == 1
    assert len(history(order)) == 2


def test_an_agents_cancellation_is_no_error_for_the_shop_either(api, order):
    lifecycle.cancel(order.id, actor=SAMIRA, reason="the customer said no")
    answer = cancel(api, order)
    assert (answer.status_code, answer.json()["cancel_reason"]) == (200, "the customer said no")
    assert Event.objects.exclude(kind="order.created").count() == 1


@pytest.mark.django_db(transaction=True)
def test_20_at_once_are_one_cancellation(alice, api_for, order):
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    answers = at_once(20, lambda _: cancel(ApiClient(key), order))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert Event.objects.exclude(kind="order.created").count() == 1
    assert [change[:2] for change in history(order)] == [
        (None, "pending_confirmation"),
        ("pending_confirmation", "canceled"),
    ]


# --- The body -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "application/json"),
        (b"", ""),
        (b"", "application/x-www-form-urlencoded"),
        (b"", "multipart/form-data; boundary=x"),
        (b"", "text/plain"),
        (b"{}", "application/json"),
        (b'{"reason":null}', "application/json"),
        (b'{"reason":""}', "application/json"),
        (b'{"reason":"  "}', "application/json"),
        (b'{"colour":"red"}', "application/json"),
    ],
)
def test_no_reason_is_needed(api, order, body, content_type):
    answer = cancel(api, order, body, headers={"Content-Type": content_type})
    assert (answer.status_code, answer.json()["cancel_reason"]) == (200, "")


def test_a_reason_is_kept_with_the_order_and_in_its_history(api, order):
    answer = cancel(api, order, {"reason": " ru\u0301pture\r\nde stock ", "status": "shipped", "canceled_at": None})
    assert answer.json()["cancel_reason"] == "r\u00fapture\nde stock"
    assert answer.json()["status_history"][-1]["reason"] == "r\u00fapture\nde stock"


@pytest.mark.parametrize(
    "reason", ["x" * 501, "\x00", "\ud800", 5, True, [], {}, ["a"]], ids=lambda reason: repr(reason)[:9]
)
def test_a_reason_that_cannot_be_kept_is_refused_and_cancels_nothing(api, order, reason):
    answer = cancel(api, order, json.dumps({"reason": reason}).encode())
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["reason"])
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


@pytest.mark.parametrize("body", [b"reason=x", b"x"])
@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""])
def test_a_body_of_another_type_is_refused(api, order, body, content_type):
    assert cancel(api, order, body, content_type=content_type).status_code == 415
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


def test_charlie_cancels_nothing_of_alices(charlies_api, order):
    assert cancel(charlies_api, order).status_code == 404
    assert cancel(charlies_api, order, {"reason": 5}).status_code == 404
    assert charlies_api.post(f"{ORDERS}/{uuid4()}/cancel").status_code == 404
    assert Order.objects.get().status == "pending_confirmation"
    assert StatusChange.objects.count() == 1
