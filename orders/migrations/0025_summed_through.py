from django.db import migrations

DROP = """
DROP TRIGGER orders_summed_until ON orders_summedup;
DROP TRIGGER orders_summed_through ON orders_summedup;
DROP FUNCTION orders_summed_until(), orders_summed_through();
ALTER TABLE orders_summedup DROP COLUMN through;
"""
CREATE = """
ALTER TABLE orders_summedup ADD COLUMN through date;
UPDATE orders_summedup SET through = (until AT TIME ZONE 'Africa/Algiers')::date - 1;

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


class Migration(migrations.Migration):
    """Drops `through`, which no code has read or written since `sums_of_today`, and the triggers that kept it."""

    dependencies = [("orders", "0024_lines_without_product_index")]

    operations = [migrations.RunSQL(DROP, CREATE)]
