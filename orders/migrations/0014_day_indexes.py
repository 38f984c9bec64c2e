from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """What happened to one account's orders on some days: the indexes for it."""

    atomic = False  # built beside the writes of a running service

    dependencies = [("orders", "0013_days")]

    operations = [
        AddIndexConcurrently(
            model_name="statuschange",
            index=models.Index(fields=["account", "at"], name="status_change_of_account"),
        ),
        AddIndexConcurrently(
            model_name="callnote",
            index=models.Index(fields=["account", "created_at"], name="call_note_of_account"),
        ),
        AddIndexConcurrently(
            model_name="callnote",
            index=models.Index(
                condition=models.Q(("outcome", "wrong_number")),
                fields=["account", "created_at"],
                name="call_note_wrong_number",
            ),
        ),
    ]
