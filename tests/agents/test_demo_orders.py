"""What seed_demo makes is believable: statuses, histories and calls that agree, in times that fit."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Any

import pytest
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from agents.filters import SortFilter
from agents.models import Claim
from orders.models import CallNote, CallState, Order, OrderEdit, ShippingFee, Status
from tests.harness.database import one
from tests.harness.manage import output

MADE = 300


@pytest.fixture(scope="module")
def seeded(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The data, made once. A test's transaction is inside this one, which is undone."""
    with django_db_blocker.unblock(), transaction.atomic():
        one("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")  # tests may stand still at midnight
        output("seed_demo", orders=MADE)
        with django_db_blocker.block():
            yield
        transaction.set_rollback(True)


pytestmark = [pytest.mark.usefixtures("seeded"), pytest.mark.django_db]


def among_the_first(count: int) -> QuerySet[Order]:
    """The orders that nobody should need more of."""
    return Order.objects.filter(external_id__in=[f"DEMO-1-{number + 1}" for number in range(count)])


def test_orders_are_in_every_status_and_their_histories_agree() -> None:
    assert set(among_the_first(120).values_list("status", flat=True)) == set(Status.values)
    assert Order.objects.count() == MADE
    for order in Order.objects.prefetch_related("status_changes"):
        history = sorted(order.status_changes.all(), key=lambda change: (change.at, change.id))
        assert history[-1].to_status == order.status
        assert history[0].at == order.created_at


def test_the_desk_has_all_that_can_wait() -> None:
    waiting = among_the_first(200).filter(status=Status.PENDING)
    for state in set(CallState) - {CallState.TEST}:
        assert waiting.filter(call_state=state).exists(), state
    for state in (CallState.RETRY, CallState.CALLBACK):
        assert waiting.filter(call_state=state, call_due_at__lt=Now()).exists(), state
        assert waiting.filter(call_state=state, call_due_at__gt=Now()).exists(), state
    assert not waiting.filter(call_state=CallState.NEW, call_due_at__gt=Now()).exists()
    assert OrderEdit.objects.filter(order__in=waiting, at__lt=Now() - timedelta(minutes=4)).exists()
    assert CallNote.objects.filter(order__in=among_the_first(200), callback_at__isnull=False).exists()
    assert not Claim.objects.exists()


def test_the_oldest_of_the_new_orders_come_first_in_the_list() -> None:
    new = Order.objects.filter(status=Status.PENDING, call_state=CallState.NEW)
    times = list(new.order_by(*SortFilter.ORDERINGS[SortFilter.OLDEST]).values_list("created_at", flat=True))
    assert times == sorted(times)


def test_it_looks_alive() -> None:
    """Calls come minutes after the order, decisions later; promises are kept and broken; nothing lies in the future."""
    now, firsts, lateness = timezone.now(), [], []
    for order in Order.objects.prefetch_related("status_changes", "call_notes"):
        notes = sorted(order.call_notes.all(), key=lambda note: note.created_at)
        times = [order.created_at, *(note.created_at for note in notes)]
        moves = sorted(change.at for change in order.status_changes.all())
        assert moves[0] == order.created_at
        assert moves[-1] <= order.updated_at <= now
        assert times == sorted(times)
        assert times[-1] <= now
        firsts += [note.created_at - order.created_at for note in notes[:1]]
        lateness += [
            following.created_at - note.callback_at
            for note, following in pairwise(notes)
            if note.callback_at is not None
        ]
    assert timedelta(minutes=2) <= median(firsts) <= timedelta(hours=14)
    kept = [late for late in lateness if late < timedelta(minutes=30)]
    assert kept
    assert len(kept) < len(lateness)
    assert set(Order.objects.values_list("delivery_type", flat=True)) == {"home", "desk"}
    assert Order.objects.values("source").distinct().count() >= 4
    assert ShippingFee.objects.count() == 69
