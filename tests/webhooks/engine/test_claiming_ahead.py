"""A worker whose posts end quickly claims for places that will be free by then; what finds no place goes to others."""

import asyncio
from uuid import uuid4

import pytest
from django.db import transaction

from tests.harness.background import Background, eventually
from tests.harness.database import one, wait_for_lock
from tests.harness.deliveries import claim_due, write
from tests.harness.receivers import Receiver, answer
from webhooks import delivery
from webhooks.models import Claim, Delivery
from webhooks.sender import Post, Sender

OK = answer()


class Gate:
    """Lets a receiver answer so many requests, the first first; the others wait."""

    def __init__(self, receiver):
        self.open_for = 0
        self.most = 0
        self._came, self._left = 0, 0
        receiver.default = self

    async def __call__(self, connection):
        self._came += 1
        number = self._came
        self.most = max(self.most, self._came - self._left)
        while number > self.open_for:
            await asyncio.sleep(0.005)
        self._left += 1
        await OK(connection)


def delivered():
    return Delivery.objects.filter(status="delivered").count()


@pytest.fixture
def full(make_engine, receiver, webhook_to, monkeypatch, may_end):
    """An engine with room for ten that has claimed eighteen for nine places; the drain; its receiver's gate.

    While its second claim waited, nine attempts ended.
    """
    limits, claim = [], delivery.claim

    def note(token, limit, **more):
        limits.append(limit)
        one("SELECT set_config('lock_timeout', '0', false)")  # of the thread that claims
        return claim(token, limit, **more)

    monkeypatch.setattr(delivery, "claim", note)
    for number in range(2):
        write(webhook_to(receiver.url(f"/{number}")), 50)
    engine, gate = make_engine(window=10), Gate(receiver)
    draining = Background(engine.drain)
    receiver.wait_for(10)
    with transaction.atomic():
        one("SELECT pg_advisory_xact_lock(%s)", delivery.CLAIMING)
        gate.open_for = 1
        wait_for_lock()
        gate.open_for = 10
        eventually(lambda: delivered() == 10)
    receiver.wait_for(20)
    assert limits[:3] == [10, 1, 18]
    return engine, draining, gate


@pytest.mark.django_db(transaction=True)
def test_what_finds_no_room_in_time_is_left_to_others(full):
    engine, draining, gate = full
    eventually(lambda: Claim.objects.count() == 10)  # those at the receiver, which hangs
    assert len(claim_due(uuid4(), 100)) == 100 - 10 - 10
    engine.stop()
    gate.open_for = 20
    assert draining.result() == 20
    assert gate.most == 10


@pytest.fixture
def patient(monkeypatch):
    """Posts wait for room as long as it takes."""
    monkeypatch.setattr(delivery, "BEGIN_WITHIN", 1000)


@pytest.mark.django_db(transaction=True)
def test_a_stop_leaves_what_waits_for_room_to_others(patient, full, receiver):
    engine, draining, gate = full
    assert Claim.objects.count() == 19
    engine.stop()
    eventually(lambda: Claim.objects.count() == 10)
    gate.open_for = 100
    assert draining.result() == 20 == delivered()
    assert len(receiver.requests) == 20
    assert Claim.objects.count() == 0


def test_posts_begin_in_order_as_places_become_free():
    with Receiver() as receiver:
        gate, sender = Gate(receiver), Sender(width=2, allow_private=True)
        for number in range(6):
            sender.start(Post(uuid4(), receiver.url(f"/{number}"), "order.confirmed", b"{}", ["whsec_AAAA"], 1))
        assert sender.room == -4
        outcomes = []
        while not sender.is_idle:
            outcomes += sender.finished(0.1)
            if len(receiver.requests) == 2:
                gate.open_for = 6
        sender.close()
        assert [outcome.failure for outcome in outcomes] == [""] * 6
        assert sorted(request.path for request in receiver.requests) == [f"/{number}" for number in range(6)]
        assert {request.path for request in receiver.requests[:2]} == {"/0", "/1"}
        assert gate.most == 2
