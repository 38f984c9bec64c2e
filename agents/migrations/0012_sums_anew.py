"""What was summed up by other rules is summed up anew. Until then it is read from the rows, or is 503 if it is much.

A promise no longer counts as broken whose order was decided before it was late, and a reason with one of French's
spaces before its colon is no longer another one. The version before, which may go on for some minutes, sums up days by
its own rules again: `recount_orders` afterwards corrects these.
"""

from django.db import migrations

ANEW = """
DELETE FROM agents_callday;
UPDATE orders_summedup SET until = NULL WHERE account_id IN (
    SELECT account_id FROM orders_dayfigure
    WHERE dimension = 'reason' AND key <> btrim(key, E' \\t\\r\\n\\u00a0\\u202f')
);
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0011_holidays_from_file"), ("orders", "0025_summed_through")]

    operations = [migrations.RunSQL(ANEW, migrations.RunSQL.noop)]
