from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Orders of accounts' twins for tests: what tells them apart, and the indexes without them and of them alone."""

    atomic = False  # built beside the writes of a running service

    dependencies = [("orders", "0011_shipping_fees")]

    operations = [
        migrations.AlterField(
            model_name="order",
            name="call_state",
            field=models.CharField(
                choices=[
                    ("new", "First call"),
                    ("retry", "Another attempt"),
                    ("callback", "Promised call"),
                    ("review", "A supervisor's review"),
                    ("test", "Nobody: a test order"),
                ],
                db_default="new",
                default="new",
                max_length=10,
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                condition=models.Q(("call_state", "test"), _negated=True),
                fields=["status", "id"],
                name="order_console",
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(condition=models.Q(("call_state", "test")), fields=["created_at"], name="order_of_twin"),
        ),
        RemoveIndexConcurrently(model_name="order", name="order_console_list"),
    ]
