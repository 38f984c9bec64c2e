"""An event's place in the feed is after all that its writer has seen.

A transaction has its number from its first lock on: one that waits long for another row has an older number than those
that changed this row meanwhile, and what it told of the row would stand before what they told. So the place is the
youngest number of a transaction that was over when the event was written, or the writer's own where that is younger.
It is never below the writer's own, so the horizon is as good as it was; and never above what is over once the writer
is, so that a quiet server holds nothing back.
"""

from django.db import migrations

_POSITION = """
CREATE OR REPLACE FUNCTION webhooks_feed_position() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN webhooks_feed_base() + {number};
END $$;
"""
OWN = "pg_current_xact_id()::text::bigint"
YOUNGEST = f"greatest({OWN}, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)"


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0010_words")]

    operations = [migrations.RunSQL(_POSITION.format(number=YOUNGEST), _POSITION.format(number=OWN))]
