"""The hand-written statement reads an order exactly as Django does."""

import pytest
from django.utils import timezone

from codservice.accounts.models import Account
from orders import reading
from orders.models import CallNote, Order, OrderEdit, StatusChange
from orders.reading import BELONGING
from tests.factories import make_order

pytestmark = pytest.mark.django_db


def test_it_is_the_row_that_django_reads(alice: Account, charlie: Account) -> None:
    line = {"product_name": "Robe", "quantity": 2, "unit_price": "0.10"}
    lines = [line | {"attributes": {"taille": 'é " \\ {}'}}, line]
    order, now = make_order(alice, items=lines), timezone.now()
    CallNote.objects.create(account=alice, order=order, outcome="busy", note="é\n", agent_name="A", created_at=now)
    StatusChange.objects.create(account=alice, order=order, to_status="confirmed", at=now, actor="A")
    OrderEdit.objects.create(account=alice, order=order, field="notes", old="", new="x", at=now, actor="A")
    row = reading.read(alice.id, order.id)
    assert row == reading.with_detail(Order.objects.all()).values().get(id=order.id)
    assert {name: len(row[name]) for name in BELONGING} == {
        "detail_items": 2, "detail_notes": 1, "detail_history": 2, "detail_edits": 1,
    }  # fmt: skip
    with pytest.raises(Order.DoesNotExist):
        reading.read(charlie.id, order.id)
