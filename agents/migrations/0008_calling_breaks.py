"""Calling hours may have a break."""

from django.db import migrations, models
from django.db.models import F, Q

WITHIN = Q(break_from=None, break_until=None) | Q(
    break_from__isnull=False,
    break_until__isnull=False,
    break_from__gt=F("opens_at"),
    break_until__gt=F("break_from"),
    break_until__lt=F("closes_at"),
)


def added(model_name: str) -> list[migrations.AddField]:
    return [
        migrations.AddField(
            model_name=model_name,
            name="break_from",
            field=models.TimeField(
                blank=True,
                null=True,
                verbose_name="break from",
                help_text="No calls are made during the break. Leave both empty for no break.",
            ),
        ),
        migrations.AddField(
            model_name=model_name,
            name="break_until",
            field=models.TimeField(blank=True, null=True, verbose_name="break until"),
        ),
    ]


class Migration(migrations.Migration):
    dependencies = [("agents", "0007_part_of_today")]

    operations = [
        *added("callingrules"),
        *added("callingperiod"),
        migrations.AddConstraint(
            model_name="callingrules", constraint=models.CheckConstraint(condition=WITHIN, name="calling_break_within")
        ),
        migrations.AddConstraint(
            model_name="callingperiod", constraint=models.CheckConstraint(condition=WITHIN, name="period_break_within")
        ),
    ]
