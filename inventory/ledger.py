"""Checks that the ledger agrees with the stock: each product's last movement must end at its quantity."""

from django.db import transaction

from codservice import postgresql

_SHOWN = 5

# One snapshot, and one look at an index for each product. A product without movements has nothing to disagree with.
_WRONG = """
SELECT p.sku, a.name, p.stock_quantity, last.new_quantity, count(*) OVER ()
FROM inventory_product p
JOIN accounts_account a ON a.id = p.account_id
CROSS JOIN LATERAL (
    SELECT new_quantity FROM inventory_stockmovement m WHERE m.product_id = p.id ORDER BY m.id DESC LIMIT 1
) AS last
WHERE last.new_quantity <> p.stock_quantity
LIMIT %s
"""


def problem() -> str:
    """What is wrong, for `check_service`, with the first few products; empty if nothing is."""
    with transaction.atomic():
        postgresql.take_time()
        rows = postgresql.rows(_WRONG, [_SHOWN])
    if not rows:
        return ""
    shown = ", ".join(
        f"{sku} of {account} ({stock}, last movement to {moved})" for sku, account, stock, moved, _ in rows
    )
    return (
        f"stock differs from its last movement (products: {rows[0][-1]}): {shown}. Something other than the service has"
        " changed the table. Ask the merchants for the true numbers, and have them set on the products' pages or by"
        " PUT /api/v1/inventory, even where the stock is right. (`import_products` leaves what is right as it is.)"
    )
