from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0005_call_desk_indexes")]

    operations = [
        migrations.AddField(
            model_name="order",
            name="anonymised_at",
            field=models.DateTimeField(
                blank=True, help_text="When the customer was overwritten (`orders.retention`).", null=True
            ),
        ),
    ]
