from django.db import models
from uuid_utils.compat import uuid7

from codservice.accounts.models import Account


class Product(models.Model):
    """One thing that a merchant sells."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="products", db_index=False)
    sku = models.CharField("SKU", max_length=64)
    name = models.CharField(max_length=255)
    price = models.DecimalField(max_digits=10, decimal_places=2, help_text="DZD")
    stock_quantity = models.PositiveIntegerField(default=0)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            # Also the index of the list, which is sorted by sku.
            models.UniqueConstraint(fields=["account", "sku"], name="one_product_per_sku"),
            models.CheckConstraint(condition=models.Q(price__gte=0), name="product_price_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.sku} {self.name}"
