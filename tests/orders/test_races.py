"""Many decide at the same moment: each order has one winner, and everyone else is told."""

from collections import Counter
from itertools import pairwise

import pytest

from codservice.accounts.actor import Actor, Role
from codservice.errors import Refused
from orders import lifecycle
from orders.models import Order, StatusChange
from tests.factories import make_order, order_body
from tests.harness.background import at_once
from tests.harness.client import ApiClient
from webhooks.models import Event

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db(transaction=True)
AGENTS = [Actor(Role.AGENT, f"Agent {number}") for number in range(12)]


def attempt(move, order, **kwargs):
    """What became of a move: "moved", or the class of its refusal."""
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
    # An agent's cancel of an order that is confirmed already needs a supervisor.
    assert outcomes["moved"] == 12
    assert set(outcomes) <= {"moved", "AlreadyDecided", "NotAllowed"}
    for order in Order.objects.all():
        first, decided = order.status_changes.order_by("id")
        assert (first.to_status, decided.from_status, decided.to_status) == ("pending_confirmation",) * 2 + (
            order.status,
        )
    assert Event.objects.count() == 12


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
    assert Counter(Event.objects.values_list("kind", flat=True)) == Counter(
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
    assert Event.objects.count() == 1


def test_imports_at_once_are_all_there_and_all_counted(alice, api_for):
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    answers = at_once(8, lambda _: [ApiClient(key).post(ORDERS, order_body()) for _ in range(10)])
    ids = {answer.json()["id"] for row in answers for answer in row}
    assert len(ids) == 80
    assert {str(id_) for id_ in Order.objects.values_list("id", flat=True)} == ids
    assert ApiClient(key).get(ORDERS).json()["meta"]["total"] == 80
