"""An ordered stop: what is under way is finished and written, the rest is there for others at once."""

import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import pytest
import redis
from django.conf import settings
from django.db import connection, transaction

from codservice.onebox.service import WORKER_STOP
from tests.harness.background import PATIENCE, Background, eventually
from tests.harness.database import environment, wait_for_lock
from tests.harness.deliveries import pass_time, statuses, write
from tests.harness.processes import CHECKOUT
from tests.harness.receivers import answer, hang
from webhooks import delivery, wakeup
from webhooks.models import Attempt, Claim

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_stop_finishes_what_is_under_way_and_begins_nothing(engine, receiver, webhook_to, make_engine):
    receiver.default = answer(after=0.5)
    write(webhook_to(receiver.url()), 200)
    draining = Background(engine.drain)
    receiver.wait_for(50)
    engine.stop()
    sent = draining.result()
    assert len(receiver.requests) == sent
    assert statuses() == {"delivered": sent, "pending": 200 - sent}
    assert Claim.objects.count() == 0
    assert engine.drain() == 0
    assert make_engine().drain() == 200 - sent


def test_a_stop_waits_no_longer_than_an_attempt_may_take(engine, receiver, webhook_to):
    receiver.default = hang
    write(webhook_to(receiver.url()), 3)
    draining = Background(engine.drain)
    receiver.wait_for(3)
    engine.stop()
    before = time.monotonic()
    assert draining.result() == 3
    assert time.monotonic() - before < 9.0  # a lease is ten
    assert len(receiver.requests) == Attempt.objects.count() == 3
    assert set(Attempt.objects.values_list("failure", flat=True)) == {"timeout"}


def test_what_a_claim_brings_after_a_stop_is_given_back(engine, receiver, webhook_to, make_engine):
    assert engine.drain() == 0  # what dead workers had claimed is given back: the claim alone waits for the lock
    write(webhook_to(receiver.url()), 10)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE webhooks_claim IN ACCESS EXCLUSIVE MODE")
        draining = Background(engine.drain)
        wait_for_lock()
        engine.stop()
    assert draining.result() == 0
    assert receiver.requests == []
    assert make_engine().drain() == 10


def test_what_is_under_way_and_was_claimed_again_after_a_pause_is_not_given_back_at_a_stop(
    engine, receiver, webhook_to, make_engine, may_end, monkeypatch
):
    """Another worker would send it too, and its result would not count."""
    claim = delivery.claim

    def claim_after_a_pause(*args, **named):
        pass_time(seconds=delivery.LEASE.total_seconds() + 1)
        engine.stop()
        posts = claim(*args, **named)
        may_end.set()
        return posts

    receiver.default = answer(once=may_end)
    write(webhook_to(receiver.url()))
    draining = Background(engine.drain)
    receiver.wait_for(1)
    monkeypatch.setattr(delivery, "claim", claim_after_a_pause)
    engine.wake_up()
    assert draining.result() == 1
    assert make_engine().drain() == 0
    assert (len(receiver.requests), statuses()) == (1, {"delivered": 1})


@pytest.mark.parametrize(
    ("is_woken", "stop"),
    [(False, signal.SIGTERM), (True, signal.SIGTERM), (True, signal.SIGHUP)],
    ids=["by its own clock", "by the bell", "by its terminal, which is closed"],
)
def test_a_celery_worker_that_is_told_to_stop_leaves_nothing_half_done(receiver, webhook_to, is_woken, stop):
    receiver.default = answer(after=1.5 if is_woken else 0.6)
    webhook, broker = webhook_to(receiver.url()), redis.Redis.from_url(settings.REDIS_URL)
    if not is_woken:
        write(webhook, 300)
    worker = subprocess.Popen(
        [sys.executable, "-m", "codservice.run.worker"],
        cwd=CHECKOUT,
        env=environment(),
        preexec_fn=lambda: signal.signal(stop, signal.SIG_DFL),  # `nohup make test` has all ignore SIGHUP
    )
    try:
        if is_woken:
            eventually(lambda: broker.pubsub_numsub(wakeup._CHANNEL)[0][1])
            write(webhook, 300)
        wakeup.ring()
        receiver.wait_for(50)
        worker.send_signal(stop)
        assert worker.wait(PATIENCE) == 0  # what takes it longer than STOP_SECONDS is left half done, as seen below
    finally:
        worker.kill()
        worker.wait()
    assert Claim.objects.count() == 0
    seen = Counter(request.delivery for request in receiver.requests)
    assert statuses()["delivered"] == len(seen) < 300
    assert max(seen.values()) == 1


# A worker whose Celery gets no further than its start before the first deliveries are under way.
SLOW_TO_START = """
import runpy, time
from pathlib import Path
from celery.apps.worker import Worker
start = Worker.on_start
def late(worker):
    while not Path({may_start!r}).exists():
        time.sleep(0.02)
    start(worker)
Worker.on_start = late
runpy.run_module("codservice.run.worker", run_name="__main__")
"""


def test_a_worker_that_is_told_to_stop_while_it_starts_leaves_nothing_half_done(receiver, webhook_to, tmp_path):
    may_start = tmp_path / "may-start"
    receiver.default = answer(after=1.0)
    write(webhook_to(receiver.url()), 3)
    worker = subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_START.format(may_start=str(may_start))], cwd=CHECKOUT, env=environment()
    )
    try:
        receiver.wait_for(3)
        worker.send_signal(signal.SIGTERM)
        may_start.touch()
        assert worker.wait(PATIENCE) == 0  # what takes it longer than STOP_SECONDS is left half done, as seen below
    finally:
        worker.kill()
        worker.wait()
    assert (Claim.objects.count(), statuses()) == (0, {"delivered": 3})


# A worker one of whose tasks does not end.
STUCK = """
import runpy, time
from pathlib import Path
from codservice.celery import app
@app.task(name="stuck")
def stuck():
    Path({begun!r}).touch()
    time.sleep(60)
stuck.delay()
runpy.run_module("codservice.run.worker", run_name="__main__")
"""


def test_a_worker_whose_task_does_not_end_is_told_nothing_that_its_threads_cannot_obey(tmp_path):
    """Celery knows no cold stop of threads: it went with a traceback that nobody could do anything about."""
    begun = tmp_path / "begun"
    worker = subprocess.Popen(
        [sys.executable, "-c", STUCK.format(begun=str(begun))],
        cwd=CHECKOUT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        eventually(begun.exists)
        for signum, _seconds in WORKER_STOP:
            worker.send_signal(signum)
            with suppress(subprocess.TimeoutExpired):
                worker.wait(1)
    finally:
        worker.kill()
        said, _ = worker.communicate()
    assert "Traceback" not in said
