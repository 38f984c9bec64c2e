from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    """For rows that are written from now on; the next migration looks at the others, beside a running service."""

    dependencies = [("inventory", "0002_stock_movements")]

    operations = [
        AddConstraintNotValid(
            model_name="product",
            constraint=models.CheckConstraint(
                condition=models.Q(("stock_quantity__gte", 0), ("stock_quantity__lte", 1_000_000_000)),
                name="product_stock_in_bounds",
            ),
        ),
    ]
