"""The deliveries about orders, as the OpenAPI description has them."""

from orders.lifecycle import OrderEvent
from webhooks.models import Event
from webhooks.openapi import delivery

CONFIRMED = delivery(Event.Kind.ORDER_CONFIRMED.value, "An order is confirmed", OrderEvent)
CANCELLED = delivery(Event.Kind.ORDER_CANCELLED.value, "An order is canceled", OrderEvent)
