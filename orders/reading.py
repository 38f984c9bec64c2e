"""One order with all that belongs to it, as the API shows it: by a statement that is written once.

`Order.objects.with_detail()` gives the same; Django would take longer to build and compile it for each order than
everything else takes.
"""

from typing import Any
from uuid import UUID

import msgspec
from django.db import connection

from orders.models import BELONGING, Order

COLUMNS = [str(field.column) for field in Order._meta.concrete_fields]
_NAMES = [*COLUMNS, *BELONGING]
_READ = f"""
SELECT {", ".join(COLUMNS)}, {", ".join(sql.format(order="o.id") for sql in BELONGING.values())}
FROM orders_order o WHERE id = %s AND account_id = %s
"""  # noqa: S608  (our own columns)


def read(account_id: UUID, order_id: UUID) -> dict[str, Any]:
    """A row of `Order.objects.with_detail().values()`; raises Order.DoesNotExist."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [order_id, account_id])
        found = cursor.fetchone()
    if found is None:
        raise Order.DoesNotExist
    row = dict(zip(_NAMES, found, strict=True))
    return row | {name: [msgspec.json.decode(each) for each in row[name]] for name in BELONGING}
