"""Between tests that commit, the database is as `migrate` leaves it, whatever they did."""

import random
import threading
import time
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.test import TransactionTestCase
from django.utils import timezone

from codservice.accounts.models import Account
from tests.factories import AccountFactory
from tests.harness.background import PATIENCE, Background
from tests.harness.database import one, wait_for_lock
from tests.harness.emptying import LARGE, UnderWay
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


def assert_as_migrated() -> None:
    assert not Account.objects.exists()
    assert Permission.objects.filter(codename="view_order").exists()
    assert Group.objects.count() == 2
    assert not Event.objects.exists()
    assert one("SELECT pg_table_size('webhooks_event')") <= LARGE


def write_rows() -> None:
    AccountFactory()


def write_much() -> None:
    body = random.Random(1).randbytes(LARGE).hex()
    Event.objects.create(account=AccountFactory(), kind="order.confirmed", created_at=timezone.now(), body=body)


def change_what_belongs_there() -> None:
    AccountFactory()
    Permission.objects.all().delete()


def delete_what_belongs_there() -> None:
    Group.objects.all().delete()


@pytest.mark.parametrize(
    "use", [write_rows, write_much, change_what_belongs_there, delete_what_belongs_there], ids=lambda use: use.__name__
)
def test_whatever_is_done_is_undone_and_leaves_no_room(use: Callable[[], None]) -> None:
    empty = TransactionTestCase()._fixture_teardown
    empty()  # the first of a process is not as the others

    for _ in range(2):
        use()
        empty()

        assert_as_migrated()


@pytest.mark.parametrize("delete", [write_rows, delete_what_belongs_there], ids=["deletes", "truncates"])
@pytest.mark.parametrize("late", [0.0, 2.5], ids=["deadlock", "timeout"])
def test_it_bears_whoever_still_locks_tables_in_whatever_order(late: float, delete: Callable[[], None]) -> None:
    empty = TransactionTestCase()._fixture_teardown
    empty()
    delete()
    if not one("SELECT has_parameter_privilege('deadlock_timeout', 'SET')"):
        pytest.skip("only some roles may choose whom a deadlock ends")
    has_begun = threading.Event()

    @transaction.atomic
    def lock() -> None:
        one("SELECT set_config('deadlock_timeout', '10s', true)")  # so that not this is ended
        one("SELECT set_config('lock_timeout', '0', true)")
        one("SELECT count(*) FROM webhooks_webhook")
        has_begun.set()
        wait_for_lock()
        time.sleep(late)
        one("SELECT count(*) FROM accounts_account")

    still = Background(lock)
    assert has_begun.wait(PATIENCE)
    empty()

    assert_as_migrated()
    still.result()


def test_it_waits_for_requests_that_closed_pages_left_behind() -> None:
    is_under_way = threading.Event()

    def view(request: HttpRequest) -> HttpResponse:
        is_under_way.set()
        time.sleep(1)
        AccountFactory()
        return HttpResponse()

    request = Background(lambda: UnderWay(view)(HttpRequest()))
    assert is_under_way.wait(PATIENCE)
    TransactionTestCase()._fixture_teardown()

    request.result()
    assert_as_migrated()
