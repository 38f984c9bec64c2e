"""Who calls whom. A claim puts one customer, by phone number, and all their pending orders in the hands of one agent.

`decisions` has what only a claim's holder may do.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from uuid_utils.compat import uuid7

from agents.desk import assignment, hours
from agents.desk.planning import SKIPPED_FOR
from agents.models import Claim, ClaimQuerySet
from codservice import postgresql
from codservice.accounts.models import User
from codservice.bidi import unturned
from codservice.errors import Refused
from orders.models import Order, Status

LEASE = timedelta(minutes=10)  # of a claim, from the agent's last activity
MOST_ORDERS = 20  # of one customer at once; the others come after these


class Held(NamedTuple):
    """A customer whom an agent holds."""

    phone: str
    now: datetime  # by the database's clock


class HeldByAnother(Refused):
    """Another agent holds this customer."""

    code, status = "customer_held", 409


class NothingToCallFor(Refused):
    """The customer has no pending order, or no longer has one."""

    code, status = "nothing_to_call_for", 409


# `Claim.objects.unexpired()` for handwritten SQL, in which the claim is `c`. It uses the statement's clock, as Django's
# Now does, so that a transaction finds due what it has written itself.
UNEXPIRED = "c.expires_at > statement_timestamp()"
# The status is a literal, not a parameter, so that prepared statements can use the partial index too.
_FREE = """
    SELECT o.phone_e164 FROM orders_order o
    WHERE o.status = 'pending_confirmation' AND {due} AND {may_call}
      AND NOT EXISTS (SELECT FROM agents_claim c WHERE c.phone_e164 = o.phone_e164 AND {unexpired})
    ORDER BY o.call_due_at, o.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
"""
_OF_SERVED_MERCHANTS = f"{assignment.SOMEBODY_IS_SERVED} AND {assignment.IS_SERVED}"
# The agent's own promises, of any merchant; overdue promises of others; new orders; retries.
_IN_ORDER_OF_SERVICE = (
    (
        "o.call_state = 'callback' AND o.call_due_at <= statement_timestamp() AND o.callback_agent_id = %(agent)s",
        hours.IS_OPEN,
    ),
    (
        "o.call_state = 'callback' AND o.call_due_at <= statement_timestamp() - %(overdue)s::interval",
        f"{_OF_SERVED_MERCHANTS} AND {hours.IS_OPEN_LONG}",
    ),
    ("o.call_state = 'new' AND o.call_due_at <= statement_timestamp()", _OF_SERVED_MERCHANTS),
    ("o.call_state = 'retry' AND o.call_due_at <= statement_timestamp()", _OF_SERVED_MERCHANTS),
)
_NEXT = """
WITH {open}, held AS (
    -- If the agent has a customer already, the lease of that claim begins anew, and nothing below is looked for.
    UPDATE agents_claim SET expires_at = statement_timestamp() + %(lease)s::interval WHERE id = (
        SELECT c.id FROM agents_claim c
        WHERE c.agent_id = %(agent)s AND {unexpired} AND EXISTS (
            SELECT FROM orders_order o
            WHERE o.phone_e164 = c.phone_e164 AND o.status = 'pending_confirmation' AND o.call_state <> 'test'
        ) ORDER BY (c.id = %(first)s::uuid) DESC NULLS LAST, c.claimed_at LIMIT 1
    ) RETURNING id
), free AS MATERIALIZED (
    -- Otherwise the phone of the first free order, by _IN_ORDER_OF_SERVICE: COALESCE stops at the first query that
    -- finds one. The order's row is locked, and the phone read again if it was corrected just before.
    SELECT CASE WHEN NOT EXISTS (SELECT FROM held) AND EXISTS (SELECT FROM open) THEN COALESCE({served}) END AS phone
), claimed AS (
    -- Whoever claims the phone first has it: while another's claim stands, this writes no row. The result is then a
    -- phone without a claim, and next_customer asks again.
    INSERT INTO agents_claim AS c (id, phone_e164, agent_id, claimed_at, expires_at)
    SELECT %(claim)s, phone, %(agent)s, statement_timestamp(), statement_timestamp() + %(lease)s::interval
    FROM free WHERE phone IS NOT NULL
    ON CONFLICT (phone_e164) DO UPDATE SET id = EXCLUDED.id, agent_id = EXCLUDED.agent_id,
        claimed_at = EXCLUDED.claimed_at, expires_at = EXCLUDED.expires_at
    WHERE NOT {unexpired}
    RETURNING id
)
SELECT COALESCE((SELECT id FROM held), (SELECT id FROM claimed)), free.phone FROM free
""".format(  # noqa: S608  (our own conditions)
    open=f"{hours.OPEN}, {hours.OPEN_LONG}, {assignment.MINE}, {assignment.SERVED}",
    unexpired=UNEXPIRED,
    served=", ".join(
        f"({_FREE.format(due=due, may_call=may_call, unexpired=UNEXPIRED)})" for due, may_call in _IN_ORDER_OF_SERVICE
    ),
)
_TAKE = f"""
INSERT INTO agents_claim AS c (id, phone_e164, agent_id, claimed_at, expires_at)
VALUES (%(claim)s, %(phone)s, %(agent)s, statement_timestamp(), statement_timestamp() + %(lease)s::interval)
ON CONFLICT (phone_e164) DO UPDATE SET expires_at = EXCLUDED.expires_at, agent_id = EXCLUDED.agent_id,
    id = CASE WHEN {UNEXPIRED} THEN c.id ELSE EXCLUDED.id END,
    claimed_at = CASE WHEN {UNEXPIRED} THEN c.claimed_at ELSE EXCLUDED.claimed_at END
WHERE NOT {UNEXPIRED} OR c.agent_id = EXCLUDED.agent_id
RETURNING id
"""  # noqa: S608  (our own condition)
_RENEW = f"""
UPDATE agents_claim c SET expires_at = statement_timestamp() + %(lease)s::interval
WHERE id = %(claim)s AND agent_id = %(agent)s AND {UNEXPIRED}
RETURNING phone_e164, statement_timestamp()
"""  # noqa: S608  (our own condition)

# Claims are shortened, not ended: agents may be calling these customers, and their next activity renews the lease. New
# orders wait only when skipped, and no merchant's rules make a retry wait longer than the hours that planning looks at.
# A promised time stays as it was said.
_SHORTEN = """
WITH claim AS (
    UPDATE agents_claim SET expires_at = clock_timestamp() + %(lease)s::interval WHERE id = ANY(ARRAY(
        SELECT id FROM agents_claim WHERE expires_at > clock_timestamp() + %(lease)s::interval
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING id
), waiting AS (
    UPDATE orders_order SET call_due_at = statement_timestamp() WHERE id = ANY(ARRAY(
        SELECT id FROM orders_order WHERE status = 'pending_confirmation' AND (
            call_state = 'new' AND call_due_at > statement_timestamp() + %(skipped_for)s::interval
            OR call_state = 'retry' AND call_due_at > statement_timestamp() + %(longest)s::interval)
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING id
)
SELECT (SELECT count(*) FROM claim) + (SELECT count(*) FROM waiting)
"""


def next_customer(agent: User, first: UUID | None = None) -> UUID | None:
    """The id of the agent's claim on the next customer to call.

    None when no customer is due within their merchant's calling hours whom the agent promised to call or whose merchant
    the agent serves (`assignment`). A customer whom the agent already holds comes first; of several, the claim `first`
    is preferred. An agent who asks twice at the same moment may come to hold two; the other comes with a later press.

    Any number of agents may ask at once. Orders that another agent is just claiming are passed over. An agent who loses
    the race for a customer with two orders asks again.
    """
    values = {"agent": agent.id, "claim": uuid7(), "lease": LEASE, "first": first, **hours.parameters()}
    while True:
        claim_id, phone = postgresql.row(_NEXT, values)
        if claim_id is not None or phone is None:
            return claim_id


def take(order_id: UUID, *, agent: User) -> UUID:
    """Claim a pending order's customer and return the claim's id. Raises HeldByAnother, NothingToCallFor, NotServed."""
    pending = Order.live.filter(status=Status.PENDING)
    with transaction.atomic():
        # The order's row is locked, so that a number which is being corrected is the one that is claimed.
        phone = pending.filter(id=order_id).select_for_update(no_key=True).values_list("phone_e164", flat=True).first()
        if phone is None:
            raise NothingToCallFor(_("This order has already been decided. There is no need to call."))
        waiting = list(pending.filter(phone_e164=phone).values_list("account_id", "callback_agent_id"))
        if all(promised_by != agent.id for _account_id, promised_by in waiting):
            assignment.check_customer(agent, {account_id for account_id, _promised_by in waiting})
        return _claim(phone, agent)


def _claim(phone: str, agent: User) -> UUID:
    row = postgresql.row(_TAKE, {"claim": uuid7(), "phone": phone, "agent": agent.id, "lease": LEASE})
    if row is None:
        name = unturned(callers([phone]).get(phone, "?"))
        raise HeldByAnother(_("%(name)s is calling this customer.") % {"name": name})
    return row[0]


def renew(claim_id: UUID, *, agent: User) -> Held | None:
    """Renew the lease of an agent at work. None if the claim is no longer theirs."""
    row = postgresql.row(_RENEW, {"claim": claim_id, "agent": agent.id, "lease": LEASE})
    return Held(*row) if row else None


def renew_or_read(claim_id: UUID, *, agent: User) -> Held | None:
    """Like `renew`. While the database is read-only, the lease is not renewed and the customer can still be read."""
    try:
        return renew(claim_id, agent=agent)
    except OperationalError:
        return read_held(held(claim_id, agent=agent))


def held(claim_id: UUID, *, agent: User) -> ClaimQuerySet:
    """The claim, as a queryset that is empty unless the agent holds it."""
    return Claim.objects.unexpired().filter(id=claim_id, agent=agent)


def read_held(claim: ClaimQuerySet) -> Held | None:
    """The customer of this claim, read by one statement. None if the queryset is empty."""
    row = claim.annotate(at=Now()).values_list("phone_e164", "at").first()
    return Held(*row) if row else None


def on_customer(phone_e164: str) -> Claim | None:
    """The claim on this customer, with its agent, or None."""
    return Claim.objects.unexpired().filter(phone_e164=phone_e164).select_related("agent").first()


def callers(phones: Iterable[str]) -> dict[str, str]:
    """Phone number → the name of the agent who is calling that customer now. One statement."""
    held = Claim.objects.unexpired().filter(phone_e164__in=set(phones)).select_related("agent")
    return {claim.phone_e164: claim.agent.display_name for claim in held}


def let_go(claim_id: UUID, *, agent: User) -> None:
    """The agent is done with this customer: delete the claim."""
    Claim.objects.filter(id=claim_id, agent=agent).delete()


def release(claim_id: UUID) -> str | None:
    """Release the customer on behalf of a supervisor, and return their phone number. None when nobody held them any
    more."""
    rows = postgresql.rows("DELETE FROM agents_claim WHERE id = %(claim)s RETURNING phone_e164", {"claim": claim_id})
    return rows[0][0] if rows else None


def release_all(agent: User) -> None:
    """Release all customers of an agent who has left. Others make the promised calls once they are overdue."""
    Claim.objects.filter(agent=agent).delete()


def shorten() -> int:
    """Mend what was written while the database's clock was ahead, once it is set back. Returns the number of rows
    changed; those that another transaction has locked are left for the next time.

    A claim then ends after LEASE at the latest. An order that nobody has been called about is due now if it would wait
    longer than a skipped one, and so is one whose next try would come later than any merchant's rules say.
    """
    longest = timedelta(days=hours.AHEAD + 1)
    return postgresql.row(_SHORTEN, {"lease": LEASE, "skipped_for": SKIPPED_FOR, "longest": longest})[0]
