"""Orders as they go out (contract, section 5): the functions make the bodies, the classes describe them for OpenAPI."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta, Struct
from rest_framework import serializers

from codservice import wire
from codservice.api.fields import Amount
from codservice.api.paging import PageMeta
from codservice.wire import Id, Moment
from orders import regions
from orders.models import CallNote, Order, OrderItem, Status


def imported_body(order: Order) -> dict[str, Any]:
    """The answer to an import; `order` is fresh from `lifecycle.import_order`."""
    return _order_body(order, [_item_body(item) for item in order.imported_items])


def detail_body(order: Order) -> dict[str, Any]:
    """An order with all that belongs to it; `order` comes from `Order.objects.with_detail()`."""
    body = _order_body(
        order,
        [
            {"id": item["id"], "product_id": item["product_id"], "product_name": item["product_name"],
             "sku": item["sku"], "quantity": item["quantity"], "unit_price": Decimal(item["unit_price"]),
             "attributes": item["attributes"]}
            for item in order.detail_items
        ],
    )  # fmt: skip
    customer = body["customer"]
    customer["wilaya_name"] = regions.wilaya(order.wilaya_code).name
    customer["commune_name"] = regions.commune(order.commune_code).name if order.commune_code else None
    return body | {
        "updated_at": order.updated_at,
        "confirmed_at": order.confirmed_at,
        "canceled_at": order.canceled_at,
        "anonymised_at": order.anonymised_at,
        "cancel_reason": order.cancel_reason,
        "call_notes": [
            {"id": note["id"], "outcome": note["outcome"], "note": note["note"], "agent": note["agent"],
             "created_at": _time(note["created_at"]), "callback_at": _time(note["callback_at"])}
            for note in order.detail_notes
        ],
        "status_history": [
            {"from": change["from_status"], "to": change["to_status"], "at": _time(change["at"]),
             "actor": change["actor"], "reason": change["reason"]}
            for change in order.detail_history
        ],
        "edits": [
            {"field": edit["field"], "old": edit["old"], "new": edit["new"], "at": _time(edit["at"]),
             "actor": edit["actor"]}
            for edit in order.detail_edits
        ],
    }  # fmt: skip


def list_body(order: Order) -> "ListedOrderBody":
    customer = ListedCustomerBody(order.customer_name, order.customer_phone, order.wilaya_code)
    return ListedOrderBody(order.id, order.status, customer, order.total_amount, order.created_at)


def _order_body(order: Order, items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": order.id,
        "external_id": order.external_id,
        "status": order.status,
        "customer": {
            "name": order.customer_name,
            "phone": order.customer_phone,
            "address": order.customer_address,
            "wilaya": order.wilaya_code,
            "commune": order.commune_code,
        },
        "total_amount": order.total_amount,
        "shipping_fee": order.shipping_fee,
        "notes": order.notes,
        "items": items,
        "created_at": order.created_at,
    }


def _item_body(item: OrderItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "product_id": item.product_id,
        "product_name": item.product_name,
        "sku": item.sku,
        "quantity": item.quantity,
        "unit_price": item.unit_price,
        "attributes": item.attributes,
    }


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


class OrderItemBody(serializers.Serializer):
    id = serializers.UUIDField()
    product_id = serializers.UUIDField(allow_null=True)
    product_name = serializers.CharField()
    sku = serializers.CharField(allow_null=True)
    quantity = serializers.IntegerField()
    unit_price = Amount()
    attributes = serializers.DictField(child=serializers.CharField())


class CustomerBody(serializers.Serializer):
    name = serializers.CharField()
    phone = serializers.CharField()
    address = serializers.CharField()
    wilaya = serializers.CharField(help_text="Two-digit code.")
    commune = serializers.CharField(allow_null=True, help_text="Four-digit ONS code; null when none was sent.")


class OrderBody(serializers.Serializer):
    id = serializers.UUIDField()
    external_id = serializers.CharField(allow_null=True)
    status = serializers.ChoiceField(Status.choices)
    customer = CustomerBody()
    total_amount = Amount(help_text="DZD")
    shipping_fee = Amount(help_text="DZD")
    notes = serializers.CharField()
    items = OrderItemBody(many=True)
    created_at = serializers.DateTimeField()


class CallNoteBody(serializers.Serializer):
    id = serializers.UUIDField()
    outcome = serializers.ChoiceField(CallNote.Outcome.choices)
    note = serializers.CharField()
    agent = serializers.CharField(help_text="The agent's display name.")
    created_at = serializers.DateTimeField()
    callback_at = serializers.DateTimeField(allow_null=True)


class StatusChangeBody(serializers.Serializer):
    to = serializers.ChoiceField(Status.choices)
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    reason = serializers.CharField()

    def get_fields(self) -> dict[str, serializers.Field]:
        # `from` is a word of Python's and cannot be an attribute.
        return {"from": serializers.ChoiceField(Status.choices, allow_null=True), **super().get_fields()}


class OrderEditBody(serializers.Serializer):
    field = serializers.CharField(help_text="As in an import, such as `customer_address` or `items.0.quantity`.")
    old = serializers.CharField()
    new = serializers.CharField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()


class CustomerDetailBody(CustomerBody):
    wilaya_name = serializers.CharField()
    commune_name = serializers.CharField(allow_null=True)


class OrderDetailBody(OrderBody):
    customer = CustomerDetailBody()
    updated_at = serializers.DateTimeField()
    confirmed_at = serializers.DateTimeField(allow_null=True)
    canceled_at = serializers.DateTimeField(allow_null=True)
    anonymised_at = serializers.DateTimeField(
        allow_null=True, help_text="When the customer of an order that ended long ago was overwritten."
    )
    cancel_reason = serializers.CharField()
    call_notes = CallNoteBody(many=True)
    status_history = StatusChangeBody(many=True)
    edits = OrderEditBody(many=True, help_text="What an agent changed before confirming, after asking the customer.")


class ListedCustomerBody(Struct):
    name: str
    phone: str
    wilaya: Annotated[str, Meta(description="Two-digit code.")]


class ListedOrderBody(Struct):
    id: Id
    status: Annotated[str, Meta(extra_json_schema={"enum": Status.values})]
    customer: ListedCustomerBody
    total_amount: wire.Amount
    created_at: Moment


class OrderListBody(Struct):
    data: list[ListedOrderBody]
    meta: PageMeta


class OrderEvent(Struct):
    """What an event of an order tells: the `data` of `order.confirmed` and `order.cancelled`."""

    id: Id
    status: Annotated[str, Meta(extra_json_schema={"enum": Status.values})]
    customer_name: str
    customer_phone: str
    total_amount: wire.Amount
    updated_at: Moment
