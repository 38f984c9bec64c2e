"""The database goes away at the worst moments: no result is lost, nothing is sent twice, and the queue goes on."""

import time
from collections import Counter

import pytest
from django.db import connection, connections, transaction

from tests.harness.background import Background
from tests.harness.database import end_sessions, session, wait_for_lock
from tests.harness.deliveries import pass_time, statuses, write
from tests.harness.receivers import answer
from webhooks import delivery
from webhooks.models import Attempt, Claim, Delivery

pytestmark = pytest.mark.django_db(transaction=True)


def assert_each_was_sent_once(receiver, written):
    assert Counter(request.delivery for request in receiver.requests) == {str(id_): 1 for id_ in written}
    assert statuses() == {"delivered": len(written)}
    assert Attempt.objects.count() == len(written)
    assert Claim.objects.count() == 0


def test_sessions_that_end_while_posts_are_under_way_lose_no_result(engine, receiver, webhook_to):
    receiver.default = answer(after=0.3)
    written = write(webhook_to(receiver.url()), 120)
    draining = Background(engine.drain)
    for count in (20, 60, 110):
        receiver.wait_for(count)
        end_sessions()
    draining.result()
    # A claim that was cut off may have been committed unheard: its lease has to end first.
    pass_time(seconds=31)
    engine.drain()
    assert_each_was_sent_once(receiver, written)


def test_a_claim_that_is_cut_off_ends_the_drain_cleanly_and_the_next_one_goes_on(engine, receiver, webhook_to):
    assert engine.drain() == 0  # what dead workers had claimed is given back: the claim alone waits for the lock
    written = write(webhook_to(receiver.url()), 10)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE webhooks_claim IN ACCESS EXCLUSIVE MODE")
        draining = Background(engine.drain)
        wait_for_lock()
        end_sessions()
    assert draining.result() == 0
    assert engine.drain() == 10
    assert_each_was_sent_once(receiver, written)


def test_a_claim_that_waits_too_long_for_its_turn_is_given_up_and_the_next_one_goes_on(engine, receiver, webhook_to):
    written = write(webhook_to(receiver.url()), 10)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [delivery.CLAIMING])
        assert engine.drain() == 0
        cursor.execute("SELECT pg_advisory_unlock(%s)", [delivery.CLAIMING])
    assert engine.drain() == 10
    assert_each_was_sent_once(receiver, written)


def test_results_that_cannot_be_written_are_kept_until_they_can(engine, receiver, webhook_to, may_end):
    receiver.default = answer(once=may_end)
    written = write(webhook_to(receiver.url()), 10)
    draining = Background(engine.drain)
    receiver.wait_for(10)
    with transaction.atomic():
        list(Delivery.objects.select_for_update())
        may_end.set()
        time.sleep(2.6)  # longer than a statement waits for a lock
        assert not draining.is_over
    draining.result()
    assert_each_was_sent_once(receiver, written)


def test_a_session_that_ends_while_it_settles_settles_again(engine, receiver, webhook_to, may_end):
    receiver.default = answer(once=may_end)
    written = write(webhook_to(receiver.url()), 10)
    draining = Background(engine.drain)
    receiver.wait_for(10)
    with transaction.atomic():
        list(Delivery.objects.select_for_update())
        may_end.set()
        wait_for_lock()
        end_sessions()
    draining.result()
    assert_each_was_sent_once(receiver, written)


def test_no_connection_at_all_is_waited_for(engine, receiver, webhook_to, may_end):
    receiver.default = answer(once=may_end)
    written = write(webhook_to(receiver.url()), 10)
    draining = Background(engine.drain)
    receiver.wait_for(10)
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connections["default"]._nodb_cursor() as cursor:
        connection.close()
        cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s",
                [connection.settings_dict["NAME"]],
            )
            may_end.set()
            time.sleep(1.5)
            assert not draining.is_over
        finally:
            cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    draining.result()
    assert_each_was_sent_once(receiver, written)


def test_a_process_that_was_paused_beyond_its_lease_does_not_send_again_what_it_is_sending(
    engine, receiver, webhook_to
):
    receiver.default = answer(after=0.8)
    written = write(webhook_to(receiver.url()), 10)
    draining = Background(engine.drain)
    receiver.wait_for(10)
    pass_time(seconds=60)
    engine.wake_up()
    draining.result()
    assert_each_was_sent_once(receiver, written)


def test_sessions_that_end_again_and_again_lose_nothing_and_double_nothing(engine, receiver, webhook_to):
    written = write(webhook_to(receiver.url()), 500)
    ours = session()
    ending = Background(lambda: [end_sessions(ours) for _ in range(20) if not time.sleep(0.03)])
    engine.drain()
    ending.result()
    for _ in range(20):
        if not statuses()["pending"]:
            break
        pass_time(seconds=31)
        engine.drain()
    assert_each_was_sent_once(receiver, written)
