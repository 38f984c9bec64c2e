"""The event about stock as the OpenAPI description has it."""

from inventory.stock import StockEvent
from webhooks.models import Event
from webhooks.openapi import delivery

STOCK = delivery(Event.Kind.INVENTORY_UPDATED.value, "A product's stock is set", StockEvent)
