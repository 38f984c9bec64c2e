"""Between tests that commit, the database is as `migrate` leaves it, whatever they did. Their order matters."""

import random

import pytest
from django.contrib.auth.models import Group, Permission
from django.utils import timezone

from codservice.accounts.models import Account
from tests.factories import AccountFactory, make_groups
from tests.harness.database import one
from tests.harness.emptying import LARGE
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


def assert_as_migrated() -> None:
    assert not Account.objects.exists()
    assert Permission.objects.filter(codename="view_order").exists()
    assert Group.objects.count() == 2


def test_something_is_written() -> None:
    make_groups()
    AccountFactory()


def test_it_is_gone_and_much_is_written() -> None:
    assert_as_migrated()
    body = random.Random(1).randbytes(LARGE).hex()
    Event.objects.create(account=AccountFactory(), kind="order.confirmed", created_at=timezone.now(), body=body)


def test_neither_rows_nor_room_are_left() -> None:
    assert_as_migrated()
    assert not Event.objects.exists()
    assert one("SELECT pg_table_size('webhooks_event')") < LARGE / 2
    AccountFactory()


def test_it_is_gone_and_what_belongs_there_is_changed() -> None:
    assert_as_migrated()
    AccountFactory()
    Permission.objects.all().delete()


def test_it_is_as_it_was_and_then_emptied() -> None:
    assert_as_migrated()
    Group.objects.all().delete()


def test_it_is_filled_again() -> None:
    assert_as_migrated()
