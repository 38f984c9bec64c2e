"""Rows for tests, by factory_boy. Orders are imported as in life, by `lifecycle.import_order`."""

from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Any

import factory
from django.apps import apps
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from inventory.models import Product
from orders import lifecycle, phones
from orders.models import Order


@cache
def hashed_password() -> str:
    """That of every user here, `correct horse`: hashing is slow on purpose, so once is enough."""
    return make_password("correct horse")


class UserFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = User
        skip_postgeneration_save = True

    username = factory.Sequence(lambda n: f"user{n}")
    password = factory.LazyFunction(hashed_password)


class AgentFactory(UserFactory):
    username = factory.Sequence(lambda n: f"agent{n}")
    first_name = factory.Sequence(lambda n: f"Agent {n}")
    is_staff = True

    @factory.post_generation
    def role(self, create: bool, extracted: str | None, **kwargs: Any) -> None:
        if not Group.objects.exists():
            # A test with transactions of its own has emptied all tables, what migrations wrote included.
            import_module("agents.migrations.0001_roles").make_groups(apps, None)
        self.groups.add(Group.objects.get(name=extracted or "Agents"))


class AccountFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Account

    name = factory.Sequence(lambda n: f"Shop {n}")
    holder = factory.SubFactory(
        UserFactory,
        username=factory.Sequence(lambda n: f"holder{n}@example.com"),
        email=factory.SelfAttribute("username"),
    )


class ProductFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Product

    account = factory.SubFactory(AccountFactory)
    sku = factory.Sequence(lambda n: f"SKU-{n}")
    name = factory.Sequence(lambda n: f"Product {n}")
    price = Decimal("1500.00")
    stock_quantity = 10


def order_body(**changes: Any) -> dict[str, Any]:
    """The body of a good import."""
    return {
        "customer_name": "Amine Benali",
        "customer_phone": "0550 12 34 56",
        "customer_address": "12 rue Didouche Mourad",
        "customer_wilaya": "16",
        "customer_commune": "Bab Ezzouar",
        "total_amount": 4500.50,
        "shipping_fee": 400,
        "items": [{"product_name": "Robe kabyle", "quantity": 2, "unit_price": "2050.25", "attributes": {"size": "M"}}],
        **changes,
    }


def make_order(account: Account, **changes: Any) -> Order:
    """An imported order; `changes` are fields of `lifecycle.Draft`."""
    phone = changes.pop("phone", "0550123456")
    draft = lifecycle.Draft(
        **{
            "customer_name": "Amine Benali",
            "customer_phone": phone,
            "phone_e164": phones.to_e164(phone),
            "customer_address": "12 rue Didouche Mourad",
            "customer_wilaya": "16",
            "wilaya_code": "16",
            "total_amount": Decimal("4500.50"),
            "items": [lifecycle.DraftItem(quantity=2, product_name="Robe kabyle", unit_price=Decimal("2050.25"))],
            **changes,
        }
    )
    return lifecycle.import_order(account.id, draft, actor=Actor.of_command("test"))
