from django.db import migrations, models

LIKE = "agents_claim_phone_e164_86028610_like"


class Migration(migrations.Migration):
    """Nothing looks for the claims of parts of a phone number."""

    atomic = False  # beside the writes of a running service

    dependencies = [("agents", "0009_closed_days")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    f"DROP INDEX CONCURRENTLY IF EXISTS {LIKE}",
                    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {LIKE} ON agents_claim (phone_e164 varchar_pattern_ops)",
                ),
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="claim",
                    name="phone_e164",
                    field=models.CharField(max_length=16, verbose_name="phone (E.164)"),
                ),
                migrations.AddConstraint(  # it is there, by this name
                    model_name="claim",
                    constraint=models.UniqueConstraint(fields=("phone_e164",), name="agents_claim_phone_e164_key"),
                ),
            ],
        ),
    ]
