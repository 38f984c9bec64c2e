import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_more_scopes"), ("orders", "0010_delivery_type_source_second_phone")]

    operations = [
        migrations.CreateModel(
            name="ShippingFee",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("wilaya_code", models.CharField(max_length=2)),
                (
                    "home",
                    models.DecimalField(decimal_places=2, help_text="To the door, in DZD.", max_digits=10, null=True),
                ),
                (
                    "desk",
                    models.DecimalField(
                        decimal_places=2, help_text="To a stop desk, in DZD.", max_digits=10, null=True
                    ),
                ),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.account",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("account", "wilaya_code"), name="one_shipping_fee_per_wilaya"),
                    models.CheckConstraint(
                        condition=models.Q(("home", None), ("home__gte", 0), _connector="OR"),
                        name="shipping_fee_home_not_negative",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("desk", None), ("desk__gte", 0), _connector="OR"),
                        name="shipping_fee_desk_not_negative",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("home__isnull", False), ("desk__isnull", False), _connector="OR"),
                        name="shipping_fee_says_something",
                    ),
                ],
            },
        ),
    ]
