"""Any number of workers take from the queue: nothing twice, no webhook more than its share, the fresh first."""

import asyncio
import contextlib
import os
import re
import tempfile
import threading
import time
from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from codservice.postgresql import is_away
from tests.harness.background import PATIENCE, Background, at_once, eventually
from tests.harness.database import one, wait_for_lock
from tests.harness.deliveries import claim_due, pass_time, statuses, write
from tests.harness.receivers import answer, hang
from webhooks import delivery, tasks, transfer
from webhooks.engine import WINDOW
from webhooks.models import Attempt, Claim, Delivery, Webhook
from webhooks.posts import Outcome
from webhooks.queue import NOBODY

pytestmark = pytest.mark.django_db(transaction=True)
OK = answer()


def ids(posts):
    return {post.delivery_id for post in posts}


def outcome(post, failure=""):
    return Outcome(post, failure, 200, 5, b"ok")


def test_two_workers_send_nothing_twice(receiver, webhook_to, make_workers):
    receiver.default = answer(after=0.05)
    webhooks = [webhook_to(receiver.url(f"/{number}")) for number in range(6)]
    written = {id_ for webhook in webhooks for id_ in write(webhook, 400)}
    workers = make_workers(2, window=100)  # too narrow for one to hold all that may be under way
    for worker in workers:
        worker.start()
    receiver.wait_for(len(written))
    sent = [worker.stop() for worker in workers]
    assert Counter(request.delivery for request in receiver.requests) == {str(id_): 1 for id_ in written}
    assert statuses() == {"delivered": len(written)}
    assert Attempt.objects.count() == sum(sent) == len(written)
    assert min(sent) > 0
    assert Claim.objects.count() == 0


def test_two_workers_together_give_a_webhook_its_share_and_no_more(receiver, webhook_to, make_workers):
    under_way, most, are_all_there = 0, 0, asyncio.Event()

    async def count(connection):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if most >= delivery.AT_ONCE:
            are_all_there.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(are_all_there.wait(), 1)  # an attempt may take three, on a busy machine too
        await asyncio.sleep(0.15)  # for what would be too many
        under_way -= 1
        await OK(connection)

    receiver.default = count
    write(webhook_to(receiver.url()), 300)
    workers = make_workers(2)
    for worker in workers:
        worker.start()
    receiver.wait_for(300)
    for worker in workers:
        worker.stop()
    assert most == delivery.AT_ONCE


@pytest.mark.parametrize(("is_failing", "share"), [(False, delivery.AT_ONCE), (True, delivery.AT_ONCE_FAILING)])
def test_claims_at_the_same_moment_share_a_webhooks_share(webhook_to, is_failing, share):
    write(webhook_to("http://127.0.0.1:9/", is_failing=is_failing), 400)
    for _ in range(5):
        claimed = at_once(6, lambda _: len(claim_due(uuid4(), 400)))
        assert sum(claimed) == share
        Claim.objects.all().delete()


def test_claims_at_the_same_moment_take_different_deliveries_and_none_goes_without(webhook_to):
    for _ in range(10):
        write(webhook_to("http://127.0.0.1:9/"), 50)
    for _ in range(5):
        claimed = at_once(4, lambda _: ids(claim_due(uuid4(), 100)))
        assert [len(each) for each in claimed] == [100] * 4
        assert len(set.union(*claimed)) == 400
        Claim.objects.all().delete()


def rows_read_by_a_claim(limit):
    """Of deliveries; and how many it takes."""

    def read():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
        return one("SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'webhooks_delivery'")

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    before = read()
    taken = len(claim_due(uuid4(), limit))
    return read() - before, taken


def test_a_claim_does_not_read_what_it_leaves_of_many_webhooks(webhook_to):
    """When a service comes back, a thousand merchants may have something due, and it claims hundreds of times."""
    for _ in range(100):
        write(webhook_to("http://127.0.0.1:9/"), 50)
    rows, taken = rows_read_by_a_claim(50)
    assert taken == 50
    assert rows < 1000


@pytest.fixture(params=["nestloop", "mergejoin"])
def dear_join(request):
    """A way to join that the planner takes for dear, as it may for its estimates."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET enable_{request.param} = off")
        yield
        cursor.execute(f"RESET enable_{request.param}")


@pytest.mark.usefixtures("dear_join")
@pytest.mark.parametrize("is_failing", [False, True])
def test_a_claim_does_not_read_what_waits_behind_a_receiver_that_hangs(webhook_to, is_failing):
    write(webhook_to("http://127.0.0.1:9/", is_failing=is_failing), 5000)
    claim_due(uuid4(), 400)
    write(webhook_to("http://127.0.0.1:9/"))
    rows, taken = rows_read_by_a_claim(350)
    assert taken == 1
    assert rows < 50


def test_one_that_has_much_gets_all_the_room_beside_many_that_have_nothing_left(webhook_to):
    for is_failing in (False, True):
        for _ in range(100):
            write(webhook_to("http://127.0.0.1:9/", is_failing=is_failing), 1, age=3600)
    claim_due(uuid4(), 200)
    much = write(webhook_to("http://127.0.0.1:9/"), 50)
    assert ids(claim_due(uuid4(), 50)) == set(much)


def test_one_that_has_much_gets_all_the_room_beside_many_that_fail(webhook_to):
    for _ in range(100):
        write(webhook_to("http://127.0.0.1:9/", is_failing=True), 5, age=3600)
    much = write(webhook_to("http://127.0.0.1:9/"), 50)
    assert ids(claim_due(uuid4(), 50)) == set(much)


def test_retries_count_into_the_share(webhook_to):
    webhook = webhook_to("http://127.0.0.1:9/")
    write(webhook, 40)
    write(webhook, 40, attempts=1)
    taken = [len(claim_due(uuid4(), 400)) for _ in range(3)]
    assert taken == [delivery.AT_ONCE, 0, 0]
    assert Claim.objects.filter(delivery__attempt_count=0).count() == 40


def test_the_commit_of_a_claim_is_sent_with_it(receiver, webhook_to, tmp_path):
    """A worker that stalled in between, or whose host vanished, would keep all others from claiming."""
    write(webhook_to(receiver.url("/")))
    connection.ensure_connection()
    with (tmp_path / "trace").open("w+b") as file:
        connection.connection.pgconn.trace(file.fileno())
        (post,) = claim_due(uuid4(), 10)
        connection.connection.pgconn.untrace()
        file.seek(0)
        said = re.findall(r"^[^\t]*\t([FB])\t\d+\t(\w+)", file.read().decode(), re.M)
    heard = [who for who, _ in said].index("B")
    assert ("F", "Sync") in said[:heard]
    assert post.attempt == 1


def test_a_batch_is_never_larger_than_asked_for(webhook_to):
    for _ in range(4):
        write(webhook_to("http://127.0.0.1:9/"), 20)
    assert [len(claim_due(uuid4(), limit)) for limit in (0, 1, 7, 400)] == [0, 1, 7, 72]


def test_first_attempts_come_before_retries_and_the_oldest_first(webhook_to):
    webhooks = [webhook_to(f"http://127.0.0.1:9/{number}") for number in range(3)]
    retries = write(webhooks[0], attempts=1, age=90_000)
    (young,) = write(webhooks[1], age=1)
    (old,) = write(webhooks[2], age=500)
    order = [claim_due(uuid4(), 1)[0].delivery_id for _ in range(3)]
    assert order == [old, young, *retries]


@pytest.mark.parametrize("is_failing", [False, True])
@pytest.mark.parametrize("attempts", [0, 1])
def test_what_is_young_does_not_wait_for_all_that_is_older_of_receivers_that_take_long(
    webhook_to, is_failing, attempts
):
    """A merchant may have twenty that answer after two seconds, and a file of thousands of orders to tell them of."""
    for _ in range(20):
        write(webhook_to("http://127.0.0.1:9/", is_failing=is_failing), 60, attempts=attempts, age=3600)
    claim_due(uuid4(), 400 if not is_failing else 50)
    (young,) = write(webhook_to("http://127.0.0.1:9/", is_failing=is_failing), attempts=attempts)
    assert young in ids(claim_due(uuid4(), 20))


def test_webhooks_that_fail_come_after_those_that_work(webhook_to):
    for _ in range(10):
        write(webhook_to("http://127.0.0.1:9/", is_failing=True), 10, age=3600)
    good = write(webhook_to("http://127.0.0.1:9/good"), 3)
    assert ids(claim_due(uuid4(), 3)) == set(good)


def test_what_is_claimed_is_nobody_elses_until_its_lease_ends(webhook_to):
    written = set(write(webhook_to("http://127.0.0.1:9/"), 3))
    mine, other = uuid4(), uuid4()
    assert ids(claim_due(mine, 10)) == written
    assert claim_due(other, 10) == []
    pass_time(seconds=delivery.LEASE.total_seconds() - 2)
    assert claim_due(other, 10) == []
    pass_time(seconds=2)
    assert ids(claim_due(other, 10)) == written
    assert claim_due(mine, 10) == []


def test_a_clock_that_is_set_back_by_hours_holds_no_claim_up_for_as_long(webhook_to):
    """Whose worker has died, since others settle theirs: they keep them meanwhile, and nothing is sent twice."""
    written = set(write(webhook_to("http://127.0.0.1:9/"), 3))
    claim_due(uuid4(), 10)
    (put_off,) = Claim.objects.all()[:1]
    Claim.objects.filter(delivery_id=put_off.delivery_id).update(token=NOBODY, until=put_off.until + timedelta(hours=2))
    Claim.objects.exclude(delivery_id=put_off.delivery_id).update(until=put_off.until + timedelta(hours=1))

    assert tasks.shorten_claims() == 3
    assert tasks.shorten_claims() == 0

    assert claim_due(uuid4(), 10) == []
    pass_time(seconds=delivery.LEASE.total_seconds() + 1)
    assert ids(claim_due(uuid4(), 10)) == written - {put_off.delivery_id}
    pass_time(seconds=delivery.PUT_OFF_FOR.total_seconds())
    assert put_off.delivery_id in ids(claim_due(uuid4(), 10))


def test_what_was_to_be_sent_by_a_clock_that_is_set_back_waits_for_no_longer_than_usual(webhook_to):
    """A first attempt for nothing, and a retry for twelve hours."""
    webhook, hour = webhook_to("http://127.0.0.1:9/"), 3600
    first, retries = write(webhook, 2, age=-hour), write(webhook, 2, attempts=3, age=-15 * hour)
    write(webhook, attempts=1, age=-11 * hour)

    assert tasks.shorten_claims() == 4
    assert tasks.shorten_claims() == 0

    assert ids(claim_due(uuid4(), 10)) == set(first)
    waits = Delivery.objects.filter(id__in=retries).values_list(F("next_attempt_at") - Now(), flat=True)
    assert all(timedelta(hours=11.9) < wait <= timedelta(hours=12) for wait in waits)


def test_a_web_process_that_is_gone_while_it_holds_off_claims_does_so_for_a_moment_only(webhook_to):
    write(webhook_to("http://127.0.0.1:9/"))
    has_begun, may_go_on = threading.Event(), threading.Event()

    def hold():
        one("SELECT set_config('idle_in_transaction_session_timeout', '0', false)")  # nothing else ends it
        with transaction.atomic():
            delivery.hold_off_claims()
            has_begun.set()
            may_go_on.wait(PATIENCE)
            one("SELECT 1")

    def claimed():
        try:
            return claim_due(uuid4(), 1)
        except DatabaseError:  # not yet
            return []

    holding = Background(hold)
    assert has_begun.wait(PATIENCE)
    assert eventually(claimed)
    may_go_on.set()
    with pytest.raises(DatabaseError) as raised:
        holding.result()
    assert is_away(raised.value)


def test_a_result_that_comes_after_the_claim_was_taken_over_does_not_count(webhook_to):
    write(webhook_to("http://127.0.0.1:9/"))
    late, quick = uuid4(), uuid4()
    (theirs,) = claim_due(late, 1)
    pass_time(seconds=31)
    (ours,) = claim_due(quick, 1)
    delivery.settle(late, [outcome(theirs, "timeout")])
    assert Attempt.objects.count() == 0
    delivery.settle(quick, [outcome(ours)])
    assert Attempt.objects.count() == 1
    delivery.settle(late, [outcome(theirs, "timeout")])
    assert statuses() == {"delivered": 1}
    assert Attempt.objects.count() == 1


def test_a_result_counts_once(webhook_to):
    write(webhook_to("http://127.0.0.1:9/"))
    token = uuid4()
    (post,) = claim_due(token, 1)
    at_once(4, lambda _: delivery.settle(token, [outcome(post)]))
    assert Attempt.objects.count() == 1


def test_a_late_result_counts_while_nobody_has_taken_over(webhook_to):
    write(webhook_to("http://127.0.0.1:9/"))
    token = uuid4()
    (post,) = claim_due(token, 1)
    pass_time(seconds=31)
    delivery.settle(token, [outcome(post)])
    assert Attempt.objects.count() == 1


def test_who_takes_over_and_who_settles_late_do_not_wait_for_each_other(webhook_to):
    held, free = sorted(write(webhook_to("http://127.0.0.1:9/"), 2))
    late = uuid4()
    outcomes = [outcome(post) for post in claim_due(late, 2)]
    pass_time(seconds=31)
    with transaction.atomic():
        Delivery.objects.select_for_update().get(id=held)
        settling = Background(lambda: delivery.settle(late, outcomes))
        wait_for_lock()
        assert Background(lambda: ids(claim_due(uuid4(), 2))).result() == {free}
    settling.result()
    assert Attempt.objects.get().delivery_id == held
    assert Claim.objects.get().delivery_id == free


@pytest.fixture
def claims(monkeypatch):
    """How many posts each claim has brought."""
    brought, claim = [], delivery.claim

    def noted(*args, **named):
        posts = claim(*args, **named)
        brought.append(len(posts))
        return posts

    monkeypatch.setattr(delivery, "claim", noted)
    return brought


def test_a_lone_delivery_costs_one_claim(engine, receiver, webhook_to, claims):
    for _ in range(3):
        write(webhook_to(receiver.url()))
        assert engine.drain() == 1
    assert claims == [1, 1, 1]


@pytest.mark.parametrize("is_failing", [False, True])
def test_what_a_webhook_had_no_room_for_is_claimed_when_it_has(engine, receiver, webhook_to, claims, is_failing):
    webhook = webhook_to(receiver.url())
    Webhook.objects.update(is_failing=is_failing)
    write(webhook, 3 * delivery.AT_ONCE)
    assert engine.drain() == 3 * delivery.AT_ONCE
    assert claims[0] == (delivery.AT_ONCE_FAILING if is_failing else delivery.AT_ONCE)


@pytest.mark.parametrize(("is_failing", "most"), [(False, 8), (True, 6)])
def test_what_the_window_had_no_room_for_is_claimed_when_it_has(
    make_engine, receiver, webhook_to, claims, is_failing, most
):
    receiver.default = answer("500 No") if is_failing else OK
    for number in range(5):
        write(webhook_to(receiver.url(f"/{number}"), is_failing=is_failing), 10)
    assert make_engine(window=8).drain() == 50
    assert claims[0] == most


@pytest.mark.parametrize("where", ["on its machine", "elsewhere"])
def test_what_a_killed_worker_had_taken_is_taken_over_at_once_on_its_machine_and_elsewhere_when_its_lease_ends(
    engine, receiver, webhook_to, make_workers, monkeypatch, tmp_path, where
):
    async def answer_the_first(connection):
        await (OK if len(receiver.requests) <= delivery.AT_ONCE else hang)(connection)

    receiver.default = answer_the_first
    written = write(webhook_to(receiver.url()), 80)
    (worker,) = make_workers(1)
    worker.start()
    receiver.wait_for(60)
    worker.kill()
    receiver.default = OK
    in_flight = Claim.objects.count()
    assert 0 < in_flight <= delivery.AT_ONCE
    if where == "elsewhere":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        engine.drain()
        assert statuses()["pending"] == in_flight
        pass_time(seconds=delivery.LEASE.total_seconds() + 1)
    engine.drain()
    assert statuses() == {"delivered": 80}
    seen = Counter(request.delivery for request in receiver.requests)
    assert set(seen) == set(map(str, written))
    assert sum(seen.values()) - 80 <= in_flight
    assert max(seen.values()) <= 2


def test_webhooks_that_are_deleted_are_never_sent_to(engine, receiver, webhook_to):
    write(webhook_to(receiver.url(), deleted_at=timezone.now()), 5)
    assert engine.drain() == 0
    assert receiver.requests == []


def test_a_result_for_a_webhook_that_was_deleted_meanwhile_leaves_the_delivery_dropped(webhook_to):
    write(webhook_to("http://127.0.0.1:9/"))
    token = uuid4()
    (post,) = claim_due(token, 1)
    Delivery.objects.update(status="dropped", next_attempt_at=None)
    delivery.settle(token, [outcome(post, "timeout")])
    assert statuses() == {"dropped": 1}
    assert Attempt.objects.count() == 1
    assert Claim.objects.count() == 0


def arrivals(engine, receiver, webhook, count=25):
    """Seconds from writing to arrival, while the engine drains beside."""
    took = []
    for _ in range(count):
        before, seen = time.monotonic(), len(receiver.of("/good"))
        write(webhook)
        engine.wake_up()
        while len(receiver.of("/good")) == seen:
            assert time.monotonic() - before < PATIENCE
            time.sleep(0.002)
        took.append(receiver.of("/good")[-1].at - before)
        time.sleep(0.03)
    return sorted(took)


@pytest.fixture
def hangs(monkeypatch):
    """Hangs until the test has seen enough; an attempt holds its place for ten seconds meanwhile.

    Whoever waits for such a place waits that long: by far longer than a busy machine makes anybody wait.
    """
    monkeypatch.setattr(transfer, "DEADLINE_MS", 10_000)
    seen_enough = threading.Event()

    async def behave(connection):
        while not seen_enough.is_set():
            await asyncio.sleep(0.05)
        await answer("500 No")(connection)

    behave.end = seen_enough.set
    return behave


def assert_none_was_kept(took):
    assert took[-1] < transfer.DEADLINE_MS / 1000 / 2
    assert took[0] < 0.15, "a busy machine slows some, other deliveries would slow all"


def test_ten_thousand_hanging_deliveries_of_one_webhook_do_not_slow_anothers(engine, receiver, webhook_to, hangs):
    receiver.behaviours["/dead"] = hangs
    write(webhook_to(receiver.url("/dead")), 10_000, age=3600)
    good = webhook_to(receiver.url("/good"))
    draining = Background(engine.drain)
    receiver.wait_for(delivery.AT_ONCE)
    took = arrivals(engine, receiver, good)
    engine.stop()
    hangs.end()
    draining.result()
    assert_none_was_kept(took)


def test_a_hundred_webhooks_that_hang_do_not_keep_one_that_works(engine, receiver, webhook_to, hangs):
    for number in range(100):
        receiver.behaviours[f"/dead{number}"] = hangs
        write(webhook_to(receiver.url(f"/dead{number}"), is_failing=True), 50, age=3600)
    good = webhook_to(receiver.url("/good"))
    draining = Background(engine.drain)
    receiver.wait_for(int(WINDOW * 0.75))  # all that the dead may have
    took = arrivals(engine, receiver, good, count=20)
    engine.stop()
    hangs.end()
    draining.result()
    assert_none_was_kept(took)


@pytest.fixture
def make_held(receiver, webhook_to, may_end, monkeypatch):
    """Make webhooks that work and have much to take, each with three posts at a receiver that answers `may_end`."""
    monkeypatch.setattr(delivery, "AT_ONCE", 3)

    def make(count):
        for number in range(count):
            receiver.behaviours[f"/slow{number}"] = answer(once=may_end)
            write(webhook_to(receiver.url(f"/slow{number}")), 20, age=3600)

    return make


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_webhook_that_failed_is_tried_again_while_others_hold_most_of_the_window(
    make_engine, receiver, webhook_to, make_held, may_end, attempts
):
    make_held(2)
    engine = make_engine(window=8)
    draining = Background(engine.drain)
    receiver.wait_for(6)
    write(webhook_to(receiver.url("/good"), is_failing=True), attempts=attempts)
    engine.wake_up()
    eventually(lambda: receiver.of("/good"))
    assert not may_end.is_set()
    engine.stop()
    may_end.set()
    draining.result()


@pytest.mark.parametrize("held", [0, 1])
@pytest.mark.parametrize(("is_failing", "attempts"), [(True, 0), (True, 1), (False, 1)])
def test_what_comes_last_does_not_wait_until_the_backlogs_of_others_are_over(
    make_engine, receiver, webhook_to, monkeypatch, is_failing, attempts, held
):
    """Even if these others could fill the window several times, and take each place that becomes free.

    Their backlogs are first attempts or, after recoveries, retries (`held`).
    """
    monkeypatch.setattr(delivery, "AT_ONCE", 3)
    receiver.default = answer(after=0.02)
    for number in range(12):
        write(webhook_to(receiver.url(f"/{number}")), 40, attempts=held, age=3600)
    write(webhook_to(receiver.url("/good"), is_failing=is_failing), attempts=attempts)
    assert make_engine(window=8).drain() == 481
    assert [request.path for request in receiver.requests].index("/good") < 300


@pytest.mark.parametrize("is_failing", [False, True])
def test_nor_does_a_retry_wait_for_newer_first_attempts(make_engine, receiver, webhook_to, monkeypatch, is_failing):
    """To the same webhook or, where it fails, to others that fail."""
    monkeypatch.setattr(delivery, "AT_ONCE", 3)
    receiver.default = answer(after=0.02)
    for number in range(12):
        write(webhook_to(receiver.url(f"/{number}")), 40, age=3600)
    last = webhook_to(receiver.url("/good"), is_failing=is_failing)
    (retry,) = write(last, attempts=1, age=7200)
    if is_failing:
        receiver.behaviours["/bad"] = answer("500 No")
        write(webhook_to(receiver.url("/bad"), is_failing=True), 40, age=3600)
    else:
        write(last, 40, age=3600)
    assert make_engine(window=8).drain() == 521
    assert [request.delivery for request in receiver.requests].index(str(retry)) < 300


def test_nor_where_there_is_room_for_one_post_at_a_time(make_engine, receiver, webhook_to):
    """A webhook that fails would take it whenever a retry's turn comes."""
    for number in range(12):
        write(webhook_to(receiver.url(f"/{number}")), 40, age=3600)
    receiver.behaviours["/bad"] = answer("500 No")
    write(webhook_to(receiver.url("/bad"), is_failing=True), 40, age=3600)
    (retry,) = write(webhook_to(receiver.url("/good")), attempts=1, age=7200)
    assert make_engine(window=1).drain() == 521
    assert [request.delivery for request in receiver.requests].index(str(retry)) < 300


def test_a_webhook_that_recovers_gets_its_share_back(engine, receiver, webhook_to):
    webhook = webhook_to(receiver.url())
    receiver.default = answer("500 No")
    write(webhook, 2)
    engine.drain()
    webhook.refresh_from_db()
    assert webhook.is_failing
    receiver.default = OK
    write(webhook, 20)
    engine.drain()
    webhook.refresh_from_db()
    assert not webhook.is_failing
    assert len(receiver.requests) == 22


def test_what_cannot_be_posted_fails_visibly_and_everything_else_goes_on(engine, receiver, webhook_to, caplog):
    broken = {
        "unreadable_secret": webhook_to(receiver.url("/a"), secret=b"encrypted under a key that was lost"),
        "unreachable": webhook_to("http://"),
        "bad_answer": webhook_to("gopher://127.0.0.1:70/"),
    }
    more = [webhook_to("http://[::1"), webhook_to("http://127.0.0.1:99999/"), webhook_to("http://a b/\r\nX: y")]
    for webhook in [*broken.values(), *more]:
        write(webhook, 3)
    good = webhook_to(receiver.url("/good"))
    write(good, 30)
    assert engine.drain() == 30 + 3 * 6
    assert len(receiver.of("/good")) == len(receiver.requests) == 30
    told = [line.getMessage() for line in caplog.records if line.levelname == "ERROR"]
    assert len(told) == 3
    # A new key may stand in their file, where `check_service` finds it, and the worker still have the old ones.
    assert all("this worker's ENCRYPTION_KEYS: restart it if they have been changed" in line for line in told)
    for failure, webhook in broken.items():
        assert set(Attempt.objects.filter(delivery__webhook=webhook).values_list("failure", flat=True)) == {failure}
    assert Attempt.objects.filter(failure="").count() == 30
    assert Attempt.objects.count() == 48
    assert Claim.objects.count() == 0


def test_a_previous_secret_that_cannot_be_read_is_left_out(engine, receiver, webhook_to):
    write(
        webhook_to(
            receiver.url(), previous_secret=b"lost", previous_secret_until=timezone.now() + timezone.timedelta(hours=1)
        )
    )
    engine.drain()
    assert statuses() == {"delivered": 1}
    assert "x-service-signature-previous" not in receiver.requests[0].headers


def test_a_second_drain_in_a_process_returns_at_once_and_wakes_the_first(engine, receiver, webhook_to, may_end):
    receiver.behaviours["/slow"] = answer(once=may_end)
    write(webhook_to(receiver.url("/slow")))
    draining = Background(engine.drain)
    receiver.wait_for(1)
    write(webhook_to(receiver.url("/quick")))
    assert engine.drain() == 0
    receiver.wait_for(2)
    assert Attempt.objects.filter(delivery__webhook__url=receiver.url("/slow")).count() == 0  # it is still out
    may_end.set()
    assert draining.result() == 2


def test_a_forked_process_claims_in_its_own_name(engine, receiver, webhook_to):
    write(webhook_to(receiver.url()))
    token = engine.token
    engine.drain()
    assert engine.token != token


def test_open_connections_and_handles_are_bounded(make_engine, webhook_to):
    from tests.harness.receivers import Receiver

    def open_files():
        return len(os.listdir("/proc/self/fd"))

    engine = make_engine(window=20)
    with Receiver(address=("0.0.0.0", 0)) as receiver:
        port = receiver.address[1]
        for number in range(150):
            write(webhook_to(f"http://127.0.1.{number + 1}:{port}/"), 2)
        before = open_files()
        assert engine.drain() == 300
        # Both ends of each connection are ours here.
        assert open_files() - before < 2 * 3 * 20 + 20
        assert len(engine._sender._free) <= 20


def test_where_few_files_may_be_open_no_attempt_fails_for_want_of_one(receiver, webhook_to, make_workers):
    receiver.default = answer(after=0.1)
    for number in range(6):
        write(webhook_to(receiver.url(f"/{number}")), 40)
    (worker,) = make_workers(1, most_files=128)
    worker.start()
    receiver.wait_for(240)
    assert worker.stop() == 240
    assert statuses() == {"delivered": 240}


def test_where_no_more_threads_can_be_had_once_posts_are_under_way_no_result_is_lost(
    engine, receiver, webhook_to, monkeypatch
):
    """Lookups of names may take all that the system allows."""
    usual, claim = threading.stack_size(), delivery.claim

    def claim_the_last_threads(*args, **named):
        posts = claim(*args, **named)
        threading.stack_size(1 << 62)  # bytes, more than a thread can have
        return posts

    monkeypatch.setattr(delivery, "claim", claim_the_last_threads)
    write(webhook_to(receiver.url()), 3)
    try:
        assert engine.drain() == 3
    finally:
        threading.stack_size(usual)
    assert statuses() == {"delivered": 3}


def test_threads_do_not_pile_up(engine, receiver, webhook_to):
    # Not the workers of autovacuum, which come and go.
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND client_port IS NOT NULL"
    before, threads = one(sessions), threading.active_count()
    webhook = webhook_to(receiver.url().replace("127.0.0.1", "localhost"))
    for _ in range(5):
        write(webhook, 100)
        engine.drain()
    assert len(receiver.requests) == 500
    assert threading.active_count() <= threads + 8
    assert one(sessions) <= before + 2  # one that claims and one that settles
