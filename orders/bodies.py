"""Orders as they go out (docs/orders.md). One class for each body gives both its bytes and its API description.

A body is filled from an order's row by the names of its fields, so that each field is defined only in its class.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from codservice.api.paging import ListMeta
from codservice.wire import Amount, Id, Moment, converter
from orders import regions
from orders.models import CallNote, DeliveryType, Status

OrderStatus = Annotated[Status, Meta(extra_json_schema={"type": "string", "enum": Status.values})]
_DeliveryType = Annotated[
    DeliveryType,
    Meta(
        description="`desk`: to a courier's stop desk.",
        extra_json_schema={"type": "string", "enum": DeliveryType.values},
    ),
]
_Outcome = Annotated[CallNote.Outcome, Meta(extra_json_schema={"type": "string", "enum": CallNote.Outcome.values})]
WilayaCode = Annotated[str, Meta(description="Two-digit code.")]


class OrderItemBody(Struct):
    id: Id
    product_id: Id | None
    product_name: str
    sku: str | None
    quantity: int
    unit_price: Amount
    attributes: dict[str, str]


class CustomerBody(Struct):
    name: str
    phone: str
    phone_2: Annotated[str | None, Meta(description="A second number; null if none was sent.")]
    address: str
    wilaya: WilayaCode
    commune: Annotated[str | None, Meta(description="Four-digit ONS code; null if none was sent.")]


class OrderBody(Struct):
    id: Id
    external_id: str | None
    status: OrderStatus
    customer: CustomerBody
    total_amount: Amount
    shipping_fee: Amount
    delivery_type: _DeliveryType
    source: Annotated[str | None, Meta(description="Where the order came from, as it was sent.")]
    notes: str
    items: list[OrderItemBody]
    created_at: Moment


class CallNoteBody(Struct):
    id: Id
    outcome: _Outcome
    note: str
    agent: Annotated[str, Meta(description="The agent's display name.")]
    created_at: Moment
    callback_at: Moment | None


class StatusChangeBody(Struct, rename={"from_status": "from", "to_status": "to"}):
    from_status: OrderStatus | None
    to_status: OrderStatus
    at: Moment
    actor: str
    reason: str


class OrderEditBody(Struct):
    field: Annotated[
        str,
        Meta(
            description="The field as in an import, such as `customer_address` or `items.0.quantity`. Besides,"
            " `wilaya_code` and `commune_code` are the place that the texts name."
        ),
    ]
    old: str
    new: str
    at: Moment
    actor: str


class CustomerDetailBody(CustomerBody):
    wilaya_name: str
    commune_name: str | None


class OrderDetailBody(OrderBody):
    customer: CustomerDetailBody
    updated_at: Moment
    confirmed_at: Moment | None
    canceled_at: Moment | None
    anonymised_at: Annotated[
        Moment | None, Meta(description="When the customer was anonymised: long after the order ended, or on request.")
    ]
    cancel_reason: str
    call_notes: list[CallNoteBody]
    status_history: list[StatusChangeBody]
    edits: Annotated[
        list[OrderEditBody],
        Meta(
            description="What was changed before confirmation, by an agent who asked the customer or by the merchant."
        ),
    ]


class ListedCustomerBody(Struct):
    name: str
    phone: str
    wilaya: WilayaCode


class ListedOrderBody(Struct):
    id: Id
    status: OrderStatus
    customer: ListedCustomerBody
    total_amount: Amount
    created_at: Moment


class OrderListBody(Struct):
    data: list[ListedOrderBody]
    meta: ListMeta


# The customer's fields in a body, and the row's columns they come from.
_CUSTOMER = {
    "name": "customer_name",
    "phone": "customer_phone",
    "phone_2": "customer_phone_2",
    "address": "customer_address",
    "wilaya": "wilaya_code",
    "commune": "commune_code",
}
# The columns that a listed order needs, or may be sorted by.
LISTED = [
    "updated_at",
    *(name for name in ListedOrderBody.__struct_fields__ if name != "customer"),
    *(_CUSTOMER[name] for name in ListedCustomerBody.__struct_fields__),
]


_imported, _detail, _listed = converter(OrderBody), converter(OrderDetailBody), converter(ListedOrderBody)


def imported(row: Mapping[str, Any]) -> OrderBody:
    """The answer to an import, from the row that was written and its `items`."""
    return _imported({**row, "customer": _customer(row)})


def detail(row: Mapping[str, Any]) -> OrderDetailBody:
    """An order with all that belongs to it, from a row of `reading.with_detail(…).values()` or `reading.read`."""
    commune = row["commune_code"]
    names = {
        "wilaya_name": regions.wilaya(row["wilaya_code"]).name,
        "commune_name": regions.commune(commune).name if commune else None,
    }
    return _detail(
        {
            **row,
            "customer": _customer(row) | names,
            "items": row["detail_items"],
            "call_notes": row["detail_notes"],
            "status_history": [
                {"from": change["from_status"], "to": change["to_status"], **change} for change in row["detail_history"]
            ],
            "edits": row["detail_edits"],
        }
    )


def listed(row: Mapping[str, Any]) -> ListedOrderBody:
    """An order of the list, from a row with the columns LISTED."""
    return _listed({**row, "customer": _customer(row)})


def _customer(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[column] for name, column in _CUSTOMER.items() if column in row}
