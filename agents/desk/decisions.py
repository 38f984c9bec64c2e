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
from typing import Any
from uuid import UUID

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from agents.desk import assignment, claims, customer, hours, planning, shown
from agents.models import CallingRules
from codservice.accounts.actor import Actor
from codservice.accounts.models import User
from codservice.errors import Refused
from orders import call_words, editing, lifecycle
from orders.cancel_reasons import CancelReason
from orders.lifecycle import Call, CallPlan
from orders.models import CallNote, Order, Status

Outcome = CallNote.Outcome


class NotHeld(Refused):
    """The agent's claim has expired, was released, or never existed."""

    code, status = "customer_not_held", 409
    message = _("This customer is no longer yours. Nothing was saved. Press Next order.")


class NoDuplicate(Refused):
    """What the order was perhaps a duplicate of is canceled too, or no longer like it."""

    code, status = "not_a_duplicate", 409
    message = _("The other order was canceled or changed meanwhile: this one may be the only one left.")


# The outcome of the call that a cancellation implies. For any other reason, the customer answered.
_CALL_OF = {
    CancelReason.UNREACHABLE: Outcome.NO_ANSWER,
    CancelReason.WRONG_NUMBER: Outcome.WRONG_NUMBER,
    CancelReason.DUPLICATE: Outcome.NOTE,
    CancelReason.FAKE: Outcome.NOTE,
    CancelReason.OUT_OF_STOCK: Outcome.NOTE,
}


@dataclass(frozen=True)
class Screen:
    """What an agent saw of the customer whom they hold: `seen` are the orders at their versions.

    `shown_at` is when the screen that they pressed was shown, by the database's clock.
    """

    claim_id: UUID
    agent: User
    seen: Mapping[UUID, int]
    shown_at: datetime | None = None


# What an agent decides. Each function raises NotHeld, TooSoon, Changed when an order is not as the agent saw it, and
# what its rule in `orders` raises; nothing is written then. The same `note_id` sent twice is written once.


def confirm(screen: Screen, order_id: UUID, *, note: str = "", note_id: UUID | None = None) -> None:
    """Confirm one order."""
    _decide(screen, order_id, lifecycle.confirm, Call(screen.agent, Outcome.ANSWERED, note, note_id))


def confirm_all(screen: Screen, *, note: str = "", note_id: UUID | None = None) -> None:
    """Confirm all orders that the agent saw, or none of them."""
    call = Call(screen.agent, Outcome.ANSWERED, note, note_id)
    with _once(note_id):
        phone = _check_held(screen)
        orders = lifecycle.lock(_pending(phone).filter(id__in=screen.seen))
        _renew_or_refuse(screen)
        if dict(screen.seen) != {order.id: order.version for order in orders}:
            raise lifecycle.Changed
        lifecycle.confirm_all(orders, actor=Actor.of_staff(screen.agent), call=call)
        _let_go_if_decided(screen, phone)


def cancel(
    screen: Screen,
    order_id: UUID,
    why: CancelReason,
    *,
    details: str = "",
    is_flagged: bool = False,
    note: str = "",
    note_id: UUID | None = None,
) -> None:
    """Cancel one order; if `is_flagged`, because the screen said that it is perhaps a duplicate. Also raises
    NoDuplicate then.
    """
    call = Call(screen.agent, _CALL_OF.get(why, Outcome.ANSWERED), note, note_id)
    move = _cancel_flagged if is_flagged else lifecycle.cancel
    _decide(screen, order_id, partial(move, reason=why.kept_as(details)), call)


def edit(screen: Screen, order_id: UUID, changes: editing.Edit) -> Order:
    """Edit one order."""
    with transaction.atomic():
        _check_held(screen, order_id)
        actor = Actor.of_staff(screen.agent)
        order = editing.edit(order_id, changes, actor=actor, seen_version=screen.seen[order_id])
        _renew_or_refuse(screen)
    return order


def note_call(screen: Screen, call: Call, *, to: User | None = None) -> None:
    """Note a call that decided nothing on each pending order of the customer, and release the customer.

    Of more than `claims.MOST_ORDERS`, the rest is left for the next call. Unanswered calls never cancel: an order comes
    back by its merchant's rules (`planning.after`). With HANDED_OVER, `to` is the colleague, or None for a supervisor.
    Also raises NotServed when the colleague does not serve one of the merchants.
    """
    with _once(call.note_id):
        phone = _check_held(screen)
        orders = lifecycle.lock(_pending(phone), claims.MOST_ORDERS)
        _renew_or_refuse(screen)
        if dict(screen.seen) != {order.id: order.version for order in orders if order.id in screen.seen}:
            raise lifecycle.Changed
        if to is not None and call.outcome == Outcome.HANDED_OVER:
            assignment.check(to, {order.account_id for order in orders}, by=screen.agent)
        plans = _plans(orders, call, to)
        if lifecycle.add_call_notes(orders, call, plans):
            claims.let_go(screen.claim_id, agent=screen.agent)


def set_aside(claim_id: UUID, *, agent: User) -> None:
    """Hand a customer whose page cannot be rendered to a supervisor, so that the agent is free for the next."""
    with suppress(NotHeld):
        call = Call(agent, Outcome.HANDED_OVER, call_words.Noted.NOT_SHOWN)
        note_call(Screen(claim_id, agent, seen={}), call)


def _decide(screen: Screen, order_id: UUID, move: Callable[..., Order], call: Call) -> None:
    """Make the move, which also notes the call. Release the customer when none of their orders is pending any more."""
    with _once(call.note_id):
        _check_held(screen, order_id)
        move(order_id, actor=Actor.of_staff(screen.agent), seen_version=screen.seen[order_id], call=call)
        _let_go_if_decided(screen, _renew_or_refuse(screen))


def _cancel_flagged(order_id: UUID, **said: Any) -> Order:
    """Cancel the order unless none like it stays. All of them are locked: of two that are canceled at the same moment,
    each as a duplicate of the other, one stays.
    """
    others = customer.duplicates([order_id])[order_id]
    lifecycle.lock(Order.live.filter(id__in=[order_id, *(other.id for other in others)]))
    is_duplicate = bool(customer.duplicates([order_id])[order_id])
    order = lifecycle.cancel(order_id, **said)  # what is wrong with the order itself is said first
    if not is_duplicate:
        raise NoDuplicate
    return order


def _let_go_if_decided(screen: Screen, phone: str) -> None:
    if not _pending(phone).exists():
        claims.let_go(screen.claim_id, agent=screen.agent)


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


def _check_held(screen: Screen, order_id: UUID | None = None) -> str:
    """Check that the agent holds the customer, whose this order is, and had time to see who it is. Returns the phone.

    Nothing is locked yet, so `_renew_or_refuse` checks the holder again later.
    """
    held = claims.held(screen.claim_id, agent=screen.agent)
    if order_id:
        held = held.filter(phone_e164__in=Order.live.filter(id=order_id).values("phone_e164"))
    found = claims.read_held(held)
    if found is None:
        raise NotHeld
    shown.check_age(screen.shown_at, found.now)
    return found.phone


def _renew_or_refuse(screen: Screen) -> str:
    """Renew and thereby lock the claim, once the orders are locked. Returns the customer's phone or raises NotHeld."""
    found = claims.renew(screen.claim_id, agent=screen.agent)
    if found is None:
        raise NotHeld
    return found.phone


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
