from django.db import migrations


class Migration(migrations.Migration):
    """Public holidays are read from their file. The table stays for the version before, which reads it."""

    dependencies = [("agents", "0010_claims_without_like")]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel(name="PublicHoliday")]),
    ]
