from collections.abc import Iterable
from uuid import UUID

from django.db import models
from django.db.models import Count, Func, Q, Sum
from uuid_utils.compat import uuid7

from codservice.accounts.models import Account, User, account_column

MAX_QUANTITY = 1_000_000_000  # docs/limits.md
MAX_LINK, MAX_SCRIPT = 2048, 2000  # characters of a product's `image_url` and `script`


# Arrays, so that any number of names is the same prepared statement. Each half has its index: for an OR, or when ids
# and account are one condition, PostgreSQL reads all of the account's products before it has analyzed the table.
_NAMED = """
SELECT id, sku, name, price FROM inventory_product WHERE account_id = %(account)s AND sku = ANY(%(skus)s::text[])
UNION ALL
SELECT id, sku, name, price FROM (SELECT * FROM inventory_product WHERE id = ANY(%(ids)s::uuid[]) OFFSET 0) AS theirs
WHERE account_id = %(account)s
"""


class ProductQuerySet(models.QuerySet["Product"]):
    def state(self) -> tuple[int, str]:
        """The number of products, and a text that differs after any change of any of them.

        PostgreSQL marks each version of a row with the number (`xmin`) of its transaction, so two changes at the same
        time, or a change that is reverted, show too. A counter for each account would make all changes of stock wait
        for each other. This sum costs a look at each row, about a tenth of sending it, and only those who request the
        list pay for it.
        """
        version = Func(
            template="hash_record_extended(ROW(inventory_product.id, inventory_product.xmin), 0)",
            output_field=models.BigIntegerField(),
        )
        found = self.order_by().aggregate(count=Count("*"), sum=Sum(version, default=0))
        return found["count"], f"{found['count']}.{found['sum']}"

    def named(self, account_id: UUID, *, skus: Iterable[str] = (), ids: Iterable[UUID] = ()) -> list["Product"]:
        """SKU, name and price of the account's products with these SKUs or ids. No names, no statement."""
        names = {"skus": list(skus), "ids": list(ids)}
        return list(self.raw(_NAMED, {"account": account_id} | names)) if any(names.values()) else []


class Product(models.Model):
    """A thing that a merchant sells. Only `inventory.stock` changes its stock, and only `catalog` its record.

    The SKU is its name in the merchant's systems. It never changes: an answer that lists all products continues by SKU
    where its last page ended.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="products", db_index=False)
    sku = models.CharField("SKU", max_length=64)
    name = models.CharField(max_length=255)
    price = models.DecimalField(max_digits=10, decimal_places=2, help_text="DZD")
    stock_quantity = models.PositiveIntegerField(default=0)
    is_active = models.BooleanField(default=True)
    image_url = models.CharField(
        max_length=MAX_LINK, blank=True, default="", db_default="", help_text="Of its picture."
    )
    script = models.CharField(
        max_length=MAX_SCRIPT, blank=True, default="", db_default="", help_text="What agents say of it on the phone."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    # Deliberately not indexed: it changes with every change of stock, and PostgreSQL updates no index if none has a
    # changed column. `updated_from` reads the account's products by SKU instead.
    updated_at = models.DateTimeField(auto_now=True)

    objects = ProductQuerySet.as_manager()

    class Meta:
        constraints = [
            # Also the index of the list, which is sorted by SKU.
            models.UniqueConstraint(fields=["account", "sku"], name="one_product_per_sku"),
            models.CheckConstraint(condition=Q(price__gte=0), name="product_price_not_negative"),
            models.CheckConstraint(
                condition=Q(stock_quantity__gte=0, stock_quantity__lte=MAX_QUANTITY), name="product_stock_in_bounds"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.sku} {self.name}"


class StockMovement(models.Model):
    """A change of a product's stock, which is never changed itself.

    A product's movements, in the order of their ids, are a chain: each starts at the quantity at which the one before
    ended. (Ids are given out while the product's row is locked.)
    """

    id = models.BigAutoField(primary_key=True)
    account = account_column()
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="movements", db_index=False)
    old_quantity = models.PositiveIntegerField()
    new_quantity = models.PositiveIntegerField()
    at = models.DateTimeField()
    actor = models.CharField(max_length=255, help_text="Who made it, as people read it.")
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False)

    class Meta:
        indexes = [
            # A product's chain, and its last movement, with which its stock is compared.
            models.Index(fields=["product", "id"], name="stock_movement_chain"),
        ]
