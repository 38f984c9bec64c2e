import django.db.models.deletion
from django.db import migrations, models

ACCOUNT, LIKE = "accounts_invitation_account_id_8e9dd036", "accounts_signin_session_key_29d63cd7_like"


class Migration(migrations.Migration):
    """Indexes that no query asks: another begins with the account, and nothing looks for parts of a session's key."""

    atomic = False  # beside the writes of a running service

    dependencies = [("accounts", "0008_operators_pages")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    f"DROP INDEX CONCURRENTLY IF EXISTS {ACCOUNT}",
                    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {ACCOUNT} ON accounts_invitation (account_id)",
                ),
                migrations.RunSQL(
                    f"DROP INDEX CONCURRENTLY IF EXISTS {LIKE}",
                    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {LIKE}"
                    " ON accounts_signin (session_key varchar_pattern_ops)",
                ),
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="invitation",
                    name="account",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="invitations",
                        to="accounts.account",
                    ),
                ),
                migrations.AlterField(model_name="signin", name="session_key", field=models.CharField(max_length=40)),
                migrations.AddConstraint(  # it is there, by this name
                    model_name="signin",
                    constraint=models.UniqueConstraint(fields=("session_key",), name="accounts_signin_session_key_key"),
                ),
            ],
        ),
    ]
