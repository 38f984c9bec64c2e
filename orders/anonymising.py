"""Overwriting an order's customer: the one statement for it, whoever asks: `orders.retention` of orders that ended long
ago, `orders.customer_data` when the customer does.

Overwritten are name, phones, address, the wilaya and commune as they were sent, the merchant's notes, the texts of
calls, reasons and edits, and what else the shop wrote and may name the customer: its own number of the order, the
lines' attributes ("engraved: Nadia") and their names, where those are not the catalog's. What figures are made of
stays: codes of wilaya and commune, amounts, products and quantities, statuses, outcomes of calls, times, who worked
on it.
"""

from collections.abc import Callable, Mapping
from typing import Any

NOBODY = "—"  # in place of the name, so that a list still shows something
# In place of what events tell of a customer.
TOLD: Mapping[str, Any] = {"customer_name": NOBODY, "customer_phone": "", "external_id": None}

# What else knows customers by their numbers: name → forget this one, when they are erased. `orders.customer_data` asks
# it behind the orders, also where there were none, outside of any transaction, and again for the account's twin. Rooms
# that orders do not know add theirs when they are ready.
COPIES: dict[str, Callable[[str], None]] = {}

# `updated_at` stays: clients that ask what has changed need not read all old orders again.
_OVERWRITE = """
WITH old AS ({orders}), notes AS (
    UPDATE orders_callnote SET note = '' WHERE order_id = ANY(ARRAY(SELECT id FROM old)) AND note <> ''
), reasons AS (
    UPDATE orders_statuschange SET reason = '' WHERE order_id = ANY(ARRAY(SELECT id FROM old)) AND reason <> ''
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
    notes = '', cancel_reason = '', external_id = NULL,
    version = version + 1, anonymised_at = now()
WHERE id = ANY(ARRAY(SELECT id FROM old))
"""


def statement(orders: str) -> str:
    """The statement for the orders that `orders` selects by `id` and locks; NOBODY is its parameter `nobody`.

    An order is anonymised with all that belongs to it, or not at all.
    """
    return _OVERWRITE.format(orders=orders)
