"""P19: no attempt begins after the answer to a DELETE, whatever a running engine is doing at that moment."""

import threading
import time
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from tests.harness.background import PATIENCE, Background, eventually
from tests.harness.database import one, wait_for_lock
from tests.harness.deliveries import draining, publish
from tests.harness.manage import printed
from tests.harness.receivers import Receiver, answer
from webhooks import delivery, registry, tasks, transfer
from webhooks.models import Attempt, Claim, Delivery
from webhooks.transfer import Transfer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def engine(settings, make_engine):
    """An engine in a thread, which looks for work all the time."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with draining(engine := make_engine(), pause=0.001):
        yield engine


@pytest.fixture
def begin_by(monkeypatch):
    """When the attempt of a delivery had to begin at the latest; after that a busy machine may still take its time."""
    times, load = {}, Transfer.load

    def note(transfer, *args, **kwargs):
        times[str(transfer.post.delivery_id)] = transfer.post.begin_by
        load(transfer, *args, **kwargs)

    monkeypatch.setattr(Transfer, "load", note)
    return times


def test_one_whose_session_was_ended_while_it_held_off_claims_may_be_tried_again(api, alice, register, monkeypatch):
    webhook, hold_off_claims = register(alice), delivery.hold_off_claims

    def hold_off_and_pause() -> None:
        hold_off_claims()
        eventually(lambda: not connection.is_usable())

    with monkeypatch.context() as patch:
        patch.setattr(delivery, "HELD_OFF_FOR", "1ms")
        patch.setattr(delivery, "hold_off_claims", hold_off_and_pause)
        answered = api.delete(f"/api/v1/webhooks/{webhook.id}")
    assert (answered.status_code, answered.json()["error"]) == (503, "unavailable")
    assert api.delete(f"/api/v1/webhooks/{webhook.id}").status_code == 204


@pytest.mark.parametrize("arrived", [0, 1, 40, 100])
def test_nothing_arrives_after_the_answer(api, alice, register, engine, arrived, begin_by):
    with Receiver(default=answer(after=0.01)) as receiver:
        webhook = register(alice, receiver.url())
        publish(alice, 300)
        receiver.wait_for(arrived)

        assert api.delete(f"/api/v1/webhooks/{webhook.id}").status_code == 204

        answered = time.monotonic()
        time.sleep(0.3)
        late = [request for request in receiver.requests if request.at > answered]
        assert [request for request in late if begin_by[request.delivery] > answered] == []
    assert not Delivery.objects.filter(status="pending").exists()


def test_the_answer_does_not_wait_for_attempts_that_hang(api, alice, register, engine, monkeypatch):
    monkeypatch.setattr(transfer, "DEADLINE_MS", int(PATIENCE * 1000))
    may_end = threading.Event()
    with Receiver(default=answer("500 Oops", once=may_end)) as receiver:
        webhook = register(alice, receiver.url())
        publish(alice, 100)
        receiver.wait_for(delivery.AT_ONCE)

        assert api.delete(f"/api/v1/webhooks/{webhook.id}").status_code == 204

        assert Claim.objects.count() == delivery.AT_ONCE
        may_end.set()
        eventually(lambda: not Claim.objects.exists())  # attempts under way are noted when they end
        assert len(receiver.requests) == delivery.AT_ONCE
    assert {row.status for row in Delivery.objects.all()} == {"dropped"}
    assert Attempt.objects.filter(failure="status").count() == delivery.AT_ONCE


@pytest.fixture
def claimed(alice, register, delivery_of, monkeypatch):
    """Make a webhook with a claim that was made so long ago, and say how long one may take to begin its post."""

    def make(age, *, begin_within):
        monkeypatch.setattr(delivery, "LEASE", timedelta(hours=1))  # longer than any wait
        monkeypatch.setattr(registry, "CLAIM_TO_POST", timedelta(seconds=begin_within))
        webhook = register(alice)
        row = delivery_of(webhook)
        until = timezone.now() + delivery.LEASE - timedelta(seconds=age)
        Claim.objects.create(delivery=row, webhook=webhook, token=row.id, until=until)
        return webhook

    return make


def test_a_claim_that_was_just_made_is_waited_for_as_long_as_its_post_may_need(alice, claimed):
    started = time.monotonic()
    webhook = claimed(0, begin_within=1)
    registry.delete(alice.id, webhook.id)
    assert time.monotonic() - started > 0.9
    assert Claim.objects.exists()


def test_a_claim_whose_post_has_begun_or_whose_worker_is_dead_is_not_waited_for(alice, claimed):
    webhook = claimed(3 * PATIENCE, begin_within=2 * PATIENCE)
    Background(lambda: registry.delete(alice.id, webhook.id)).result()
    assert Claim.objects.exists()


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

    def delete():
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")  # the claim takes as long as the machine needs
        registry.delete(alice.id, webhook.id)

    deleting = Background(delete)
    wait_for_lock()
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
        one("SELECT pg_advisory_xact_lock(%s)", delivery.CLAIMING)
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
