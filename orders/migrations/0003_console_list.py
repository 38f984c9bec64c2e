from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the writes of a running service

    dependencies = [("orders", "0002_count_orders")]

    operations = [
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(fields=["status", "id"], name="order_console_list"),
        ),
    ]
