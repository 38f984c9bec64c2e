"""`POST /deliveries/{id}/resend`, and `delivery.resend` for the command and the console."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from tests.harness.background import at_once
from webhooks import delivery as engine
from webhooks import registry
from webhooks.models import Delivery, Event, Webhook


@pytest.fixture
def webhook(alice, register):
    return register(alice)


def path(delivery):
    return f"/api/v1/deliveries/{delivery.id}/resend"


@pytest.mark.parametrize("status", ["delivered", "failed"])
def test_a_finished_one_gets_one_more_attempt(api, webhook, delivery_of, status):
    delivery = delivery_of(webhook, status, attempts=4)
    body = delivery.event.body

    answer = api.post(path(delivery))

    assert answer.status_code == 202
    assert answer.json() == {"delivery_id": str(delivery.id)}
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
    delivery = delivery_of(webhook, "failed", attempt_count=engine.MOST_ATTEMPTS)

    answer = api.post(path(delivery))

    assert answer.status_code == 422
    assert answer.json()["error"] == "too_many_attempts"
    delivery.refresh_from_db()
    assert delivery.status == "failed"


def test_a_dropped_one_is_gone(api, webhook, delivery_of):
    delivery = delivery_of(webhook, "dropped")
    Webhook.objects.update(deleted_at=timezone.now())

    assert api.post(path(delivery)).status_code == 404
    assert api.post(f"/api/v1/deliveries/{uuid4()}/resend").status_code == 404
    assert engine.resend([delivery.id]) == []


@pytest.mark.django_db(transaction=True)
def test_nothing_comes_back_into_the_queue_of_a_webhook_that_is_deleted_meanwhile(alice, register, delivery_of):
    for _ in range(5):
        webhook = register(alice)
        ids = [delivery_of(webhook, "failed", attempts=4).id for _ in range(10)]

        def work(number, webhook=webhook, ids=ids):
            return registry.delete(alice.id, webhook.id) if number == 0 else [engine.resend([id_]) for id_ in ids]

        at_once(3, work)

        assert not Delivery.objects.filter(webhook=webhook, status="pending").exists()


@pytest.mark.django_db(transaction=True)
def test_a_resend_that_waits_for_a_deletion_holds_no_delivery(alice, register, delivery_of):
    """The deletion passes over deliveries that are locked: one that is only waiting for it must not be."""
    delivery = delivery_of(register(alice), "pending")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Webhook.objects.select_for_update().get()
            resending = pool.submit(engine.resend, [delivery.id])
            with connection.cursor() as cursor:
                is_waiting = False
                while not is_waiting and not resending.done():
                    cursor.execute("SELECT pg_stat_clear_snapshot()")
                    cursor.execute(waiting)
                    is_waiting = bool(cursor.fetchone()[0])
            Delivery.objects.select_for_update(nowait=True).get(id=delivery.id)
            Webhook.objects.update(deleted_at=timezone.now())
        assert resending.result() == []
        pool.submit(connections.close_all).result()
