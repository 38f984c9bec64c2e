"""Figures of each day of an account's orders (`orders.daily`), and triggers that note which days they no longer fit.

Today's are read from the rows, and a day is summed up when every transaction that began before its end is over: so a
row that is dated after the start of its transaction needs no trigger to be noted, and an import pays for none. What is
dated before it, and what changes rows of earlier days, notes their days in its own transaction.
"""

import django.db.models.deletion
from django.db import migrations, models

CREATE = """
CREATE FUNCTION orders_note_day(account uuid, at timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT account, (at AT TIME ZONE 'Africa/Algiers')::date
    WHERE (at AT TIME ZONE 'Africa/Algiers')::date < (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
$$;

CREATE FUNCTION orders_note_days(changed uuid[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT account_id, (at AT TIME ZONE 'Africa/Algiers')::date AS day
    FROM orders_statuschange WHERE order_id = ANY(changed)
        AND (at AT TIME ZONE 'Africa/Algiers')::date < (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
    UNION
    SELECT account_id, (created_at AT TIME ZONE 'Africa/Algiers')::date
    FROM orders_callnote WHERE order_id = ANY(changed)
        AND (created_at AT TIME ZONE 'Africa/Algiers')::date < (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
$$;

CREATE FUNCTION orders_day_of_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM orders_note_day(OLD.account_id, OLD.at);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM orders_note_day(NEW.account_id, NEW.at);
    END IF;
    RETURN NULL;
END $$;

-- Another call of the order may be the first now.
CREATE FUNCTION orders_day_of_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_day(OLD.account_id, OLD.created_at);
    PERFORM orders_note_days(ARRAY[OLD.order_id, NEW.order_id]);
    RETURN NULL;
END $$;

CREATE FUNCTION orders_days_of_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_day(account_id, created_at) FROM touched WHERE created_at < now();
    PERFORM orders_note_days(ARRAY(SELECT DISTINCT order_id FROM touched WHERE created_at < now()));
    RETURN NULL;
END $$;

CREATE FUNCTION orders_days_of_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_days(ARRAY[NEW.id]);
    RETURN NULL;
END $$;

CREATE FUNCTION orders_days_of_line() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_days(ARRAY[OLD.order_id]);
    RETURN NULL;
END $$;

CREATE FUNCTION orders_days_of_lines() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM orders_note_days(ARRAY(SELECT DISTINCT order_id FROM touched));
    RETURN NULL;
END $$;

CREATE TRIGGER orders_day_added AFTER INSERT ON orders_statuschange
    FOR EACH ROW WHEN (NEW.at < now()) EXECUTE FUNCTION orders_day_of_change();
CREATE TRIGGER orders_day_changed AFTER UPDATE OR DELETE ON orders_statuschange
    FOR EACH ROW EXECUTE FUNCTION orders_day_of_change();
CREATE TRIGGER orders_calls_added AFTER INSERT ON orders_callnote
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION orders_days_of_calls();
CREATE TRIGGER orders_calls_removed AFTER DELETE ON orders_callnote
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION orders_days_of_calls();
CREATE TRIGGER orders_call_changed AFTER UPDATE OF order_id, outcome, created_at ON orders_callnote
    FOR EACH ROW EXECUTE FUNCTION orders_day_of_call();
-- Statuses are not among them: a move is a row of its own.
CREATE TRIGGER orders_days_of_order AFTER UPDATE OF wilaya_code, source, total_amount, created_at ON orders_order
    FOR EACH ROW WHEN ((OLD.wilaya_code, OLD.source, OLD.total_amount, OLD.created_at)
        IS DISTINCT FROM (NEW.wilaya_code, NEW.source, NEW.total_amount, NEW.created_at))
    EXECUTE FUNCTION orders_days_of_order();
CREATE TRIGGER orders_days_of_line AFTER UPDATE OF product_id, product_name, quantity, unit_price ON orders_orderitem
    FOR EACH ROW WHEN ((OLD.product_id, OLD.product_name, OLD.quantity, OLD.unit_price)
        IS DISTINCT FROM (NEW.product_id, NEW.product_name, NEW.quantity, NEW.unit_price))
    EXECUTE FUNCTION orders_days_of_line();
CREATE TRIGGER orders_days_of_lines AFTER DELETE ON orders_orderitem
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION orders_days_of_lines();
-- Lines that are added to an order later are edits; a trigger on added lines would cost each import.
CREATE TRIGGER orders_days_of_edits AFTER INSERT ON orders_orderedit
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION orders_days_of_lines();
"""

DROP = """
DROP TRIGGER orders_day_added ON orders_statuschange;
DROP TRIGGER orders_day_changed ON orders_statuschange;
DROP TRIGGER orders_calls_added ON orders_callnote;
DROP TRIGGER orders_calls_removed ON orders_callnote;
DROP TRIGGER orders_call_changed ON orders_callnote;
DROP TRIGGER orders_days_of_order ON orders_order;
DROP TRIGGER orders_days_of_line ON orders_orderitem;
DROP TRIGGER orders_days_of_lines ON orders_orderitem;
DROP TRIGGER orders_days_of_edits ON orders_orderedit;
DROP FUNCTION orders_day_of_change(), orders_day_of_call(), orders_days_of_calls(), orders_days_of_order(),
    orders_days_of_line(), orders_days_of_lines(), orders_note_days(uuid[]), orders_note_day(uuid, timestamptz);
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0006_check_twins"), ("orders", "0012_test_orders")]

    operations = [
        migrations.CreateModel(
            name="DayFigure",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("day", models.DateField()),
                (
                    "dimension",
                    models.CharField(
                        choices=[
                            ("all", "All"),
                            ("wilaya", "Wilaya"),
                            ("source", "Source"),
                            ("product", "Product"),
                            ("name", "Name"),
                            ("reason", "Reason"),
                            ("wait", "Wait"),
                        ],
                        max_length=10,
                    ),
                ),
                ("key", models.CharField(blank=True, max_length=500)),
                ("new_count", models.PositiveIntegerField(default=0)),
                ("new_amount", models.DecimalField(decimal_places=2, default=0, help_text="DZD", max_digits=18)),
                ("unit_count", models.PositiveBigIntegerField(default=0, help_text="Pieces in the new orders.")),
                ("confirmed_count", models.PositiveIntegerField(default=0)),
                ("confirmed_amount", models.DecimalField(decimal_places=2, default=0, help_text="DZD", max_digits=18)),
                ("canceled_count", models.PositiveIntegerField(default=0)),
                ("canceled_amount", models.DecimalField(decimal_places=2, default=0, help_text="DZD", max_digits=18)),
                (
                    "refused_count",
                    models.PositiveIntegerField(default=0, help_text="Of the canceled ones, those still unconfirmed."),
                ),
                ("refused_amount", models.DecimalField(decimal_places=2, default=0, help_text="DZD", max_digits=18)),
                ("shipped_count", models.PositiveIntegerField(default=0)),
                ("shipped_amount", models.DecimalField(decimal_places=2, default=0, help_text="DZD", max_digits=18)),
                ("delivered_count", models.PositiveIntegerField(default=0)),
                ("delivered_amount", models.DecimalField(decimal_places=2, default=0, help_text="DZD", max_digits=18)),
                ("returned_count", models.PositiveIntegerField(default=0)),
                ("returned_amount", models.DecimalField(decimal_places=2, default=0, help_text="DZD", max_digits=18)),
                ("first_call_count", models.PositiveIntegerField(default=0)),
                (
                    "account",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="accounts.account",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("account", "dimension", "day", "key"), name="one_figure_per_day")
                ],
            },
        ),
        migrations.CreateModel(
            name="SummedUp",
            fields=[
                (
                    "account",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="accounts.account",
                    ),
                ),
                ("through", models.DateField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="ChangedDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                (
                    "account",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="accounts.account",
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["account", "day"], name="changed_day_of_account")]},
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
