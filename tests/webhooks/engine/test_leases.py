"""Nobody sends what is no longer theirs to send: after a pause, a slow lookup of a name, or a deletion meanwhile."""

import asyncio
import errno
import itertools
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from uuid import uuid4

import pytest
from django.db import connection, transaction

from tests.harness.background import PATIENCE, Background, eventually
from tests.harness.database import wait_for_lock
from tests.harness.deliveries import claim_due, pass_time, write
from tests.harness.receivers import answer
from webhooks import delivery, registry, signing, transfer
from webhooks.models import Attempt, Claim, Delivery
from webhooks.roster import Roster
from webhooks.sender import Sender

from .certificates import Authority

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def slow_name(names):
    """A name of this machine that is known only when the event is set."""
    may_answer = threading.Event()
    names["slow.example"] = lambda: may_answer.wait(PATIENCE) and ["127.0.0.1"]
    yield may_answer
    may_answer.set()


# --- Pauses ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pause_after_claim(monkeypatch):
    """Lets the process of the next claim pause between it and the posts; `meanwhile` is what others do."""

    def pause(meanwhile):
        claim = delivery.claim

        def claim_and_pause(*args, **named):
            posts = claim(*args, **named)
            monkeypatch.setattr(delivery, "claim", claim)
            pass_time(seconds=delivery.LEASE.total_seconds() + 1)
            meanwhile()
            time.sleep(delivery.BEGIN_WITHIN)
            return posts

        monkeypatch.setattr(delivery, "claim", claim_and_pause)

    return pause


def test_a_worker_that_paused_between_claim_and_post_sends_nothing_that_was_taken_over(
    engine, receiver, webhook_to, make_engine, pause_after_claim
):
    written = write(webhook_to(receiver.url()), 20)
    other = make_engine()
    pause_after_claim(lambda: other.drain())
    assert engine.drain() == 0
    assert Counter(request.delivery for request in receiver.requests) == {str(id_): 1 for id_ in written}
    assert Attempt.objects.count() == 20


def test_a_worker_that_paused_and_was_not_missed_sends_what_it_had_claimed(
    engine, receiver, webhook_to, pause_after_claim
):
    written = write(webhook_to(receiver.url()), 20)
    pause_after_claim(lambda: None)
    assert engine.drain() == 20
    assert Counter(request.delivery for request in receiver.requests) == {str(id_): 1 for id_ in written}


@pytest.fixture
def claims(monkeypatch):
    """What is done instead of the claims by their number, from 1 on; it gets a function that makes the claim."""
    instead, claim, number = {}, delivery.claim, itertools.count(1)

    def make(*args, **named):
        make_it = partial(claim, *args, **named)
        return instead.get(next(number), lambda it: it())(make_it)

    monkeypatch.setattr(delivery, "claim", make)
    return instead


def late(claim):
    """Make the claim after a pause that outlasts a lease."""
    pass_time(seconds=delivery.LEASE.total_seconds() + 1)
    time.sleep(delivery.BEGIN_WITHIN * 1.1)
    return claim()


def test_what_is_settled_after_a_late_claim_took_it_again_is_not_sent_again(
    engine, receiver, webhook_to, may_end, claims
):
    def claim_and_pause(claim):
        posts = late(claim)
        may_end.set()
        eventually(Attempt.objects.exists)
        time.sleep(0.1)  # the drain hears of that before it gets these posts
        return posts

    claims[2] = claim_and_pause
    write(webhook_to(receiver.url()))
    receiver.default = answer(once=may_end)
    draining = Background(engine.drain)
    receiver.wait_for(1)
    engine.wake_up()
    assert draining.result() == len(receiver.requests) == 1


def test_what_is_given_back_while_a_late_claim_takes_it_again_is_left_to_others(
    make_engine, receiver, webhook_to, may_end, claims, monkeypatch
):
    """It is claimed ahead and finds no place."""
    theirs = []

    def claim_once_they_are_given_back(claim):
        eventually(lambda: not engine._sender._waiting)
        return late(claim)

    def claim_after_others(claim):
        theirs.extend(str(post.delivery_id) for post in claim_due(uuid4(), 10))
        may_end.set()
        return claim()

    claims.update({2: claim_once_they_are_given_back, 3: claim_after_others})
    monkeypatch.setattr(Sender, "room", 3)
    write(webhook_to(receiver.url()), 3)
    receiver.default = answer(once=may_end)
    engine = make_engine(window=1)
    draining = Background(engine.drain)
    receiver.wait_for(1)
    engine.wake_up()
    assert draining.result() == 1
    assert len(theirs) == 2
    assert [request.delivery for request in receiver.requests if request.delivery in theirs] == []


def test_no_attempt_fails_while_the_database_is_slow_to_renew_its_claim(
    engine, receiver, webhook_to, pause_after_claim, monkeypatch
):
    renew = delivery.renew

    def renew_slowly(*args):
        time.sleep(transfer.DEADLINE_MS / 1000)
        return renew(*args)

    monkeypatch.setattr(transfer, "DEADLINE_MS", 1000)
    monkeypatch.setattr(delivery, "renew", renew_slowly)
    write(webhook_to(receiver.url()))
    pause_after_claim(lambda: None)
    assert engine.drain() == len(receiver.requests) == 1
    attempt = Attempt.objects.get()
    assert attempt.failure == ""
    assert attempt.milliseconds < transfer.DEADLINE_MS


def test_a_worker_that_stops_while_the_database_is_slow_gives_back_what_it_has_not_begun(
    engine, receiver, webhook_to, pause_after_claim, monkeypatch
):
    """Each renewal takes longer than it lets a post wait."""
    renew = delivery.renew

    def renew_slowly(*args):
        renewed = renew(*args)
        time.sleep(delivery.BEGIN_WITHIN * 1.1)
        engine.stop()
        return renewed

    monkeypatch.setattr(delivery, "renew", renew_slowly)
    write(webhook_to(receiver.url()), 3)
    pause_after_claim(lambda: None)
    assert Background(engine.drain).result() == 0
    assert (receiver.requests, Claim.objects.count()) == ([], 0)


def test_a_claim_does_not_take_what_is_being_renewed(webhook_to, monkeypatch):
    """Another worker's claim has found that the lease is over, waits for the renewal, and looks again."""
    monkeypatch.setattr(delivery, "close_old_connections", lambda: None)  # as it would amid a transaction
    ids, token = write(webhook_to("http://127.0.0.1:9/"), 20), uuid4()
    claim_due(token, 20)
    pass_time(seconds=delivery.LEASE.total_seconds() + 1)
    with transaction.atomic():
        assert set(delivery.renew(token, ids)) == set(ids)
        claiming = Background(lambda: claim_due(uuid4(), 20))
        wait_for_lock()
    assert claiming.result() == []
    assert set(Claim.objects.values_list("token", flat=True)) == {token}


def test_a_claim_is_renewed_while_its_result_cannot_be_written(engine, receiver, webhook_to, may_end, monkeypatch):
    monkeypatch.setattr(delivery, "RENEW_AFTER", 0.2)
    write(webhook_to(receiver.url()), 5)
    receiver.default = answer(once=may_end)
    draining = Background(engine.drain)
    receiver.wait_for(5)
    with transaction.atomic():
        list(Delivery.objects.select_for_update())
        may_end.set()
        wait_for_lock()
        first = set(Claim.objects.values_list("until", flat=True))
        eventually(lambda: Claim.objects.filter(until__gt=max(first)).count() == 5)
    draining.result()
    assert Claim.objects.count() == 0
    assert len(receiver.requests) == 5


def test_who_renews_waits_for_nobody(webhook_to):
    held, deleted, free = webhook_to("http://127.0.0.1:9/"), webhook_to("http://127.0.0.1:9/"), webhook_to("http://a/")
    ids = [write(webhook)[0] for webhook in (held, deleted, free)]
    token = uuid4()
    claim_due(token, 3)
    registry.delete(deleted.account_id, deleted.id)
    with transaction.atomic():
        list(type(held).objects.select_for_update().filter(id=held.id))
        list(Claim.objects.select_for_update().filter(delivery_id=ids[0]))
        assert Background(lambda: set(delivery.renew(token, ids))).result() == {ids[2]}
        assert Background(lambda: delivery.renew(uuid4(), ids)).result() == {}
        Background(lambda: delivery.release(token, ids)).result()
    assert set(Claim.objects.values_list("delivery_id", flat=True)) == {ids[0]}


# --- Slow names ------------------------------------------------------------------------------------------------------


def test_no_attempt_begins_after_a_deletion_when_the_name_is_known_only_then(engine, receiver, webhook_to, slow_name):
    webhook = webhook_to(receiver.url(host="slow.example"))
    write(webhook, 3)
    draining = Background(engine.drain)
    eventually(lambda: engine._sender and len(engine._sender._lookups) == 3)
    registry.delete(webhook.account_id, webhook.id)
    slow_name.set()
    assert draining.result() == 0
    assert receiver.connections == 0
    assert set(Delivery.objects.values_list("status", flat=True)) == {"dropped"}
    assert Claim.objects.count() == Attempt.objects.count() == 0


def test_what_waited_for_its_name_is_sent_when_its_claim_stands(engine, receiver, webhook_to, slow_name):
    write(webhook_to(receiver.url(host="slow.example")), 3)
    draining = Background(engine.drain)
    eventually(lambda: engine._sender and len(engine._sender._lookups) == 3)
    time.sleep(delivery.BEGIN_WITHIN)
    slow_name.set()
    assert draining.result() == 3
    assert len(receiver.requests) == 3
    assert set(Delivery.objects.values_list("status", flat=True)) == {"delivered"}


def test_what_was_not_renewed_because_its_webhook_was_being_written_is_sent_in_the_same_drain(
    engine, receiver, webhook_to, slow_name, monkeypatch
):
    renew, renewals = delivery.renew, []

    def renew_while_it_is_held(*args):
        if renewals:  # on a busy machine what is claimed anew may be renewed, too
            return renew(*args)
        with transaction.atomic():
            list(type(webhook).objects.select_for_update(no_key=True).filter(id=webhook.id))
            renewals.append(Background(lambda: renew(*args)).result())
        return renewals[-1]

    webhook = webhook_to(receiver.url(host="slow.example"))
    write(webhook)
    monkeypatch.setattr(delivery, "renew", renew_while_it_is_held)
    draining = Background(engine.drain)
    eventually(lambda: engine._sender and len(engine._sender._lookups) == 1)
    time.sleep(delivery.BEGIN_WITHIN)
    slow_name.set()
    assert (draining.result(), renewals) == (1, [{}])
    assert len(receiver.requests) == 1


# --- A new secret ----------------------------------------------------------------------------------------------------


def test_a_new_secret_signs_what_waited_for_its_name_meanwhile(engine, receiver, webhook_to, slow_name):
    webhook = webhook_to(receiver.url(host="slow.example"))
    write(webhook, 3)
    draining = Background(engine.drain)
    eventually(lambda: engine._sender and len(engine._sender._lookups) == 3)
    _, secret = registry.rotate_secret(webhook.account_id, webhook.id)
    slow_name.set()
    assert draining.result() == 3
    for request in receiver.requests:
        assert request.headers["x-service-signature"] == signing.signature(secret, request.body)
        assert "x-service-signature-previous" in request.headers


def test_a_rotation_waits_for_what_is_about_to_be_signed_by_the_old_secret(webhook_to):
    webhook = webhook_to("http://127.0.0.1:9/")
    write(webhook)
    (post,) = claim_due(uuid4(), 1)
    registry.rotate_secret(webhook.account_id, webhook.id)
    assert time.monotonic() > post.begin_by


def test_a_rotation_waits_for_what_is_just_renewed_under_the_old_secret(webhook_to, monkeypatch):
    monkeypatch.setattr(delivery, "close_old_connections", lambda: None)  # as it would amid a transaction
    webhook = webhook_to("http://127.0.0.1:9/")
    ids, token = write(webhook), uuid4()
    claim_due(token, 1)
    with transaction.atomic():
        delivery.renew(token, ids)
        rotating = Background(lambda: registry.rotate_secret(webhook.account_id, webhook.id))
        wait_for_lock()
        (renewed,) = delivery.renew(token, ids).values()
    rotating.result()
    assert time.monotonic() > renewed.begin_by


# --- A new address ---------------------------------------------------------------------------------------------------


def move(webhook, url):
    registry.change(webhook.account_id, webhook.id, {"url": url})


def test_what_waited_for_its_name_goes_to_the_address_that_took_its_place(engine, receiver, webhook_to, slow_name):
    webhook = webhook_to(receiver.url("/old", host="slow.example"))
    write(webhook, 3)
    draining = Background(engine.drain)
    eventually(lambda: engine._sender and len(engine._sender._lookups) == 3)
    move(webhook, receiver.url("/new"))
    slow_name.set()
    assert draining.result() == 3
    assert {request.path for request in receiver.requests} == {"/new"}


def test_a_change_of_address_waits_for_what_is_about_to_go_to_the_old_one(webhook_to):
    webhook = webhook_to("http://127.0.0.1:9/")
    write(webhook)
    (post,) = claim_due(uuid4(), 1)
    move(webhook, "http://127.0.0.1:9/new")
    assert time.monotonic() > post.begin_by


def test_what_waited_for_its_name_while_the_database_went_away_is_left_to_the_next_drain(
    engine, receiver, webhook_to, slow_name, monkeypatch
):
    write(webhook_to(receiver.url(host="slow.example")), 3)
    draining = Background(engine.drain)
    eventually(lambda: engine._sender and len(engine._sender._lookups) == 3)
    time.sleep(delivery.BEGIN_WITHIN)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE webhooks_claim IN ACCESS EXCLUSIVE MODE")
        slow_name.set()
        wait_for_lock()
        eventually(lambda: engine._sender.is_idle)  # it has waited for as long as a lock is waited for
        assert receiver.requests == []
    draining.result()
    pass_time(seconds=delivery.LEASE.total_seconds() + 1)
    engine.drain()
    assert len(receiver.requests) == 3
    assert set(Delivery.objects.values_list("status", flat=True)) == {"delivered"}


def test_what_its_kept_connection_lost_is_not_sent_again_after_a_deletion(engine, receiver, webhook_to):
    is_deleted = threading.Event()

    async def close_then(connection):
        while not is_deleted.is_set():
            await asyncio.sleep(0.01)
        connection.writer.close()

    webhook = webhook_to(receiver.url())
    write(webhook)
    assert engine.drain() == 1
    receiver.default = close_then
    write(webhook)
    draining = Background(engine.drain)
    receiver.wait_for(2)
    registry.delete(webhook.account_id, webhook.id)
    is_deleted.set()
    draining.result()
    assert (len(receiver.requests), receiver.connections) == (2, 1)
    assert set(Delivery.objects.values_list("status", flat=True)) == {"delivered", "dropped"}
    assert Claim.objects.count() == 0


# --- Which workers have died -----------------------------------------------------------------------------------------


def test_the_dead_are_those_whose_process_has_ended(tmp_path, monkeypatch):
    roster = Roster("test")
    monkeypatch.setattr(roster, "folder", tmp_path / "workers")
    living, dead = uuid4(), uuid4()
    file = roster.enter(living)
    roster.enter(dead).close()  # as the system does
    (roster.folder / "no token").touch()
    assert Roster.dead(roster) == [dead]
    roster.forget(dead)
    assert roster.dead() == []
    file.close()
    assert roster.dead() == [living]


def test_of_the_dead_who_held_nothing_nothing_is_said(engine, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(Roster, "__init__", lambda self, _: setattr(self, "folder", tmp_path / "workers"))
    dead = uuid4()
    Roster("test").enter(dead).close()
    with caplog.at_level("INFO", "webhooks"):
        engine.drain()
    assert caplog.messages == []
    assert dead not in Roster("test").dead()


def test_a_folder_that_is_not_ours_is_not_believed_and_nothing_stops(
    engine, receiver, webhook_to, monkeypatch, tmp_path
):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(Roster, "__init__", lambda self, _: setattr(self, "folder", tmp_path / "workers"))
    (tmp_path / "workers").symlink_to(tmp_path / "elsewhere")
    write(webhook_to(receiver.url()), 3)
    assert engine.drain() == 3
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("trusts_another", [False, True])
def test_without_any_folder_for_temporary_files_deliveries_are_sent(
    engine, receiver, webhook_to, monkeypatch, caplog, settings, tmp_path, trusts_another
):
    settings.WEBHOOK_CA_FILE = str(Authority(tmp_path).file) if trusts_another else None

    def gettempdir():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    write(webhook_to(receiver.url()), 3)
    assert engine.drain() == 3
    assert len(caplog.messages) == 1
    assert "could not be given back" in caplog.messages[0]
