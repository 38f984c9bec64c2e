"""Tables of which PostgreSQL can tell what a way through them costs: in an empty one all ways cost the same."""

from datetime import timedelta
from itertools import cycle

from django.db import connection
from django.utils import timezone

from codservice.accounts.models import Account
from orders.models import Order, Status
from tests.factories import make_orders


def fill(*accounts: Account) -> None:
    """450 orders of each, over as many hours and in all statuses; a ninth of them goes to wilaya 16."""
    for account in accounts:
        orders = make_orders(account, ({"customer_wilaya": wilaya} for wilaya in ["16", *["31"] * 8] * 50))
        for hours, (order, status) in enumerate(zip(orders, cycle(Status), strict=False)):
            order.status, order.created_at = status, timezone.now() - timedelta(hours=hours)
            order.updated_at = order.created_at + timedelta(minutes=hours % 7 * 20)
        Order.objects.bulk_update(orders, ["status", "created_at", "updated_at"])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")
