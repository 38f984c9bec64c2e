from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the writes of a running service

    dependencies = [("orders", "0006_anonymised_orders")]

    operations = [
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                fields=["updated_at"],
                condition=models.Q(status__in=("canceled", "delivered", "returned"), anonymised_at=None),
                name="order_to_anonymise",
            ),
        ),
    ]
