"""What comes of a call: every change that agents make to pending orders, called by the console alone.

Only the holder of a claim can decide the customer's orders, note calls or edit them. Each function is one transaction.
Locks are taken orders first, by primary key, then the claim.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import models, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.desk import claims, planning
from agents.desk.planning import SILENT
from agents.models import CallingRules
from codservice.accounts.actor import Actor
from codservice.accounts.models import User
from codservice.errors import Refused
from orders import lifecycle
from orders.lifecycle import Call, CallPlan
from orders.models import CallNote, CallState, Order, Status

Outcome = CallNote.Outcome


class NotHeld(Refused):
    """The agent's claim has run out, was released, or never was."""

    code, status = "customer_not_held", 409

    def __init__(self) -> None:
        super().__init__(_("This customer is no longer yours. Nothing was written; press Next order."))


class CancelReason(models.TextChoices):
    """Why an order is canceled. The value is what is kept, and what the merchant reads."""

    REFUSED = "Customer refused", gettext_lazy("Customer refused")
    UNREACHABLE = "Customer unreachable", gettext_lazy("Customer unreachable")
    WRONG_NUMBER = "Wrong number", gettext_lazy("Wrong number")
    DUPLICATE = "Duplicate", gettext_lazy("Duplicate")
    FAKE = "Fake order", gettext_lazy("Fake order")
    OUT_OF_STOCK = "Out of stock", gettext_lazy("Out of stock")
    OTHER = "Other", gettext_lazy("Other: say what")

    def said(self, details: str) -> str:
        """The reason as it is kept: details after it, or for OTHER alone."""
        if self == CancelReason.OTHER:
            return details
        return f"{self.value}: {details}" if details else self.value


# What a cancellation says of the call; for any other reason the customer said it.
_CALL_OF = {
    CancelReason.UNREACHABLE: Outcome.NO_ANSWER,
    CancelReason.WRONG_NUMBER: Outcome.WRONG_NUMBER,
    CancelReason.DUPLICATE: Outcome.NOTE,
    CancelReason.FAKE: Outcome.NOTE,
    CancelReason.OUT_OF_STOCK: Outcome.NOTE,
}


@dataclass(frozen=True)
class Decision:
    """What an agent decides about one order, at the version that they saw. A `note_id` sent twice decides once."""

    order_id: UUID
    seen_version: int
    note: str = ""
    note_id: UUID | None = None


def confirm(claim_id: UUID, decision: Decision, *, agent: User) -> None:
    """The customer said yes. Raises NotHeld and what lifecycle.confirm raises; then nothing is written."""
    _decide(claim_id, decision, lifecycle.confirm, Outcome.ANSWERED, agent)


def cancel(claim_id: UUID, decision: Decision, why: CancelReason, *, details: str = "", agent: User) -> None:
    """Cancel one order. Raises NotHeld and what lifecycle.cancel raises; then nothing is written."""
    move = partial(lifecycle.cancel, reason=why.said(details))
    _decide(claim_id, decision, move, _CALL_OF.get(why, Outcome.ANSWERED), agent)


def edit(claim_id: UUID, order_id: UUID, changes: lifecycle.Edit, *, agent: User, seen_version: int) -> Order:
    """Change an order that the agent holds. Raises NotHeld and what lifecycle.edit raises."""
    with transaction.atomic():
        _check_theirs(claim_id, order_id, agent)
        order = lifecycle.edit(order_id, changes, actor=Actor.of_user(agent), seen_version=seen_version)
        _keep(claim_id, agent)
    return order


def note_call(claim_id: UUID, call: Call, *, seen: Mapping[UUID, int], to: User | None = None) -> None:
    """Note a call that decided nothing on every pending order of the customer, and let the customer go.

    Silence is no cancellation: an order comes back by its merchant's rules (`planning.after`). `seen` are the versions
    that the agent saw; `to`, with HANDED_OVER, is the colleague, or None for a supervisor. Raises NotHeld, and Changed
    when an order is not what the agent saw.
    """
    with _once(call.note_id):
        phone = claims.held(claim_id, agent=call.agent).values_list("phone_e164", flat=True).first()
        pending = Order.objects.filter(phone_e164=phone, status=Status.PENDING)
        orders = lifecycle.lock(pending, claims.MOST_ORDERS)
        _keep(claim_id, call.agent)
        if dict(seen) != {order.id: order.version for order in orders if order.id in seen}:
            raise lifecycle.Changed
        plans = _plans(orders, call, to)
        if lifecycle.add_call_notes(orders, call, plans):
            claims.let_go(claim_id, agent=call.agent)


def requeue(order_ids: Iterable[UUID], *, supervisor: User) -> int:
    """Put orders from the review list back into the queue, with all their tries; how many there were."""
    with transaction.atomic():
        waiting = Order.objects.filter(id__in=list(order_ids), status=Status.PENDING, call_state=CallState.REVIEW)
        orders = lifecycle.lock(waiting)
        plans = {order.id: CallPlan(CallState.RETRY, order.now, attempts=0) for order in orders}
        lifecycle.add_call_notes(orders, Call(supervisor, Outcome.NOTE, _("Back in the queue.")), plans)
    return len(orders)


def _decide(
    claim_id: UUID, decision: Decision, move: Callable[..., Order], outcome: CallNote.Outcome, agent: User
) -> None:
    """Make the move, which notes the call with it; and let the customer go when none of their orders waits any more."""
    with _once(decision.note_id):
        _check_theirs(claim_id, decision.order_id, agent)
        call = Call(agent, outcome, decision.note, decision.note_id)
        move(decision.order_id, actor=Actor.of_user(agent), seen_version=decision.seen_version, call=call)
        phone = _keep(claim_id, agent)
        if not Order.objects.filter(phone_e164=phone, status=Status.PENDING).exists():
            claims.let_go(claim_id, agent=agent)


@contextmanager
def _once(note_id: UUID | None) -> Iterator[None]:
    """A transaction; what it refuses is no refusal when the note has been written before: the second click of two.

    The first one may have let the customer go meanwhile.
    """
    try:
        with transaction.atomic():
            yield
    except Refused:
        if note_id is None or not CallNote.objects.filter(id=note_id).exists():
            raise


def _check_theirs(claim_id: UUID, order_id: UUID, agent: User) -> None:
    """Before an order is locked: is it the claim's customer's? Who holds the claim then is `_keep`'s to say."""
    phone = Order.objects.filter(id=order_id).values("phone_e164")
    if not claims.held(claim_id, agent=agent).filter(phone_e164__in=phone).exists():
        raise NotHeld


def _keep(claim_id: UUID, agent: User) -> str:
    """After the orders are locked: renew and lock the claim, and so make sure of it. The customer's phone."""
    phone = claims.keep(claim_id, agent=agent)
    if phone is None:
        raise NotHeld
    return phone


def _plans(orders: Sequence[Order], call: Call, to: User | None) -> dict[UUID, CallPlan]:
    rules = CallingRules.objects.in_bulk({order.account_id for order in orders})
    silent = CallNote.objects.filter(order__in=orders, outcome__in=SILENT).order_by("created_at")
    tried = defaultdict(list)
    for order_id, at in silent.values_list("order_id", "created_at"):
        tried[order_id].append(at)
    return {
        order.id: planning.after(
            call, order, rules.get(order.account_id) or CallingRules(), tried=tried[order.id], to=to
        )
        for order in orders
    }
