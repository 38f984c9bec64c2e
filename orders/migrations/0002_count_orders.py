"""Triggers that append to `OrderCount` with every statement that adds, moves or removes orders."""

from django.db import migrations

CREATE = """
CREATE FUNCTION orders_count_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders_ordercount (account_id, status, delta)
    SELECT account_id, status, count(*) FROM added GROUP BY account_id, status;
    RETURN NULL;
END $$;

CREATE FUNCTION orders_count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders_ordercount (account_id, status, delta)
    SELECT account_id, status, -count(*) FROM removed GROUP BY account_id, status;
    RETURN NULL;
END $$;

CREATE FUNCTION orders_count_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders_ordercount (account_id, status, delta)
    SELECT account_id, status, sum(delta) FROM (
        SELECT account_id, status, 1 AS delta FROM added
        UNION ALL
        SELECT account_id, status, -1 AS delta FROM removed
    ) AS moves GROUP BY account_id, status HAVING sum(delta) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER orders_count_added AFTER INSERT ON orders_order
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION orders_count_added();
CREATE TRIGGER orders_count_removed AFTER DELETE ON orders_order
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION orders_count_removed();
CREATE TRIGGER orders_count_moved AFTER UPDATE ON orders_order
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION orders_count_moved();

-- Each import leaves a row that is folded away seconds later.
ALTER TABLE orders_ordercount SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
"""

DROP = """
DROP TRIGGER orders_count_added ON orders_order;
DROP TRIGGER orders_count_removed ON orders_order;
DROP TRIGGER orders_count_moved ON orders_order;
DROP FUNCTION orders_count_added(), orders_count_removed(), orders_count_moved();
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial")]

    operations = [migrations.RunSQL(CREATE, DROP)]
