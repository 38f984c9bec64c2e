"""What is open in another database of the same server holds no feed back.

Transactions are numbered over all databases of a server, and a snapshot lists what is open in any of them. Each holds a
lock on its own number: one whose holder is known to be at home elsewhere does not count. One that is not found counts,
for it may just have begun.

It is STABLE: the snapshot must be that of the statement that reads the events.
"""

from django.db import migrations

HORIZON = """
CREATE FUNCTION webhooks_feed_horizon() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT webhooks_feed_base() + least(
        pg_snapshot_xmax(snapshot), pg_current_xact_id_if_assigned(),
        (SELECT min(number) FROM pg_snapshot_xip(snapshot) AS number WHERE NOT EXISTS (
            SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND transactionid = number::xid
              AND datname <> current_database()
        ))
    )::text::bigint
    FROM pg_current_snapshot() AS snapshot
$$;
"""
NO_HORIZON = "DROP FUNCTION webhooks_feed_horizon();"


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0008_mend_webhooks")]

    operations = [migrations.RunSQL(HORIZON, NO_HORIZON)]
