import django.db.models.deletion
from django.db import migrations, models

INDEX = "orders_orderitem_product_id_afe4254a"  # as Django named it


class Migration(migrations.Migration):
    """No query looks for the lines of a product, but each line of each import was entered in an index for that."""

    atomic = False  # beside the writes of a running service

    dependencies = [("orders", "0023_folded_names")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}",
                    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {INDEX} ON orders_orderitem (product_id)",
                ),
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="orderitem",
                    name="product",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="inventory.product",
                    ),
                ),
            ],
        ),
    ]
