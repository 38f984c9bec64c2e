"""What is told of an order's life besides decisions: edits, calls that decide nothing, and its way to the customer."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from codservice import days
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account
from orders import editing, lifecycle
from orders.editing import Edit
from orders.lifecycle import Call, CallPlan
from orders.models import CallNote, CallState, Order
from tests.factories import AccountFactory, AgentFactory, make_order
from tests.orders.moves import bring
from webhooks.models import Event

Outcome = CallNote.Outcome
pytestmark = pytest.mark.django_db


def told(kind: str) -> list[dict[str, Any]]:
    bodies = [json.loads(event.body) for event in Event.objects.filter(kind=kind).order_by("created_at", "id")]
    return [body["data"] for body in bodies]


def test_each_way_of_a_parcel_is_told_with_the_shops_number(alice: Account) -> None:
    for end in ("delivered", "returned"):
        bring(make_order(alice, external_id=end), end)
        assert [event["status"] for event in told(f"order.{end}")] == [end]
        assert told(f"order.{end}")[0]["external_id"] == end
    assert [event["external_id"] for event in told("order.shipped")] == ["delivered", "returned"]
    assert "external_id" not in told("order.confirmed")[0]


def test_an_edit_is_told_and_what_changes_nothing_is_not(alice: Account) -> None:
    order = make_order(alice)
    actor = Actor(Role.AGENT, "Samira")
    editing.edit(order.id, Edit(customer_name=order.customer_name), actor=actor)
    assert told("order.updated") == []

    editing.edit(order.id, Edit(customer_name="Amine B."), actor=actor)

    (event,) = told("order.updated")
    assert (event["customer_name"], event["status"]) == ("Amine B.", "pending_confirmation")


def test_calls_are_told_with_what_comes_next(alice: Account) -> None:
    order, agent = make_order(alice, external_id="7"), AgentFactory()
    tomorrow = timezone.now() + timedelta(days=1)
    again = CallPlan(CallState.RETRY, tomorrow.astimezone(days.ALGIERS), attempts=1)
    for outcome, plan in (
        (Outcome.NO_ANSWER, again),
        (Outcome.SKIPPED, again),
        (Outcome.NOTE, None),
        (Outcome.HANDED_OVER, CallPlan(CallState.REVIEW, tomorrow, attempts=1)),
        (Outcome.WRONG_NUMBER, CallPlan(CallState.REVIEW, tomorrow, attempts=1)),
    ):
        locked = lifecycle.lock_one(order.id)
        lifecycle.add_call_notes([locked], Call(agent, outcome), {order.id: plan} if plan else {})

    first, second = told("order.call_attempted")
    assert (first["outcome"], first["attempt_count"], first["external_id"]) == ("no_answer", 1, "7")
    assert first["next_call_at"] == tomorrow.isoformat().replace("+00:00", "Z")
    assert (second["outcome"], second["attempt_count"], second["next_call_at"]) == ("wrong_number", 2, None)


@pytest.mark.parametrize("count", [1, 6])
def test_a_call_about_orders_of_many_merchants_is_told_by_one_statement(count: int) -> None:
    orders = [make_order(AccountFactory()) for _ in range(count)]
    agent = AgentFactory()
    locked = lifecycle.lock(Order.objects.filter(id__in=[order.id for order in orders]))
    plans = {order.id: CallPlan(CallState.RETRY, timezone.now(), attempts=1) for order in locked}

    with CaptureQueriesContext(connection) as queries:
        lifecycle.add_call_notes(locked, Call(agent, Outcome.BUSY), plans)

    assert len([each for each in queries if "SAVEPOINT" not in each["sql"]]) == 4  # orders, notes, count, events
    events = Event.objects.filter(kind="order.call_attempted")
    assert {event.account_id for event in events} == {order.account_id for order in orders}
