import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models
from django.db.models import F
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [
        ("orders", "0014_day_indexes"),
        ("accounts", "0006_check_twins"),
    ]

    operations = [
        migrations.CreateModel(
            name="Erasure",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=Now())),
                ("actor", models.CharField(help_text="Who did it, as people read it.", max_length=255)),
                ("order_count", models.PositiveIntegerField()),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="erasures",
                        to="accounts.account",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(F("account"), F("created_at").desc(), F("id").desc(), name="erasure_list"),
                ],
            },
        ),
    ]
