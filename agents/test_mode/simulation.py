"""Lets a developer act as agent and courier on a test order, through the same functions that they use."""

from copy import copy
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from agents.desk import hours, planning
from agents.models import CallingRules
from codservice.accounts.actor import Actor, Role
from codservice.errors import Invalid, Refused
from orders import lifecycle
from orders.lifecycle import TEST_AGENT, AlreadyDecided, Call, status_in_words
from orders.models import CallNote, CallState, Order, Status

Outcome = CallNote.Outcome
# Calls that decide nothing. A customer's yes or no is `confirm` or `cancel`.
OUTCOMES = [Outcome(name) for name in CallNote.CALLS if name != Outcome.ANSWERED]
MOST_CALLS = 1000  # of an order, because whoever reads it reads all of them
_ACTOR = Actor(Role.SUPERVISOR, TEST_AGENT)  # the role that may make every move


def move(name: str, order_id: UUID, *, account_id: UUID, **details: str) -> None:
    """Make the move `name` of `Order.MOVES`. Raises what the move raises, and Order.DoesNotExist.

    An order that is already where the move leads stays as it is, without a second event, so retrying is safe.
    """
    try:
        lifecycle.move(name, order_id, actor=_ACTOR, account_id=account_id, **details)
    except Refused:
        there = {row.to for (_status, each), row in Order.MOVES.items() if each == name}
        if not Order.objects.filter(account_id=account_id, id=order_id, status__in=there).exists():
            raise


def call(order_id: UUID, outcome: CallNote.Outcome, *, account_id: UUID) -> None:
    """Note a call that decided nothing, and plan the next one by the live account's rules and hours.

    A callback is promised for an hour later. Raises AlreadyDecided, Invalid after MOST_CALLS, and Order.DoesNotExist.
    """
    with transaction.atomic():
        order = lifecycle.lock_one(order_id, account_id)
        if order.status != Status.PENDING:
            raise AlreadyDecided(_("Nobody is called for an order that is %(status)s.") % status_in_words(order))
        if CallNote.objects.filter(order=order).count() >= MOST_CALLS:
            raise Invalid({"outcome": [f"The order has had {MOST_CALLS} calls, which is the maximum. Import another."]})
        callback_at = order.now + timedelta(hours=1) if outcome == Outcome.CALLBACK else None
        made = Call(None, outcome, callback_at=callback_at)
        live_id = order.account.live_id
        silent = CallNote.objects.filter(order=order, outcome__in=CallNote.SILENT).order_by("created_at")
        tried = list(silent.values_list("created_at", flat=True))
        windows = hours.of_account(live_id, hours.AHEAD)
        real = copy(order)
        real.call_state = _real_state(order)
        plan = planning.after(made, real, CallingRules.of(live_id), tried=tried, windows=windows, to=None)
        lifecycle.add_call_notes([order], made, {order.id: plan})


def _real_state(order: Order) -> CallState:
    """What a real order would wait for after the same calls; a test order's own state is always TEST.

    The time of its next call tells: a promised one is when the promise says, and a review is due since the last call.
    """
    if CallNote.objects.filter(order=order, callback_at=order.call_due_at).exists():
        return CallState.CALLBACK
    if CallNote.objects.filter(order=order, created_at=order.call_due_at).exists():
        return CallState.REVIEW
    return CallState.RETRY
