from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="has_one_time_password",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
    ]
