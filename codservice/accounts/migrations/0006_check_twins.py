from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_twins")]

    operations = [ValidateConstraint(model_name="account", name="account_has_holder_or_is_twin")]
