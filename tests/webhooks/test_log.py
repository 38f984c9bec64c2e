"""`GET /webhooks/{id}/deliveries`, the log as merchants read it, and `GET /deliveries/{id}`, an entry of it."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.harness.client import browser_of
from webhooks import transfer
from webhooks.models import Attempt, Webhook


def path(webhook):
    return f"/api/v1/webhooks/{webhook.id}/deliveries"


def test_an_entry_says_how_every_attempt_went(api, webhook, delivery_of):
    delivery = delivery_of(webhook, "delivered", attempts=2)

    answer = api.get(path(webhook))

    assert answer.status_code == 200
    assert answer.json()["meta"] == {"total": 1, "per_page": 15, "current_page": 1, "last_page": 1}
    (entry,) = answer.json()["data"]
    attempts = entry.pop("attempts")
    assert entry == {
        "id": str(delivery.id),
        "event_id": str(delivery.event_id),
        "event": "order.confirmed",
        "status": "delivered",
        "attempt_count": 2,
        "next_attempt_at": None,
        "created_at": delivery.created_at.isoformat().replace("+00:00", "Z"),
    }
    for attempt in attempts:
        assert attempt.pop("at").endswith("Z")
    assert attempts == [
        {"number": 1, "status_code": 500, "failure": "status", "milliseconds": 12, "response": "Erreur \ufffd <b>"},
        {"number": 2, "status_code": 200, "failure": None, "milliseconds": 12, "response": "OK"},
    ]


def test_of_many_attempts_the_newest_are_told_and_a_page_stays_small(api, webhook, delivery_of):
    for _ in range(100):
        delivery_of(webhook, "failed", attempts=20)
    Attempt.objects.update(response=b"\x01" * 2048)  # each byte takes six in JSON

    answer = api.get(path(webhook), {"per_page": "100"})

    for entry in answer.json()["data"]:
        assert entry["attempt_count"] == 20
        assert [attempt["number"] for attempt in entry["attempts"]] == list(range(13, 21))
    assert len(answer.content) < 10 << 20


def test_a_pending_one_says_when_it_is_tried_next(api, webhook, delivery_of):
    at = timezone.now() + timedelta(hours=2)
    delivery_of(webhook, attempts=2, next_attempt_at=at)

    assert api.get(path(webhook)).json()["data"][0]["next_attempt_at"] == at.isoformat().replace("+00:00", "Z")


def test_whatever_a_receiver_answered_can_be_read(api, webhook, delivery_of):
    delivery_of(webhook, "failed", attempts=1)
    Attempt.objects.update(response=bytes(range(256)) + b"\xf0\x9f\x8e", status_code=None, failure="timeout")

    answer = api.get(path(webhook))

    assert answer.status_code == 200
    (attempt,) = answer.json()["data"][0]["attempts"]
    assert attempt["response"].startswith("\x00\x01")
    assert (attempt["status_code"], attempt["failure"]) == (None, "timeout")


def test_of_a_letter_at_whose_midst_an_answer_was_cut_off_nothing_is_told(api, webhook, delivery_of):
    delivery_of(webhook, "failed", attempts=1)
    for answer in (b"x", b"xx"):
        Attempt.objects.update(response=(answer + "م".encode() * transfer.KEPT_BYTES)[: transfer.KEPT_BYTES])
        (attempt,) = api.get(path(webhook)).json()["data"][0]["attempts"]
        assert attempt["response"] == answer.decode() + "م" * 1023


def test_an_entry_is_read_by_its_id(api, webhook, delivery_of, django_assert_num_queries):
    made = delivery_of(webhook, "failed", attempts=12), delivery_of(webhook, attempts=2), delivery_of(webhook)
    log = api.get(path(webhook)).json()["data"]
    assert {entry["id"] for entry in log} == {str(delivery.id) for delivery in made}

    for entry in log:
        with django_assert_num_queries(2) as captured:  # the delivery, its attempts
            assert api.get(f"/api/v1/deliveries/{entry['id']}").json() == {"data": entry}
        assert not any(re.search('"(secret|previous_secret|body)"', query["sql"]) for query in captured)
    Webhook.objects.update(is_active=False)
    answer = api.get(f"/api/v1/deliveries/{made[1].id}").json()["data"]
    assert (answer["status"], answer["next_attempt_at"]) == ("dropped", None)


def test_newest_first_in_pages(api, webhook, delivery_of):
    now = timezone.now()
    made = [delivery_of(webhook, created_at=now - timedelta(minutes=number)) for number in range(5)]

    pages = [api.get(path(webhook), {"per_page": "2", "page": str(number)}).json() for number in (1, 2, 3, 4)]

    assert [entry["id"] for page in pages for entry in page["data"]] == [str(delivery.id) for delivery in made]
    assert pages[0]["meta"] == {"total": 5, "per_page": 2, "current_page": 1, "last_page": 3}


def test_filters(api, alice, webhook, register, delivery_of):
    failed = delivery_of(webhook, "failed", attempts=4)
    stock = delivery_of(webhook, "delivered", attempts=1, kind="inventory.updated")
    ping = delivery_of(webhook, kind="ping")
    delivery_of(register(alice), "failed", attempts=4)

    def ids(**query):
        answer = api.get(path(webhook), query).json()
        assert answer["meta"]["total"] == len(answer["data"])
        return {entry["id"] for entry in answer["data"]}

    assert ids(status="failed") == {str(failed.id)}
    assert ids(status="failed,delivered") == {str(failed.id), str(stock.id)}
    assert ids(event="inventory.updated") == {str(stock.id)}
    assert ids(event="ping,order.confirmed") == {str(failed.id), str(ping.id)}
    assert ids(event="order.cancelled") == set()
    assert ids(status="pending", event="ping", unknown="x") == {str(ping.id)}


def test_what_is_left_over_of_one_that_is_off_is_dropped_to_whoever_looks(api, alice, webhook, delivery_of):
    waiting, failed = delivery_of(webhook), delivery_of(webhook, "failed", attempts=4)
    Webhook.objects.update(is_active=False)

    def told(**query):
        entries = api.get(path(webhook), query).json()["data"]
        return {entry["id"]: (entry["status"], entry["next_attempt_at"]) for entry in entries}

    dropped = {str(waiting.id): ("dropped", None)}
    assert told() == {str(failed.id): ("failed", None), **dropped}
    assert told(status="dropped") == dropped
    assert told(status="pending") == {}
    browser = browser_of(alice.holder)
    for url in (f"/account/webhooks/{webhook.id}?status=dropped", f"/account/webhooks/deliveries/{waiting.id}"):
        page = browser.get(url).content.decode()
        assert '<span class="status dropped">Dropped</span>' in page
        assert "Next attempt" not in page
        assert "under way" not in page


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"status": "lost"}, "status"),
        ({"status": ""}, "status"),
        ({"status": "failed,"}, "status"),
        ({"status": "failed\x00"}, "status"),
        ({"event": "order.eaten"}, "event"),
        ({"event": "order.confirmed, nothing"}, "event"),
        ({"page": "0"}, "page"),
        ({"per_page": "101"}, "per_page"),
    ],
)
def test_values_that_cannot_be_used_are_422(api, webhook, query, field):
    answer = api.get(path(webhook), query)

    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [field]


def test_all_problems_are_told_at_once(api, webhook):
    errors = api.get(path(webhook), {"status": "x", "event": "y", "page": "z"}).json()["errors"]

    assert set(errors) == {"status", "event", "page"}


def test_the_number_of_statements_does_not_grow(api, webhook, delivery_of):
    def count():
        with CaptureQueriesContext(connection) as captured:
            assert api.get(path(webhook), {"per_page": "100"}).status_code == 200
        assert not any('"secret"' in query["sql"] or "body" in query["sql"] for query in captured)
        return len(captured)

    delivery_of(webhook, "failed", attempts=4)
    api.get(path(webhook))
    few = count()
    for _ in range(20):
        delivery_of(webhook, "failed", attempts=4)

    assert count() == few
    assert few <= 4
