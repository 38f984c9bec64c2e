"""`POST /deliveries/{id}/resend`, and `resending.resend` for the command and the console."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import product
from uuid import uuid4

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from tests.harness.background import PATIENCE, at_once
from webhooks import registry, resending
from webhooks.models import Delivery, Event, Webhook


def path(delivery):
    return f"/api/v1/deliveries/{delivery.id}/resend"


@pytest.mark.parametrize("status", ["delivered", "failed"])
def test_a_finished_one_gets_one_more_attempt(api, webhook, delivery_of, status):
    delivery = delivery_of(webhook, status, attempts=4)
    body = delivery.event.body

    answer = api.post(path(delivery))

    assert answer.status_code == 202
    assert answer.json() == {"delivery_id": str(delivery.id)}
    assert api.get(answer.headers["Location"]).json()["data"]["id"] == str(delivery.id)
    delivery.refresh_from_db()
    assert (delivery.status, delivery.retries_left, delivery.finished_at) == ("pending", 0, None)
    assert delivery.attempt_count == 4
    assert abs(delivery.next_attempt_at - timezone.now()) < timedelta(minutes=1)
    assert Event.objects.get(id=delivery.event_id).body == body


def test_one_that_waits_is_tried_now_and_keeps_its_schedule(api, webhook, delivery_of):
    delivery = delivery_of(webhook, attempts=2, next_attempt_at=timezone.now() + timedelta(hours=2))

    assert api.post(path(delivery)).status_code == 202

    delivery.refresh_from_db()
    assert (delivery.status, delivery.retries_left, delivery.attempt_count) == ("pending", 1, 2)
    assert delivery.next_attempt_at <= timezone.now()


def test_one_whose_turn_has_come_keeps_its_place(api, webhook, delivery_of):
    at = timezone.now() - timedelta(minutes=5)
    delivery = delivery_of(webhook, next_attempt_at=at)

    assert api.post(path(delivery)).status_code == 202

    delivery.refresh_from_db()
    assert delivery.next_attempt_at == at


def test_twice_is_once(api, webhook, delivery_of):
    delivery = delivery_of(webhook, "failed", attempts=4)

    assert [api.post(path(delivery)).status_code for _ in range(2)] == [202, 202]

    delivery.refresh_from_db()
    assert (delivery.status, delivery.retries_left) == ("pending", 0)


def test_an_end_to_attempts(api, webhook, delivery_of):
    delivery = delivery_of(webhook, "failed", attempt_count=resending.MOST_ATTEMPTS)

    answer = api.post(path(delivery))

    assert answer.status_code == 422
    assert answer.json()["error"] == "too_many_attempts"
    assert answer.json()["errors"] == {"attempt_count": [answer.json()["message"]]}
    delivery.refresh_from_db()
    assert delivery.status == "failed"


def test_a_dropped_one_is_gone(api, webhook, delivery_of):
    delivery = delivery_of(webhook, "dropped")
    Webhook.objects.update(deleted_at=timezone.now())

    assert api.post(path(delivery)).status_code == 404
    assert api.post(f"/api/v1/deliveries/{uuid4()}/resend").status_code == 404
    assert resending.resend([delivery.id]) == []


def test_one_that_was_dropped_with_its_webhook_off_says_how_it_is_sent(api, webhook, delivery_of):
    delivery = delivery_of(webhook, "dropped")

    answer = api.post(path(delivery))

    assert (answer.status_code, answer.json()["error"]) == (422, "validation_failed")
    assert "Recover the webhook." in answer.json()["errors"]["status"][0]
    delivery.refresh_from_db()
    assert delivery.status == "dropped"


def test_one_whose_webhook_is_turned_off_meanwhile_says_so(alice, api, webhook, delivery_of, monkeypatch):
    delivery = delivery_of(webhook, "failed", attempts=4)
    resend = resending.resend

    def turn_off_and_resend(ids):
        registry.change(alice.id, webhook.id, {"is_active": False})
        return resend(ids)

    monkeypatch.setattr(resending, "resend", turn_off_and_resend)
    answer = api.post(path(delivery))

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["is_active"])


def test_one_whose_webhook_is_turned_on_meanwhile_is_sent(alice, api, webhook, delivery_of, monkeypatch):
    delivery = delivery_of(webhook, "failed", attempts=4)
    registry.change(alice.id, webhook.id, {"is_active": False})
    resend = resending.resend

    def resend_and_turn_on(ids):
        resent = resend(ids)
        registry.change(alice.id, webhook.id, {"is_active": True})
        return resent

    monkeypatch.setattr(resending, "resend", resend_and_turn_on)

    assert api.post(path(delivery)).status_code == 202
    delivery.refresh_from_db()
    assert delivery.status == "pending"


def test_what_pages_and_commands_offer_to_send_again_is_what_is_sent(alice, register, delivery_of):
    """What may be resent is written twice: as a filter, and in the statement that resends."""
    on, off, deleted = (register(alice) for _ in range(3))
    Webhook.objects.filter(id=off.id).update(is_active=False)
    Webhook.objects.filter(id=deleted.id).update(deleted_at=timezone.now())
    for webhook, status, attempts in product((on, off, deleted), Delivery.Status, (0, 99, resending.MOST_ATTEMPTS)):
        delivery_of(webhook, status, attempt_count=attempts)
    ids = list(Delivery.objects.values_list("id", flat=True))

    offered = set(Delivery.objects.filter(resending.POSSIBLE).values_list("id", flat=True))

    assert len(offered) == 6
    assert set(resending.resend(ids)) == offered


def closing(call, *args):
    """Call it in a thread that leaves no connection behind."""
    try:
        return call(*args)
    finally:
        connections.close_all()


def waiting_for(session, count):
    """Wait until `count` other sessions wait for a lock of this one, and return their process ids."""
    deadline = time.monotonic() + PATIENCE
    waiting = []
    while len(waiting) < count:
        assert time.monotonic() < deadline
        with connection.cursor() as cursor:
            cursor.execute("SELECT pid FROM pg_locks WHERE NOT granted AND %s = ANY(pg_blocking_pids(pid))", [session])
            waiting = [pid for (pid,) in cursor.fetchall()]
    return waiting


@pytest.fixture
def other_session():
    """Make further sessions in the database. Each is a cursor in a transaction, with the session's process id."""
    made = []

    def make():
        made.append(connection.copy())
        made[-1].set_autocommit(False)
        cursor = made[-1].cursor()
        cursor.execute("SELECT pg_backend_pid()")
        return cursor, cursor.fetchone()[0]

    yield make
    for each in made:
        each.close()


@pytest.mark.django_db(transaction=True)
def test_nothing_comes_back_into_the_queue_of_a_webhook_that_is_deleted_meanwhile(
    alice, register, delivery_of, other_session, monkeypatch
):
    """The deletion skips locked deliveries, so a resend that it has overtaken must not hide one from it."""
    deleted, kept = register(alice), register(alice)
    first, second = delivery_of(deleted), delivery_of(kept)
    (gate, gate_session), (hold, hold_session) = other_session(), other_session()
    gate.execute("SELECT FROM webhooks_webhook WHERE id = %s FOR UPDATE", [deleted.id])
    hold.execute("UPDATE webhooks_delivery SET attempt_count = 1 WHERE id = %s", [second.id])
    may_drop, drop = threading.Event(), registry._drop_pending
    monkeypatch.setattr(
        registry, "_drop_pending", lambda *args, **more: may_drop.wait(PATIENCE) and drop(*args, **more)
    )

    with ThreadPoolExecutor(2) as pool:
        deleting = pool.submit(closing, registry.delete, alice.id, deleted.id)
        (deletion,) = waiting_for(gate_session, 1)
        asked = pool.submit(closing, resending.resend, [first.id, second.id])
        waiting_for(deletion, 1)
        gate.connection.rollback()
        # Deleted, and about to drop what waits. The resend has seen that and waits for its other delivery.
        waiting_for(hold_session, 1)
        may_drop.set()
        deleting.result()
        first.refresh_from_db()
        hold.connection.commit()
        assert asked.result() == [second.id]

    assert first.status == "dropped"


@pytest.mark.django_db(transaction=True)
def test_deletions_among_resends_leave_nothing_in_the_queue(alice, register, delivery_of):
    for _ in range(5):
        webhook = register(alice)
        ids = [delivery_of(webhook, "failed", attempts=4).id for _ in range(10)]

        def work(number, webhook=webhook, ids=ids):
            return registry.delete(alice.id, webhook.id) if number == 0 else [resending.resend([id_]) for id_ in ids]

        at_once(3, work)

        assert not Delivery.objects.filter(webhook=webhook, status="pending").exists()


@pytest.mark.django_db(transaction=True)
def test_a_resend_that_waits_for_a_deletion_holds_no_delivery(alice, register, delivery_of, other_session):
    webhook = register(alice)
    delivery = delivery_of(webhook)
    deletion, deletion_session = other_session()
    deletion.execute("SELECT FROM webhooks_webhook WHERE id = %s FOR UPDATE", [webhook.id])
    deletion.execute("UPDATE webhooks_webhook SET deleted_at = now() WHERE id = %s", [webhook.id])

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(closing, resending.resend, [delivery.id])
        waiting_for(deletion_session, 1)
        with transaction.atomic():
            Delivery.objects.select_for_update(nowait=True).get(id=delivery.id)
        deletion.connection.commit()
        assert asked.result() == []
