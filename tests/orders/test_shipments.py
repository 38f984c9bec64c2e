"""Many orders moved at once to where a courier says they are."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account
from codservice.errors import Refused
from orders import lifecycle, shipments
from orders.models import Order, Status, StatusChange
from orders.shipments import Shipment
from tests.factories import make_order
from tests.harness import plans
from tests.orders.moves import PATHS, order_in
from webhooks.models import Event

pytestmark = pytest.mark.django_db

COURIER = Actor.of_command("update_shipments")
SHIPPED, DELIVERED, RETURNED = Status.SHIPPED, Status.DELIVERED, Status.RETURNED
# The moves that a courier's word leads to: none if the order has been there. Pairs that are missing here are refused.
STEPS: dict[tuple[str, Status], list[str]] = {
    ("confirmed", SHIPPED): ["shipped"],
    ("confirmed", DELIVERED): ["shipped", "delivered"],
    ("confirmed", RETURNED): ["shipped", "returned"],
    ("shipped", SHIPPED): [],
    ("shipped", DELIVERED): ["delivered"],
    ("shipped", RETURNED): ["returned"],
    ("delivered", SHIPPED): [],
    ("delivered", DELIVERED): [],
    ("returned", SHIPPED): [],
    ("returned", RETURNED): [],
}


def record(*said: Shipment, account: Account | None = None, actor: Actor = COURIER) -> list[Any]:
    return shipments.record(said, actor=actor, account_id=account and account.id)


@pytest.mark.parametrize("to", [SHIPPED, DELIVERED, RETURNED], ids=str)
@pytest.mark.parametrize("status", PATHS)
def test_where_a_couriers_word_leads(status: str, to: Status) -> None:
    order = order_in(status)
    before = Order.objects.values().get(id=order.id)
    steps = STEPS.get((status, to))
    told, known = Event.objects.exclude(kind="order.created").count(), StatusChange.objects.count()

    (outcome,) = record(Shipment(to, order.id, reason="Bureau d'Oran"))

    after = Order.objects.values().get(id=order.id)
    new = list(StatusChange.objects.order_by("id"))[known:]
    if not steps:
        assert Event.objects.exclude(kind="order.created").count() == told
        assert after == before
        assert new == []
        assert isinstance(outcome, lifecycle.AlreadyDecided) if steps is None else outcome is False
        return
    assert outcome is True
    assert (after["status"], after["version"]) == (to, before["version"] + len(steps))
    assert after["updated_at"] > before["updated_at"]
    unchanged = {name for name in before if after[name] == before[name]}
    assert set(before) - unchanged == {"status", "version", "updated_at"}
    assert [change.from_status for change in new] == [status, *steps[:-1]]
    assert [change.to_status for change in new] == steps
    assert {(change.at, change.actor, change.reason) for change in new} == {
        (after["updated_at"], "update_shipments", "Bureau d'Oran")
    }
    events = [json.loads(event.body) for event in Event.objects.order_by("id")][-len(steps) :]
    assert [(event["event"], event["data"]["status"]) for event in events] == [
        (f"order.{step}", step) for step in steps
    ]
    assert len({event["timestamp"] for event in events}) == 1, "docs/webhooks.md: the further status counts"


def test_a_refusal_says_where_the_order_is() -> None:
    (refusal,) = record(Shipment(DELIVERED, order_in("pending_confirmation").id))

    assert refusal.message == "The order is pending confirmation; it cannot become delivered."


def test_an_agent_ships_nothing() -> None:
    order = order_in("confirmed")

    (refusal,) = record(Shipment(SHIPPED, order.id), actor=Actor(Role.AGENT, "Samira"))

    assert isinstance(refusal, Refused)
    assert Order.objects.get(id=order.id).status == "confirmed"


def test_one_file_may_tell_of_an_order_twice_and_good_rows_do_not_wait_for_bad_ones(alice: Account) -> None:
    order, other = order_in("confirmed", alice), order_in("confirmed", alice)

    outcomes = record(
        Shipment(SHIPPED, order.id),
        Shipment(SHIPPED, uuid4()),
        Shipment(RETURNED, order.id),
        Shipment(DELIVERED, order.id),
        Shipment(SHIPPED, other.id),
    )

    assert [outcome if isinstance(outcome, bool) else type(outcome).__name__ for outcome in outcomes] == [
        True,
        "UnknownOrder",
        True,
        "AlreadyDecided",
        True,
    ]
    assert set(Order.objects.values_list("status", flat=True)) == {"returned", "shipped"}


def test_an_order_is_found_by_the_shops_number_only_in_its_account(alice: Account, charlie: Account) -> None:
    mine = make_order(alice, external_id="A1")
    theirs = make_order(charlie, external_id="A1")
    for order in (mine, theirs):
        lifecycle.confirm(order.id, actor=Actor(Role.AGENT, "Samira"))

    assert record(Shipment(SHIPPED, external_id="A1"), account=alice) == [True]
    assert isinstance(record(Shipment(SHIPPED, external_id="A1"))[0], shipments.UnknownOrder)
    assert isinstance(record(Shipment(SHIPPED, theirs.id), account=alice)[0], shipments.UnknownOrder)

    assert dict(Order.objects.values_list("account_id", "status")) == {alice.id: "shipped", charlie.id: "confirmed"}


@pytest.mark.parametrize(("is_named_by", "statements"), [("order_id", 2), ("external_id", 3)])
@pytest.mark.parametrize("count", [1, 30])
def test_a_thousand_cost_as_many_statements_as_one(
    alice: Account, count: int, is_named_by: str, statements: int, django_assert_num_queries: Any
) -> None:
    orders = [order_in("confirmed", alice) for _ in range(count)]
    for number, order in enumerate(orders):
        Order.objects.filter(id=order.id).update(external_id=f"A{number}")
    by_number = [Shipment(DELIVERED, external_id=f"A{number}") for number in range(count)]
    said = {"order_id": [Shipment(DELIVERED, order.id) for order in orders], "external_id": by_number}[is_named_by]

    with django_assert_num_queries(statements + 2):  # and the savepoint in the test's own transaction
        record(*said, account=alice)

    assert set(Order.objects.values_list("status", flat=True)) == {"delivered"}
    assert StatusChange.objects.filter(to_status__in=["shipped", "delivered"]).count() == 2 * count


@pytest.mark.parametrize("is_named_by", ["order_id", "external_id", "either"])
@pytest.mark.parametrize("believed", [*plans.UNCOUNTED, "counted"])
def test_of_orders_that_are_there_only_those_that_are_named_are_read(
    alice: Account, believed: str, is_named_by: str
) -> None:
    """Also of orders imported just now: a courier's file may come before PostgreSQL has analyzed the table."""
    plans.fill_uncounted(order_in("confirmed", alice), plans.UNCOUNTED[0] if believed == "counted" else believed)
    if believed == "counted":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE orders_order")
    orders = Order.objects.exclude(external_id=None)[:300]
    by_id = [Shipment(SHIPPED, order.id) for order in orders]
    by_number = [Shipment(SHIPPED, external_id=order.external_id) for order in orders]
    said = {"order_id": by_id, "external_id": by_number, "either": by_id[:150] + by_number[150:]}[is_named_by]
    before = plans.read_so_far()

    assert record(*said, account=alice) == [True] * 300

    assert plans.read_so_far() - before <= 3 * 300, "to find it, to lock it and to write it"
