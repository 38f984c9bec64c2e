"""A merchant's change of a pending order (docs/orders.md): a PATCH's body, read by the rules of an import."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import transaction

from codservice.accounts.actor import Actor
from codservice.errors import Errors, Invalid
from orders import editing, importing, serializers
from orders.lifecycle import lock_one
from orders.models import Order
from orders.serializers import Row

_READ_HERE = ("customer_wilaya", "customer_commune", "items")  # all other fields are written as they were read


def amend(
    account_id: UUID, order_id: UUID, body: dict[str, Any], *, actor: Actor, check: Callable[[], None] = lambda: None
) -> Order:
    """Change the fields that `body` names in a pending order of the account; all others stay, the total too.

    Wilaya and commune are read together; the order's own stands in for one that is not sent. `check` is called once the
    order is locked, and refuses by raising. Raises, in this order: Order.DoesNotExist, what `check` raises,
    editing.NotEditable, and Invalid with all problems of the body.
    """
    values, errors = serializers.read_changes(body)
    with transaction.atomic():
        order = lock_one(order_id, account_id)
        check()
        editing.check_pending(order)
        editing.apply(order, _edit(order, values, errors), actor=actor)
    return order


def _edit(order: Order, values: Row, errors: Errors) -> editing.Edit:
    # None removes a second phone here, but leaves a field of an Edit unchanged.
    read = {name: "" if value is None else value for name, value in values.items() if name not in _READ_HERE}
    place, wrong = _changed_place(order, values) if "customer_wilaya" not in errors else ({}, {})
    catalog = importing.named_products(order.account_id, [values])
    if errors := wrong | errors | importing.unknown_products(values, catalog):
        raise Invalid(errors)
    if "items" in values:
        importing.complete_lines(values["items"], catalog)
    return editing.Edit(**{"total_amount": order.total_amount, **read, **place, "lines": values.get("items")})


def _changed_place(order: Order, values: Row) -> tuple[dict[str, Any], Errors]:
    """The columns of another wilaya or commune, and what is wrong with these. The same in other words is no change."""
    sent = {name: values[name] for name in ("customer_wilaya", "customer_commune") if name in values}
    if not sent:
        return {}, {}
    columns: dict[str, Any] = {}
    errors: Errors = {}
    wilaya_code, commune_code = serializers.region_codes(sent, errors, order.wilaya_code, order.commune_code)
    if wilaya_code != order.wilaya_code:
        columns |= {"customer_wilaya": values["customer_wilaya"], "wilaya_code": wilaya_code}
    if (wilaya_code, commune_code) != (order.wilaya_code, order.commune_code):
        text = values.get("customer_commune", order.customer_commune) if commune_code else ""
        columns |= {"customer_commune": text, "commune_code": commune_code}
    return columns, errors
