"""Factories of rows for tests (factory_boy). Orders are imported as in production, by `importing.import_orders`."""

from collections.abc import Iterable
from datetime import date, time
from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Any

import factory
from django.apps import apps
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group

from agents.models import CallingPeriod
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from codservice.errors import Invalid
from inventory.models import Product
from orders import importing
from orders.models import Order

PASSWORD = "correct horse"  # of every user here
# Addresses that Django's own check accepts, although no mail can be written to them, or it would go to another mailbox.
UNMAILABLE = [
    "nadia@a\u05d0.example",
    f"nadia@{'é' * 63}.example",
    "nadia@\u00ad\u00ad.example",
    "=?utf-8?q?a=0ab?=@e.example",
    "=?utf-8?q??=@e.example",
    "=?utf-8?q?nadia?=@e.example",
    "\u017fara@e.example",
]


@cache
def hashed_password() -> str:
    """The hash of PASSWORD, made once because hashing is slow on purpose."""
    return make_password(PASSWORD)


def _numbered(text: str) -> Any:
    """The text with a number, a different one in each row.

    All numbers have as many digits: the texts sort as the rows were made, and none is a part of another.
    """
    return factory.Sequence(lambda n: text.format(100_000 + n))


class UserFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = User
        skip_postgeneration_save = True

    username = _numbered("user{}")
    password = factory.LazyFunction(hashed_password)


def make_groups() -> None:
    """Make the call center's groups again if a test with transactions of its own has emptied all tables."""
    if not Group.objects.exists():
        import_module("agents.migrations.0001_roles").make_groups(apps, None)


class AgentFactory(UserFactory):
    username = _numbered("agent{}")
    first_name = _numbered("Agent {}")
    is_staff = True

    @factory.post_generation
    def role(self, create: bool, extracted: str | None, **kwargs: Any) -> None:
        # As `add` does, but without looking for the row first and without an entry in the security log.
        self.groups.through.objects.create(user=self, group=Group.objects.get(name=extracted or "Agents"))


class AccountFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Account

    name = _numbered("Shop {}")
    holder = factory.SubFactory(
        UserFactory,
        username=_numbered("holder{}@example.com"),
        email=factory.SelfAttribute("username"),
    )


class ProductFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Product

    account = factory.SubFactory(AccountFactory)
    sku = _numbered("SKU-{}")
    name = _numbered("Product {}")
    price = Decimal("1500.00")
    stock_quantity = 10


def open_always() -> None:
    """Let agents call every merchant's customers day and night, whatever the time when a test runs."""
    CallingPeriod.objects.create(
        first_day=date(2000, 1, 1), last_day=date(2100, 1, 1), opens_at=time.min, closes_at=time.max, is_opening=True
    )


def order_body(**changes: Any) -> dict[str, Any]:
    """A valid body for an import."""
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


def order_line(**fields: Any) -> dict[str, Any]:
    """A line of an import's body. `product_id` may be a UUID."""
    return {name: str(value) if name == "product_id" else value for name, value in fields.items()}


def make_order(account: Account, **changes: Any) -> Order:
    """An imported order. `changes` are fields of the body; `phone` is short for `customer_phone`."""
    (order,) = make_orders(account, [changes])
    return order


def make_orders(account: Account, changes: Iterable[dict[str, Any]]) -> list[Order]:
    """An imported order for each of `changes`, in the same order."""
    bodies = [_BODY | {_FIELDS.get(name, name): value for name, value in each.items()} for each in changes]
    made = importing.import_orders(account.id, bodies, actor=Actor.of_command("test"))
    for order in made:
        if isinstance(order, Invalid):
            raise order
    orders = Order.objects.in_bulk([order.id for order in made])
    return [orders[order.id] for order in made]


_BODY = {
    "customer_name": "Amine Benali",
    "customer_phone": "0550123456",
    "customer_address": "12 rue Didouche Mourad",
    "customer_wilaya": "16",
    "total_amount": Decimal("4500.50"),
    "items": [order_line(quantity=2, product_name="Robe kabyle", unit_price=Decimal("2050.25"))],
}
_FIELDS = {"phone": "customer_phone"}
