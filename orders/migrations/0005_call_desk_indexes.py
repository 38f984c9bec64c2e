import django.contrib.postgres.indexes
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import MD5, Lower


class Migration(migrations.Migration):
    atomic = False  # built beside the writes of a running service

    dependencies = [("orders", "0004_call_desk")]

    operations = [
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                fields=["call_state", "call_due_at", "id"],
                condition=models.Q(status="pending_confirmation"),
                name="order_to_call",
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                fields=["callback_agent", "call_due_at"],
                condition=models.Q(status="pending_confirmation", call_state="callback"),
                name="order_callback_of_agent",
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(MD5(Lower("customer_address")), models.F("created_at"), name="order_by_address"),
        ),
        AddIndexConcurrently(
            model_name="callnote",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["created_at"], name="call_note_by_time"
            ),
        ),
        AddIndexConcurrently(
            model_name="statuschange",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["at"], name="status_change_by_time"
            ),
        ),
    ]
