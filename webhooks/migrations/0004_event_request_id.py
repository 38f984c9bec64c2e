from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0003_attempts_without_check")]

    operations = [
        migrations.AddField(
            model_name="event",
            name="request_id",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Of the request that made the change, for the log.",
                max_length=128,
            ),
        ),
    ]
