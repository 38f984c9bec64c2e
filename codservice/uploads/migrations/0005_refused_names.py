from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """What refused rows are about, so that the home page knows which came again. Rows of before have no name."""

    atomic = False  # the index is built beside the writes of a running service

    dependencies = [("uploads", "0004_fingerprint")]

    operations = [
        migrations.AddField("refusedrow", "name", models.CharField(db_default="", default="", max_length=64)),
        AddIndexConcurrently(
            "refusedrow",
            models.Index(condition=~models.Q(name=""), fields=["account", "name"], name="refused_rows_by_name"),
        ),
    ]
