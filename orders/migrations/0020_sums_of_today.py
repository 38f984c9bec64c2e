"""An account's figures are summed up until some minutes ago, no longer until the last day that is over.

So what changes rows of today notes today as well. The version before sums up whole days and keeps the last of them in
`through`, which stays for it: what it does there has the account summed up anew.
"""

from django.db import migrations, models

TO_MOMENTS = """
UPDATE orders_summedup SET until = (through + 1)::timestamp AT TIME ZONE 'Africa/Algiers';

CREATE FUNCTION orders_summed_until() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.through := (NEW.until AT TIME ZONE 'Africa/Algiers')::date - 1;
    RETURN NEW;
END $$;
CREATE FUNCTION orders_summed_through() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.until := NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER orders_summed_until BEFORE UPDATE OF until ON orders_summedup
    FOR EACH ROW EXECUTE FUNCTION orders_summed_until();
CREATE TRIGGER orders_summed_through BEFORE UPDATE OF through ON orders_summedup
    FOR EACH ROW EXECUTE FUNCTION orders_summed_through();
"""
# What was summed up of a day that is not over is none of a whole day.
TO_DAYS = """
DROP TRIGGER orders_summed_until ON orders_summedup;
DROP TRIGGER orders_summed_through ON orders_summedup;
DROP FUNCTION orders_summed_until(), orders_summed_through();
DELETE FROM orders_dayfigure figure USING orders_summedup summed
WHERE figure.account_id = summed.account_id AND figure.day > summed.through;
DELETE FROM orders_changedday WHERE day >= (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date;
"""

_NOTE = """
CREATE OR REPLACE FUNCTION orders_note_day(account uuid, at timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT whose.id, (at AT TIME ZONE 'Africa/Algiers')::date FROM (VALUES (account), (NULL)) AS whose(id)
    WHERE (at AT TIME ZONE 'Africa/Algiers')::date {until} (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
$$;

CREATE OR REPLACE FUNCTION orders_note_days(changed uuid[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT whose.id, past.day FROM (
        SELECT account_id, (at AT TIME ZONE 'Africa/Algiers')::date AS day
        FROM orders_statuschange WHERE order_id = ANY(changed)
        UNION
        SELECT account_id, (created_at AT TIME ZONE 'Africa/Algiers')::date
        FROM orders_callnote WHERE order_id = ANY(changed)
        UNION
        SELECT account_id, (callback_at AT TIME ZONE 'Africa/Algiers')::date
        FROM orders_callnote WHERE order_id = ANY(changed) AND callback_at IS NOT NULL
    ) past CROSS JOIN LATERAL (VALUES (past.account_id), (NULL)) AS whose(id)
    WHERE past.day {until} (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0019_order_words")]

    operations = [
        migrations.AddField(model_name="summedup", name="until", field=models.DateTimeField(null=True)),
        migrations.RunSQL(TO_MOMENTS, TO_DAYS),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField(model_name="summedup", name="through")]
        ),
        migrations.RunSQL(_NOTE.format(until="<="), _NOTE.format(until="<")),
    ]
