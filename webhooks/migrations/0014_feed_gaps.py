"""What a restored backup lacks is noted, so that a cursor of the feed from that time has expired."""

from django.contrib.postgres.fields import BigIntegerRangeField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0013_subscribed")]

    operations = [
        migrations.CreateModel(
            name="FeedGap",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("positions", BigIntegerRangeField()),
                ("backup_at", models.DateTimeField()),
            ],
        ),
    ]
