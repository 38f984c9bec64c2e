from django.db import migrations, models


class Migration(migrations.Migration):
    """What a new column has of old rows, and of those that running old code writes, is its default in the database."""

    dependencies = [("inventory", "0004_check_bound_of_stock")]

    operations = [
        migrations.AddField(
            model_name="product",
            name="image_url",
            field=models.CharField(blank=True, db_default="", default="", help_text="Of its picture.", max_length=2048),
        ),
        migrations.AddField(
            model_name="product",
            name="script",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="What agents say of it on the phone.", max_length=2000
            ),
        ),
    ]
