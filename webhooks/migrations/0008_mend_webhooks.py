import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial"), ("webhooks", "0007_feed_index")]

    operations = [
        migrations.AddField(
            model_name="webhook",
            name="description",
            field=models.CharField(blank=True, db_default="", default="", max_length=255),
        ),
        migrations.AddField(
            model_name="webhook",
            name="failing_since",
            field=models.DateTimeField(help_text="While it fails: since when nothing was answered well.", null=True),
        ),
        migrations.AddField(
            model_name="webhook",
            name="is_alarmed",
            field=models.BooleanField(db_default=False, default=False, help_text="Was told of it, and not of its end."),
        ),
        migrations.AddField(
            model_name="webhook",
            name="alarmed_at",
            field=models.DateTimeField(help_text="When the holder was last told that it fails.", null=True),
        ),
        migrations.CreateModel(
            name="Recovery",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
                ("position", models.BigIntegerField()),
                ("event_id", models.UUIDField()),
                ("stop_at", models.BigIntegerField()),
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
                (
                    "webhook",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="webhooks.webhook",
                    ),
                ),
            ],
        ),
    ]
