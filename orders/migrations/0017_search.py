"""What `q` searches, by trigrams (`orders.trigrams`), and triggers that note which orders' are no longer theirs."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models

CREATE = """
CREATE FUNCTION orders_search_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders_searchchange (account_id, order_id) VALUES (NEW.account_id, NEW.id);
    RETURN NULL;
END $$;

CREATE FUNCTION orders_search_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders_searchchange (account_id, order_id)
    SELECT account_id, id FROM removed JOIN orders_searchable USING (account_id);
    RETURN NULL;
END $$;

-- An import is dated by the statement's own clock, and pays for none of these.
CREATE TRIGGER orders_search_backdated AFTER INSERT ON orders_order
    FOR EACH ROW WHEN (NEW.created_at < now()) EXECUTE FUNCTION orders_search_change();
CREATE TRIGGER orders_search_changed
    AFTER UPDATE OF customer_name, customer_phone, phone_e164, customer_address, created_at ON orders_order
    FOR EACH ROW WHEN (
        (OLD.customer_name, OLD.customer_phone, OLD.phone_e164, OLD.customer_address, OLD.created_at)
        IS DISTINCT FROM
        (NEW.customer_name, NEW.customer_phone, NEW.phone_e164, NEW.customer_address, NEW.created_at)
    ) EXECUTE FUNCTION orders_search_change();
CREATE TRIGGER orders_search_removed AFTER DELETE ON orders_order
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION orders_search_removed();
"""

DROP = """
DROP TRIGGER orders_search_backdated ON orders_order;
DROP TRIGGER orders_search_changed ON orders_order;
DROP TRIGGER orders_search_removed ON orders_order;
DROP FUNCTION orders_search_change(), orders_search_removed();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_team"),
        ("orders", "0016_customer_data_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="Searchable",
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
                ("through", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="OrderTrigrams",
            fields=[
                ("order_id", models.UUIDField(primary_key=True, serialize=False)),
                ("trigrams", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
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
                "indexes": [django.contrib.postgres.indexes.GinIndex(fields=["trigrams"], name="order_by_trigrams")],
            },
        ),
        migrations.CreateModel(
            name="SearchChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("order_id", models.UUIDField()),
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
                "indexes": [models.Index(fields=["account"], name="search_change_of_account")],
            },
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
