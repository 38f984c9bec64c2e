"""The moves of an order by the table `Order.MOVES`, and its call notes.

Edits are in `editing`, couriers' files in `shipments`, erasure in `anonymising`; what events tell is in `order_events`.

Called by API, pages, console and commands. What changes one order is one transaction, which locks its row;
`add_call_notes`, `confirm_all` and `cancel_many` change orders that their caller's transaction has locked by `lock`. A
move looks itself up in the table, writes the order, a `StatusChange` and the event that the table names. A refusal
changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from django.core.exceptions import EmptyResultSet
from django.db import transaction
from django.db.models import Count, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from uuid_utils.compat import uuid7

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import User
from codservice.days import ALGIERS
from codservice.errors import Refused
from orders import movement
from orders.models import CallNote, CallState, Move, Order, Status
from orders.order_events import told_of_call
from orders.reading import COLUMNS
from webhooks import events


class NotCancellable(Refused):
    """The order has left the warehouse; there is nothing to cancel any more."""

    code = "order_not_cancellable"


class AlreadyDecided(Refused):
    """Someone was faster, or the order is not where this move starts."""

    code = "order_already_decided"


class NotAllowed(Refused):
    """The move exists, but not for this role."""

    code, status = "not_allowed", 403


class Changed(Refused):
    """The order is no longer the version that the person saw."""

    code, status = "order_changed", 409

    def __init__(self) -> None:
        super().__init__(_("The order has changed since you opened it. Read it again before you decide."))


TEST_AGENT = "Test agent"  # as a test order's history names who plays the agent and the courier


# --- Calls -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Call:
    """A call to a customer, as the agent notes it. A `note_id` that is there says that it was noted before.

    A call to a test order has no agent.
    """

    agent: User | None
    outcome: CallNote.Outcome
    note: str = ""
    note_id: UUID | None = None
    callback_at: datetime | None = None

    @property
    def agent_name(self) -> str:
        return self.agent.display_name if self.agent else TEST_AGENT


@dataclass(slots=True, frozen=True)
class CallPlan:
    """What a pending order waits for after a call."""

    state: CallState
    due_at: datetime
    attempts: int
    agent_id: UUID | None = None  # who promised to call


def add_call_note(order_id: UUID, **call: Any) -> CallNote | None:
    """Note one call, whose fields are those of `Call`, on one order; see `add_call_notes`. None when it was noted."""
    with transaction.atomic():
        notes = add_call_notes([lock_one(order_id)], Call(**call))
    return notes[0] if notes else None


def add_call_notes(orders: Sequence[Order], call: Call, plans: Mapping[UUID, CallPlan] = {}) -> list[CallNote]:
    """Note one call on each of `orders`, whose rows the caller's transaction has locked by `lock`.

    An order's status stays what it is: silence is no cancellation, an answer no confirmation. Those that have a plan
    then wait for what it says. The first note has the call's `note_id`, the other ones' ids follow from it; a call that
    was noted before changes nothing, so that a form sent twice notes once.
    """
    if _is_noted(call):
        return []
    planned = [order for order in orders if order.id in plans]
    written = ["call_state", "call_due_at", "call_attempts", "callback_agent"]
    if any(order.call_state == CallState.TEST for order in planned):  # which is called alone
        written.remove("call_state")  # it stays one, whatever it is said to wait for
    for order in planned:
        plan = plans[order.id]
        order.call_state, order.call_due_at = plan.state, plan.due_at
        order.call_attempts, order.callback_agent_id = plan.attempts, plan.agent_id
    Order.objects.bulk_update(planned, written)
    notes = _note(orders, call)
    waiting = [order for order in orders if order.status == Status.PENDING]
    if waiting and call.outcome in CallNote.CALLS:
        _tell_of_call(waiting, call)
    return notes


def _tell_of_call(orders: Sequence[Order], call: Call) -> None:
    calls = CallNote.objects.filter(order__in=orders, outcome__in=CallNote.CALLS).order_by()
    counts = dict(calls.values_list("order_id").annotate(Count("id")))
    due = {order.id: order.call_due_at for order in orders if order.call_state != CallState.REVIEW}
    events.publish(
        [
            told_of_call(order, call.outcome, attempt_count=counts[order.id], next_call_at=due.get(order.id))
            for order in orders
        ]
    )


def _is_noted(call: Call) -> bool:
    return call.note_id is not None and CallNote.objects.filter(id=call.note_id).exists()


def _note(orders: Sequence[Order], call: Call) -> list[CallNote]:
    return CallNote.objects.bulk_create(
        CallNote(
            id=uuid7() if call.note_id is None else uuid5(call.note_id, str(order.id)) if number else call.note_id,
            account_id=order.account_id,
            order=order,
            outcome=call.outcome,
            note=call.note,
            agent=call.agent,
            agent_name=call.agent_name,
            callback_at=call.callback_at,
            created_at=order.now,
        )
        for number, order in enumerate(orders)
    )


# --- Moves -------------------------------------------------------------------------------------------------------


def confirm(order_id: UUID, *, actor: Actor, seen_version: int | None = None, call: Call | None = None) -> Order:
    """The customer said yes. Raises AlreadyDecided, Changed, NotAllowed.

    The `call` in which they did is noted with it. One that was noted before is a decision that was made before: then
    nothing is changed and nothing refused.
    """
    return move("confirm", order_id, actor=actor, seen_version=seen_version, call=call)


def confirm_all(orders: Sequence[Order], *, actor: Actor, call: Call) -> None:
    """The customer said yes to all of `orders`, whose rows the caller's transaction has locked by `lock`.

    Raises AlreadyDecided, NotAllowed; then nothing is changed. The call is noted on each; one that was noted before
    changes nothing.
    """
    if _is_noted(call):
        return
    steps = [movement.make(order, _allowed(order, "confirm", actor), "") for order in orders]
    _note(orders, call)
    movement.write(steps, actor)


def cancel(
    order_id: UUID,
    *,
    actor: Actor,
    account_id: UUID | None = None,
    reason: str = "",
    seen_version: int | None = None,
    call: Call | None = None,
) -> Order:
    """Cancel what has not been shipped. Raises NotCancellable, AlreadyDecided, Changed, NotAllowed.

    A merchant's cancel of a canceled order changes nothing and is no error: their retry is safe, unless they say which
    version they saw. A `call` as in `confirm`.
    """
    return move(
        "cancel", order_id, actor=actor, account_id=account_id, reason=reason, seen_version=seen_version, call=call
    )


def cancel_many(orders: Sequence[Order], *, actor: Actor, reason: str) -> dict[UUID, Refused]:
    """Cancel all that can be of `orders`, whose rows the caller's transaction has locked by `lock`.

    Why the other ones stay as they are: NotCancellable, AlreadyDecided, NotAllowed.
    """
    steps, refused = [], dict[UUID, Refused]()
    for order in orders:
        if order.status == Status.CANCELED:  # whose history is not asked for each
            refused[order.id] = AlreadyDecided(cannot_be_done(order.status))
            continue
        try:
            steps.append(movement.make(order, _allowed(order, "cancel", actor), reason))
        except Refused as refusal:
            refused[order.id] = refusal
    if steps:
        movement.write(steps, actor)
    return refused


def ship(order_id: UUID, *, actor: Actor) -> Order:
    """The parcel was handed to the courier."""
    return move("ship", order_id, actor=actor)


def deliver(order_id: UUID, *, actor: Actor) -> Order:
    """The customer took the parcel and paid."""
    return move("deliver", order_id, actor=actor)


def return_order(order_id: UUID, *, actor: Actor) -> Order:
    """The parcel came back."""
    return move("return", order_id, actor=actor)


def move(
    name: str,
    order_id: UUID,
    *,
    actor: Actor,
    account_id: UUID | None = None,
    reason: str = "",
    seen_version: int | None = None,
    call: Call | None = None,
) -> Order:
    """Make the move `name` of the table, as the function of this name does it.

    Raises a Refused; Order.DoesNotExist outside `account_id`, when that is given.
    """
    with transaction.atomic():
        order = lock_one(order_id, account_id)
        if call is not None and _is_noted(call):
            return order
        is_canceled = name == "cancel" and order.status == Status.CANCELED
        if is_canceled and actor.role == Role.MERCHANT and seen_version is None:  # a shop's retry
            return order
        allowed = _allowed(order, name, actor)
        if seen_version not in (None, order.version):
            raise Changed
        if call is not None:
            _note([order], call)
        movement.write([movement.make(order, allowed, reason)], actor)
    return order


def _allowed(order: Order, name: str, actor: Actor) -> Move:
    """The move `name` of the table. Raises NotCancellable, AlreadyDecided, NotAllowed."""
    move = Order.MOVES.get((Status(order.status), name))
    if move is None:
        if name == "cancel" and order.status in (Status.SHIPPED, Status.DELIVERED, Status.RETURNED):
            raise NotCancellable(_("The order is %(status)s; it can no longer be canceled.") % status_in_words(order))
        raise decided(order)
    if actor.role not in move.by:
        raise NotAllowed(_("Only a supervisor can do this to an order that is %(status)s.") % status_in_words(order))
    return move


# The clock is read when all locks are held: a change that waited for one is not dated before changes that others have
# read meanwhile, who ask next for what has changed since. HAVING needs every row of the step that locks them.
_LOCKED = """
WITH locked AS MATERIALIZED ({locking})
SELECT locked.*, (SELECT clock_timestamp() FROM locked HAVING count(*) > 0) AS clock FROM locked
"""


def lock(orders: QuerySet[Order], most: int | None = None) -> list[Order]:
    """The first of the orders by key, with their rows locked.

    `order.now` is when it is changed: the database's time, and never before the last change.
    """
    try:
        locking, parameters = orders.order_by("id").select_for_update(of=("self",))[:most].query.sql_with_params()
    except EmptyResultSet:  # Django sees that there can be none
        return []
    return _lock(_LOCKED.format(locking=locking), parameters)


# Written once: it is what each move begins with, and takes Django as long to compile as PostgreSQL to execute.
_LOCKED_ONE = _LOCKED.format(
    locking=f"SELECT {', '.join(COLUMNS)} FROM orders_order"  # noqa: S608  (our own columns)
    " WHERE id = %(id)s AND account_id = coalesce(%(account)s, account_id) FOR UPDATE"
)


def lock_one(order_id: UUID, account_id: UUID | None = None) -> Order:
    """The order, likewise; Order.DoesNotExist outside `account_id`, when that is given."""
    locked = _lock(_LOCKED_ONE, {"id": order_id, "account": account_id})
    if not locked:
        raise Order.DoesNotExist
    return locked[0]


def _lock(statement: str, parameters: Any) -> list[Order]:
    locked = list(Order.objects.raw(statement, parameters))
    for order in locked:
        order.now = max(order.clock, order.updated_at)  # type: ignore[attr-defined]
    return locked


def decided(order: Order, refusal: type[AlreadyDecided] = AlreadyDecided) -> AlreadyDecided:
    """The refusal, which says who has brought the order where it is."""
    last = order.status_changes.order_by("-at", "-id").first()
    if last is None or order.status == Status.PENDING:
        return refusal(cannot_be_done(order.status))
    at = timezone.localtime(last.at)  # as the API has times, or by the clock of the page
    clock = f"{at:%H:%M}" if timezone.get_current_timezone() == ALGIERS else f"{at:%H:%M %Z}"
    when = _("%(time)s on %(date)s") % {"time": clock, "date": f"{at:%Y-%m-%d}"}
    who = {**status_in_words(order), "who": last.actor, "when": when}
    return refusal(_("Already %(status)s by %(who)s at %(when)s.") % who)


def cannot_be_done(status: str) -> str:
    """The sentence of a refusal for the status alone."""
    return _("This cannot be done to an order that is %(status)s.") % {"status": Status(status).label.lower()}


def status_in_words(order: Order) -> dict[str, str]:
    """What a refusal's sentence says of the order."""
    return {"status": Status(order.status).label.lower()}
