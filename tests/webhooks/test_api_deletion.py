"""P19: no attempt begins after the answer to a DELETE, whatever a running engine is doing at that moment."""

import threading
import time
from datetime import timedelta

import pytest
from django.db import connections, transaction
from django.utils import timezone

from tests.webhooks.engine.receivers import Receiver, answer, hang
from webhooks import delivery, events, registry
from webhooks.models import Attempt, Claim, Delivery, Event

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def engine(settings, make_engine):
    """An engine in a thread, which looks again all the time."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    engine, stopping = make_engine(), threading.Event()

    def work():
        while not stopping.is_set():
            engine.drain()
            time.sleep(0.001)
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    yield engine
    stopping.set()
    engine.stop()
    thread.join(10)
    assert not thread.is_alive()


def publish(account, count):
    with transaction.atomic():
        events.publish_all(
            account.id, Event.Kind.ORDER_CONFIRMED, data=[{"n": number} for number in range(count)], at=timezone.now()
        )


@pytest.mark.parametrize("moment", [0.0, 0.01, 0.03, 0.06])
def test_nothing_arrives_after_the_answer(api, alice, register, engine, moment):
    with Receiver(default=answer(after=0.01)) as receiver:
        webhook = register(alice, receiver.url())
        publish(alice, 300)
        time.sleep(moment)

        assert api.delete(f"/api/v1/webhooks/{webhook.id}").status_code == 204

        answered = time.monotonic()
        time.sleep(0.3)
        assert [request for request in receiver.requests if request.at > answered] == []
    assert not Delivery.objects.filter(status="pending").exists()


def test_while_all_attempts_hang_the_answer_is_soon_there(api, alice, register, engine):
    with Receiver(default=hang) as receiver:
        webhook = register(alice, receiver.url())
        publish(alice, 100)
        receiver.wait_for(delivery.AT_ONCE)
        time.sleep(0.3)
        started = time.monotonic()

        assert api.delete(f"/api/v1/webhooks/{webhook.id}").status_code == 204

        answered = time.monotonic()
        assert answered - started < 1.5  # an attempt hangs for 3
        time.sleep(0.3)
        assert all(request.at < answered for request in receiver.requests)
        assert len(receiver.requests) == delivery.AT_ONCE
        until = time.monotonic() + 10
        while Claim.objects.exists():  # the attempts under way are noted when they end
            assert time.monotonic() < until
            time.sleep(0.05)
    assert {row.status for row in Delivery.objects.all()} == {"dropped"}
    assert Attempt.objects.filter(failure="timeout").count() == delivery.AT_ONCE


def test_a_claim_that_was_just_made_is_waited_for_and_a_dead_workers_is_not(alice, register, delivery_of, monkeypatch):
    monkeypatch.setattr(registry, "CLAIM_TO_POST", timedelta(seconds=1))
    for age, least, most in ((0.0, 0.9, 3.0), (5.0, 0.0, 0.9)):
        webhook = register(alice)
        row = delivery_of(webhook)
        until = timezone.now() + delivery.LEASE - timedelta(seconds=age)
        Claim.objects.create(delivery=row, webhook=webhook, token=row.id, until=until)
        started = time.monotonic()

        registry.delete(alice.id, webhook.id)

        assert least <= time.monotonic() - started < most
