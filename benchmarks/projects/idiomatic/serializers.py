from typing import Any

import phonenumbers
from django.db import transaction
from rest_framework import serializers

from .models import Order, OrderItem, StatusChange
from .wilayas import CODES


class OrderItemSerializer(serializers.ModelSerializer):
    class Meta:
        model = OrderItem
        fields = ["id", "product_name", "sku", "quantity", "unit_price", "attributes"]


class OrderSerializer(serializers.ModelSerializer):
    # Turns the model's constraint into a validator: no two orders of an account have the same `external_id`.
    account = serializers.HiddenField(default=serializers.CurrentUserDefault())
    items = OrderItemSerializer(many=True, allow_empty=False)

    class Meta:
        model = Order
        fields = [
            "id", "account", "external_id", "status", "customer_name", "customer_phone", "phone_e164",
            "customer_phone_2", "phone_2_e164", "customer_address", "customer_wilaya", "wilaya_code",
            "customer_commune", "total_amount", "shipping_fee", "delivery_type", "source", "notes", "items",
            "created_at",
        ]  # fmt: skip
        read_only_fields = ["status", "phone_e164", "phone_2_e164", "wilaya_code", "created_at"]

    def validate(self, order: dict[str, Any]) -> dict[str, Any]:
        order["phone_e164"] = _e164("customer_phone", order["customer_phone"])
        if second := order.get("customer_phone_2"):
            order["phone_2_e164"] = _e164("customer_phone_2", second)
        if not (code := CODES.get(order["customer_wilaya"].strip().casefold())):
            raise serializers.ValidationError({"customer_wilaya": "Must be the code or name of a wilaya."})
        order["wilaya_code"] = code
        return order

    @transaction.atomic
    def create(self, validated: dict[str, Any]) -> Order:
        items, account = validated.pop("items"), validated["account"]
        order = Order.objects.create(**validated)
        OrderItem.objects.bulk_create(
            OrderItem(account=account, order=order, position=position, **item) for position, item in enumerate(items)
        )
        actor = f"API key {self.context['request'].auth.name}"
        StatusChange.objects.create(account=account, order=order, to_status=order.status, actor=actor)
        return order


def _e164(field: str, text: str) -> str:
    try:
        number = phonenumbers.parse(text, "DZ")
    except phonenumbers.NumberParseException:
        number = None
    if number is None or not phonenumbers.is_valid_number(number):
        raise serializers.ValidationError({field: "Must be an Algerian phone number."})
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
