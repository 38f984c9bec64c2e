"""Each event gets its place in the feed: the number of its transaction, counted from the start of the server.

Numbers of transactions are a server's own. A backup that is restored, or a replica that takes over, numbers what it
writes from somewhere else: so each start of a server counts from a base of its own, above all that was counted before.
It is the time of the start in seconds, 2^30 to each, or where that would be less (a replica has started long before it
takes over), 2^40 more than the base of before: no server gets so far within its life.

The function finds the base by one row and the time of the start, both of which are the same for whoever asks: nobody
waits for the one who writes it down. What was written before this migration has the first place, and there the order of
its ids.
"""

import django.db.models.deletion
from django.db import migrations, models

FUNCTIONS = """
CREATE FUNCTION webhooks_feed_base() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    started CONSTANT timestamptz := pg_postmaster_start_time();
    known webhooks_feedera;
BEGIN
    SELECT * INTO known FROM webhooks_feedera;
    IF known.server_started_at = started THEN
        RETURN known.base;
    END IF;
    known.base := greatest(extract(epoch FROM started)::bigint << 30, known.base + (1::bigint << 40));
    IF pg_try_advisory_xact_lock(431298736229) THEN
        INSERT INTO webhooks_feedera (id, server_started_at, base) VALUES (1, started, known.base)
        ON CONFLICT (id) DO UPDATE SET server_started_at = excluded.server_started_at, base = excluded.base
        WHERE webhooks_feedera.server_started_at <> excluded.server_started_at;
    END IF;
    RETURN known.base;
END $$;

CREATE FUNCTION webhooks_feed_position() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN webhooks_feed_base() + pg_current_xact_id()::text::bigint;
END $$;
"""
NO_FUNCTIONS = "DROP FUNCTION webhooks_feed_position(), webhooks_feed_base();"

# A constant at first, which the rows that are there need not be written for.
POSITION = """
ALTER TABLE webhooks_event ADD COLUMN position bigint DEFAULT 0;
ALTER TABLE webhooks_event ALTER COLUMN position SET DEFAULT webhooks_feed_position();
"""
NO_POSITION = "ALTER TABLE webhooks_event DROP COLUMN position;"


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0005_failed_deliveries")]

    operations = [
        migrations.CreateModel(
            name="FeedEra",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("server_started_at", models.DateTimeField()),
                ("base", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(POSITION, NO_POSITION)],
            state_operations=[
                migrations.AddField(
                    model_name="event",
                    name="position",
                    field=models.BigIntegerField(
                        db_default=models.Func(function="webhooks_feed_position"),
                        help_text="In the feed, before its id; none for test deliveries.",
                        null=True,
                    ),
                ),
            ],
        ),
        migrations.AlterField(
            model_name="event",
            name="account",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="accounts.account",
            ),
        ),
    ]
