"""Orders that are older than the triggers of `count_orders` are counted too."""

from django.db import migrations

# One snapshot, and nothing is locked: the triggers write their counts in the transactions that write the orders.
COUNT = """
INSERT INTO orders_ordercount (account_id, status, delta)
SELECT account_id, status, COALESCE(there.n, 0) - COALESCE(counted.n, 0)
FROM (SELECT account_id, status, sum(delta) AS n FROM orders_ordercount GROUP BY account_id, status) AS counted
FULL JOIN (SELECT account_id, status, count(*) AS n FROM orders_order GROUP BY account_id, status) AS there
    USING (account_id, status)
WHERE COALESCE(there.n, 0) <> COALESCE(counted.n, 0)
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0007_orders_to_anonymise")]

    operations = [migrations.RunSQL(COUNT, migrations.RunSQL.noop)]
