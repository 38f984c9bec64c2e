"""`POST /webhooks/{id}/ping`: a signed delivery to one webhook, tried once."""

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from tests.harness.database import one
from webhooks import events
from webhooks.models import Delivery, Event, Webhook


def test_a_ping_is_one_delivery_to_this_webhook_alone(api, alice, register):
    webhook, _ = register(alice, events=["order.confirmed"]), register(alice)

    answer = api.post(f"/api/v1/webhooks/{webhook.id}/ping")

    assert answer.status_code == 202
    delivery = Delivery.objects.select_related("event").get()
    assert answer.json() == {"delivery_id": str(delivery.id)}
    assert (delivery.webhook_id, delivery.status, delivery.retries_left) == (webhook.id, "pending", 0)
    assert (delivery.account_id, delivery.event.account_id) == (alice.id, alice.id)
    body = json.loads(delivery.event.body)
    assert body == {"event": "ping", "timestamp": body["timestamp"], "data": {"webhook_id": str(webhook.id)}}
    assert abs(datetime.fromisoformat(body["timestamp"]) - timezone.now()) < timedelta(minutes=1)
    (entry,) = api.get(f"/api/v1/webhooks/{webhook.id}/deliveries").json()["data"]
    assert (entry["id"], entry["event"]) == (str(delivery.id), "ping")
    assert answer.headers["Location"] == f"/api/v1/deliveries/{delivery.id}"
    assert api.get(answer.headers["Location"]).json()["data"] == entry


def test_it_has_the_time_of_the_database(api, alice, register, monkeypatch):
    webhook = register(alice)
    monkeypatch.setattr(timezone, "now", lambda: datetime(2031, 1, 1, tzinfo=UTC))  # a web host whose clock is wrong

    for body in ({}, {"event": "order.confirmed"}):
        assert api.post(f"/api/v1/webhooks/{webhook.id}/ping", body).status_code == 202

    for delivery in Delivery.objects.select_related("event"):
        said = datetime.fromisoformat(json.loads(delivery.event.body)["timestamp"])
        assert said == delivery.created_at == delivery.event.created_at
        assert abs(said - one("SELECT clock_timestamp()")) < timedelta(minutes=1)


def test_of_no_webhook_or_anothers_nothing_is_written(alice, charlie, register):
    webhook = register(alice)
    for account_id, webhook_id in ((charlie.id, webhook.id), (alice.id, uuid4())):
        with pytest.raises(Webhook.DoesNotExist):
            events.ping(account_id, webhook_id)
    Webhook.objects.update(deleted_at=timezone.now())
    with pytest.raises(Webhook.DoesNotExist):
        events.ping(alice.id, webhook.id)

    assert not Event.objects.exists()
    assert not Delivery.objects.exists()
