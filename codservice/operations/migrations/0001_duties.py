from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    operations = [
        migrations.CreateModel(
            name="Duty",
            fields=[
                ("name", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("done_at", models.DateTimeField()),
                ("taken_until", models.DateTimeField()),
            ],
            options={"verbose_name_plural": "duties"},
        ),
    ]
