"""What orders wait for, and their statuses."""

from datetime import timedelta

from django.db.models.functions import Now

from codservice.accounts.models import User
from orders.models import CallState, Order


def waits(order: Order, state: CallState, minutes: int = 0, agent: User | None = None) -> Order:
    """Let an order wait for `state`, due `minutes` from now."""
    due_at = Now() + timedelta(minutes=minutes)
    Order.objects.filter(id=order.id).update(call_state=state, call_due_at=due_at, callback_agent=agent)
    return order


def statuses() -> list[str]:
    """The statuses of all orders, the oldest first."""
    return list(Order.objects.order_by("id").values_list("status", flat=True))
