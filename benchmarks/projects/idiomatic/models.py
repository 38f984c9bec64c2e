import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone


class Account(models.Model):
    """A merchant, and the `user` of a request."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    is_authenticated = True

    def __str__(self) -> str:
        return self.name


class ApiKey(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Status(models.TextChoices):
    PENDING = "pending_confirmation"
    CONFIRMED = "confirmed"
    CANCELED = "canceled"
    SHIPPED = "shipped"
    DELIVERED = "delivered"
    RETURNED = "returned"


class Order(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="orders")
    external_id = models.CharField(max_length=64, null=True, blank=True, default=None)
    status = models.CharField(max_length=20, choices=Status, default=Status.PENDING)
    version = models.PositiveIntegerField(default=1)

    customer_name = models.CharField(max_length=255)
    customer_phone = models.CharField(max_length=40)
    phone_e164 = models.CharField(max_length=16, db_index=True)
    customer_phone_2 = models.CharField(max_length=40, null=True, blank=True)
    phone_2_e164 = models.CharField(max_length=16, null=True, blank=True)
    customer_address = models.CharField(max_length=500)
    customer_wilaya = models.CharField(max_length=255)
    wilaya_code = models.CharField(max_length=2)
    customer_commune = models.CharField(max_length=255, blank=True)
    commune_code = models.CharField(max_length=4, null=True, blank=True)

    total_amount = models.DecimalField(max_digits=10, decimal_places=2)
    shipping_fee = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    delivery_type = models.CharField(max_length=10, choices=[("home", "Home"), ("desk", "Desk")], default="home")
    source = models.CharField(max_length=64, null=True, blank=True)
    notes = models.CharField(max_length=2000, blank=True)
    cancel_reason = models.CharField(max_length=500, blank=True)

    call_state = models.CharField(max_length=10, default="new")
    call_due_at = models.DateTimeField(default=timezone.now)
    call_attempts = models.PositiveSmallIntegerField(default=0)
    callback_agent = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    confirmed_at = models.DateTimeField(null=True, blank=True)
    canceled_at = models.DateTimeField(null=True, blank=True)
    anonymised_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "external_id"], name="one_order_per_external_id")]
        indexes = [
            models.Index(fields=["account", "-created_at"], name="order_list"),
            models.Index(fields=["account", "status", "-created_at"], name="order_list_by_status"),
            models.Index(fields=["account", "-updated_at"], name="order_list_by_update"),
            models.Index(fields=["status", "call_state", "call_due_at"], name="order_to_call"),
        ]

    def __str__(self) -> str:
        return f"{self.customer_name} {self.id}"


class OrderItem(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+")
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveSmallIntegerField()
    product_name = models.CharField(max_length=255)
    sku = models.CharField(max_length=64, null=True, blank=True)
    quantity = models.PositiveIntegerField()
    unit_price = models.DecimalField(max_digits=10, decimal_places=2)
    attributes = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["position"]

    def __str__(self) -> str:
        return f"{self.quantity} × {self.product_name}"


class StatusChange(models.Model):
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+")
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="status_changes")
    from_status = models.CharField(max_length=20, choices=Status, null=True)
    to_status = models.CharField(max_length=20, choices=Status)
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=255)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["at"]

    def __str__(self) -> str:
        return f"{self.from_status} → {self.to_status}"
