import django.db.models.deletion
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

# Backwards a twin becomes an account like others, whose keys work no more: every account has a holder there.
GIVE_HOLDERS = """
INSERT INTO accounts_user (id, password, is_superuser, username, first_name, last_name, email, is_staff, is_active,
    date_joined) SELECT id, '!', false, 'twin ' || id, '', '', '', false, false, now()
    FROM accounts_account WHERE holder_id IS NULL;
UPDATE accounts_account SET holder_id = id WHERE holder_id IS NULL;
SET CONSTRAINTS ALL IMMEDIATE;
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_more_scopes")]

    operations = [
        migrations.AlterField(
            model_name="account",
            name="holder",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="account",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, GIVE_HOLDERS),
        migrations.AddField(
            model_name="account",
            name="live",
            field=models.OneToOneField(
                blank=True,
                editable=False,
                help_text="Of a twin for tests: whose it is.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="twin",
                to="accounts.account",
            ),
        ),
        AddConstraintNotValid(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=models.Q(("holder__isnull", False), ("live__isnull", True))
                | models.Q(("holder__isnull", True), ("live__isnull", False)),
                name="account_has_holder_or_is_twin",
            ),
        ),
    ]
