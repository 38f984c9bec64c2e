"""What an agent changes before confirming is written, counted and told to the merchant; afterwards it is refused."""

from decimal import Decimal

import pytest

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account
from codservice.errors import Invalid
from orders import editing, lifecycle
from orders.models import Order, OrderEdit
from tests.factories import make_order, order_line
from tests.harness.client import ApiClient
from tests.orders.moves import edits

SAMIRA = Actor(Role.AGENT, "Samira")


@pytest.fixture
def order(alice: Account) -> Order:
    """Two robes at 1000 and a scarf at 500, plus 400 for shipping, less 100."""
    items = [
        order_line(quantity=2, product_name="Robe", unit_price=Decimal("1000.00")),
        order_line(quantity=1, product_name="Foulard", unit_price=Decimal("500.00")),
    ]
    return make_order(alice, items=items, shipping_fee=Decimal("400.00"), total_amount=Decimal("2800.00"))


def test_the_customers_fields_are_changed_and_written_down(order: Order) -> None:
    changes = editing.Edit(customer_name="Amine Benali-Haddad", customer_address="14 rue Larbi Ben M'hidi")
    changed = editing.edit(order.id, changes, actor=SAMIRA, seen_version=1)

    assert (changed.customer_name, changed.version) == ("Amine Benali-Haddad", 2)
    assert edits(order) == {
        "customer_name": ("Amine Benali", "Amine Benali-Haddad"),
        "customer_address": ("12 rue Didouche Mourad", "14 rue Larbi Ben M'hidi"),
    }
    order.refresh_from_db()
    assert order.customer_address == "14 rue Larbi Ben M'hidi"
    assert order.updated_at == OrderEdit.objects.filter(order=order).latest("at").at > order.created_at


def test_a_commune_does_not_stay_behind_in_another_wilaya(order: Order) -> None:
    editing.edit(order.id, editing.Edit(customer_commune="Bab Ezzouar", commune_code="1621"), actor=SAMIRA)
    editing.edit(order.id, editing.Edit(customer_wilaya="Oran", wilaya_code="31"), actor=SAMIRA)

    order.refresh_from_db()
    assert (order.wilaya_code, order.commune_code, order.customer_commune) == ("31", None, "")


def test_the_total_follows_quantities_and_shipping_and_keeps_the_discount(order: Order) -> None:
    robe, scarf = order.items.order_by("position")
    changes = editing.Edit(
        shipping_fee=Decimal("600.00"), line_changes={robe.id: {"quantity": 1}, scarf.id: {"quantity": 3}}
    )
    changed = editing.edit(order.id, changes, actor=SAMIRA)

    assert changed.total_amount == Decimal("3000.00")
    assert edits(order) == {
        "items.0.quantity": ("2", "1"),
        "items.1.quantity": ("1", "3"),
        "shipping_fee": ("400.00", "600.00"),
        "total_amount": ("2800.00", "3000.00"),
    }


def test_a_line_can_be_removed_but_not_the_last(order: Order) -> None:
    robe, scarf = order.items.order_by("position")
    editing.edit(order.id, editing.Edit(line_changes={scarf.id: {"quantity": 0}}), actor=SAMIRA)
    assert [item.product_name for item in order.items.all()] == ["Robe"]

    with pytest.raises(Invalid) as refused:
        editing.edit(order.id, editing.Edit(line_changes={robe.id: {"quantity": 0}}), actor=SAMIRA)
    assert list(refused.value.errors) == ["items"]
    assert order.items.get().quantity == 2


def test_lines_are_named_by_where_they_stand_now(order: Order) -> None:
    robe, scarf = order.items.order_by("position")
    editing.edit(order.id, editing.Edit(line_changes={robe.id: {"quantity": 0}}), actor=SAMIRA)
    OrderEdit.objects.all().delete()

    bag = {"product_name": "Sac", "quantity": 1, "unit_price": Decimal("300.00")}
    editing.edit(order.id, editing.Edit(line_changes={scarf.id: {"quantity": 2}}, added=[bag]), actor=SAMIRA)

    assert edits(order).keys() - {"total_amount"} == {"items.0.quantity", "items.1"}
    assert [item.product_name for item in order.items.order_by("position")] == ["Foulard", "Sac"]


@pytest.mark.parametrize("quantity", [0, 10_000_000])
def test_a_total_out_of_bounds_changes_nothing(quantity: int, alice: Account) -> None:
    items = [
        order_line(quantity=1, product_name="Robe", unit_price=Decimal("1000.00")),
        order_line(quantity=1, product_name="Foulard", unit_price=Decimal("10.00")),
    ]
    order = make_order(alice, items=items, total_amount=Decimal("500.00"))

    with pytest.raises(Invalid) as refused:
        editing.edit(
            order.id, editing.Edit(line_changes={order.items.get(position=0).id: {"quantity": quantity}}), actor=SAMIRA
        )

    assert list(refused.value.errors) == ["total_amount"]
    assert (order.items.count(), edits(order)) == (2, {})


def test_nothing_different_is_no_change(order: Order) -> None:
    changes = editing.Edit(customer_name="Amine Benali", line_changes={order.items.get(position=0).id: {"quantity": 2}})
    assert editing.edit(order.id, changes, actor=SAMIRA).version == 1
    assert edits(order) == {}


def test_an_edit_is_refused_on_a_decided_or_changed_order(order: Order) -> None:
    changes = editing.Edit(customer_name="Another")
    with pytest.raises(lifecycle.Changed):
        editing.edit(order.id, changes, actor=SAMIRA, seen_version=7)
    lifecycle.confirm(order.id, actor=SAMIRA)
    with pytest.raises(lifecycle.AlreadyDecided, match="Already confirmed by Samira"):
        editing.edit(order.id, changes, actor=SAMIRA)
    assert edits(order) == {}


def test_the_merchant_reads_the_edits_in_the_detail(order: Order, api: ApiClient) -> None:
    editing.edit(order.id, editing.Edit(customer_name="Amine Haddad"), actor=SAMIRA)

    body = api.get(f"/api/v1/orders/{order.id}").json()

    (edit,) = body["edits"]
    assert edit == {
        "field": "customer_name",
        "old": "Amine Benali",
        "new": "Amine Haddad",
        "at": body["updated_at"],
        "actor": "Samira",
    }
