"""The deliveries about products for the OpenAPI description, each with an example."""

from uuid import UUID

from inventory.stock import ProductEvent, StockEvent
from webhooks.models import Event
from webhooks.openapi import delivery

_ID = UUID("01954f6e-3c4d-7d5e-8f60-123456789abc")

PRODUCT = delivery(
    Event.Kind.PRODUCT_UPDATED,
    "A product is created or changed",
    ProductEvent(_ID, "Robe kabyle", "ROBE-01", 12, "4500.00", True),
)
STOCK = delivery(Event.Kind.INVENTORY_UPDATED, "A product's stock is set", StockEvent(_ID, "ROBE-01", 15, 12))
