"""Today is noted over all accounts as other days are: the call center's figures of it are summed up in part, too."""

from django.db import migrations

_NOTE = """
CREATE OR REPLACE FUNCTION orders_note_days_of_all(changed uuid[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (day)
    SELECT past.day FROM (
        SELECT (callback_at AT TIME ZONE 'Africa/Algiers')::date AS day
        FROM orders_callnote WHERE order_id = ANY(changed) AND callback_at IS NOT NULL
        UNION
        SELECT (at AT TIME ZONE 'Africa/Algiers')::date
        FROM orders_statuschange WHERE order_id = ANY(changed) AND to_status IN ('delivered', 'returned')
    ) past WHERE past.day {until} (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0020_sums_of_today")]

    operations = [migrations.RunSQL(_NOTE.format(until="<="), _NOTE.format(until="<"))]
