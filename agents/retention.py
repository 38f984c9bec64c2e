"""Deletes old claims. An expired claim holds a customer's phone number, and nobody needs it the next day."""

from datetime import timedelta

from codservice import postgresql
from codservice.retention import old_rows

forget_claims = old_rows("agents_claim", "claims", timedelta(days=1), at="expires_at")

# The claim stays while another merchant's order waits for a call to the same customer.
_FORGET_CUSTOMER = """
DELETE FROM agents_claim c WHERE phone_e164 = %s AND NOT EXISTS (
    SELECT FROM orders_order o WHERE o.phone_e164 = c.phone_e164 AND o.status = 'pending_confirmation'
      AND o.call_state <> 'test')
"""


def forget_customer(phone: str) -> None:
    """Delete the claim on a customer whom nobody needs to call any more. Used by `orders.customer_data`."""
    postgresql.execute(_FORGET_CUSTOMER, [phone])
