from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0009_console_search")]

    operations = [
        migrations.AddField(
            model_name="order",
            name="customer_phone_2",
            field=models.CharField(blank=True, help_text="As it was sent.", max_length=40, null=True),
        ),
        migrations.AddField(
            model_name="order",
            name="phone_2_e164",
            field=models.CharField(blank=True, max_length=16, null=True, verbose_name="second phone (E.164)"),
        ),
        migrations.AddField(
            model_name="order",
            name="delivery_type",
            field=models.CharField(
                choices=[("home", "Home delivery"), ("desk", "Stop desk")],
                db_default="home",
                default="home",
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="order",
            name="source",
            field=models.CharField(blank=True, help_text="Where the order came from.", max_length=64, null=True),
        ),
    ]
