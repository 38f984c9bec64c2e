"""PATCH /webhooks/{id}, examples and recovery: how webhooks are mended."""

import itertools
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from celery.signals import worker_shutting_down
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from codservice import stops
from codservice.accounts.models import Account
from tests.harness.background import PATIENCE, Background, at_once, eventually, open_transaction
from tests.harness.client import ApiClient
from tests.harness.database import one
from tests.harness.deliveries import claim_due, pass_time, publish, statuses
from webhooks import delivery, events, feed, recovery, registry, resending, serializers, tasks
from webhooks.engine import Engine
from webhooks.models import Attempt, Delivery, Event, Recovery, Webhook
from webhooks.openapi import example_of
from webhooks.posts import Outcome
from webhooks.retries import RETRIES

WEBHOOKS = "/api/v1/webhooks"
KIND = Event.Kind.ORDER_CONFIRMED

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "BATCH", 3)


def attempt(failure: str = "") -> list[Any]:
    """Post what is due, each with this outcome. Return the events of the posts, in the order in which they began."""
    token = uuid4()
    posts = claim_due(token, 100)
    delivery.settle(token, [Outcome(post, failure, 200, 1, b"") for post in posts])
    return [post.event_id for post in posts]


def turn_off(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn it off without dropping any of its waiting deliveries."""
    with monkeypatch.context() as busy:
        busy.setattr(registry, "DROP_SECONDS", -1)
        registry.change(webhook.account_id, webhook.id, {"is_active": False})


# --- PATCH -----------------------------------------------------------------------------------------------------------


def test_what_is_sent_is_changed_and_the_secret_stays(api: ApiClient, webhook: Webhook) -> None:
    changes = {"url": "https://Shop.example:443/new", "events": ["order.created"], "description": " Orders "}

    answer = api.patch(f"{WEBHOOKS}/{webhook.id}", changes)

    assert answer.status_code == 200
    assert answer.json()["data"] == {
        "id": str(webhook.id),
        "url": "https://shop.example/new",
        "description": "Orders",
        "events": ["order.created"],
        "is_active": True,
        "signing_secret_hint": webhook.secret_hint,
    }
    before = bytes(webhook.secret)
    webhook.refresh_from_db()
    assert bytes(webhook.secret) == before
    assert api.patch(f"{WEBHOOKS}/{webhook.id}", {}).json() == answer.json()


@pytest.mark.parametrize("nothing", ["", None])
def test_a_description_that_is_empty_or_null_is_none(api: ApiClient, webhook: Webhook, nothing: str | None) -> None:
    api.patch(f"{WEBHOOKS}/{webhook.id}", {"description": "Orders"})

    changed = api.patch(f"{WEBHOOKS}/{webhook.id}", {"description": nothing})
    made = api.post(WEBHOOKS, {"url": webhook.url, "events": webhook.events, "description": nothing})

    assert (changed.status_code, made.status_code) == (200, 201)
    assert "description" not in changed.json()["data"] | made.json()["data"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": "http://shop.example/"}, "url"),
        ({"url": "https://127.0.0.1/"}, "url"),
        ({"url": None}, "url"),
        ({"events": []}, "events"),
        ({"events": ["ping"]}, "events"),
        ({"events": ["order.created", "order.created"]}, "events"),
        ({"is_active": "true"}, "is_active"),
        ({"is_active": 1}, "is_active"),
        ({"is_active": None}, "is_active"),
        ({"description": "x" * 256}, "description"),
        ({"description": "a\x00b"}, "description"),
    ],
)
def test_the_same_rules_hold(api: ApiClient, webhook: Webhook, changes: dict[str, Any], field: str) -> None:
    answer = api.patch(f"{WEBHOOKS}/{webhook.id}", changes)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
    assert Webhook.objects.get().url == webhook.url


def test_while_it_is_off_nothing_is_written_and_what_waited_is_dropped(
    alice: Account, api: ApiClient, webhook: Webhook
) -> None:
    publish(alice, 3)
    assert api.patch(f"{WEBHOOKS}/{webhook.id}", {"is_active": False}).json()["data"]["is_active"] is False

    publish(alice, 2)
    assert statuses(webhook=webhook) == {"dropped": 3}
    failed = Delivery.objects.first()
    for path, body in (("ping", {}), ("recover", {"since": timezone.now().isoformat()})):
        answer = api.post(f"{WEBHOOKS}/{webhook.id}/{path}", body)
        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["is_active"])
    assert api.post(f"/api/v1/deliveries/{failed.id}/resend").status_code == 422
    assert statuses(webhook=webhook) == {"dropped": 3}
    assert api.patch(f"{WEBHOOKS}/{webhook.id}", {"is_active": True}).json()["data"]["is_active"] is True
    publish(alice)
    assert statuses(webhook=webhook) == {"dropped": 3, "pending": 1}
    assert len(attempt()) == 1


def test_what_was_left_over_when_it_was_turned_off_is_not_sent_when_it_is_turned_on(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(alice, 5)
    turn_off(webhook, monkeypatch)
    assert statuses(webhook=webhook) == {"pending": 5}
    assert attempt() == []

    registry.change(alice.id, webhook.id, {"is_active": True})

    assert statuses(webhook=webhook) == {"dropped": 5}


def test_what_was_left_over_is_dropped_while_nobody_waits_for_the_webhook(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(alice, 5)
    turn_off(webhook, monkeypatch)
    drop, dropped = registry._drop_pending, list[tuple[bool, int]]()

    def noted(webhook_id: UUID, **more: Any) -> int:
        dropped.append((connection.in_atomic_block, drop(webhook_id, **more)))
        return dropped[-1][1]

    monkeypatch.setattr(registry, "_drop_pending", noted)
    registry.change(alice.id, webhook.id, {"is_active": True})

    assert dropped == [(False, 5), (True, 0)]


def test_while_much_is_left_over_it_stays_off(
    alice: Account, api: ApiClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(alice, 5)
    turn_off(webhook, monkeypatch)
    with monkeypatch.context() as busy:
        busy.setattr(registry, "DROP_SECONDS", -1)
        answer = api.patch(f"{WEBHOOKS}/{webhook.id}", {"is_active": True, "description": "on"})
    assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
    assert answer.headers["Retry-After"] == "1"
    webhook.refresh_from_db()
    assert (webhook.is_active, webhook.description) == (False, "")
    assert attempt() == []

    assert registry.drop_left_over() == 5
    assert api.patch(f"{WEBHOOKS}/{webhook.id}", {"is_active": True}).status_code == 200
    assert attempt() == []


def test_what_is_left_over_of_one_that_is_off_is_dropped_by_beat(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(alice, 5)
    turn_off(webhook, monkeypatch)

    assert registry.drop_left_over() == 5
    assert statuses(webhook=webhook) == {"dropped": 5}


def test_beat_drops_nothing_of_one_that_is_turned_on_meanwhile(
    alice: Account, webhook: Webhook, register: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = register(alice)
    publish(alice)
    Webhook.objects.update(is_active=False)
    drop = registry._drop_pending
    turned_on: list[Webhook] = []

    def drop_later(webhook_id: UUID, **more: Any) -> int:
        if not turned_on:  # while beat drops those of one webhook, the other is turned on, and told of changes
            turned_on.append(other if webhook_id == webhook.id else webhook)
            registry.change(alice.id, turned_on[0].id, {"is_active": True})
            publish(alice, 2)
        return drop(webhook_id, **more)

    monkeypatch.setattr(registry, "_drop_pending", drop_later)

    registry.drop_left_over()

    assert statuses(webhook=turned_on[0]) == {"dropped": 1, "pending": 2}


def test_a_round_of_beat_ends_in_time_and_leaves_the_rest_to_the_next(
    alice: Account, webhook: Webhook, register: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(alice)
    publish(alice, 50)
    Webhook.objects.update(is_active=False)
    monkeypatch.setattr(registry, "_BATCH", 1)
    reads = itertools.count()  # of the clock: one before the round and one before each batch
    monkeypatch.setattr(registry, "time", SimpleNamespace(monotonic=lambda: next(reads)))

    rounds = list(iter(registry.drop_left_over, 0))

    assert max(rounds) <= registry.WORKER_SECONDS
    assert sum(rounds) == 100
    assert statuses() == {"dropped": 100}


def test_nor_does_it_hold_up_a_worker_that_is_told_to_stop(
    alice: Account, webhook: Webhook, register: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(alice)
    publish(alice, 5)
    Webhook.objects.update(is_active=False)
    monkeypatch.setattr(registry, "_BATCH", 1)
    reads = itertools.count()

    def stopped() -> float:
        """The clock: of the round, of the first batch and, when it stops, of the second."""
        if next(reads) == 2:
            worker_shutting_down.send(sender=None)
        return 0.0

    with monkeypatch.context() as told:
        told.setattr(tasks, "engine", Engine())
        told.setattr(stops, "stopping", threading.Event())
        told.setattr(registry, "time", SimpleNamespace(monotonic=stopped))
        assert registry.drop_left_over() == 1

    assert registry.drop_left_over() == 9


def test_turning_it_off_drops_nothing_of_what_happens_once_it_is_on_again(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = registry._end

    def end_later(webhook_id: UUID) -> None:
        registry.change(alice.id, webhook_id, {"is_active": True})
        publish(alice, 2)
        end(webhook_id)

    monkeypatch.setattr(registry, "_end", end_later)

    registry.change(alice.id, webhook.id, {"is_active": False})

    assert statuses(webhook=webhook) == {"pending": 2}


@pytest.mark.parametrize("body", [{}, {"url": 5, "since": 5, "event": 5}])
def test_anothers_is_unknown_whatever_the_body_says(
    charlies_api: ApiClient, webhook: Webhook, body: dict[str, Any]
) -> None:
    assert charlies_api.patch(f"{WEBHOOKS}/{webhook.id}", body).status_code == 404
    assert charlies_api.post(f"{WEBHOOKS}/{webhook.id}/recover", body).status_code == 404
    assert charlies_api.post(f"{WEBHOOKS}/{webhook.id}/ping", body).status_code == 404


def test_turning_on_anothers_drops_nothing_of_it(alice: Account, charlies_api: ApiClient, webhook: Webhook) -> None:
    publish(alice)
    Webhook.objects.update(is_active=False)
    assert charlies_api.patch(f"{WEBHOOKS}/{webhook.id}", {"is_active": True}).status_code == 404
    assert statuses(webhook=webhook) == {"pending": 1}


@pytest.mark.parametrize("changes", [{"description": "Shop"}, {"url": 5}])
def test_a_change_looks_for_it_once(api: ApiClient, webhook: Webhook, changes: dict[str, Any]) -> None:
    with CaptureQueriesContext(connection) as queries:
        api.patch(f"{WEBHOOKS}/{webhook.id}", changes)
    assert sum('FROM "webhooks_webhook"' in query["sql"] for query in queries) == 1


# --- Examples --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", Event.Kind.values)
def test_an_example_of_each_kind_says_that_it_is_one(api: ApiClient, webhook: Webhook, kind: str) -> None:
    answer = api.post(f"{WEBHOOKS}/{webhook.id}/ping", {"event": kind})

    assert answer.status_code == 202
    (post,) = claim_due(uuid4(), 10)
    assert (str(post.delivery_id), post.event) == (answer.json()["delivery_id"], kind)
    body = json.loads(post.body)
    assert (body["event"], body["example"]) == (kind, True)
    assert list(body["data"]) == list(example_of(kind).__struct_fields__)


def test_a_ping_is_no_example(api: ApiClient, webhook: Webhook) -> None:
    for body in ({}, {"event": None}):
        assert api.post(f"{WEBHOOKS}/{webhook.id}/ping", body).status_code == 202
    assert api.post(f"{WEBHOOKS}/{webhook.id}/ping").status_code == 202
    assert all("example" not in json.loads(event.body) for event in Event.objects.all())
    assert api.post(f"{WEBHOOKS}/{webhook.id}/ping", {"event": "ping"}).status_code == 422
    assert api.post(f"{WEBHOOKS}/{webhook.id}/ping", {"event": ["order.created"]}).status_code == 422


# --- Recovering ------------------------------------------------------------------------------------------------------


def recover(api: ApiClient, webhook: Webhook, **times: Any) -> dict[str, Any]:
    times = {"since": timezone.now() - timedelta(hours=6), **times}
    answer = api.post(f"{WEBHOOKS}/{webhook.id}/recover", {name: at.isoformat() for name, at in times.items()})
    assert answer.status_code == 202, answer.json()
    assert answer.json()["has_more"] is Recovery.objects.exists()
    return answer.json()


def rest() -> int:
    """Return how many deliveries a worker adds. Transactions elsewhere on the server may delay them for a moment."""
    counts: list[int] = []

    def is_over() -> bool:
        counts.append(recovery.go_on())
        return not Recovery.objects.exists()

    eventually(is_over)
    return sum(counts)


def test_what_failed_was_dropped_or_was_missed_is_sent_once_and_oldest_first(
    alice: Account, api: ApiClient, webhook: Webhook, register: Callable[..., Webhook]
) -> None:
    other = register(alice)
    publish(alice, 4, hours=5)  # these fail
    Delivery.objects.update(retries_left=0)
    attempt("status")
    Webhook.objects.filter(id=webhook.id).update(is_failing=False)
    registry.change(alice.id, webhook.id, {"events": ["order.cancelled"]})
    publish(alice, 4, hours=4)  # these are missed
    registry.change(alice.id, webhook.id, {"events": ["order.confirmed"]})
    publish(alice, 4, hours=3)  # these arrive
    attempt()
    publish(alice, 2, hours=2)
    registry.change(alice.id, webhook.id, {"is_active": False})  # these are dropped
    registry.change(alice.id, webhook.id, {"is_active": True})
    publish(alice, 1, Event.Kind.ORDER_CREATED, hours=2)  # not of a subscribed kind
    attempt()
    assert statuses(webhook=webhook) == {"failed": 4, "delivered": 4, "dropped": 2}
    others = statuses(webhook=other)
    bodies = dict(Delivery.objects.filter(webhook=webhook, status="failed").values_list("id", "event__body"))

    assert recover(api, webhook)["deliveries"] + rest() == 10

    assert statuses(webhook=webhook) == {"pending": 10, "delivered": 4}
    assert statuses(webhook=other) == others
    assert recover(api, webhook)["deliveries"] + rest() == 0
    sent = attempt()
    told = {event.id: event.created_at for event in Event.objects.filter(kind=KIND)}
    assert [told[id_] for id_ in sent] == sorted(told[id_] for id_ in sent)
    assert statuses(webhook=webhook) == {"delivered": 14}
    assert recover(api, webhook)["deliveries"] + rest() == 0
    assert not Recovery.objects.exists()
    assert dict(Delivery.objects.filter(id__in=bodies).values_list("id", "event__body")) == bodies


def test_a_schedule_that_is_begun_anew_ends_with_the_most_attempts(
    alice: Account, api: ApiClient, webhook: Webhook
) -> None:
    counts = [0, 4, 96, 97, 98, 99, 100]
    publish(alice, len(counts), hours=1)
    for each, count in zip(Delivery.objects.order_by("id"), counts, strict=True):
        Delivery.objects.filter(id=each.id).update(status="failed", attempt_count=count, retries_left=0)
    assert recover(api, webhook)["deliveries"] + rest() == len(counts) - 1

    while attempt("status"):
        pass_time(days=1)

    assert statuses(webhook=webhook) == {"failed": len(counts)}
    ends = [min(count + 1 + RETRIES, resending.MOST_ATTEMPTS) for count in counts]
    assert list(Delivery.objects.order_by("id").values_list("attempt_count", flat=True)) == ends


def test_an_attempt_that_was_under_way_when_it_was_turned_off_counts(
    alice: Account, api: ApiClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "CLAIM_TO_POST", timedelta(0))
    publish(alice, 2)
    token = uuid4()
    posts = claim_due(token, 10)
    registry.change(alice.id, webhook.id, {"is_active": False})
    assert statuses(webhook=webhook) == {"dropped": 2}

    outcomes = [Outcome(posts[0], "", 200, 1, b""), Outcome(posts[1], "status", 500, 1, b"")]
    delivery.settle(token, outcomes)

    assert Attempt.objects.count() == 2
    assert statuses(webhook=webhook) == {"delivered": 1, "dropped": 1}
    registry.change(alice.id, webhook.id, {"is_active": True})
    assert recover(api, webhook)["deliveries"] + rest() == 1  # only the one that was not acknowledged
    assert attempt() == [posts[1].event_id]
    assert statuses(webhook=webhook) == {"delivered": 2}
    assert list(Attempt.objects.order_by("id").values_list("number", flat=True)) == [1, 1, 2]


def test_a_recovery_sends_only_what_happened_in_its_time(alice: Account, api: ApiClient, webhook: Webhook) -> None:
    Webhook.objects.update(events=["order.created"])
    for hours in (1, 3, 5):
        publish(alice, hours=hours)
    Webhook.objects.update(events=[KIND])
    now = timezone.now()

    times = {"since": now - timedelta(hours=4), "until": now - timedelta(hours=2)}
    assert recover(api, webhook, **times)["deliveries"] + rest() == 1
    assert recover(api, webhook)["deliveries"] + rest() == 2


def test_what_happened_after_a_wrong_clock_was_set_back_is_recovered(
    alice: Account, api: ApiClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    Webhook.objects.update(events=["order.created"])
    a_year_ahead = feed.first_id(timezone.now() + timedelta(days=365))
    with monkeypatch.context() as wrong:
        wrong.setattr(events, "uuid7", lambda: a_year_ahead)
        publish(alice, days=-365)
    publish(alice, 2)
    Webhook.objects.update(events=[KIND])

    assert recover(api, webhook)["deliveries"] + rest() == 2


class AnHourBehind(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) - timedelta(hours=1)


def test_now_is_the_databases(
    alice: Account, api: ApiClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (recovery, serializers):
        monkeypatch.setattr(module, "datetime", AnHourBehind)
    publish(alice, minutes=30)
    Delivery.objects.update(retries_left=0)
    attempt("status")

    since = timezone.now() - timedelta(minutes=40)
    assert recover(api, webhook, since=since)["deliveries"] + rest() == 1


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["since"]),
        ({"since": None}, ["since"]),
        ({"since": 5}, ["since"]),
        ({"since": "yesterday"}, ["since"]),
        ({"since": "2026-03-01T10:00:00"}, ["since"]),
        ({"since": "2020-01-01"}, ["since"]),
        ({"since": "9999-12-31"}, ["since"]),
        ({"since": "9998-12-31", "until": "9999-12-31"}, ["since"]),
        ({"since": "{now}", "until": "2020-01-01"}, ["until"]),
        ({"since": "2020-01-01", "until": "2019-01-01"}, ["since", "until"]),
    ],
)
def test_a_time_that_cannot_be_used_is_refused(
    api: ApiClient, webhook: Webhook, body: dict[str, Any], fields: list[str]
) -> None:
    now = timezone.now().isoformat()
    sent = {name: now if value == "{now}" else value for name, value in body.items()}
    answer = api.post(f"{WEBHOOKS}/{webhook.id}/recover", sent)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, fields)


def test_far_ends_of_the_calendar_are_no_error(api: ApiClient, webhook: Webhook) -> None:
    since = timezone.now().isoformat()
    answer = api.post(f"{WEBHOOKS}/{webhook.id}/recover", {"since": since, "until": "9999-12-31"})
    assert answer.status_code == 202


def test_a_refusal_names_the_earliest_time_however_short_the_feed_is(
    api: ApiClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where CUSTOMER_RETENTION_DAYS is 1."""
    monkeypatch.setattr(feed, "SHOWN", timedelta(hours=22.5))
    sent = timezone.now()
    answer = api.post(f"{WEBHOOKS}/{webhook.id}/recover", {"since": (sent - timedelta(hours=23)).isoformat()})
    (said,) = answer.json()["errors"]["since"]
    (named,) = re.findall(r"[\d-]+T[\d:]+Z", said)
    assert (
        timedelta(0) <= datetime.fromisoformat(named) + feed.SHOWN - sent + timedelta(seconds=1) < timedelta(minutes=1)
    )

    assert api.post(f"{WEBHOOKS}/{webhook.id}/recover", {"since": named}).status_code == 202


def test_what_an_answer_leaves_is_gone_on_with(
    alice: Account, api: ApiClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    Webhook.objects.update(events=["order.created"])
    publish(alice, 10)
    Webhook.objects.update(events=[KIND])
    monkeypatch.setattr(recovery, "SECONDS", -1)
    assert recover(api, webhook) == {"deliveries": 0, "has_more": True}
    assert statuses(webhook=webhook) == {}
    monkeypatch.setattr(recovery, "SECONDS", 5)

    assert rest() == 10

    assert statuses(webhook=webhook) == {"pending": 10}
    assert not Recovery.objects.exists()


def test_an_answer_holds_its_thread_for_a_moment_and_a_worker_does_the_rest(
    alice: Account, api: ApiClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    Webhook.objects.update(events=["order.created"])
    publish(alice, 40)
    Webhook.objects.update(events=[KIND])
    monkeypatch.setattr(recovery, "BATCH", 1)
    clock, step = [0.0], recovery._step

    def slowly(id_: UUID) -> tuple[int, bool, bool]:
        clock[0] += 0.1
        return step(id_)

    monkeypatch.setattr(recovery, "_step", slowly)
    monkeypatch.setattr(recovery, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    answer = recover(api, webhook)
    assert answer["has_more"]
    assert clock[0] < 0.5

    assert answer["deliveries"] + rest() == 40


def test_what_has_begun_is_no_error_while_the_database_cannot_go_on(
    alice: Account, api: ApiClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    Webhook.objects.update(events=["order.created"])
    publish(alice, 2)
    Webhook.objects.update(events=[KIND])
    with monkeypatch.context() as broken:
        broken.setattr(recovery, "_STEP", "SELECT 1 / 0")
        assert recover(api, webhook) == {"deliveries": 0, "has_more": True}

    assert rest() == 2


def test_who_recovers_much_and_often_holds_up_nobody_else(
    alice: Account,
    charlie: Account,
    webhook: Webhook,
    register: Callable[..., Webhook],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "BATCH", 10)
    others = register(charlie, "https://other.example/")
    for account, count in ((alice, 100), (charlie, 1)):
        Webhook.objects.update(events=["order.created"])
        publish(account, count)
    Webhook.objects.update(events=[KIND])
    monkeypatch.setattr(recovery, "SECONDS", -1)
    since = timezone.now() - timedelta(hours=1)
    for account, each in ((alice, webhook), (alice, webhook), (alice, webhook), (charlie, others)):
        recovery.recover(account.id, each.id, since=since)
    step, steps = recovery._step, list[UUID]()

    def noted(id_: UUID) -> tuple[int, bool, bool]:
        steps.append(Recovery.objects.get(id=id_).webhook_id)
        return step(id_)

    monkeypatch.setattr(recovery, "SECONDS", 5)
    with monkeypatch.context() as watched:
        watched.setattr(recovery, "_step", noted)
        recovery.go_on()

    assert others.id in steps[:2]
    rest()
    assert (statuses(webhook=webhook), statuses(webhook=others)) == ({"pending": 100}, {"pending": 1})


def test_nor_do_many_who_recover_much(alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than take a turn together. As many as took the first would take each, for hours."""
    publish(alice, 4)
    webhook.events = [KIND]
    since = timezone.now() - timedelta(hours=1)
    monkeypatch.setattr(recovery, "SECONDS", -1)
    for _ in range(101):
        webhook.id = uuid4()
        webhook.save(force_insert=True)
        recovery.recover(alice.id, webhook.id, since=since)
    step, steps = recovery._step, list[UUID]()

    def noted(id_: UUID) -> tuple[int, bool, bool]:
        steps.append(Recovery.objects.get(id=id_).webhook_id)
        return step(id_)

    monkeypatch.setattr(recovery, "_step", noted)
    monkeypatch.setattr(recovery, "BATCH", 1)
    monkeypatch.setattr(recovery, "WORKER_SECONDS", PATIENCE)
    # One is left for later if the feed's horizon goes back for a moment.
    eventually(lambda: [recovery.go_on()] and not Recovery.objects.exists())

    assert min(Counter(steps).values()) == 5
    assert len(set(steps[:400])) == 101


def test_one_with_ten_recoveries_gets_another_when_one_is_over(
    alice: Account, api: ApiClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(alice)
    with monkeypatch.context() as busy:
        busy.setattr(recovery, "SECONDS", -1)
        for _ in range(10):
            recover(api, webhook)
    since = (timezone.now() - timedelta(hours=1)).isoformat()

    answer = api.post(f"{WEBHOOKS}/{webhook.id}/recover", {"since": since})

    assert (answer.status_code, answer.json()["error"]) == (429, "rate_limited")
    assert answer.headers["Retry-After"] == "10"
    assert Recovery.objects.count() == 10
    rest()
    recover(api, webhook)


def test_of_many_recoveries_that_begin_at_once_ten_do(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = timezone.now() - timedelta(hours=1)
    monkeypatch.setattr(recovery, "SECONDS", -1)

    def begins(_number: int) -> bool:
        one("SELECT set_config('lock_timeout', '0', false)")  # the last waits for all the others
        try:
            # In `note` it has counted, and the others do so before it ends.
            recovery.recover(alice.id, webhook.id, since=since, note=lambda: time.sleep(0.05))
        except recovery.StillRecovering:
            return False
        return True

    assert sum(at_once(12, begins)) == 10
    assert Recovery.objects.count() == 10


def test_a_recovery_begins_beside_a_batch_of_another(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "SECONDS", -1)
    with open_transaction(lambda: Webhook.objects.select_for_update(no_key=True).get()):
        recovery.recover(alice.id, webhook.id, since=timezone.now() - timedelta(hours=1))
    assert Recovery.objects.count() == 1


def test_a_worker_that_is_told_to_stop_leaves_the_rest_to_others(
    alice: Account, webhook: Webhook, register: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(alice)
    Webhook.objects.update(events=["order.created"])
    publish(alice, 10)
    monkeypatch.setattr(recovery, "SECONDS", -1)
    Webhook.objects.update(events=[KIND])
    for each in Webhook.objects.all():
        recovery.recover(alice.id, each.id, since=timezone.now() - timedelta(hours=1))
    step, steps = recovery._step, list[UUID]()

    def stopped(id_: UUID) -> tuple[int, bool, bool]:
        steps.append(id_)
        worker_shutting_down.send(sender=None)
        return step(id_)

    with monkeypatch.context() as told:
        told.setattr(tasks, "engine", Engine())
        told.setattr(stops, "stopping", threading.Event())
        told.setattr(recovery, "_step", stopped)
        recovery.go_on()
        assert len(steps) == 1
        recovery.go_on()
        assert len(steps) == 1
        assert Recovery.objects.count() == 2

    rest()
    assert statuses() == {"pending": 20}


def test_recoveries_at_once_send_nothing_twice(alice: Account, webhook: Webhook) -> None:
    Webhook.objects.update(events=["order.created"])
    publish(alice, 40)
    Webhook.objects.update(events=[KIND])
    since = timezone.now() - timedelta(hours=1)

    def work(number: int) -> int:
        if number == 3:
            return recovery.go_on()
        return recovery.recover(alice.id, webhook.id, since=since).deliveries

    counts = at_once(4, work)

    assert sum(counts) + rest() >= 40 - 3 * 3
    assert statuses(webhook=webhook) == {"pending": 40}
    assert not Recovery.objects.exists()


def test_a_host_that_is_gone_amid_a_batch_holds_results_up_for_a_moment_only(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a worker cannot write results, it claims nothing, and all merchants wait."""
    publish(alice)
    token = uuid4()
    (post,) = claim_due(token, 1)
    with monkeypatch.context() as left:
        left.setattr(recovery, "SECONDS", -1)
        recovery.recover(alice.id, webhook.id, since=timezone.now() - timedelta(hours=1))
    has_looked, may_go_on = threading.Event(), threading.Event()

    def stall(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        result = execute(sql, *args)
        if sql == recovery._STEP:
            has_looked.set()
            may_go_on.wait(PATIENCE)
        return result

    def go_on() -> int:
        one("SELECT set_config('idle_in_transaction_session_timeout', '0', false)")  # nothing else ends it
        with connection.execute_wrapper(stall):
            return recovery.go_on()

    def is_settled() -> bool:
        try:
            delivery.settle(token, [Outcome(post, "", 200, 1, b"")])
        except DatabaseError:  # not yet
            return False
        return True

    going_on = Background(go_on)
    assert has_looked.wait(PATIENCE)
    eventually(is_settled)
    may_go_on.set()
    assert going_on.result() == 0
    assert Recovery.objects.exists()  # its session was ended
    assert rest() == 0
    assert statuses() == {"delivered": 1}


def test_one_that_is_deleted_meanwhile_ends_it(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    Webhook.objects.update(events=["order.created"])
    publish(alice, 10)
    Webhook.objects.update(events=[KIND])
    monkeypatch.setattr(recovery, "SECONDS", -1)
    recovery.recover(alice.id, webhook.id, since=timezone.now() - timedelta(hours=1))
    registry.delete(alice.id, webhook.id)
    monkeypatch.setattr(recovery, "SECONDS", 5)

    assert rest() == 0
    assert not Recovery.objects.exists()
    assert statuses(webhook=webhook) == {}


def test_a_batch_costs_the_same_whatever_is_in_it(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "BATCH", 1000)
    Webhook.objects.update(events=["order.created"])
    publish(alice, 500)
    Webhook.objects.update(events=[KIND])

    with CaptureQueriesContext(connection) as queries:
        recovered = recovery.recover(alice.id, webhook.id, since=timezone.now() - timedelta(hours=1))

    assert recovered.is_over is not Recovery.objects.exists()
    assert recovered.deliveries + rest() == 500
    assert len(queries) <= 9  # two transactions: now, begin; lock, step, end
