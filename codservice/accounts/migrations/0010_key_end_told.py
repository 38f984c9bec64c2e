from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0009_unused_indexes")]

    operations = [
        migrations.AddField("apikey", "is_end_told", models.BooleanField(default=False, db_default=False)),
    ]
