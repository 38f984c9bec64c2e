"""What the desk shows beside its one button. Every list is bounded, whatever waits."""

from datetime import datetime

from django.db import connection
from django.db.models import Case, OuterRef, QuerySet, Subquery, Value, When

from agents.desk.claims import OVERDUE
from agents.models import Claim
from codservice import days
from codservice.accounts.models import User
from orders.models import CallState, Order, Status

COUNTED_TO = 1000  # the counters go no further: a table is never counted as a whole
MOST_CLAIMS = 30
MOST_PROMISES = 20


def counters(agent: User) -> dict[str, int]:
    """What waits: `due` now, `later` today, `mine` (the agent's promises), for `review`; each up to COUNTED_TO."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTERS, {"agent": agent.id, "end_of_day": days.end_of(days.today()), "most": COUNTED_TO})
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


def held(agent: User) -> QuerySet[Claim]:
    """Who holds which customer, the agent's own first; each with the `order_id` and `customer_name` of one order."""
    waiting = Order.objects.filter(phone_e164=OuterRef("phone_e164"), status=Status.PENDING).order_by("created_at")
    claims = Claim.objects.live().select_related("agent")
    claims = claims.annotate(
        customer_name=Subquery(waiting.values("customer_name")[:1]), order_id=Subquery(waiting.values("id")[:1])
    )
    is_other = Case(When(agent=agent, then=Value(0)), default=Value(1))
    return claims.filter(customer_name__isnull=False).order_by(is_other, "claimed_at")[:MOST_CLAIMS]


def promises(agent: User) -> QuerySet[Order]:
    """The orders whose customers the agent promised to call until the end of today, the next one first."""
    mine = Order.objects.filter(status=Status.PENDING, call_state=CallState.CALLBACK, callback_agent=agent)
    today = mine.filter(call_due_at__lt=days.end_of(days.today()))
    return today.select_related("account").order_by("call_due_at")[:MOST_PROMISES]


# One look at the head of each queue: the statuses and states are written out for the partial indexes.
_NEXT_DUE = """
SELECT least(
    (SELECT min(call_due_at) FROM orders_order
        WHERE status = 'pending_confirmation' AND call_state = 'new' AND call_due_at > now()),
    (SELECT min(call_due_at) FROM orders_order
        WHERE status = 'pending_confirmation' AND call_state = 'retry' AND call_due_at > now()),
    (SELECT min(call_due_at) FROM orders_order
        WHERE status = 'pending_confirmation' AND call_state = 'callback' AND callback_agent_id = %(agent)s
            AND call_due_at > now()),
    (SELECT min(call_due_at) FROM orders_order
        WHERE status = 'pending_confirmation' AND call_state = 'callback'
            AND call_due_at > now() - %(overdue)s::interval) + %(overdue)s::interval
)
"""


def next_due(agent: User) -> datetime | None:
    """When the agent will be served somebody again, if nobody is due now; None when nothing is planned."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_DUE, {"agent": agent.id, "overdue": OVERDUE})
        return cursor.fetchone()[0]
