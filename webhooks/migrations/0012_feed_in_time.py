from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """The feed goes by time within a place: who changes a row after another may have the same place, and a lower id."""

    atomic = False  # built beside the writes of a running service

    dependencies = [("webhooks", "0011_feed_in_order")]

    operations = [
        migrations.AlterField(
            model_name="event",
            name="position",
            field=models.BigIntegerField(
                db_default=models.Func(function="webhooks_feed_position"),
                help_text="In the feed, before its time and id; none for test deliveries.",
                null=True,
            ),
        ),
        AddIndexConcurrently(
            model_name="event",
            index=models.Index(fields=["account", "kind", "position", "created_at", "id"], name="event_in_feed"),
        ),
        RemoveIndexConcurrently(model_name="event", name="event_feed"),
    ]
