from django.db import migrations, models


class Migration(migrations.Migration):
    """A better name in Python alone: the column keeps its own, which the code before this one still uses."""

    dependencies = [("uploads", "0003_constants")]

    operations = [
        migrations.AlterField(
            "upload",
            "headings",
            models.CharField(blank=True, db_column="headings", default="", max_length=64),
        ),
        migrations.RenameField("upload", "headings", "fingerprint"),
    ]
