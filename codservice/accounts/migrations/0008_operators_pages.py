import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the writes of a running service

    dependencies = [("accounts", "0007_team")]

    operations = [
        migrations.AlterModelOptions(
            name="account", options={"verbose_name": "merchant", "verbose_name_plural": "merchants"}
        ),
        migrations.AlterModelOptions(
            name="apikey", options={"verbose_name": "API key", "verbose_name_plural": "API keys"}
        ),
        migrations.AlterModelOptions(
            name="securityentry",
            options={"verbose_name": "entry of the security log", "verbose_name_plural": "security log"},
        ),
        migrations.AlterModelOptions(name="user", options={"verbose_name": "person", "verbose_name_plural": "people"}),
        AddIndexConcurrently(
            model_name="securityentry",
            index=models.Index(fields=["action", "-created_at", "-id"], name="security_by_action"),
        ),
        AddIndexConcurrently(
            model_name="securityentry",
            index=models.Index(
                condition=models.Q(("outcome", "refused")), fields=["-created_at", "-id"], name="security_refused"
            ),
        ),
        AddIndexConcurrently(
            model_name="securityentry",
            index=django.contrib.postgres.indexes.GinIndex(
                models.Func(
                    "actor",
                    "target",
                    "address",
                    arg_joiner=" || ' ' || ",
                    template="to_tsvector('simple', translate(%(expressions)s, './@:_&?=<>+-→', '             '))",
                    output_field=django.contrib.postgres.search.SearchVectorField(),
                ),
                gin_pending_list_limit=512,
                name="security_by_words",
            ),
        ),
    ]
