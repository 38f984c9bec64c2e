"""Four attempts at 0, +10 minutes, +2 hours and +12 hours, each measured from the end of the one before it."""

import hashlib
import hmac
import json
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from codservice import values
from codservice.accounts.actor import Actor, Role
from orders import lifecycle
from tests.factories import make_order
from tests.harness.deliveries import pass_time, write
from tests.harness.receivers import answer, hang
from webhooks import resending, retries, secrets
from webhooks.models import Attempt, Delivery

pytestmark = pytest.mark.django_db(transaction=True)
WAITS = [timedelta(minutes=10), timedelta(hours=2), timedelta(hours=12)]
FAILURE = answer("503 Busy")


@pytest.fixture
def webhook(receiver, webhook_to):
    return webhook_to(receiver.url("/hook"))


def state(id_):
    return Delivery.objects.get(id=id_)


def wait_as_long_as_scheduled(engine, id_, wait):
    """Let `wait` pass since the last attempt's end: a second before its time nothing is sent."""
    last = Attempt.objects.filter(delivery_id=id_).latest("number")
    due = state(id_).next_attempt_at
    assert due - last.ended_at == wait
    # The test's own time passes too: to a second before the due time by the database's clock.
    pass_time(seconds=(due - now_in_database()).total_seconds() - 1)
    assert engine.drain() == 0
    assert Attempt.objects.filter(delivery_id=id_).count() == last.number
    pass_time(seconds=1)


def now_in_database():
    from tests.harness.database import one

    return one("SELECT now()")


@pytest.mark.parametrize("succeeds_at", [1, 2, 3, 4, None])
def test_attempts_are_made_at_the_stated_times_until_one_is_acknowledged(engine, receiver, webhook, succeeds_at):
    (id_,) = write(webhook)
    receiver.default = FAILURE
    for number in range(1, (succeeds_at or 4) + 1):
        if number > 1:
            wait_as_long_as_scheduled(engine, id_, WAITS[number - 2])
        if number == succeeds_at:
            receiver.default = answer("204 No Content", body=b"")
        assert engine.drain() == 1
    assert state(id_).status == ("delivered" if succeeds_at else "failed")
    assert state(id_).finished_at is not None
    assert state(id_).next_attempt_at is None
    # Never another one, however long it takes.
    pass_time(days=30)
    assert engine.drain() == 0
    assert len(receiver.requests) == (succeeds_at or 4)
    codes = [503] * (succeeds_at - 1) + [204] if succeeds_at else [503] * 4
    attempts = Attempt.objects.filter(delivery_id=id_).order_by("number")
    assert [(each.number, each.status_code) for each in attempts] == list(enumerate(codes, 1))
    assert attempts.last().failure == ("" if succeeds_at else "status")


def test_each_retry_waits_as_long_as_is_decided_and_after_the_last_there_is_none():
    assert [retries.delay_before_retry(left) for left in (3, 2, 1, 0)] == [*WAITS, None]
    assert Delivery().retries_left == retries.RETRIES == 3


@pytest.mark.parametrize("retries_left", range(retries.RETRIES + 1))
def test_the_queue_waits_for_what_is_decided(engine, receiver, webhook, retries_left):
    (id_,) = write(webhook)
    Delivery.objects.update(retries_left=retries_left)
    receiver.default = FAILURE
    engine.drain()
    delay, failed = retries.delay_before_retry(retries_left), state(id_)
    ended_at = Attempt.objects.get().ended_at
    assert failed.next_attempt_at == (ended_at + delay if delay else None)
    assert failed.finished_at == (None if delay else ended_at)
    assert failed.status == ("pending" if delay else "failed")


def test_every_attempt_carries_the_same_bytes_and_signature_and_its_own_number(engine, receiver, webhook):
    (id_,) = write(webhook)
    receiver.default = FAILURE
    for wait in [*WAITS, timedelta()]:
        engine.drain()
        pass_time(seconds=wait.total_seconds() + 1)
    assert [request.headers["x-service-attempt"] for request in receiver.requests] == ["1", "2", "3", "4"]
    body = state(id_).event.body.encode()
    assert {request.body for request in receiver.requests} == {body}
    assert {request.delivery for request in receiver.requests} == {str(id_)}
    secret = secrets.decrypt(bytes(webhook.secret))
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    assert {request.headers["x-service-signature"] for request in receiver.requests} == {expected}


def test_the_wait_begins_when_the_attempt_ends_not_when_it_began(engine, receiver, webhook):
    (id_,) = write(webhook)
    receiver.default = hang
    before = now_in_database()
    engine.drain()
    attempt = Attempt.objects.get(delivery_id=id_)
    assert attempt.failure == "timeout"
    assert attempt.ended_at - before >= timedelta(seconds=3)
    assert state(id_).next_attempt_at - attempt.ended_at == WAITS[0]


def test_a_resend_is_one_more_attempt_with_the_same_id_and_body(engine, receiver, webhook):
    (id_,) = write(webhook)
    receiver.default = FAILURE
    for wait in [*WAITS, timedelta()]:
        engine.drain()
        pass_time(seconds=wait.total_seconds() + 1)
    assert state(id_).status == "failed"
    assert resending.resend([id_]) == [id_]
    engine.drain()
    assert state(id_).status == "failed"
    pass_time(days=1)
    assert engine.drain() == 0
    receiver.default = answer()
    resending.resend([id_])
    engine.drain()
    assert state(id_).status == "delivered"
    assert len(receiver.requests) == 6
    assert {(request.delivery, request.body) for request in receiver.requests} == {
        (str(id_), state(id_).event.body.encode())
    }


def test_a_resend_of_a_delivered_one_is_sent_once_more(engine, receiver, webhook):
    (id_,) = write(webhook)
    engine.drain()
    resending.resend([id_])
    engine.drain()
    assert state(id_).status == "delivered"
    assert [request.headers["x-service-attempt"] for request in receiver.requests] == ["1", "2"]
    assert engine.drain() == 0


def test_what_is_not_due_yet_is_left_alone(engine, receiver, webhook):
    write(webhook, age=-1.5)
    assert engine.drain() == 0
    pass_time(seconds=1.5)
    assert engine.drain() == 1


def test_a_retry_tells_of_the_event_as_it_was_whatever_has_become_of_the_order(engine, receiver, webhook_to, alice):
    """P21: a confirmation that arrives after the cancellation still says confirmed, at the time at which it was."""
    webhook_to(receiver.url(), events=["order.confirmed"])
    webhook_to(receiver.url("/cancelled"), events=["order.cancelled"])
    order = make_order(alice)
    receiver.behaviours["/"] = FAILURE
    lifecycle.confirm(order.id, actor=Actor(Role.AGENT, "Samira"))
    engine.drain()
    lifecycle.cancel(order.id, actor=Actor(Role.MERCHANT, "API key"))
    pass_time(minutes=11)
    receiver.behaviours["/"] = answer()
    engine.drain()
    first, retry = receiver.of("/")
    assert first.body == retry.body
    told = json.loads(retry.body)
    order.refresh_from_db()
    assert (told["event"], told["data"]["status"]) == ("order.confirmed", "confirmed")
    assert datetime.fromisoformat(told["timestamp"]) == order.confirmed_at < order.canceled_at
    (cancelled,) = receiver.of("/cancelled")
    assert json.loads(cancelled.body)["data"]["status"] == "canceled"


NAMES = [
    "سميرة بن علي",
    "👩‍👩‍👧 🇩🇿",
    "a\u2028b\u2029\ufeff\u200f",
    "\\u0000 %00 ${x} `id`",
    "<script>",
    "é é",
    "\u202ecba",
    "'\"\\",
]


def test_what_arrives_is_to_the_byte_what_was_signed(engine, receiver, webhook, alice):
    """P20: length and signature fit the bytes that come in, whatever a customer is called."""
    for name in NAMES:
        make_and_confirm(alice, customer_name=name, total_amount=Decimal("12.50"))
    engine.drain()
    secret = secrets.decrypt(bytes(webhook.secret)).encode()
    bodies = [request.body for request in receiver.requests]
    assert sorted(json.loads(body)["data"]["customer_name"] for body in bodies) == sorted(
        values.text(name, max_length=255) for name in NAMES
    )
    for request in receiver.requests:
        assert request.headers["content-length"] == str(len(request.body))
        assert request.headers["x-service-signature"] == (
            "sha256=" + hmac.new(secret, request.body, hashlib.sha256).hexdigest()
        )
        assert b'"total_amount":12.50' in request.body


def make_and_confirm(account, **fields):
    lifecycle.confirm(make_order(account, **fields).id, actor=Actor(Role.AGENT, "Samira"))
