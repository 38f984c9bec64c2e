from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the writes of a running service

    dependencies = [("webhooks", "0004_event_request_id")]

    operations = [
        AddIndexConcurrently(
            model_name="delivery",
            index=models.Index(
                fields=["webhook", "-created_at", "-id"],
                condition=models.Q(status="failed"),
                name="delivery_log_failed",
            ),
        ),
    ]
