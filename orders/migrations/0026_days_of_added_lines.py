"""Fewer days are noted for nothing: those of an order whose customer's name or address is corrected, and those of test
orders for what is summed up over all accounts, which leaves them out.
"""

from django.db import migrations

# Of edits, only added lines note days (`items.0`). Other triggers see what figures show of changed and removed ones
# (`items.0.quantity`), wilaya and total.
CREATE = """
CREATE FUNCTION orders_days_of_edits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_days(ARRAY(
        SELECT DISTINCT order_id FROM touched WHERE field LIKE 'items.%' AND field NOT LIKE 'items.%.%'
    ));
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER orders_days_of_edits AFTER INSERT ON orders_orderedit
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION orders_days_of_edits();
"""
DROP = """
CREATE OR REPLACE TRIGGER orders_days_of_edits AFTER INSERT ON orders_orderedit
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION orders_days_of_lines();
DROP FUNCTION orders_days_of_edits();
"""

_NOTE = """
CREATE OR REPLACE FUNCTION orders_note_day(account uuid, at timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT whose.id, (at AT TIME ZONE 'Africa/Algiers')::date FROM (VALUES (account), (NULL)) AS whose(id)
    WHERE (at AT TIME ZONE 'Africa/Algiers')::date <= (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date{of_day}
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
    WHERE past.day <= (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date{of_days}
$$;

CREATE OR REPLACE FUNCTION orders_note_days_of_all(changed uuid[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (day)
    SELECT past.day FROM (
        SELECT {account}(callback_at AT TIME ZONE 'Africa/Algiers')::date AS day
        FROM orders_callnote WHERE order_id = ANY(changed) AND callback_at IS NOT NULL
        UNION
        SELECT {account}(at AT TIME ZONE 'Africa/Algiers')::date
        FROM orders_statuschange WHERE order_id = ANY(changed) AND to_status IN ('delivered', 'returned')
    ) past WHERE past.day <= (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date{of_all}
$$;
"""
_IS_TWIN = "EXISTS (SELECT FROM accounts_account twin WHERE twin.id = {} AND twin.live_id IS NOT NULL)"


class Migration(migrations.Migration):
    dependencies = [("orders", "0025_summed_through")]

    operations = [
        migrations.RunSQL(CREATE, DROP),
        migrations.RunSQL(
            _NOTE.format(
                of_day=f"\n        AND (whose.id IS NOT NULL OR NOT {_IS_TWIN.format('account')})",
                of_days=f"\n        AND (whose.id IS NOT NULL OR NOT {_IS_TWIN.format('past.account_id')})",
                account="account_id, ",
                of_all=f"\n        AND NOT {_IS_TWIN.format('past.account_id')}",
            ),
            _NOTE.format(of_day="", of_days="", account="", of_all=""),
        ),
    ]
