"""Days that no longer fit are noted for what is summed up over all accounts too: in `orders_changedday` without one.

There is more to be seen there: who called and who confirmed, and which promised calls were made. So a change of an
order's past notes also the days for which calls were promised, and those on which its parcel arrived or came back.
"""

import django.db.models.deletion
from django.db import migrations, models

CREATE = """
CREATE OR REPLACE FUNCTION orders_note_day(account uuid, at timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT whose.id, (at AT TIME ZONE 'Africa/Algiers')::date FROM (VALUES (account), (NULL)) AS whose(id)
    WHERE (at AT TIME ZONE 'Africa/Algiers')::date < (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
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
    WHERE past.day < (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
$$;

-- What another move says otherwise, over all accounts alone: whether a promised call was still to be made, and whose
-- parcel arrived or came back.
CREATE FUNCTION orders_note_days_of_all(changed uuid[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (day)
    SELECT past.day FROM (
        SELECT (callback_at AT TIME ZONE 'Africa/Algiers')::date AS day
        FROM orders_callnote WHERE order_id = ANY(changed) AND callback_at IS NOT NULL
        UNION
        SELECT (at AT TIME ZONE 'Africa/Algiers')::date
        FROM orders_statuschange WHERE order_id = ANY(changed) AND to_status IN ('delivered', 'returned')
    ) past WHERE past.day < (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
$$;

CREATE OR REPLACE FUNCTION orders_day_of_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM orders_note_day(OLD.account_id, OLD.at);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM orders_note_day(NEW.account_id, NEW.at);
    END IF;
    -- An anonymised reason changes its own day alone.
    IF TG_OP <> 'UPDATE' OR (OLD.order_id, OLD.from_status, OLD.to_status, OLD.at, OLD.user_id)
            IS DISTINCT FROM (NEW.order_id, NEW.from_status, NEW.to_status, NEW.at, NEW.user_id) THEN
        PERFORM orders_note_days_of_all(ARRAY[OLD.order_id, NEW.order_id]);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION orders_day_of_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_day(OLD.account_id, OLD.created_at);
    PERFORM orders_note_day(OLD.account_id, OLD.callback_at);
    PERFORM orders_note_days(ARRAY[OLD.order_id, NEW.order_id]);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION orders_days_of_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_day(account_id, created_at) FROM touched WHERE created_at < now();
    PERFORM orders_note_day(account_id, callback_at) FROM touched WHERE callback_at < now();
    PERFORM orders_note_days(ARRAY(SELECT DISTINCT order_id FROM touched WHERE created_at < now()));
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER orders_call_changed
    AFTER UPDATE OF order_id, outcome, created_at, agent_id, callback_at ON orders_callnote
    FOR EACH ROW EXECUTE FUNCTION orders_day_of_call();
"""

# As migration `days` made them.
DROP = """
CREATE OR REPLACE TRIGGER orders_call_changed AFTER UPDATE OF order_id, outcome, created_at ON orders_callnote
    FOR EACH ROW EXECUTE FUNCTION orders_day_of_call();

CREATE OR REPLACE FUNCTION orders_note_day(account uuid, at timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT account, (at AT TIME ZONE 'Africa/Algiers')::date
    WHERE (at AT TIME ZONE 'Africa/Algiers')::date < (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
$$;

CREATE OR REPLACE FUNCTION orders_note_days(changed uuid[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT account_id, (at AT TIME ZONE 'Africa/Algiers')::date AS day
    FROM orders_statuschange WHERE order_id = ANY(changed)
        AND (at AT TIME ZONE 'Africa/Algiers')::date < (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
    UNION
    SELECT account_id, (created_at AT TIME ZONE 'Africa/Algiers')::date
    FROM orders_callnote WHERE order_id = ANY(changed)
        AND (created_at AT TIME ZONE 'Africa/Algiers')::date < (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
$$;

CREATE OR REPLACE FUNCTION orders_day_of_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM orders_note_day(OLD.account_id, OLD.at);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM orders_note_day(NEW.account_id, NEW.at);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION orders_day_of_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_day(OLD.account_id, OLD.created_at);
    PERFORM orders_note_days(ARRAY[OLD.order_id, NEW.order_id]);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION orders_days_of_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_day(account_id, created_at) FROM touched WHERE created_at < now();
    PERFORM orders_note_days(ARRAY(SELECT DISTINCT order_id FROM touched WHERE created_at < now()));
    RETURN NULL;
END $$;

DROP FUNCTION orders_note_days_of_all(uuid[]);

DELETE FROM orders_changedday WHERE account_id IS NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0017_search")]

    operations = [
        migrations.AlterField(
            model_name="changedday",
            name="account",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="accounts.account",
            ),
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
