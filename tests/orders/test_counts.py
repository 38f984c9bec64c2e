"""`meta.total` is exact however orders come, move and go, even while counts are being folded."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag

import pytest
from django.db import connections

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account
from orders import lifecycle
from orders.models import Order, OrderCount, Status
from orders.tasks import fold_order_counts
from tests.factories import AccountFactory, make_order
from tests.harness.background import at_once, eventually

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db
SUPERVISOR = Actor(Role.SUPERVISOR, "Samira")


def totals(api):
    return {status: api.get(f"{ORDERS}?status={status}").json()["meta"]["total"] for status in Status.values} | {
        "all": api.get(ORDERS).json()["meta"]["total"]
    }


def counted(account):
    mine = Order.objects.filter(account=account)
    return {status: mine.filter(status=status).count() for status in Status.values} | {"all": mine.count()}


def test_totals_follow_imports_moves_and_deletes(alice, charlie, api):
    orders = [make_order(alice) for _ in range(6)]
    make_order(charlie)
    assert totals(api) == counted(alice)
    lifecycle.confirm(orders[0].id, actor=SUPERVISOR)
    lifecycle.confirm(orders[1].id, actor=SUPERVISOR)
    lifecycle.move("ship", orders[1].id, actor=SUPERVISOR)
    lifecycle.cancel(orders[2].id, actor=SUPERVISOR)
    assert totals(api) == counted(alice)
    Order.objects.filter(id__in=[orders[1].id, orders[3].id]).delete()
    assert totals(api) == counted(alice)
    Order.objects.filter(account=alice).update(status="returned")
    assert totals(api) == counted(alice)
    Order.objects.filter(account=alice).update(notes="no move")
    assert totals(api) == counted(alice)
    assert totals(api)["all"] == 4


def test_folding_changes_no_total_and_leaves_a_row_for_each_status(alice, api):
    for number in range(12):
        order = make_order(alice)
        if number % 2:
            lifecycle.confirm(order.id, actor=SUPERVISOR)
    before = totals(api)
    assert fold_order_counts(at_least=1) == 1
    assert totals(api) == before == counted(alice)
    assert OrderCount.objects.count() == 2
    Order.objects.all().delete()
    fold_order_counts(at_least=1)
    assert not OrderCount.objects.exists()
    assert totals(api)["all"] == 0


def test_accounts_with_few_rows_are_left_alone(alice):
    for _ in range(3):
        make_order(alice)
    assert fold_order_counts(at_least=4) == 0
    assert OrderCount.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_totals_stay_exact_while_many_import_move_and_fold_at_once(alice, api):
    done = Flag()
    other = AccountFactory()

    def fold(_):
        while not done.is_set():
            fold_order_counts(at_least=2)
        connections.close_all()

    def work(number):
        for _ in range(12):
            order = make_order(alice if number % 4 else other)
            if number % 2:
                lifecycle.cancel(order.id, actor=SUPERVISOR)
            if number % 3 == 0:
                Order.objects.filter(id=order.id).delete()

    with ThreadPoolExecutor(2) as pool:
        try:
            folders = [pool.submit(fold, number) for number in range(2)]
            at_once(8, work)
        finally:
            done.set()
        for folder in folders:
            folder.result()
    assert totals(api) == counted(alice)
    fold_order_counts(at_least=1)
    assert totals(api) == counted(alice)


@pytest.mark.django_db(transaction=True)
def test_a_total_never_falls_while_orders_are_only_imported(alice, api):
    """A reader in the middle of a fold must see either all the old rows or the new one."""
    Account.objects.update(rate_limit=1_000_000)
    done = Flag()
    seen = []

    def fold(_):
        while not done.is_set():
            fold_order_counts(at_least=2)
        connections.close_all()

    def read(_):
        while not done.is_set():
            seen.append(api.get(ORDERS).json()["meta"]["total"])
        connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        try:
            others = [pool.submit(fold, 0), pool.submit(read, 0)]
            eventually(lambda: seen)
            for _ in range(60):
                make_order(alice)
            eventually(lambda: seen[-1] >= 60)
        finally:
            done.set()
        for other in others:
            other.result()
    assert seen == sorted(seen)
    assert api.get(ORDERS).json()["meta"]["total"] == 60
