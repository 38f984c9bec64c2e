"""A shop's side with a client that openapi-python-client has generated; docs/clients.md says how.

python3 client.py 1042     sends the order of this number, finds it in the list, and cancels it; needs URL and KEY
"""

import os
import sys

from codservice_client import AuthenticatedClient
from codservice_client.api.orders import orders_cancel, orders_create, orders_list
from codservice_client.models import (
    Error,
    OrderCancelRequest,
    OrderImportRequest,
    OrderItemImportRequest,
    ValidationFailed,
)

(number,) = sys.argv[1:]
client = AuthenticatedClient(base_url=os.environ["URL"], token=os.environ["KEY"], timeout=10)


def done(answer):
    """The answer, unless the service has refused, or a proxy before it has answered."""
    if answer is None:
        sys.exit("No answer that the description knows; send it again with the same key.")
    if isinstance(answer, ValidationFailed):
        sys.exit(f"{answer.message} {answer.errors.to_dict() if answer.errors else ''}")
    if isinstance(answer, Error):
        sys.exit(answer.message)
    return answer


order = OrderImportRequest(
    external_id=number,
    customer_name="Amine Benali",
    customer_phone="0550 12 34 56",
    customer_address="12 rue Didouche Mourad",
    customer_wilaya="Alger",
    customer_commune="Bab Ezzouar",
    total_amount="4900.00",  # as text: a float may differ from what you mean
    items=[OrderItemImportRequest(product_name="Robe kabyle", quantity=1, unit_price="4900.00")],
)
# The same key for every attempt: however often it arrives, the order is imported once.
imported = done(orders_create.sync(client=client, body=order, idempotency_key="order-" + number))
print("imported", imported.external_id, imported.status)

listed = done(orders_list.sync(client=client, external_id=number))
print("listed", len(listed.data), listed.data[0].id == imported.id)

canceled = done(orders_cancel.sync(imported.id, client=client, body=OrderCancelRequest(reason="Out of stock")))
print("canceled", canceled.status, canceled.cancel_reason)
