"""Test orders are deleted after thirty days, with everything that belongs to them; live ones never are."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account
from codservice.api.models import IdempotencyRecord
from orders import counts, editing, lifecycle, retention
from orders.models import CallNote, Order, OrderCount, OrderEdit, OrderItem, Status, StatusChange
from tests.factories import AgentFactory, make_order
from tests.harness.background import open_transaction
from tests.harness.client import ApiClient
from tests.harness.database import stopped_before_its_locks
from tests.harness.manage import output
from tests.harness.plans import looks_at_events
from webhooks.models import Event

BELONGING = {OrderItem, StatusChange, OrderEdit, CallNote}


def prune(*options: str) -> int:
    return json.loads(output("prune", "--json", *options))["test_orders"]


@pytest.fixture
def order_in(db: None) -> Callable[..., Order]:
    def make(account: Account, days: float) -> Order:
        order = make_order(account)
        actor = Actor(Role.SUPERVISOR, "x")
        editing.edit(order.id, editing.Edit(customer_name="Nadia"), actor=actor)
        lifecycle.add_call_note(order.id, lifecycle.Call(agent=AgentFactory(), outcome=CallNote.Outcome.BUSY))
        lifecycle.confirm(order.id, actor=actor)
        Order.objects.filter(id=order.id).update(created_at=F("created_at") - timedelta(days=days))
        return order

    return make


def test_test_orders_go_after_thirty_days(
    alice: Account, twin: Account, order_in: Callable[..., Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for _ in range(5):
        order_in(twin, 30.01)
    young, live = order_in(twin, 29.9), order_in(alice, 400)
    assert (prune("--dry-run"), Order.objects.count()) == (5, 7)
    assert prune() == 5
    assert set(Order.objects.values_list("id", flat=True)) == {young.id, live.id}
    for model in BELONGING:
        left: Any = model.objects.values_list("order_id", flat=True)
        assert set(left) == {young.id, live.id}
    assert counts.problem() == ""
    assert sum(OrderCount.objects.filter(account=twin).values_list("delta", flat=True)) == 1
    assert prune() == 0


def test_what_was_told_of_them_forgets_the_customer(
    twin: Account, order_in: Callable[..., Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nobody would find it when the customer asks to be erased."""
    monkeypatch.setattr(retention, "BATCH", 2)
    gone, young = [str(order_in(twin, 30.01).id) for _ in range(3)], str(order_in(twin, 29.9).id)
    with CaptureQueriesContext(connection) as queries:
        assert prune() == 3
    assert looks_at_events(queries) == 1  # a twin that is used for long has a million events
    told = [json.loads(body)["data"] for body in Event.objects.values_list("body", flat=True)]
    assert {data["id"] for data in told} == {*gone, young}
    for data in told:
        assert ((data["customer_name"], data["customer_phone"]) == ("—", "")) == (data["id"] != young)


def test_what_was_answered_of_them_is_kept_no_longer(
    twin: Account, twins_api: ApiClient, order_in: Callable[..., Order]
) -> None:
    """A call on an old order was answered with the customer for a day, to whoever repeated it after an erasure."""
    old, young = order_in(twin, 0), order_in(twin, 0)
    Order.objects.update(status=Status.PENDING)

    def call(order: Order) -> Any:
        headers = {"Idempotency-Key": str(order.id)}
        return twins_api.post(f"/api/v1/test/orders/{order.id}/call", {"outcome": "busy"}, headers=headers)

    answers = [call(old), call(young)]
    assert [answer.status_code for answer in answers] == [200, 200]
    Order.objects.filter(id=old.id).update(created_at=F("created_at") - timedelta(days=31))
    assert prune() == 1

    assert call(old).status_code == 404
    assert call(young).content == answers[1].content
    assert IdempotencyRecord.objects.get().key == str(young.id)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", [[0], [0, 1], [2, 3], [5]])
def test_those_that_somebody_changes_just_now_hold_up_no_others(
    twin: Account, order_in: Callable[..., Order], monkeypatch: pytest.MonkeyPatch, held: list[int]
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    ids = [order_in(twin, 36 - number).id for number in range(6)]
    changed = Order.objects.select_for_update().filter(id__in=[ids[number] for number in held])
    with open_transaction(lambda: list(changed)):
        deleted = prune()

    assert deleted == 6 - len(held)
    assert set(Order.objects.values_list("id", flat=True)) == {ids[number] for number in held}
    assert prune() == len(held)


@pytest.mark.django_db(transaction=True)
def test_a_call_that_is_noted_just_before_the_lock_goes_with_its_order(
    twin: Account, order_in: Callable[..., Order]
) -> None:
    order, agent = order_in(twin, 30.01), AgentFactory()
    with stopped_before_its_locks(
        "orders_order", lambda: list(retention.delete_test_orders(timezone.now(), dry_run=False))
    ) as deleted:
        lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.BUSY))
    assert deleted.result() == [{"test_orders": 1}]
    assert not Order.objects.exists()


def test_all_that_belongs_to_an_order_is_known_to_the_sweep() -> None:
    assert {relation.related_model for relation in Order._meta.related_objects} == BELONGING
