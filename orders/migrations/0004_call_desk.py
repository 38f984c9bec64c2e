"""What pending orders wait for, and what agents change in them. New columns have their defaults in the database."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

NOBODYS_KEY = {"db_constraint": False, "db_index": False, "on_delete": django.db.models.deletion.DO_NOTHING}


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_initial"),
        ("orders", "0003_console_list"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="OrderEdit",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "field",
                    models.CharField(
                        help_text="As the API names it: `customer_address`, `items.0.quantity`.", max_length=40
                    ),
                ),
                ("old", models.CharField(blank=True, max_length=500)),
                ("new", models.CharField(blank=True, max_length=500)),
                ("at", models.DateTimeField()),
                ("actor", models.CharField(help_text="Who made it, as people read it.", max_length=255)),
                ("account", models.ForeignKey(related_name="+", to="accounts.account", **NOBODYS_KEY)),
                (
                    "order",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="edits",
                        to="orders.order",
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
            options={"indexes": [models.Index(fields=["order", "at"], name="order_edit_of_order")]},
        ),
        migrations.AddField(
            model_name="order",
            name="call_state",
            field=models.CharField(
                choices=[
                    ("new", "First call"),
                    ("retry", "Another attempt"),
                    ("callback", "Promised call"),
                    ("review", "A supervisor's review"),
                ],
                db_default="new",
                default="new",
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="order",
            name="call_due_at",
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
        ),
        migrations.AddField(
            model_name="order",
            name="call_attempts",
            field=models.PositiveSmallIntegerField(db_default=0, default=0, help_text="Calls that were not answered."),
        ),
        migrations.AddField(
            model_name="order",
            name="callback_agent",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                help_text="Who promised to call.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="callnote",
            name="outcome",
            field=models.CharField(
                choices=[
                    ("answered", "Answered"),
                    ("no_answer", "No answer"),
                    ("busy", "Busy"),
                    ("switched_off", "Switched off"),
                    ("wrong_number", "Wrong number"),
                    ("callback", "Call back later"),
                    ("handed_over", "Handed over"),
                    ("skipped", "Skipped"),
                    ("note", "Note only"),
                ],
                max_length=20,
            ),
        ),
    ]
