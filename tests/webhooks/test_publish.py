"""`events.publish`: in the change's transaction, by one statement, to whoever is subscribed at that moment."""

import random
from datetime import UTC, datetime
from decimal import Decimal
from uuid import RFC_4122, uuid4

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from codservice.accounts.actor import Actor, Role
from orders import lifecycle
from tests.factories import make_order
from tests.harness.background import Background, at_once
from tests.harness.database import end_sessions, wait_for_lock
from tests.harness.deliveries import claim_due
from webhooks import delivery, events, registry, resending
from webhooks.models import Claim, Delivery, Event, Webhook
from webhooks.posts import Outcome

AT = datetime(2026, 3, 1, 10, 15, 30, 123456, tzinfo=UTC)
KIND = Event.Kind.ORDER_CONFIRMED


def publish(account, data=None, kind=KIND):
    with transaction.atomic():
        events.publish([events.Told(account.id, kind, data or {"id": "x"}, AT)])


def test_everybody_who_is_subscribed_is_told_and_nobody_else(alice, charlie, register):
    told = [register(alice, events=[KIND, "inventory.updated"]), register(alice)]
    register(alice, events=["order.cancelled", "inventory.updated"])
    register(charlie)
    Webhook.objects.filter(id=register(alice).id).update(is_active=False)
    Webhook.objects.filter(id=register(alice).id).update(deleted_at=timezone.now())

    publish(alice)

    assert set(Delivery.objects.values_list("webhook_id", flat=True)) == {webhook.id for webhook in told}
    delivery = Delivery.objects.first()
    assert (delivery.status, delivery.attempt_count, delivery.retries_left) == ("pending", 0, 3)
    assert (delivery.account_id, delivery.created_at) == (alice.id, AT)


def test_an_event_is_kept_also_when_nobody_is_told(alice):
    publish(alice)

    assert Event.objects.exclude(kind="order.created").get().kind == KIND
    assert not Delivery.objects.exists()


@pytest.mark.parametrize(("webhooks", "count"), [(1, 1), (20, 1), (3, 100)])
def test_one_statement_however_many(alice, register, webhooks, count):
    for _ in range(webhooks):
        register(alice)

    with transaction.atomic(), CaptureQueriesContext(connection) as captured:
        events.publish([events.Told(alice.id, KIND, {"n": number}, AT) for number in range(count)])

    assert len(captured) == 1
    assert Delivery.objects.count() == webhooks * count


def test_ids_of_deliveries_sort_by_the_times_of_their_events(alice, register):
    webhooks = [register(alice) for _ in range(3)]
    for _ in range(20):
        publish(alice)
    events.ping(alice.id, webhooks[0].id)

    deliveries = Delivery.objects.order_by("id").values_list("id", "event_id")

    assert len({id_ for id_, _ in deliveries}) == 61
    assert {(id_.version, id_.variant) for id_, _ in deliveries} == {(7, RFC_4122)}
    assert all(id_.bytes[:7] == event_id.bytes[:7] for id_, event_id in deliveries)


def test_the_body_is_exact(alice):
    publish(alice, {"amount": Decimal("12.50"), "name": "سميرة \u2028 🎁 </script>", "at": AT})

    assert Event.objects.exclude(kind="order.created").get().body == (
        '{"event":"order.confirmed","timestamp":"2026-03-01T10:15:30.123456Z",'
        '"data":{"amount":12.50,"name":"سميرة \u2028 🎁 </script>","at":"2026-03-01T10:15:30.123456Z"}}'
    )


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_it_refuses(alice):
    with pytest.raises(RuntimeError):
        events.publish([events.Told(alice.id, KIND, {}, AT)])
    assert not Event.objects.exclude(kind="order.created").exists()


def test_what_is_rolled_back_is_told_to_nobody(alice, register):
    register(alice)
    with transaction.atomic():
        events.publish([events.Told(alice.id, KIND, {}, AT)])
        transaction.set_rollback(True)
    assert not Event.objects.exclude(kind="order.created").exists()
    assert not Delivery.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_deletion_waits_for_what_is_being_published_and_drops_it(alice, register):
    webhook = register(alice)
    with transaction.atomic():
        events.publish([events.Told(alice.id, KIND, {}, AT)])
        deleting = Background(lambda: registry.delete(alice.id, webhook.id))
        wait_for_lock()
    deleting.result()

    assert list(Delivery.objects.values_list("status", flat=True)) == ["dropped"]
    publish(alice)
    assert Delivery.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_session_that_ends_between_change_and_commit_leaves_neither(alice, register):
    """P9: the backend dies when order, history and event are written and the delivery waits for the webhook's lock."""
    webhook = register(alice)
    order = make_order(alice)

    def confirm():
        with pytest.raises(OperationalError):
            lifecycle.confirm(order.id, actor=Actor(Role.AGENT, "Samira"))

    with transaction.atomic():
        Webhook.objects.select_for_update().get(id=webhook.id)
        confirming = Background(confirm)
        wait_for_lock()
        end_sessions()
        confirming.result()
    order.refresh_from_db()
    assert (order.status, order.version) == ("pending_confirmation", 1)
    assert order.status_changes.count() == 1
    assert not Event.objects.exclude(kind="order.created").exists()
    assert not Delivery.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("telling", ["publish", "ping", "rotate"])
def test_who_waits_for_a_deletion_sees_it(alice, register, telling):
    """A lock that was waited for gives the row as it is by then; all that depends on it is decided by that."""
    webhook = register(alice)

    def tell():
        if telling == "publish":
            publish(alice)
        elif telling == "ping":
            events.ping(alice.id, webhook.id)
        else:
            registry.rotate_secret(alice.id, webhook.id)

    with transaction.atomic():
        Webhook.objects.select_for_update().get(id=webhook.id)
        Webhook.objects.filter(id=webhook.id).update(deleted_at=AT)
        telling_now = Background(tell)
        wait_for_lock()
    if telling == "publish":
        telling_now.result()
        assert Event.objects.exclude(kind="order.created").count() == 1
    else:
        with pytest.raises(Webhook.DoesNotExist):
            telling_now.result()
    assert not Delivery.objects.exists()
    assert Webhook.objects.get().previous_secret is None


@pytest.mark.django_db(transaction=True)
def test_all_that_is_done_to_deliveries_at_once_waits_in_no_circle(alice, register, settings):
    """Publish, resend, claim, renew, settle, release, delete, drop: each against each, without a deadlock."""
    webhooks = [register(alice, f"https://shop.example/{number}") for number in range(6)]
    dice = [random.Random(number) for number in range(8)]
    deleted = set()

    def work(number):
        token, claimed = uuid4(), []
        for turn in range(30):
            match (number + turn) % 8:
                case 0 | 1:
                    publish(alice)
                case 2:
                    ids = list(Delivery.objects.values_list("id", flat=True))
                    resending.resend(dice[number].sample(ids, min(len(ids), 20)))
                case 3 | 4:
                    claimed += claim_due(token, 30)
                case 5:
                    delivery.renew(token, [post.delivery_id for post in claimed])
                case 6:
                    outcomes = [Outcome(post, dice[number].choice(["", "status"]), 200, 1, b"") for post in claimed]
                    delivery.settle(token, outcomes[5:])
                    delivery.release(token, [outcome.post.delivery_id for outcome in outcomes[:5]])
                    claimed = []
                case 7 if turn % 3 == 0 and number < 4:
                    webhook = webhooks[number]
                    if webhook.id not in deleted:
                        deleted.add(webhook.id)
                        registry.delete(alice.id, webhook.id)
                case 7:
                    registry.drop_left_over()
        delivery.settle(token, [Outcome(post, "", 200, 1, b"") for post in claimed])

    at_once(8, work)
    registry.drop_left_over()
    assert deleted
    assert not Delivery.objects.filter(webhook_id__in=deleted, status="pending").exists()
    assert not Claim.objects.filter(webhook_id__in=deleted).exists()
