"""What comes of a call: every change that agents make to pending orders, called by the console alone.

Only the holder of a claim can decide the customer's orders, note calls or edit them. Each function is one transaction.
Locks are taken orders first, by primary key, then the claim.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.desk import claims, planning
from agents.models import CallingRules, Claim
from codservice.accounts.actor import Actor
from codservice.accounts.models import User
from codservice.errors import Refused
from orders import lifecycle
from orders.lifecycle import CallPlan
from orders.models import CallNote, CallState, Order, Status

SKIPPED_FOR = timedelta(minutes=15)  # before a skipped customer is served again

Outcome = CallNote.Outcome
SILENT = (Outcome.NO_ANSWER, Outcome.BUSY, Outcome.SWITCHED_OFF)


class NotHeld(Refused):
    """The agent's claim has run out, was released, or never was."""

    code, status = "customer_not_held", 409


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

    def move(actor: Actor) -> None:
        lifecycle.confirm(decision.order_id, actor=actor, seen_version=decision.seen_version)

    _decide(claim_id, decision, move, Outcome.ANSWERED, agent)


def cancel(claim_id: UUID, decision: Decision, why: CancelReason, *, details: str = "", agent: User) -> None:
    """Cancel one order. Raises NotHeld and what lifecycle.cancel raises; then nothing is written."""

    def move(actor: Actor) -> None:
        lifecycle.cancel(decision.order_id, actor=actor, reason=why.said(details), seen_version=decision.seen_version)

    _decide(claim_id, decision, move, _CALL_OF.get(why, Outcome.ANSWERED), agent)


def edit(claim_id: UUID, order_id: UUID, changes: lifecycle.Edit, *, agent: User, seen_version: int) -> Order:
    """Change an order that the agent holds. Raises NotHeld and what lifecycle.edit raises."""
    with transaction.atomic():
        _lock(claim_id, agent, also=order_id)
        return lifecycle.edit(order_id, changes, actor=Actor.of_user(agent), seen_version=seen_version)


@dataclass(frozen=True)
class Call:
    """What came of a call that decided nothing, as the agent's form says it.

    `seen` are the versions of the orders that the agent saw. `callback_at` goes with CALLBACK; `to`, with HANDED_OVER,
    is the colleague, or None for a supervisor.
    """

    outcome: CallNote.Outcome
    seen: Mapping[UUID, int]
    note: str = ""
    note_id: UUID | None = None
    callback_at: datetime | None = None
    to: User | None = None


def note_call(claim_id: UUID, call: Call, *, agent: User) -> None:
    """Note a call on every pending order of the customer, plan when each is called again, and let the customer go.

    Silence is no cancellation: the order comes back by its merchant's rules, and after the last try waits for a
    supervisor, as does one with a wrong number. Raises NotHeld, and Changed when an order is not what the agent saw.
    """
    with _once(call.note_id) as is_first:
        if not is_first:
            return
        orders = _lock(claim_id, agent)
        if dict(call.seen) != {order.id: order.version for order in orders if order.id in call.seen}:
            raise lifecycle.Changed
        rules = CallingRules.objects.in_bulk({order.account_id for order in orders})
        for number, order in enumerate(orders):
            lifecycle.add_call_note(
                order.id,
                agent=agent,
                outcome=call.outcome,
                note=call.note,
                callback_at=call.callback_at,
                note_id=call.note_id if number == 0 or call.note_id is None else uuid5(call.note_id, str(order.id)),
                plan=_plan(call, order, agent, rules.get(order.account_id) or CallingRules()),
            )
        claims.let_go(claim_id, agent=agent)


def requeue(order_ids: Iterable[UUID], *, supervisor: User) -> int:
    """Put orders from the review list back into the queue, with all their tries; how many there were."""
    with transaction.atomic():
        waiting = Order.objects.filter(id__in=list(order_ids), status=Status.PENDING, call_state=CallState.REVIEW)
        orders = list(waiting.annotate(now=Now()).order_by("id").select_for_update(of=("self",)))
        for order in orders:
            lifecycle.add_call_note(
                order.id,
                agent=supervisor,
                outcome=Outcome.NOTE,
                note=_("Back in the queue."),
                plan=CallPlan(CallState.RETRY, order.now, attempts=0),  # type: ignore[attr-defined]  # annotated
            )
    return len(orders)


def _decide(
    claim_id: UUID, decision: Decision, move: Callable[[Actor], None], outcome: CallNote.Outcome, agent: User
) -> None:
    with _once(decision.note_id) as is_first:
        if not is_first:
            return
        orders = _lock(claim_id, agent, also=decision.order_id)
        lifecycle.add_call_note(
            decision.order_id, agent=agent, outcome=outcome, note=decision.note, note_id=decision.note_id
        )
        move(Actor.of_user(agent))
        if all(order.id == decision.order_id for order in orders):
            claims.let_go(claim_id, agent=agent)


@contextmanager
def _once(note_id: UUID | None) -> Iterator[bool]:
    """A transaction in which the note is written; False in it, and no refusal after it, when that was done before.

    The second click of two may come while the first is under way: then it is refused, because the customer has been let
    go, but its note is there.
    """
    try:
        with transaction.atomic():
            yield not _is_noted(note_id)
    except Refused:
        if not _is_noted(note_id):
            raise


def _is_noted(note_id: UUID | None) -> bool:
    return note_id is not None and CallNote.objects.filter(id=note_id).exists()


def _lock(claim_id: UUID, agent: User, also: UUID | None = None) -> list[Order]:
    """The customer's pending orders, locked, with the time as `now`; the claim is renewed. NotHeld when it is no more.

    An order `also` of theirs is among them in any status, so that its refusal can be worded.
    """
    held = Claim.objects.live().filter(id=claim_id, agent=agent)
    phone = held.values_list("phone_e164", flat=True).first()
    orders = Order.objects.filter(Q(status=Status.PENDING) | Q(id=also), phone_e164=phone)
    locked = list(orders.annotate(now=Now()).order_by("id").select_for_update(of=("self",))[: claims.MOST_ORDERS])
    is_theirs = phone is not None and (also is None or also in {order.id for order in locked})
    if not is_theirs or not claims.keep(claim_id, agent=agent):
        raise NotHeld(_("This customer is no longer yours. Nothing was written; press Next order."))
    return locked


def _plan(call: Call, order: Order, agent: User, rules: CallingRules) -> CallPlan:
    """What the order waits for after the call."""
    attempts, now = order.call_attempts, order.now  # type: ignore[attr-defined]  # annotated by _lock
    match call.outcome:
        case Outcome.CALLBACK:
            assert call.callback_at is not None  # noqa: S101  (the form asks for it)
            return CallPlan(CallState.CALLBACK, call.callback_at, attempts=0, agent_id=agent.id)
        case Outcome.HANDED_OVER if call.to is not None:
            return CallPlan(CallState.CALLBACK, now, attempts=attempts, agent_id=call.to.id)
        case Outcome.WRONG_NUMBER | Outcome.HANDED_OVER:
            return CallPlan(CallState.REVIEW, now, attempts=attempts)
        case Outcome.SKIPPED:
            state = CallState(order.call_state)
            return CallPlan(state, now + SKIPPED_FOR, attempts=attempts, agent_id=order.callback_agent_id)
    attempts += 1
    if attempts >= rules.most_attempts:
        return CallPlan(CallState.REVIEW, now, attempts=attempts)
    tried = order.call_notes.filter(outcome__in=SILENT).order_by("created_at").values_list("created_at", flat=True)
    return CallPlan(CallState.RETRY, planning.next_try(now, rules, [*tried, now]), attempts=attempts)
