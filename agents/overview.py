"""What the desk shows beside its one button. Every list is bounded, whatever waits."""

from datetime import datetime, time, timedelta

from django.db import connection
from django.db.models import Case, OuterRef, QuerySet, Subquery, Value, When
from django.db.models.functions import Now
from django.utils import timezone

from agents.desk import OVERDUE
from agents.models import Claim
from codservice.accounts.models import User
from codservice.days import ALGIERS
from orders.models import CallState, Order, Status

MOST_CLAIMS = 30
MOST_PROMISES = 20


def claims(agent: User) -> QuerySet[Claim]:
    """Who holds which customer, the agent's own first; each with the `order_id` and `customer_name` of one order."""
    waiting = Order.objects.filter(phone_e164=OuterRef("phone_e164"), status=Status.PENDING).order_by("created_at")
    held = Claim.objects.filter(expires_at__gt=Now()).select_related("agent")
    held = held.annotate(
        customer_name=Subquery(waiting.values("customer_name")[:1]), order_id=Subquery(waiting.values("id")[:1])
    )
    is_other = Case(When(agent=agent, then=Value(0)), default=Value(1))
    return held.filter(customer_name__isnull=False).order_by(is_other, "claimed_at")[:MOST_CLAIMS]


def promises(agent: User) -> QuerySet[Order]:
    """The orders whose customers the agent promised to call until the end of today, the next one first."""
    tomorrow = datetime.combine(timezone.localdate(timezone=ALGIERS) + timedelta(days=1), time(), ALGIERS)
    mine = Order.objects.filter(status=Status.PENDING, call_state=CallState.CALLBACK, callback_agent=agent)
    return mine.filter(call_due_at__lt=tomorrow).select_related("account").order_by("call_due_at")[:MOST_PROMISES]


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
