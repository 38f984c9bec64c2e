from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("orders", "0024_lines_without_product_index")]

    operations = [ValidateConstraint(model_name="order", name="order_call_state_known")]
