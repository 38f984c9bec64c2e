"""What the console's list says of orders beyond their own fields: how the last call ended."""

from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject

from orders.models import CallNote, Order

Outcome = CallNote.Outcome
TOLD = [*CallNote.CALLS, Outcome.HANDED_OVER.value]  # skips and remarks say nothing about the customer


def with_last_call(orders: QuerySet[Order]) -> QuerySet[Order]:
    """Annotate each order with `last_call`, the outcome and time of its last call, or None."""
    calls = CallNote.objects.filter(order_id=OuterRef("pk"), outcome__in=TOLD).order_by("-created_at", "-id")
    return orders.annotate(last_call=Subquery(calls.values(json=JSONObject(outcome="outcome", at="created_at"))[:1]))


def call_in_words(call: dict[str, str] | None) -> dict[str, Any] | None:
    """A `last_call` with its outcome in words and its time parsed."""
    return call and {"outcome": Outcome(call["outcome"]).label, "at": datetime.fromisoformat(call["at"])}
