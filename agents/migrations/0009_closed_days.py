"""Days can be closed by hand, for one merchant or for all."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0008_calling_breaks")]

    operations = [
        migrations.AddField(
            model_name="callingperiod",
            name="is_closed",
            field=models.BooleanField(verbose_name="closed", default=False, db_default=False),
        ),
    ]
