"""Many decide at the same moment: each order has one winner, and everyone else is told so."""

from collections import Counter
from datetime import timedelta
from itertools import islice, pairwise

import pytest
from django.db import transaction
from django.db.models import F

from codservice.accounts.actor import Actor, Role
from codservice.errors import Refused
from orders import lifecycle
from orders.models import Order, StatusChange
from tests.factories import make_order, order_body
from tests.harness.background import Background, at_once
from tests.harness.client import ApiClient
from tests.harness.database import one, wait_for_lock
from webhooks.models import Event

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db(transaction=True)
AGENTS = [Actor(Role.AGENT, f"Agent {number}") for number in range(12)]


def attempt(move, order, **kwargs):
    """Return what became of a move: "moved", or the class of its refusal."""
    try:
        move(order.id, **kwargs)
    except Refused as refusal:
        return type(refusal).__name__
    return "moved"


def test_confirm_against_cancel_has_exactly_one_winner(alice):
    orders = [make_order(alice) for _ in range(12)]

    def decide(number):
        move = lifecycle.confirm if number % 2 else lifecycle.cancel
        turned = orders[number:] + orders[:number]
        return [attempt(move, order, actor=AGENTS[number]) for order in turned]

    outcomes = Counter(outcome for row in at_once(12, decide) for outcome in row)
    # An agent needs a supervisor to cancel an order that is confirmed already.
    assert outcomes["moved"] == 12
    assert set(outcomes) <= {"moved", "AlreadyDecided", "NotAllowed"}
    for order in Order.objects.all():
        first, decided = order.status_changes.order_by("id")
        assert (first.to_status, decided.from_status, decided.to_status) == ("pending_confirmation",) * 2 + (
            order.status,
        )
    assert Event.objects.exclude(kind="order.created").count() == 12


def test_agents_and_the_shop_at_once_leave_legal_chains_and_an_event_for_each_move(alice, api_for):
    orders = [make_order(alice) for _ in range(10)]
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")

    def decide(number):
        turned = orders[number:] + orders[:number]
        if number < 5:
            return [attempt(lifecycle.confirm, order, actor=AGENTS[number]) for order in turned]
        client = ApiClient(key)
        return [client.post(f"{ORDERS}/{order.id}/cancel").status_code for order in turned]

    results = at_once(10, decide)
    assert {status for row in results[5:] for status in row} == {200}
    for order in Order.objects.all():
        chain = list(order.status_changes.order_by("id"))
        assert chain[0].from_status is None
        for before, after in pairwise(chain):
            assert after.from_status == before.to_status
            assert after.at >= before.at
        assert (order.status, chain[-1].to_status) == ("canceled", "canceled")
        assert order.version == len(chain)
    moves = StatusChange.objects.exclude(from_status=None)
    assert Counter(Event.objects.exclude(kind="order.created").values_list("kind", flat=True)) == Counter(
        {"confirmed": "order.confirmed", "canceled": "order.cancelled"}[status]
        for status in moves.values_list("to_status", flat=True)
    )


def test_of_two_agents_with_the_same_form_one_confirms_and_the_other_hears_who(alice):
    order = make_order(alice)

    def confirm(number):
        try:
            return lifecycle.confirm(order.id, actor=AGENTS[number], seen_version=order.version).status
        except Refused as refusal:
            return refusal.message

    said, confirmed = sorted(at_once(2, confirm))
    assert confirmed == "confirmed"
    assert said.startswith("Already confirmed by Agent ")
    assert Event.objects.exclude(kind="order.created").count() == 1


def test_imports_at_once_are_all_there_and_all_counted(alice, api_for):
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    answers = at_once(8, lambda _: [ApiClient(key).post(ORDERS, order_body()) for _ in range(10)])
    ids = {answer.json()["id"] for row in answers for answer in row}
    assert len(ids) == 80
    assert {str(id_) for id_ in Order.objects.values_list("id", flat=True)} == ids
    assert ApiClient(key).get(ORDERS).json()["meta"]["total"] == 80


# --- The time of a change --------------------------------------------------------------------------------------------


def clock():
    return one("SELECT clock_timestamp()")


@pytest.mark.parametrize("count", [1, 3])
def test_a_change_that_waited_for_a_lock_is_dated_after_it(alice, count):
    """A client that read the list in the meantime asks next for what has changed since."""
    orders = sorted((make_order(alice) for _ in range(count)), key=lambda order: order.id)

    def change():
        with transaction.atomic():
            locked = lifecycle.lock(Order.objects.filter(id__in=[order.id for order in orders]))
            return [order.now for order in locked]

    with transaction.atomic():
        Order.objects.select_for_update().get(id=orders[-1].id)
        changing = Background(change)
        wait_for_lock()
        read_at = clock()
    assert min(changing.result()) > read_at
    assert len(set(changing.result())) == 1


def test_a_change_that_waited_for_another_is_dated_after_that_one_and_knows_it(alice):
    order = make_order(alice)
    with transaction.atomic():
        first = lifecycle.confirm(order.id, actor=AGENTS[0])
        second = Background(lambda: lifecycle.cancel(order.id, actor=Actor(Role.MERCHANT, "API key")))
        wait_for_lock()
        read_at = clock()
    assert first.updated_at < read_at < second.result().updated_at
    assert second.result().version == 3


def test_orders_of_a_long_transaction_are_dated_when_they_are_written(alice):
    with transaction.atomic():
        began_at = one("SELECT now()")
        orders = [make_order(alice) for _ in range(2)]
        assert began_at < orders[0].created_at == orders[0].updated_at < orders[1].created_at
        assert orders[0].status_changes.get().at == orders[0].created_at


def test_who_asks_for_changes_as_the_documentation_says_misses_none(alice, api):
    """docs/orders.md, "What has changed": reading from the last page down, with an overlap, while orders change."""
    waiting = iter([make_order(alice) for _ in range(50)])
    Order.objects.update(
        created_at=F("created_at") - timedelta(hours=1), updated_at=F("updated_at") - timedelta(hours=1)
    )
    copy: dict[str, str] = {}
    since = clock() - timedelta(hours=2)
    for _ in range(3):
        until = clock()
        query = {"updated_from": since.isoformat(), "updated_to": until.isoformat(), "sort": "updated_at"}
        page = api.get(ORDERS, {**query, "per_page": 10}).json()["meta"]["last_page"]
        while page:
            for row in api.get(ORDERS, {**query, "per_page": 10, "page": page}).json()["data"]:
                copy[row["id"]] = row["status"]
            for order in islice(waiting, 3):
                lifecycle.confirm(order.id, actor=AGENTS[0])
            page -= 1
        since = until - timedelta(minutes=5)
    assert next(waiting, None) is not None, "until the last page something changed"
    until = clock()
    query = {"updated_from": since.isoformat(), "updated_to": until.isoformat(), "sort": "updated_at", "per_page": 100}
    copy |= {row["id"]: row["status"] for row in api.get(ORDERS, query).json()["data"]}
    assert copy == {str(id_): status for id_, status in Order.objects.values_list("id", "status")}
