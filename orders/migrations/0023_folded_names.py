from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.contrib.postgres.search import SearchVectorField
from django.db import migrations, models

LETTERS = "ÀÂÄÇÈÉÊËÎÏÔÖÙÛÜàâäçèéêëîïñôöùûüأإآٱىةؤئ"
AS = "AAACEEEEIIOOUUUaaaceeeeiinoouuuاااايهوي"
UNWRITTEN = "\u0640\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0670"


class Migration(migrations.Migration):
    """The console finds names however their accents, alefs and short vowels are written."""

    atomic = False  # built beside the writes of a running service

    dependencies = [("orders", "0022_list_by_wilaya")]

    operations = [
        AddIndexConcurrently(
            model_name="order",
            index=GinIndex(
                models.Func(
                    "customer_name",
                    template=(
                        f"to_tsvector('simple', translate(%(expressions)s, './@:_&?=<>+-{LETTERS}{UNWRITTEN}',"
                        f" '            {AS}'))"
                    ),
                    output_field=SearchVectorField(),
                ),
                gin_pending_list_limit=512,
                name="order_by_folded_name",
            ),
        ),
        RemoveIndexConcurrently(model_name="order", name="order_by_name"),
    ]
