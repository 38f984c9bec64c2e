"""The moves of an order by the table `Order.MOVES`, and its call notes.

API, pages, console and commands call this. Edits are in `editing`, couriers' files in `shipments`, erasure in
`anonymising`, what events tell in `order_events`.

A function that changes one order is one transaction, which locks the order's row. `add_call_notes`, `confirm_all` and
`cancel_many` change orders that the caller's transaction has locked with `lock`. A move is looked up in the table, and
writes the order, a `StatusChange` and the event that the table names. A refusal changes nothing.
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
from django.utils.translation import gettext_lazy
from uuid_utils.compat import uuid7

from codservice.accounts.actor import Actor, Role, in_words
from codservice.accounts.models import User
from codservice.days import ALGIERS
from codservice.errors import Refused
from orders import moves
from orders.models import CallNote, CallState, Move, Order, Status
from orders.order_events import told_of_call
from orders.reading import COLUMNS
from webhooks import events


class NotCancellable(Refused):
    """The order has left the warehouse and can no longer be canceled."""

    code = "order_not_cancellable"


class AlreadyDecided(Refused):
    """Someone was faster, or the move does not start at the order's status."""

    code = "order_already_decided"


class NotAllowed(Refused):
    """The move exists, but not for this role."""

    code, status = "not_allowed", 403


class Changed(Refused):
    """The order is no longer the version that the person saw."""

    code, status = "order_changed", 409
    message = gettext_lazy("The order has changed since you opened it. Read it again before you decide.")


class Anonymised(Refused):
    """The order's customer was anonymised. A text about them, noted afterwards, would stay for good."""

    code, status = "order_anonymised", 409
    message = gettext_lazy("The customer of this order has been anonymised. No call can be noted on it any more.")


TEST_AGENT = "Test agent"  # in a test order's history: whoever plays the agent and the courier


# --- Calls -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Call:
    """A call to a customer, as the agent notes it. A call about a test order has no agent.

    A call note with this `note_id`, of version 7, means that the call was noted before. Moves do not check it: the
    second finds the order decided and is refused.
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
    # Unanswered calls (`Order.call_attempts`; a promise sets 0). The event's `attempt_count` counts all calls.
    attempts: int
    agent_id: UUID | None = None  # the agent who promised to call


def add_call_note(order_id: UUID, call: Call) -> None:
    """Note a call on one order, as `add_call_notes` does. Raises Anonymised, unless it was noted before."""
    with transaction.atomic():
        order = lock_one(order_id)
        if order.anonymised_at is not None and not _is_noted(call):
            raise Anonymised
        add_call_notes([order], call)


def add_call_notes(orders: Sequence[Order], call: Call, plans: Mapping[UUID, CallPlan] = {}) -> list[CallNote]:
    """Note one call on each of `orders`, whose rows the caller's transaction has locked with `lock`.

    Statuses stay: silence is no cancellation, and an answer no confirmation. Orders with a plan then wait for what it
    says. The first note has the call's `note_id`, from which the ids of the others are derived. A call that was noted
    before changes nothing, so that a form sent twice is noted once.
    """
    if _is_noted(call):
        return []
    planned = [order for order in orders if order.id in plans]
    written = ["call_state", "call_due_at", "call_attempts", "callback_agent"]
    if any(order.call_state == CallState.TEST for order in planned):  # then it is the only order
        written.remove("call_state")  # it stays a test order, whatever the plan says
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
            id=_note_id(call, order, number),
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


def _note_id(call: Call, order: Order, number: int) -> UUID:
    """The id of the call's note on the order at this place, from 0: its `note_id` for the first."""
    if call.note_id is None:
        return uuid7()
    return derived_id(call.note_id, str(order.id)) if number else call.note_id


def derived_id(id_: UUID, said: str) -> UUID:
    """The id that always follows from an id of version 7 and what is `said`. It has its time, so it is of version 7."""
    return UUID(bytes=id_.bytes[:7] + uuid5(id_, said).bytes[7:])


# --- Moves -------------------------------------------------------------------------------------------------------


def confirm(order_id: UUID, *, actor: Actor, seen_version: int | None = None, call: Call | None = None) -> Order:
    """Confirm the order: the customer said yes. Raises AlreadyDecided, Changed, NotAllowed.

    The `call` in which they did is noted too.
    """
    return move("confirm", order_id, actor=actor, seen_version=seen_version, call=call)


def confirm_all(orders: Sequence[Order], *, actor: Actor, call: Call) -> None:
    """Confirm all of `orders`, whose rows the caller's transaction has locked with `lock`, and note the call on each.

    Raises AlreadyDecided or NotAllowed with nothing changed.
    """
    steps = [moves.make(order, allowed_move(order, "confirm", actor), "") for order in orders]
    _note(orders, call)
    moves.write(steps, actor)


def cancel(
    order_id: UUID,
    *,
    actor: Actor,
    account_id: UUID | None = None,
    reason: str = "",
    seen_version: int | None = None,
    call: Call | None = None,
) -> Order:
    """Cancel an order that has not been shipped. Raises NotCancellable, AlreadyDecided, Changed, NotAllowed.

    A merchant's cancel of a canceled order changes nothing and is no error, so that a retry is safe; not so if they
    say which version they saw. `call` is as in `confirm`.
    """
    return move(
        "cancel", order_id, actor=actor, account_id=account_id, reason=reason, seen_version=seen_version, call=call
    )


def cancel_many(orders: Sequence[Order], *, actor: Actor, reason: str) -> dict[UUID, Refused]:
    """Cancel those of `orders` that can be canceled; the caller's transaction has locked their rows with `lock`.

    Returns why each of the others stays as it is: NotCancellable, AlreadyDecided or NotAllowed, by order id.
    """
    steps, refused = [], dict[UUID, Refused]()
    for order in orders:
        if order.status == Status.CANCELED:  # saves a query of each one's history
            refused[order.id] = AlreadyDecided(cannot_be_done(order.status))
            continue
        try:
            steps.append(moves.make(order, allowed_move(order, "cancel", actor), reason))
        except Refused as refusal:
            refused[order.id] = refusal
    if steps:
        moves.write(steps, actor)
    return refused


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
    """Make the move `name` of the table; `confirm` and `cancel` say what the parameters mean.

    Raises a Refused, or Order.DoesNotExist if there is no such order, or none in `account_id` when that is given.
    """
    with transaction.atomic():
        order = lock_one(order_id, account_id)
        is_canceled = name == "cancel" and order.status == Status.CANCELED
        if is_canceled and actor.role == Role.MERCHANT and seen_version is None:  # a shop's retry
            return order
        allowed = allowed_move(order, name, actor)
        check_seen(order, seen_version)
        if call is not None:
            _note([order], call)
        moves.write([moves.make(order, allowed, reason)], actor)
    return order


def check_seen(order: Order, version: int | None) -> None:
    """Raise Changed if the order is no longer the `version` that a person saw; None if nobody looked at it."""
    if version not in (None, order.version):
        raise Changed


def allowed_move(order: Order, name: str, actor: Actor) -> Move:
    """The move `name` of the table. Raises NotCancellable, AlreadyDecided, NotAllowed."""
    found = Order.MOVES.get((Status(order.status), name))
    if found is None:
        if name == "cancel" and order.status in (Status.SHIPPED, Status.DELIVERED, Status.RETURNED):
            raise NotCancellable(_("The order is %(status)s; it can no longer be canceled.") % status_in_words(order))
        raise AlreadyDecided(" ".join([already_decided(order).message, *_needed_first(Status(order.status), name)]))
    if actor.role not in found.by:
        raise NotAllowed(_("Only a supervisor can do this to an order that is %(status)s.") % status_in_words(order))
    return found


def _needed_first(status: Status, name: str) -> list[str]:
    """A sentence for each status that an order of this one can still come to, and from which the move starts."""
    ahead = {status}
    for (start, _name), move in Order.MOVES.items():  # an order's way, from its beginning
        ahead |= {move.to} if start in ahead else set()
    starts = [start for start, each in Order.MOVES if each == name and start in ahead]
    return [_("It must be %(status)s first.") % {"status": start.label.lower()} for start in starts]


# The clock is read once all locks are held. Otherwise a change that waited for a lock could be dated before changes
# that clients have already read, and they, asking only for later ones, would miss it. HAVING needs every row of the
# locking step.
_LOCKED = """
WITH locked AS MATERIALIZED ({locking})
SELECT locked.*, (SELECT clock_timestamp() FROM locked HAVING count(*) > 0) AS clock FROM locked
"""


def lock(orders: QuerySet[Order], most: int | None = None) -> list[Order]:
    """Lock the rows of the orders, or of the first `most` by key, and return these.

    `order.now` is the time of the coming change: the database's time, and never before the last move or edit.
    """
    try:
        locking, parameters = orders.order_by("id").select_for_update(of=("self",))[:most].query.sql_with_params()
    except EmptyResultSet:  # Django sees that nothing can match
        return []
    return _lock(_LOCKED.format(locking=locking), parameters)


# Written out because each move begins with it, and Django would take as long to compile it as PostgreSQL to execute it.
_LOCKED_ONE = _LOCKED.format(
    locking=f"SELECT {', '.join(COLUMNS)} FROM orders_order"  # noqa: S608  (our own columns)
    " WHERE id = %(id)s AND account_id = coalesce(%(account)s, account_id) FOR UPDATE"
)


def lock_one(order_id: UUID, account_id: UUID | None = None) -> Order:
    """Lock one order, likewise. Raises Order.DoesNotExist as `move` does."""
    locked = _lock(_LOCKED_ONE, {"id": order_id, "account": account_id})
    if not locked:
        raise Order.DoesNotExist
    return locked[0]


def _lock(statement: str, parameters: Any) -> list[Order]:
    locked = list(Order.objects.raw(statement, parameters))
    for order in locked:
        order.now = max(order.clock, order.updated_at)  # type: ignore[attr-defined]
    return locked


def already_decided(order: Order, refusal: type[AlreadyDecided] = AlreadyDecided) -> AlreadyDecided:
    """The refusal, saying who brought the order to its status, and when."""
    last = order.status_changes.order_by("-at", "-id").first()
    if last is None or order.status == Status.PENDING:
        return refusal(cannot_be_done(order.status))
    at = timezone.localtime(last.at)  # in the time zone of the API, or of the page
    clock = f"{at:%H:%M}" if timezone.get_current_timezone() == ALGIERS else f"{at:%H:%M %Z}"
    when = _("%(time)s on %(date)s") % {"time": clock, "date": f"{at:%Y-%m-%d}"}
    words = {**status_in_words(order), "who": in_words(last.actor), "when": when}
    return refusal(_("Already %(status)s by %(who)s at %(when)s.") % words)


def cannot_be_done(status: str) -> str:
    """A refusal's sentence that names only the status."""
    return _("This cannot be done to an order that is %(status)s.") % {"status": Status(status).label.lower()}


def status_in_words(order: Order) -> dict[str, str]:
    """The parameters of a refusal's sentence about the order."""
    return {"status": Status(order.status).label.lower()}
