from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("inventory", "0003_bound_stock")]

    operations = [ValidateConstraint(model_name="product", name="product_stock_in_bounds")]
