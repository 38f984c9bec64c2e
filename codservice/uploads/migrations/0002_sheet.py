from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("uploads", "0001_uploads")]

    operations = [
        migrations.AddField(
            model_name="upload",
            name="sheet",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The one that was read, of several.",
                max_length=100,
            ),
        ),
    ]
