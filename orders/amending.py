"""What a merchant changes in a pending order (docs/orders.md): the body of a PATCH, by the rules of an import."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from codservice.accounts.actor import Actor
from codservice.errors import Errors, Invalid
from orders import editing, importing, serializers
from orders.models import Order
from orders.serializers import Row

_READ_HERE = ("customer_wilaya", "customer_commune", "items")  # all else is written as it was read


def amend(
    account_id: UUID,
    order_id: UUID,
    body: dict[str, Any],
    *,
    actor: Actor,
    check: Callable[[Order], None] = lambda order: None,
) -> Order:
    """Change what `body` names in a pending order of the account; what it does not name stays as it is.

    A wilaya and a commune are read together: one that is not sent is the order's own. The total stays unless it is
    sent. `check` is asked of the order as it is locked, and refuses by raising. Raises Order.DoesNotExist, what `check`
    raises, editing.NotEditable, and Invalid with all that is wrong with the body, in this order.
    """
    values, errors = serializers.read_changes(body)
    return editing.edit(
        order_id, lambda order: _edit(order, values, errors), actor=actor, account_id=account_id, check=check
    )


def _edit(order: Order, values: Row, errors: Errors) -> editing.Edit:
    # A second phone that is None shall go; a field of an Edit that is None stays.
    read = {name: "" if value is None else value for name, value in values.items() if name not in _READ_HERE}
    edit = editing.Edit(**{"total_amount": order.total_amount, **read})
    errors = _place(edit, order, values, errors) | errors
    catalog = importing.products(order.account_id, [values])
    errors |= importing.unknown_products(values, catalog)
    if errors:
        raise Invalid(errors)
    if "items" in values:
        importing.complete_lines(values["items"], catalog)
        edit.lines = values["items"]
    return edit


def _place(edit: editing.Edit, order: Order, values: Row, errors: Errors) -> Errors:
    """Set where the order goes, with the texts that were sent; a place that is the same in other words is no change."""
    sent = {name: values[name] for name in ("customer_wilaya", "customer_commune") if name in values}
    if not sent or "customer_wilaya" in errors:
        return {}
    wrong: Errors = {}
    wilaya_code, commune_code = serializers.place(sent, wrong, order.wilaya_code, order.commune_code)
    if wrong:
        return wrong
    if wilaya_code != order.wilaya_code:
        edit.customer_wilaya, edit.wilaya_code = values["customer_wilaya"], wilaya_code
    if (wilaya_code, commune_code) != (order.wilaya_code, order.commune_code):
        edit.customer_commune = values.get("customer_commune", order.customer_commune) if commune_code else ""
        edit.commune_code = commune_code
    return {}
