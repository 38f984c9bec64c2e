from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the writes of a running service

    dependencies = [("orders", "0015_erasures")]

    operations = [
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                fields=["phone_2_e164"],
                condition=models.Q(phone_2_e164__isnull=False),
                name="order_by_second_phone",
            ),
        ),
        AddIndexConcurrently(
            model_name="orderedit",
            index=models.Index(
                fields=["account"],
                condition=models.Q(field__in=("customer_phone", "customer_phone_2")),
                name="order_edit_of_phone",
            ),
        ),
    ]
