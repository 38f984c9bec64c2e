"""P19: no attempt begins after the answer to a DELETE, whatever a running engine is doing at that moment."""

import threading
import time
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from tests.harness.background import PATIENCE, Background, asleep, eventually
from tests.harness.deliveries import draining, publish
from tests.harness.manage import printed
from tests.harness.receivers import Receiver, answer, hang
from webhooks import delivery, registry, tasks
from webhooks.models import Attempt, Claim, Delivery

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def engine(settings, make_engine):
    """An engine in a thread, which looks for work all the time."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with draining(engine := make_engine(), pause=0.001):
        yield engine


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
        before = asleep()

        assert api.delete(f"/api/v1/webhooks/{webhook.id}").status_code == 204

        answered = time.monotonic()
        assert asleep() - before < 1.5  # a hanging attempt takes 3
        time.sleep(0.3)
        assert all(request.at < answered for request in receiver.requests)
        assert len(receiver.requests) == delivery.AT_ONCE
        eventually(lambda: not Claim.objects.exists())  # attempts under way are noted when they end
    assert {row.status for row in Delivery.objects.all()} == {"dropped"}
    assert Attempt.objects.filter(failure="timeout").count() == delivery.AT_ONCE


def test_a_claim_that_was_just_made_is_waited_for_and_a_dead_workers_is_not(alice, register, delivery_of, monkeypatch):
    for begin_within, age, least, most in ((1, 0, 0.9, 3.0), (5, 6, 0.0, 4.9)):
        monkeypatch.setattr(registry, "CLAIM_TO_POST", timedelta(seconds=begin_within))
        webhook = register(alice)
        row = delivery_of(webhook)
        started = time.monotonic()
        until = timezone.now() + delivery.LEASE - timedelta(seconds=age)
        Claim.objects.create(delivery=row, webhook=webhook, token=row.id, until=until)

        registry.delete(alice.id, webhook.id)

        assert least <= time.monotonic() - started < most


def test_what_the_answer_does_not_wait_for_counts_as_dropped_and_is_dropped_soon(
    api, alice, register, make_engine, settings, monkeypatch
):
    settings.WEBHOOK_ALLOW_PRIVATE = True
    monkeypatch.setattr(registry, "DROP_SECONDS", 0.0)
    monkeypatch.setattr(registry, "_BATCH", 20)
    with Receiver() as receiver:
        webhook, kept = register(alice, receiver.url("/gone")), register(alice, receiver.url("/kept"))
        publish(alice, 50)
        Delivery.objects.filter(webhook=webhook, id__in=Delivery.objects.values("id")[:10]).update(attempt_count=1)

        assert api.delete(f"/api/v1/webhooks/{webhook.id}").status_code == 204

        assert Delivery.objects.filter(webhook=webhook, status="pending").count() == 50
        assert shown("--webhook", str(webhook.id)) == {"dropped": 50}
        assert shown("--status", "dropped") == {"dropped": 50}
        assert shown("--status", "pending") == {"pending": 50}
        make_engine().drain()
        assert {request.path for request in receiver.requests} == {"/kept"}

    assert tasks.drop_left_over() == 50
    assert set(Delivery.objects.filter(webhook=webhook).values_list("status", "next_attempt_at")) == {("dropped", None)}
    assert Delivery.objects.filter(webhook=kept, status="delivered").count() == 50
    assert tasks.drop_left_over() == 0


def shown(*args):
    """Return how many deliveries the command shows, by status."""
    rows, _ = printed("deliveries", "--limit", "1000", *args)
    return Counter(row["status"] for row in rows)


def test_a_claim_that_is_being_made_meanwhile_is_waited_for(alice, register, delivery_of):
    """The claim has looked before the deletion and commits after it, so its posts count as begun."""
    webhook = register(alice)
    row = delivery_of(webhook)
    looked, may_commit = threading.Event(), threading.Event()

    def claim():
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [delivery.CLAIMING])
            looked.set()
            may_commit.wait(PATIENCE)
            Claim.objects.create(
                delivery=row,
                webhook=webhook,
                token=row.id,
                until=timezone.now() + delivery.LEASE - timedelta(seconds=5),
            )

    claiming = Background(claim)
    assert looked.wait(PATIENCE)
    deleting = Background(lambda: registry.delete(alice.id, webhook.id))
    time.sleep(0.5)
    assert not deleting.is_over
    may_commit.set()
    claiming.result()
    deleting.result()
    assert Claim.objects.exists()


def test_while_nobody_can_be_kept_from_claiming_nothing_is_deleted_and_the_next_try_does_it(
    api, alice, register, delivery_of
):
    webhook = register(alice)
    row = delivery_of(webhook)
    path = f"/api/v1/webhooks/{webhook.id}"
    with transaction.atomic():
        delivery.hold_off_claims()
        assert Background(lambda: api.delete(path).status_code).result() == 503
    assert api.get(path).status_code == 200
    row.refresh_from_db()
    assert row.status == "pending"

    assert api.delete(path).status_code == 204

    row.refresh_from_db()
    assert row.status == "dropped"


@pytest.mark.parametrize("table", ["webhooks_delivery", "webhooks_claim"])
def test_what_is_deleted_is_answered_so_when_the_rest_of_the_work_fails(api, alice, register, delivery_of, table):
    webhook = register(alice)
    row = delivery_of(webhook)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        assert Background(lambda: api.delete(f"/api/v1/webhooks/{webhook.id}").status_code).result() == 204

    assert api.get(f"/api/v1/webhooks/{webhook.id}").status_code == 404
    tasks.drop_left_over()
    row.refresh_from_db()
    assert row.status == "dropped"
