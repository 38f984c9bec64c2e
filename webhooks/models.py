from django.db import models
from uuid_utils.compat import uuid7

from codservice.accounts.models import Account


class Event(models.Model):
    """Something that happened and that webhooks are told of. Its body's bytes are fixed when it happens."""

    class Kind(models.TextChoices):
        ORDER_CONFIRMED = "order.confirmed"
        ORDER_CANCELLED = "order.cancelled"  # two l, as the customer spells it; the order's status has one
        INVENTORY_UPDATED = "inventory.updated"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=32, choices=Kind)
    body = models.TextField(help_text="The JSON that is sent, to the byte.")
    created_at = models.DateTimeField(help_text="The time of the change.")

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
