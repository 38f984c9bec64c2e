"""The one statement that overwrites an order's customer.

`orders.retention` runs it for orders that ended long ago, `orders.customer_data` when a customer asks for it.

It overwrites name, phones, address, the wilaya and commune as they were sent, the merchant's notes, and the texts of
calls, reasons and edits; of a reason, what has a button stays. It also overwrites other texts of the shop that may name
the customer: the external id, the lines' attributes ("engraved: Nadia"), and their names where these are not the
catalog's. What figures are made of stays, but for other reasons and these names, which become one: codes of wilaya and
commune, source, amounts, products, quantities, statuses, outcomes of calls, times, and who worked on it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from orders.cancel_reasons import CancelReason, counted_as

NOBODY = "—"  # in place of the name, so that a list still shows something
PARAMETERS: Mapping[str, Any] = {
    "nobody": NOBODY,
    "buttons": [reason.value for reason in CancelReason if reason != CancelReason.OTHER],
}
# Replaces what events tell of a customer.
TOLD: Mapping[str, Any] = {"customer_name": NOBODY, "customer_phone": "", "external_id": None}

# Other data that is kept by customers' numbers: name → a function that forgets a number. When a customer is erased,
# `orders.customer_data` calls them after the orders (even if there were none), outside of any transaction, and once
# more for the account's twin. Rooms that `orders` may not import add theirs when their app is ready.
COPIES: dict[str, Callable[[str], None]] = {}

_BUTTON = "CASE WHEN {counted} = ANY(%(buttons)s) THEN {counted} ELSE '' END"  # of a reason; nobody typed it
# `updated_at` stays, so that clients that ask for changes need not read all old orders again.
_OVERWRITE = """
WITH old AS ({orders}), notes AS (
    UPDATE orders_callnote SET note = '' WHERE order_id = ANY(ARRAY(SELECT id FROM old)) AND note <> ''
), reasons AS (
    UPDATE orders_statuschange SET reason = {reason}
    WHERE order_id = ANY(ARRAY(SELECT id FROM old)) AND reason <> '' AND reason <> ALL(%(buttons)s)
), edits AS (
    UPDATE orders_orderedit SET old = '', new = ''
    WHERE order_id = ANY(ARRAY(SELECT id FROM old)) AND field NOT LIKE 'items.%%.quantity'
), items AS (
    UPDATE orders_orderitem i SET attributes = '{{}}',
        product_name = coalesce((SELECT name FROM inventory_product p WHERE p.id = i.product_id), %(nobody)s)
    WHERE order_id = ANY(ARRAY(SELECT id FROM old))
)
UPDATE orders_order SET customer_name = %(nobody)s, customer_phone = '', phone_e164 = '',
    customer_phone_2 = NULL, phone_2_e164 = NULL, customer_address = '', customer_wilaya = '', customer_commune = '',
    notes = '', cancel_reason = {cancel_reason}, external_id = NULL,
    version = version + 1, anonymised_at = now()
WHERE id = ANY(ARRAY(SELECT id FROM old))
"""


def statement(orders: str) -> str:
    """The statement for the orders whose `id` the query `orders` selects, with PARAMETERS among its parameters.

    An earlier statement of the transaction has locked them, so that this one sees all that belongs to them. An order is
    anonymised with all of it, or not at all.
    """
    kept = {name: _BUTTON.format(counted=counted_as(name)) for name in ("reason", "cancel_reason")}
    return _OVERWRITE.format(orders=orders, **kept)
