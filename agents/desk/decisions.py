"""What comes of a call.

Only the holder of a claim can decide the customer's orders, note calls or edit them. Each function is one transaction.
It locks the orders first, by primary key, and then the claim.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import models, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.desk import assignment, claims, hours, planning, shown
from agents.models import CallingRules
from codservice.accounts.actor import Actor
from codservice.accounts.models import User
from codservice.errors import Refused
from orders import editing, lifecycle
from orders.cancel_reasons import CancelReason
from orders.lifecycle import Call, CallPlan
from orders.models import CallNote, Order, Status

Outcome = CallNote.Outcome


class NotHeld(Refused):
    """The agent's claim has expired, was released, or never existed."""

    code, status = "customer_not_held", 409

    def __init__(self) -> None:
        super().__init__(_("This customer is no longer yours. Nothing was saved. Press Next order."))


class HandoverReason(models.TextChoices):
    """The usual reasons for a handover. The note keeps the words that the agent read."""

    LANGUAGE = "language", gettext_lazy("Speaks another language")
    SUPERVISOR = "supervisor", gettext_lazy("Asks for someone in charge")
    KNOWN = "known", gettext_lazy("Spoke with a colleague before")
    RUDE = "rude", gettext_lazy("Abusive or threatening")


class SkipReason(models.TextChoices):
    """The usual reasons for a skip. The note keeps the words that the agent read."""

    LINE = "line", gettext_lazy("Bad line")
    DROPPED = "dropped", gettext_lazy("The call was cut off")
    ASK = "ask", gettext_lazy("I need to ask the merchant first")
    KNOWN = "known", gettext_lazy("I know this customer")


# The outcome of the call that a cancellation implies. For any other reason, the customer answered.
_CALL_OF = {
    CancelReason.UNREACHABLE: Outcome.NO_ANSWER,
    CancelReason.WRONG_NUMBER: Outcome.WRONG_NUMBER,
    CancelReason.DUPLICATE: Outcome.NOTE,
    CancelReason.FAKE: Outcome.NOTE,
    CancelReason.OUT_OF_STOCK: Outcome.NOTE,
}


@dataclass(frozen=True)
class Decision:
    """An agent's decision about one order at the version they saw. The same `note_id` sent twice decides once.

    `shown_at` is when the screen that they pressed was shown, by the database's clock.
    """

    order_id: UUID
    seen_version: int
    note: str = ""
    note_id: UUID | None = None
    shown_at: datetime | None = None


def confirm(claim_id: UUID, decision: Decision, *, agent: User) -> None:
    """Confirm one order. Raises NotHeld, TooSoon and what lifecycle.confirm raises; nothing is written then."""
    _decide(claim_id, decision, lifecycle.confirm, Outcome.ANSWERED, agent)


def confirm_all(claim_id: UUID, call: Call, *, seen: Mapping[UUID, int], shown_at: datetime | None = None) -> None:
    """Confirm all orders that the agent saw, at these versions, or none of them.

    Raises NotHeld, TooSoon, Changed when an order is not as they saw it, and what lifecycle.confirm_all raises.
    """
    agent = call.agent
    assert agent is not None  # noqa: S101  (at the desk somebody calls)
    with _once(call.note_id):
        phone = _check_held(claims.held(claim_id, agent=agent), shown_at)
        orders = lifecycle.lock(_pending(phone).filter(id__in=seen))
        _renew_or_refuse(claim_id, agent)
        if dict(seen) != {order.id: order.version for order in orders}:
            raise lifecycle.Changed
        lifecycle.confirm_all(orders, actor=Actor.of_staff(agent), call=call)
        if not _pending(phone).exists():
            claims.let_go(claim_id, agent=agent)


def cancel(claim_id: UUID, decision: Decision, why: CancelReason, *, details: str = "", agent: User) -> None:
    """Cancel one order. Raises NotHeld, TooSoon and what lifecycle.cancel raises; nothing is written then."""
    move = partial(lifecycle.cancel, reason=why.kept_as(details))
    _decide(claim_id, decision, move, _CALL_OF.get(why, Outcome.ANSWERED), agent)


def edit(claim_id: UUID, order_id: UUID, changes: editing.Edit, *, agent: User, seen_version: int) -> Order:
    """Edit an order of the customer whom the agent holds. Raises NotHeld and what editing.edit raises."""
    with transaction.atomic():
        _check_theirs(claim_id, order_id, agent)
        order = editing.edit(order_id, changes, actor=Actor.of_staff(agent), seen_version=seen_version)
        _renew_or_refuse(claim_id, agent)
    return order


def note_call(
    claim_id: UUID,
    call: Call,
    *,
    seen: Mapping[UUID, int],
    to: User | None = None,
    shown_at: datetime | None = None,
) -> None:
    """Note a call that decided nothing on each pending order of the customer, and release the customer.

    Of more than `claims.MOST_ORDERS`, the rest is left for the next call. Unanswered calls never cancel: an order comes
    back by its merchant's rules (`planning.after`). `seen` has the versions that the agent saw; `shown_at` is as in
    Decision. With HANDED_OVER, `to` is the colleague, or None for a supervisor. Raises NotHeld, TooSoon, NotServed when
    the colleague does not serve one of the merchants, and Changed when an order is not as the agent saw it.
    """
    agent = call.agent
    assert agent is not None  # noqa: S101  (at the desk somebody calls)
    with _once(call.note_id):
        phone = _check_held(claims.held(claim_id, agent=agent), shown_at)
        orders = lifecycle.lock(_pending(phone), claims.MOST_ORDERS)
        _renew_or_refuse(claim_id, agent)
        if dict(seen) != {order.id: order.version for order in orders if order.id in seen}:
            raise lifecycle.Changed
        if to is not None and call.outcome == Outcome.HANDED_OVER:
            assignment.check(to, {order.account_id for order in orders}, by=agent)
        plans = _plans(orders, call, to)
        if lifecycle.add_call_notes(orders, call, plans):
            claims.let_go(claim_id, agent=agent)


def set_aside(claim_id: UUID, *, agent: User) -> None:
    """Hand a customer whose page cannot be rendered to a supervisor, so that the agent is free for the next."""
    call = Call(agent, Outcome.HANDED_OVER, _("The customer's page could not be shown."))
    with suppress(NotHeld):
        note_call(claim_id, call, seen={})


def _decide(
    claim_id: UUID, decision: Decision, move: Callable[..., Order], outcome: CallNote.Outcome, agent: User
) -> None:
    """Make the move, which also notes the call. Release the customer when none of their orders is pending any more."""
    with _once(decision.note_id):
        _check_theirs(claim_id, decision.order_id, agent, decision.shown_at)
        call = Call(agent, outcome, decision.note, decision.note_id)
        move(decision.order_id, actor=Actor.of_staff(agent), seen_version=decision.seen_version, call=call)
        phone = _renew_or_refuse(claim_id, agent)
        if not _pending(phone).exists():
            claims.let_go(claim_id, agent=agent)


@contextmanager
def _once(note_id: UUID | None) -> Iterator[None]:
    """A transaction that ignores a refusal when the note already exists: it is the second click of two.

    The first click may have released the customer already.
    """
    try:
        with transaction.atomic():
            yield
    except Refused:
        if note_id is None or not CallNote.objects.filter(id=note_id).exists():
            raise


def _pending(phone: str) -> models.QuerySet[Order]:
    return Order.live.filter(phone_e164=phone, status=Status.PENDING)


def _check_theirs(claim_id: UUID, order_id: UUID, agent: User, shown_at: datetime | None = None) -> None:
    """Before an order is locked, check that it is the claimed customer's and that the agent had time to see whose it
    is.
    """
    phone = Order.live.filter(id=order_id).values("phone_e164")
    _check_held(claims.held(claim_id, agent=agent).filter(phone_e164__in=phone), shown_at)


def _check_held(held: claims.ClaimQuerySet, shown_at: datetime | None) -> str:
    """The customer's phone. Nothing is locked yet, so `_renew_or_refuse` checks the holder again later."""
    found = claims.at_now(held)
    if found is None:
        raise NotHeld
    phone, now = found
    shown.check_age(shown_at, now)
    return phone


def _renew_or_refuse(claim_id: UUID, agent: User) -> str:
    """Renew and thereby lock the claim, once the orders are locked. Returns the customer's phone or raises NotHeld."""
    phone = claims.renew(claim_id, agent=agent)
    if phone is None:
        raise NotHeld
    return phone


def _plans(orders: Sequence[Order], call: Call, to: User | None) -> dict[UUID, CallPlan]:
    rules = CallingRules.objects.in_bulk({order.account_id for order in orders})
    is_ours_to_time = call.outcome in CallNote.SILENT or to is not None
    windows = hours.by_account([order.id for order in orders]) if is_ours_to_time else {}
    silent = CallNote.objects.filter(order__in=orders, outcome__in=CallNote.SILENT).order_by("created_at")
    tried = defaultdict(list)
    for order_id, at in silent.values_list("order_id", "created_at"):
        tried[order_id].append(at)
    return {
        order.id: planning.after(
            call,
            order,
            rules.get(order.account_id) or CallingRules(),
            tried=tried[order.id],
            windows=windows.get(order.account_id, []),
            to=to,
        )
        for order in orders
    }
