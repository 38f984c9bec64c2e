from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """A merchant's list of one wilaya: the index for it."""

    atomic = False  # built beside the writes of a running service

    dependencies = [("orders", "0021_today_of_all")]

    operations = [
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                fields=["account", "wilaya_code", "-created_at", "-id"], include=["status"], name="order_list_by_wilaya"
            ),
        ),
    ]
