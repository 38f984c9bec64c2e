"""Which webhooks are told is looked up once a change has its time, not before.

A statement that publishes may first wait for a row, and sees what else was committed only as it was before it waited.
A webhook that was made or turned on meanwhile would miss a change that is dated after that. A VOLATILE function looks
again when it is called.
"""

from django.db import migrations

_SUBSCRIBED = """
CREATE FUNCTION webhooks_subscribed(accounts uuid[], kinds text[]) RETURNS SETOF webhooks_webhook
LANGUAGE plpgsql ROWS 2 AS $$
BEGIN
    RETURN QUERY SELECT * FROM webhooks_webhook
    WHERE account_id = ANY (accounts) AND deleted_at IS NULL AND is_active AND events && kinds::varchar[]
    ORDER BY id FOR KEY SHARE;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0012_feed_in_time")]

    operations = [migrations.RunSQL(_SUBSCRIBED, "DROP FUNCTION webhooks_subscribed(uuid[], text[]);")]
