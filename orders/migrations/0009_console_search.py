import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the writes of a running service

    dependencies = [("orders", "0008_count_older_orders")]

    operations = [
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                models.Func("phone_e164", template="right(%(expressions)s, 4)", output_field=models.CharField()),
                name="order_by_phone_end",
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=django.contrib.postgres.indexes.GinIndex(
                models.Func(
                    "customer_name",
                    template="to_tsvector('simple', translate(%(expressions)s, './@:_&?=<>+-', '            '))",
                    output_field=django.contrib.postgres.search.SearchVectorField(),
                ),
                gin_pending_list_limit=512,
                name="order_by_name",
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["created_at"], name="order_by_time"
            ),
        ),
        AddIndexConcurrently(
            model_name="callnote",
            index=models.Index(
                fields=["callback_at"],
                condition=models.Q(callback_at__isnull=False),
                name="call_note_by_promise",
            ),
        ),
    ]
