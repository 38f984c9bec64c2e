"""Every move of an order, who may make it, and what others are told: the table of docs/architecture.md."""

import json
from datetime import timedelta
from itertools import product
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from codservice.accounts.actor import Actor, Role
from codservice.errors import Refused
from orders import lifecycle
from orders.models import CallNote, CallState, Order, Status, StatusChange
from tests.factories import AccountFactory, UserFactory
from tests.orders.moves import MOVES, PATHS, actor, order_in
from webhooks import events
from webhooks.models import Event

pytestmark = pytest.mark.django_db
# The table of docs/architecture.md: (from, move) → to, by whom, event.
TABLE = {
    ("pending_confirmation", "confirm"): ("confirmed", {"agent", "supervisor"}, "order.confirmed"),
    ("pending_confirmation", "cancel"): ("canceled", {"agent", "supervisor", "merchant"}, "order.cancelled"),
    ("confirmed", "cancel"): ("canceled", {"supervisor", "merchant"}, "order.cancelled"),
    ("confirmed", "ship"): ("shipped", {"supervisor", "command"}, "order.shipped"),
    ("shipped", "deliver"): ("delivered", {"supervisor", "command"}, "order.delivered"),
    ("shipped", "return"): ("returned", {"supervisor", "command"}, "order.returned"),
}


def state(order):
    """Everything that a move could change."""
    (row,) = Order.objects.filter(id=order.id).values()
    return (
        row,
        list(StatusChange.objects.order_by("id").values()),
        list(Event.objects.exclude(kind="order.created").order_by("id").values()),
    )


def test_the_statuses_are_those_of_the_contract():
    assert set(Status.values) == set(PATHS)
    assert {(str(status), move) for status, move in Order.MOVES} == set(TABLE)


@pytest.mark.parametrize(("status", "move", "role"), list(product(PATHS, MOVES, [role.value for role in Role])))
def test_every_status_move_and_role(status, move, role):
    order = order_in(status)
    before = state(order)
    to, by, event = TABLE.get((status, move), (None, set(), None))
    if (status, move, role) == ("canceled", "cancel", "merchant"):
        assert MOVES[move](order.id, actor=actor(role)).status == "canceled"
        assert state(order) == before, "a shop's retry is safe, and changes nothing"
    elif role in by:
        moved = MOVES[move](order.id, actor=actor(role, "Amel"))
        assert moved.status == to
        assert_moved(order, before, to, event)
    else:
        with pytest.raises(Refused) as refusal:
            MOVES[move](order.id, actor=actor(role))
        assert state(order) == before
        expected = (
            lifecycle.NotCancellable
            if move == "cancel" and status in ("shipped", "delivered", "returned")
            else (lifecycle.NotAllowed if (status, move) in TABLE else lifecycle.AlreadyDecided)
        )
        assert type(refusal.value) is expected
        assert refusal.value.message.endswith(".")


def assert_moved(order, before, to, event):
    row, changes, all_events = state(order)
    old, old_changes, old_events = before
    assert (row["status"], row["version"]) == (to, old["version"] + 1)
    assert row["updated_at"] > old["updated_at"]
    assert row["confirmed_at"] == (row["updated_at"] if to == "confirmed" else old["confirmed_at"])
    assert row["canceled_at"] == (row["updated_at"] if to == "canceled" else old["canceled_at"])
    assert changes[:-1] == old_changes
    change = changes[-1]
    assert (change["from_status"], change["to_status"], change["actor"]) == (old["status"], to, "Amel")
    assert (change["at"], change["order_id"]) == (row["updated_at"], order.id)
    new_events = all_events[len(old_events) :]
    assert [new["kind"] for new in new_events] == [event]
    for new in new_events:
        body = json.loads(new["body"])
        assert (body["event"], body["data"]["status"]) == (event, to)
        assert new["created_at"] == row["updated_at"]


# --- What is said ---------------------------------------------------------------------------------------------------


def test_a_refusal_names_who_was_faster_and_when():
    order = order_in("pending_confirmation")
    moved = lifecycle.confirm(order.id, actor=actor("agent", "Amel B."))
    with pytest.raises(lifecycle.AlreadyDecided) as refusal:
        lifecycle.confirm(order.id, actor=actor("agent", "Walid"))
    assert refusal.value.message == f"Already confirmed by Amel B. at {moved.confirmed_at:%H:%M UTC on %Y-%m-%d}."


@pytest.mark.parametrize(
    ("status", "move", "needed"),
    [
        ("pending_confirmation", "ship", "confirmed"),
        ("pending_confirmation", "deliver", "shipped"),
        ("confirmed", "deliver", "shipped"),
        ("confirmed", "return", "shipped"),
    ],
)
def test_a_refusal_names_what_the_order_must_be_first(status, move, needed):
    with pytest.raises(lifecycle.AlreadyDecided, match=rf"[.] It must be {needed} first[.]$"):
        MOVES[move](order_in(status).id, actor=actor("supervisor"))


@pytest.mark.parametrize(
    ("status", "move"), [("confirmed", "confirm"), ("canceled", "ship"), ("delivered", "ship"), ("returned", "deliver")]
)
def test_a_refusal_names_nothing_that_the_order_can_no_longer_be(status, move):
    with pytest.raises(lifecycle.AlreadyDecided) as refusal:
        MOVES[move](order_in(status).id, actor=actor("supervisor"))
    assert "must be" not in refusal.value.message


@pytest.mark.parametrize("status", ["shipped", "delivered", "returned"])
def test_an_order_that_has_left_can_no_longer_be_canceled(status):
    with pytest.raises(lifecycle.NotCancellable) as refusal:
        lifecycle.cancel(order_in(status).id, actor=actor("merchant"))
    assert (refusal.value.code, refusal.value.status) == ("order_not_cancellable", 422)
    assert refusal.value.message == f"The order is {status}; it can no longer be canceled."


def test_an_agent_is_told_to_ask_a_supervisor():
    with pytest.raises(lifecycle.NotAllowed) as refusal:
        lifecycle.cancel(order_in("confirmed").id, actor=actor("agent"))
    assert "supervisor" in refusal.value.message


def test_nothing_is_decided_on_a_version_that_was_not_seen():
    order = order_in("pending_confirmation")
    before = state(order)
    for move in (lifecycle.confirm, lifecycle.cancel):
        with pytest.raises(lifecycle.Changed):
            move(order.id, actor=actor("agent"), seen_version=order.version + 1)
    assert state(order) == before
    assert lifecycle.confirm(order.id, actor=actor("agent"), seen_version=order.version).status == "confirmed"


def test_another_accounts_order_does_not_exist():
    order = order_in("pending_confirmation")
    for move in MOVES:
        with pytest.raises(Order.DoesNotExist):
            lifecycle.move(move, order.id, actor=actor("supervisor"), account_id=AccountFactory().id)
    with pytest.raises(Order.DoesNotExist):
        lifecycle.confirm(uuid4(), actor=actor("agent"))


def test_the_reason_and_the_person_are_kept():
    agent = UserFactory(first_name="Amel")
    order = order_in("pending_confirmation")
    lifecycle.cancel(order.id, actor=Actor(Role.AGENT, "Amel", agent.id), reason="wrong number")
    change = order.status_changes.get(to_status="canceled")
    assert (change.user, change.actor, change.reason) == (agent, "Amel", "wrong number")
    order.refresh_from_db()
    assert order.cancel_reason == "wrong number"
    agent.delete()
    change.refresh_from_db()
    assert (change.user, change.actor) == (None, "Amel")


# --- Time -----------------------------------------------------------------------------------------------------------


def test_times_never_run_backwards_even_when_the_clock_does():
    order = order_in("pending_confirmation")
    Order.objects.update(
        created_at=F("created_at") + timedelta(hours=1), updated_at=F("updated_at") + timedelta(hours=1)
    )
    StatusChange.objects.update(at=F("at") + timedelta(hours=1))
    lifecycle.confirm(order.id, actor=actor("agent"))
    lifecycle.cancel(order.id, actor=actor("supervisor"))
    moments = list(StatusChange.objects.order_by("id").values_list("at", flat=True))
    assert moments == sorted(moments)
    order.refresh_from_db()
    assert order.created_at <= order.confirmed_at <= order.canceled_at == order.updated_at


# --- Calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", CallNote.Outcome.values)
@pytest.mark.parametrize("status", PATHS)
def test_a_call_decides_nothing(status, outcome):
    order = order_in(status)
    before = state(order)
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=UserFactory(first_name="Amel"), outcome=outcome, note="…"))
    note = CallNote.objects.get()
    assert (note.agent_name, note.outcome, note.order_id, note.account_id) == (
        "Amel",
        outcome,
        order.id,
        order.account_id,
    )
    is_told = status == "pending_confirmation" and outcome in CallNote.CALLS
    *same, told = state(order)
    assert (*same, told[: len(before[2])]) == before
    assert [event["kind"] for event in told[len(before[2]) :]] == ["order.call_attempted"] * is_told


def called(order, **fields):
    return lifecycle.Call(UserFactory(first_name="Amel"), "answered", **fields)


@pytest.mark.parametrize("move", ["confirm", "cancel"])
def test_a_decision_and_its_call_are_one(move):
    order = order_in("pending_confirmation")
    with CaptureQueriesContext(connection) as statements:
        moved = MOVES[move](order.id, actor=actor("agent"), call=called(order, note="oui", note_id=uuid4()))
    note = order.call_notes.get()
    assert (note.note, note.agent_name, note.created_at) == ("oui", "Amel", moved.updated_at)
    assert len([sql for sql in statements if "FOR UPDATE" in sql["sql"]]) == 1
    assert not [sql for sql in statements if 'FROM "orders_callnote"' in sql["sql"]]


def test_a_refused_decision_notes_nothing():
    order = order_in("shipped")
    with pytest.raises(lifecycle.AlreadyDecided):
        lifecycle.confirm(order.id, actor=actor("agent"), call=called(order))
    assert not order.call_notes.exists()


@pytest.mark.parametrize("count", [1, 5])
def test_one_call_about_many_orders_costs_as_much_as_about_one(count):
    orders, call = [order_in("pending_confirmation") for _ in range(count)], called(None, note_id=uuid7())
    with transaction.atomic():
        locked = lifecycle.lock(Order.objects.filter(id__in=[order.id for order in orders]))
        plans = {order.id: lifecycle.CallPlan(CallState.RETRY, order.now, 2) for order in locked[:1]}
        with CaptureQueriesContext(connection) as statements:
            notes = lifecycle.add_call_notes(locked, call, plans)
        assert lifecycle.add_call_notes(locked, call, plans) == []
    assert len(statements) == 5, "lookup of the note, plans, notes, how many there are, events"
    assert notes[0].id == call.note_id
    assert {note.id.version for note in notes} == {7}
    assert [order.call_notes.count() for order in orders] == [1] * count
    assert [order.call_state for order in Order.objects.order_by("id")] == ["retry"] + ["new"] * (count - 1)


# --- Events ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_is_told_to_nobody():
    order = order_in("pending_confirmation")
    before = state(order)
    with transaction.atomic():
        lifecycle.confirm(order.id, actor=actor("agent"))
        transaction.set_rollback(True)
    assert state(order) == before


@pytest.mark.django_db(transaction=True)
def test_a_change_whose_event_fails_does_not_happen(monkeypatch):
    order = order_in("pending_confirmation")
    before = state(order)

    def fail(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(events, "parameters_with", fail)
    with pytest.raises(ZeroDivisionError):
        lifecycle.confirm(order.id, actor=actor("agent"))
    assert state(order) == before
