"""importing.import_orders: many bodies at once, each answered with its order or with everything wrong with it."""

from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts.actor import Actor
from codservice.errors import Invalid
from orders import importing
from orders.models import Order, OrderItem
from tests.factories import ProductFactory, make_order, order_body, order_line
from tests.harness import plans

pytestmark = pytest.mark.django_db
ROBOT = Actor.of_command("test")


def body(**changes):
    return order_body(**{"total_amount": 4500, **changes})


def test_each_body_gets_its_order_or_all_that_is_wrong_with_it(alice, charlie):
    make_order(alice, external_id="taken")
    make_order(charlie, external_id="1")
    robe, theirs = ProductFactory(account=alice, name="Robe"), ProductFactory(account=charlie)
    unknown = order_line(quantity=1, product_id=theirs.id)
    first, second, bad, worse, taken, twice = importing.import_orders(
        alice.id,
        [
            body(external_id="1", items=[order_line(quantity=n, product_id=robe.id) for n in (3, 2, 1)]),
            body(),
            body(external_id="2", customer_name="", items=[unknown, order_line(product_id=str(uuid4()))]),
            body(external_id="taken", customer_phone="1", items=[unknown]),
            body(external_id="taken"),
            body(external_id="1"),
        ],
        actor=ROBOT,
    )

    assert [(line.product_name, line.quantity) for line in first.items] == [("Robe", 3), ("Robe", 2), ("Robe", 1)]
    kept = Order.objects.get(account=alice, external_id="1")
    assert (kept.id, kept.created_at) == (first.id, first.created_at)
    assert [(line.id, line.quantity) for line in kept.items.order_by("position")] == [
        (line.id, line.quantity) for line in first.items
    ]
    assert (second.external_id, second.total_amount, second.notes) == (None, Decimal("4500.00"), "")
    assert bad.errors.keys() == {"customer_name", "items.0.product_id", "items.1.quantity", "items.1.product_id"}
    assert type(bad) is Invalid
    assert worse.errors.keys() == {"customer_phone", "items.0.product_id", "external_id"}
    assert taken.errors.keys() == twice.errors.keys() == {"external_id"}
    assert {type(refusal) for refusal in (worse, taken, twice)} == {importing.DuplicateExternalId}
    assert Order.objects.filter(account=alice).count() == 3


@pytest.mark.parametrize("count", [1, 300])
def test_many_cost_as_many_statements_as_one(alice, count):
    product = ProductFactory(account=alice)
    good = [body(external_id=f"good {n}", items=[order_line(quantity=1, product_id=product.id)]) for n in range(count)]
    bad = [body(external_id=f"bad {n}", items=[order_line(quantity=0, product_id=product.id)]) for n in range(count)]

    with CaptureQueriesContext(connection) as statements:
        outcomes = importing.import_orders(alice.id, good + bad, actor=ROBOT)

    assert [isinstance(outcome, Invalid) for outcome in outcomes] == [False] * count + [True] * count
    assert len(statements) == 3, "products, external ids of what is refused, insert"
    assert OrderItem.objects.count() == count


def test_importing_no_bodies_costs_no_statement(alice):
    with CaptureQueriesContext(connection) as statements:
        assert importing.import_orders(alice.id, [], actor=ROBOT) == []
    assert len(statements) == 0


@pytest.mark.parametrize("believed", plans.UNCOUNTED)
@pytest.mark.parametrize("plan", ["force_generic_plan", "force_custom_plan"])
def test_of_orders_that_are_there_only_those_that_are_named_are_read(alice, believed, plan):
    """This also holds before PostgreSQL has analyzed the table, as when a new service takes in its first file."""
    plans.fill_uncounted(make_order(alice, external_id="0"), believed)
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL plan_cache_mode = {plan}")
    before, many = plans.read_so_far(), [body(external_id=str(number)) for number in range(1000)]

    outcomes = importing.import_orders(alice.id, many, actor=ROBOT, skip_known=True)

    assert {type(outcome) for outcome in outcomes} == {importing.DuplicateExternalId}
    assert plans.read_so_far() - before <= len(many)
