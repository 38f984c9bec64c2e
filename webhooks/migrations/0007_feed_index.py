from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the writes of a running service

    dependencies = [("webhooks", "0006_feed")]

    operations = [
        AddIndexConcurrently(
            model_name="event",
            index=models.Index(fields=["account", "kind", "position", "id"], name="event_feed"),
        ),
    ]
