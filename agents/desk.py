"""Who calls whom, and what comes of it: every change that agents make to pending orders, called by the console alone.

A claim puts one customer, by phone number, into the hands of one agent, with every pending order of whatever merchant;
only its holder can decide them, note calls or edit them. Each function is one transaction. Locks are taken orders
first, by primary key, then the claim.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, models, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from uuid_utils.compat import uuid7

from agents import calling
from agents.models import CallingRules, Claim
from codservice.accounts.actor import Actor
from codservice.accounts.models import User
from codservice.days import ALGIERS
from codservice.errors import Refused
from orders import lifecycle
from orders.lifecycle import CallPlan
from orders.models import CallNote, CallState, Order, Status

LEASE = timedelta(minutes=10)  # of a claim, from the agent's last activity
OVERDUE = timedelta(minutes=15)  # after which another agent keeps somebody's promise
SKIPPED_FOR = timedelta(minutes=15)  # before a skipped customer is served again
MOST_ORDERS = 20  # of one customer at once; further ones are served when these are decided
COUNTED_TO = 1000  # the counters go no further: a table is never counted as a whole

Outcome = CallNote.Outcome
SILENT = (Outcome.NO_ANSWER, Outcome.BUSY, Outcome.SWITCHED_OFF)


class NotHeld(Refused):
    """The agent's claim has run out, was released, or never was."""

    code, status = "customer_not_held", 409

    def __init__(self) -> None:
        super().__init__(_("This customer is no longer yours. Nothing was written; press Next order."))


class HeldByAnother(Refused):
    """Another agent has this customer."""

    code, status = "customer_held", 409


class NothingToCallFor(Refused):
    """The customer has no pending order (any more)."""

    code, status = "nothing_to_call_for", 409


# --- Claiming ----------------------------------------------------------------------------------------------------

# The status is written out and no parameter, so that the partial index serves prepared statements too. The clock is the
# statement's, like Django's Now: what a transaction has written is due in it.
_FREE = """
    SELECT o.id FROM orders_order o
    WHERE o.status = 'pending_confirmation' AND {due}
      AND NOT EXISTS (
        SELECT FROM agents_claim c WHERE c.phone_e164 = o.phone_e164 AND c.expires_at > statement_timestamp()
      )
    ORDER BY o.call_due_at, o.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
"""
# In the order of service: promises of one's own, promises that others have not kept, new orders, tries that are due.
_SERVED = (
    "o.call_state = 'callback' AND o.call_due_at <= statement_timestamp() AND o.callback_agent_id = %(agent)s",
    "o.call_state = 'callback' AND o.call_due_at <= statement_timestamp() - %(overdue)s::interval",
    "o.call_state = 'new' AND o.call_due_at <= statement_timestamp()",
    "o.call_state = 'retry' AND o.call_due_at <= statement_timestamp()",
)
_NEXT = """
WITH held AS (
    UPDATE agents_claim SET expires_at = statement_timestamp() + %(lease)s::interval WHERE id = (
        SELECT c.id FROM agents_claim c
        WHERE c.agent_id = %(agent)s AND c.expires_at > statement_timestamp() AND EXISTS (
            SELECT FROM orders_order o WHERE o.phone_e164 = c.phone_e164 AND o.status = 'pending_confirmation'
        ) ORDER BY c.claimed_at LIMIT 1
    ) RETURNING id
), free AS MATERIALIZED (
    SELECT CASE WHEN NOT EXISTS (SELECT FROM held) THEN COALESCE({served}) END AS order_id
), claimed AS (
    INSERT INTO agents_claim (id, phone_e164, agent_id, claimed_at, expires_at)
    SELECT %(claim)s, o.phone_e164, %(agent)s, statement_timestamp(), statement_timestamp() + %(lease)s::interval
    FROM orders_order o JOIN free ON free.order_id = o.id
    ON CONFLICT (phone_e164) DO UPDATE SET id = EXCLUDED.id, agent_id = EXCLUDED.agent_id,
        claimed_at = EXCLUDED.claimed_at, expires_at = EXCLUDED.expires_at
    WHERE agents_claim.expires_at <= statement_timestamp()
    RETURNING id
)
SELECT COALESCE((SELECT id FROM held), (SELECT id FROM claimed)), free.order_id FROM free
""".format(served=", ".join(f"({_FREE.format(due=due)})" for due in _SERVED))  # noqa: S608  (our own conditions)


def next_customer(agent: User) -> UUID | None:
    """The id of the agent's claim on the next customer to call, or None when nobody is due.

    A customer whom the agent holds already comes first. Any number of agents may ask at once: orders that another one
    is just claiming are passed over, and whoever loses a customer with two orders to somebody else asks again.
    """
    values: dict[str, Any] = {"agent": agent.id, "claim": uuid7(), "lease": LEASE, "overdue": OVERDUE}
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_NEXT, values)
            claim_id, order_id = cursor.fetchone()
        if claim_id is not None or order_id is None:
            return claim_id


_TAKE = """
INSERT INTO agents_claim AS c (id, phone_e164, agent_id, claimed_at, expires_at)
VALUES (%(claim)s, %(phone)s, %(agent)s, statement_timestamp(), statement_timestamp() + %(lease)s::interval)
ON CONFLICT (phone_e164) DO UPDATE SET expires_at = EXCLUDED.expires_at, agent_id = EXCLUDED.agent_id,
    id = CASE WHEN c.expires_at > statement_timestamp() THEN c.id ELSE EXCLUDED.id END,
    claimed_at = CASE WHEN c.expires_at > statement_timestamp() THEN c.claimed_at ELSE EXCLUDED.claimed_at END
WHERE c.expires_at <= statement_timestamp() OR c.agent_id = EXCLUDED.agent_id
RETURNING id
"""


def take(order_id: UUID, *, agent: User) -> UUID:
    """Claim the customer of a pending order; the claim's id. Raises HeldByAnother, NothingToCallFor."""
    phone = Order.objects.filter(id=order_id, status=Status.PENDING).values_list("phone_e164", flat=True).first()
    if phone is None:
        raise NothingToCallFor(_("This order has been decided: there is nothing to call for."))
    values: dict[str, Any] = {"claim": uuid7(), "phone": phone, "agent": agent.id, "lease": LEASE}
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        row = cursor.fetchone()
    if row is None:
        claim = holder(phone)
        name = claim.agent.display_name if claim else "?"
        raise HeldByAnother(_("%(name)s is calling this customer.") % {"name": name})
    return row[0]


def holder(phone_e164: str) -> Claim | None:
    """The claim on this customer, with its agent; None when they are free."""
    held = Claim.objects.filter(phone_e164=phone_e164, expires_at__gt=Now())
    return held.select_related("agent").first()


def keep(claim_id: UUID, *, agent: User) -> bool:
    """The agent is at work: the lease begins anew. False when the customer is no longer theirs."""
    held = Claim.objects.filter(id=claim_id, agent=agent, expires_at__gt=Now())
    return bool(held.update(expires_at=Now() + LEASE))


def release(claim_id: UUID) -> bool:
    """A supervisor sets the customer free; False when nobody held them any more."""
    return bool(Claim.objects.filter(id=claim_id).delete()[0])


def release_all(agent: User) -> None:
    """An agent has left: their customers are free. The calls they promised are kept by others, as soon as overdue."""
    Claim.objects.filter(agent=agent).delete()


def counters(agent: User) -> dict[str, int]:
    """What waits: `due` now, `later` today, `mine` (the agent's promises), for `review`; each up to COUNTED_TO."""
    end_of_day = datetime.combine(timezone.localdate(timezone=ALGIERS) + timedelta(days=1), time(), ALGIERS)
    with connection.cursor() as cursor:
        cursor.execute(_COUNTERS, {"agent": agent.id, "end_of_day": end_of_day, "most": COUNTED_TO})
        return dict(zip(("due", "later", "mine", "review"), cursor.fetchone(), strict=True))


_COUNTED = """(SELECT count(*) FROM (SELECT FROM orders_order
    WHERE status = 'pending_confirmation' AND {which} LIMIT %(most)s) AS counted)"""
_CALLED = "call_state IN ('new', 'retry', 'callback')"
_COUNTERS = "SELECT " + ", ".join(
    _COUNTED.format(which=which)
    for which in (
        f"{_CALLED} AND call_due_at <= statement_timestamp()",
        f"{_CALLED} AND call_due_at > statement_timestamp() AND call_due_at < %(end_of_day)s",
        "call_state = 'callback' AND callback_agent_id = %(agent)s",
        "call_state = 'review'",
    )
)


# --- Decisions and calls -----------------------------------------------------------------------------------------


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

    with _deciding(claim_id, decision, Outcome.ANSWERED, agent) as how:
        lifecycle.confirm(decision.order_id, **how)


def cancel(claim_id: UUID, decision: Decision, why: CancelReason, *, details: str = "", agent: User) -> None:
    """Cancel one order. Raises NotHeld and what lifecycle.cancel raises; then nothing is written."""

    with _deciding(claim_id, decision, _CALL_OF.get(why, Outcome.ANSWERED), agent) as how:
        lifecycle.cancel(decision.order_id, reason=why.said(details), **how)


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
    with _once(call.note_id):
        orders = _lock(claim_id, agent)
        if dict(call.seen) != {order.id: order.version for order in orders if order.id in call.seen}:
            raise lifecycle.Changed
        rules = CallingRules.objects.in_bulk({order.account_id for order in orders})
        plans = {order.id: _plan(call, order, agent, rules.get(order.account_id) or CallingRules()) for order in orders}
        said = lifecycle.Call(agent, call.outcome, call.note, call.note_id, call.callback_at)
        lifecycle.add_call_notes(orders, said, plans)
        _let_go(claim_id, agent)


def requeue(order_ids: Iterable[UUID], *, supervisor: User) -> int:
    """Put orders from the review list back into the queue, with all their tries; how many there were."""
    with transaction.atomic():
        waiting = Order.objects.filter(id__in=list(order_ids), status=Status.PENDING, call_state=CallState.REVIEW)
        orders = lifecycle.lock(waiting)
        plans = {order.id: CallPlan(CallState.RETRY, order.now, attempts=0) for order in orders}
        lifecycle.add_call_notes(orders, lifecycle.Call(supervisor, Outcome.NOTE, _("Back in the queue.")), plans)
    return len(orders)


@contextmanager
def _deciding(claim_id: UUID, decision: Decision, outcome: Outcome, agent: User) -> Iterator[dict[str, Any]]:
    """The transaction of one decision about an order of a customer whom the agent holds: how `lifecycle` is told of it.

    The customer is let go with the last of their orders. Raises NotHeld.
    """
    with _once(decision.note_id):
        theirs = Order.objects.filter(phone_e164=_held(claim_id, agent).values("phone_e164"))
        if not theirs.filter(id=decision.order_id).exists():
            raise NotHeld
        call = lifecycle.Call(agent, outcome, decision.note, decision.note_id)
        yield {"actor": Actor.of_user(agent), "seen_version": decision.seen_version, "call": call}
        if not _held(claim_id, agent).update(expires_at=Now() + LEASE):
            raise NotHeld
        if not theirs.filter(status=Status.PENDING).exclude(id=decision.order_id).exists():
            _let_go(claim_id, agent)


@contextmanager
def _once(note_id: UUID | None) -> Iterator[None]:
    """A transaction in which the note is written; a refusal in it is none when the note was written before.

    The second click of two may come while the first is under way: then it is refused, because the customer has been let
    go, but its note is there.
    """
    try:
        with transaction.atomic():
            yield
    except Refused:
        if note_id is None or not CallNote.objects.filter(id=note_id).exists():
            raise


def _held(claim_id: UUID, agent: User) -> models.QuerySet[Claim]:
    """The agent's claim, while it holds."""
    return Claim.objects.filter(id=claim_id, agent=agent, expires_at__gt=Now())


def _lock(claim_id: UUID, agent: User, also: UUID | None = None) -> list[Order]:
    """The customer's pending orders, locked by `lifecycle.lock`; the claim is renewed. NotHeld when it is no more.

    An order `also` of theirs is among them in any status, so that its refusal can be worded.
    """
    held = _held(claim_id, agent)
    phone = held.values_list("phone_e164", flat=True).first()
    orders = Order.objects.filter(Q(status=Status.PENDING) | Q(id=also), phone_e164=phone)
    locked = lifecycle.lock(orders, most=MOST_ORDERS)
    is_theirs = phone is not None and (also is None or also in {order.id for order in locked})
    if not is_theirs or not held.update(expires_at=Now() + LEASE):
        raise NotHeld
    return locked


def _let_go(claim_id: UUID, agent: User) -> None:
    """The claim, and what is left of the agent's older ones."""
    Claim.objects.filter(Q(id=claim_id) | Q(expires_at__lte=Now()), agent=agent).delete()


def _plan(call: Call, order: Order, agent: User, rules: CallingRules) -> CallPlan:
    """What the order waits for after the call."""
    attempts, now = order.call_attempts, order.now
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
    return CallPlan(CallState.RETRY, calling.next_try(now, rules, [*tried, now]), attempts=attempts)
