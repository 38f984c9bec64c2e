"""Between tests that commit, the database is as `migrate` leaves it, whatever they did."""

import random
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import TransactionTestCase
from django.utils import timezone

from codservice.accounts.models import Account
from tests.factories import AccountFactory
from tests.harness.database import one
from tests.harness.emptying import LARGE
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
