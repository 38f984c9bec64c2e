from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("uploads", "0002_sheet")]

    operations = [
        migrations.AddField(
            model_name="upload",
            name="constants",
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
