"""A commit wakes a worker within milliseconds; wake-ups are merged, may be lost, and never cost a request much."""

import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import redis
from celery.concurrency.thread import TaskPool
from django.conf import settings
from django.db import transaction

from codservice.celery import app
from tests.harness.background import PATIENCE, Background, eventually
from tests.harness.database import environment
from tests.harness.deliveries import publish, write
from tests.harness.embedded_services import REDIS_DATABASES, of_worker
from tests.harness.processes import CHECKOUT, free_port
from tests.harness.python import run_python
from tests.harness.receivers import answer, hang
from webhooks import tasks, wakeup
from webhooks.models import Attempt, Delivery

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def celery_worker():
    """A worker as an operator starts it, awake."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "celery",
            "-A",
            "codservice",
            "worker",
            "--pool",
            "threads",
            "-c",
            "2",
            "-l",
            "WARNING",
        ],
        cwd=CHECKOUT,
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
    broker = redis.Redis.from_url(settings.REDIS_URL)
    deadline = time.monotonic() + PATIENCE
    while not any(client["cmd"] == "brpop" and client["db"] == str(_database()) for client in broker.client_list()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield process
    process.terminate()
    try:
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()


def _database():
    return redis.Redis.from_url(settings.REDIS_URL).connection_pool.connection_kwargs.get("db", 0)


def messages():
    return redis.Redis.from_url(settings.REDIS_URL).llen("celery")


def test_a_commit_arrives_at_the_receiver_within_milliseconds_and_while_other_posts_hang(
    receiver, webhook_to, alice, celery_worker
):
    webhook_to(receiver.url("/good"))
    publish(alice)
    receiver.wait_for(1)  # by a worker that has only begun to listen
    took = []
    for number in range(30):
        time.sleep(0.05)
        publish(alice)
        before = time.monotonic()
        took.append(receiver.wait_for(number + 2)[-1].at - before)
    took.sort()
    print(f"commit to arrival: median {took[15] * 1000:.1f} ms, most {took[-1] * 1000:.1f} ms")
    # A busy machine slows some. Who polled would be late every time, because each commit soon follows an arrival.
    assert took[0] < 0.05
    assert statistics.median(took) < 0.5

    receiver.behaviours["/dead"] = hang
    write(webhook_to(receiver.url("/dead")), 10)
    wakeup.ring()
    eventually(lambda: len(receiver.of("/dead")) == 10)
    publish(alice)
    eventually(lambda: len(receiver.of("/good")) == 32)


def test_web_processes_send_their_wake_ups_to_our_own_broker():
    script = (
        "from codservice.wsgi import application; from webhooks import wakeup; import json;"
        "wakeup.ring(); print(json.dumps([wakeup.app.main, wakeup._paused_until]))"
    )
    done = run_python("-c", script, env=environment(DJANGO_SETTINGS_MODULE="codservice.settings"))
    assert json.loads(done.stdout) == ["codservice", 0.0], done.stderr
    assert messages() == 1


def test_many_commits_share_one_wake_up(webhook_to, receiver, alice):
    webhook_to(receiver.url())
    began = time.monotonic()
    for _ in range(50):
        publish(alice)
    assert messages() <= 2 + int(time.monotonic() - began)  # the bell may be rung again after a second
    assert Delivery.objects.count() == 50


def test_a_commit_after_the_bell_was_heard_rings_again(webhook_to, receiver, alice):
    webhook_to(receiver.url())
    publish(alice)
    wakeup.hear()
    publish(alice)
    assert messages() == 2


def test_without_a_worker_wake_ups_do_not_fill_redis(monkeypatch):
    monkeypatch.setattr(settings, "MOST_MESSAGES", 5)
    for _ in range(2):
        for _ in range(50):
            wakeup.ring()
            wakeup.hear()
        assert messages() == 5
        redis.Redis.from_url(settings.REDIS_URL).delete("celery")  # workers take them


def test_who_listens_is_woken_however_many_messages_wait(webhook_to, receiver, alice, heard, monkeypatch):
    monkeypatch.setattr(settings, "MOST_MESSAGES", 0)
    webhook_to(receiver.url())
    before = len(heard)
    publish(alice)
    eventually(lambda: len(heard) > before)


@pytest.fixture
def heard():
    """Grows by one whenever somebody who listens has heard the bell."""
    heard, stopping = [], threading.Event()
    listening = Background(lambda: wakeup.listen(lambda: heard.append(wakeup.hear()), stopping))
    eventually(lambda: heard)
    yield heard
    stopping.set()
    listening.result()


def test_who_listens_is_woken_without_a_task(webhook_to, receiver, alice, heard):
    webhook_to(receiver.url())
    for count in (2, 3):
        publish(alice)
        eventually(lambda count=count: len(heard) >= count)
    assert messages() == 0


def test_of_many_commits_a_worker_hears_a_ring_a_moment(webhook_to, receiver, alice, heard):
    webhook_to(receiver.url())
    before, began = len(heard), time.monotonic()
    for _ in range(100):
        publish(alice)
    rings = (time.monotonic() - began) / wakeup._GATHERS_FOR
    eventually(lambda: len(heard) > before)
    assert len(heard) - before <= rings + 1
    publish(alice)  # and none is missed
    eventually(lambda: not redis.Redis.from_url(settings.REDIS_URL).exists(wakeup._BELL))


def test_a_bell_is_heard_in_its_own_database_of_redis_alone(webhook_to, receiver, alice, heard):
    webhook_to(receiver.url())
    url = of_worker(settings.REDIS_URL, REDIS_DATABASES - 1)
    ring = "import django; django.setup(); from webhooks import wakeup; wakeup.ring()"
    before = len(heard)
    with redis.Redis.from_url(url) as others:
        others.flushdb()
        assert run_python("-c", ring, env=environment(REDIS_URL=url)).returncode == 0
        assert others.llen("celery") == 1
        others.flushdb()
    assert len(heard) == before


def test_who_could_not_listen_for_a_while_looks_for_what_was_missed(webhook_to, receiver, alice, heard, monkeypatch):
    monkeypatch.setattr(wakeup, "_PAUSE", 0.2)
    webhook_to(receiver.url())
    broker = redis.Redis.from_url(settings.REDIS_URL)
    (listener,) = [each for each in broker.client_list(_type="pubsub") if each["db"] == str(_database())]
    assert broker.client_kill_filter(_id=listener["id"])  # and nobody else's, who runs tests beside
    publish(alice)
    eventually(lambda: len(heard) >= 2)
    wakeup.hear()
    before = len(heard)
    publish(alice)
    eventually(lambda: len(heard) > before)


def test_nobody_is_woken_for_what_nobody_hears_or_what_is_rolled_back(webhook_to, receiver, alice, charlie):
    publish(alice)
    webhook_to(receiver.url())
    publish(charlie)
    with transaction.atomic():
        publish(alice)
        transaction.set_rollback(True)
    assert messages() == 0


def test_a_lost_wake_up_is_made_good_by_the_sweep_and_more_sweeps_do_no_harm(
    receiver, webhook_to, alice, celery_worker
):
    receiver.default = answer(after=0.2)
    webhook = webhook_to(receiver.url())
    publish(alice)
    eventually(Attempt.objects.exists)  # so this worker has taken the look with which it begins
    write(webhook, 100)
    time.sleep(0.3)
    assert len(receiver.requests) == 1
    sweep = settings.CELERY_BEAT_SCHEDULE["deliver"]
    assert sweep["schedule"] <= 10
    for _ in range(6):
        app.send_task(sweep["task"], **sweep["options"])
    receiver.wait_for(101)
    time.sleep(0.3)
    assert len(receiver.requests) == 101


def test_a_ring_during_a_drain_is_told_to_it_and_wakes_no_other_thread(
    engine, receiver, webhook_to, may_end, monkeypatch
):
    receiver.behaviours["/slow"] = answer(once=may_end)
    with ThreadPoolExecutor(1) as drains:
        monkeypatch.setattr(tasks, "engine", engine)
        monkeypatch.setattr(tasks, "_drains", drains)
        write(webhook_to(receiver.url("/slow")))
        tasks.listen(SimpleNamespace(pool=TaskPool()))
        receiver.wait_for(1)
        submitted = []
        monkeypatch.setattr(drains, "submit", submitted.append)
        write(webhook_to(receiver.url("/good")))
        try:
            wakeup.ring()
            eventually(lambda: submitted or receiver.of("/good"))
        finally:
            engine.stop()
            may_end.set()
    assert submitted == []


def test_a_drain_that_the_bell_began_and_that_breaks_off_is_logged(engine, monkeypatch, caplog):
    monkeypatch.setattr(tasks, "engine", engine)
    monkeypatch.setattr(tasks, "_drains", drains := ThreadPoolExecutor(1))
    monkeypatch.setattr(engine, "drain", lambda: 1 / 0)

    tasks._heard()
    drains.shutdown()

    (record,) = [each for each in caplog.records if each.name == "webhooks.tasks"]
    assert record.levelname == "ERROR"
    assert record.exc_info[0] is ZeroDivisionError


def test_a_bell_that_can_begin_no_drain_is_heard_again(engine, receiver, webhook_to, monkeypatch):
    """The thread that listens would end, and from then on nothing would wake this worker."""
    monkeypatch.setattr(tasks, "engine", engine)
    monkeypatch.setattr(tasks, "_drains", drains := ThreadPoolExecutor(1))
    write(webhook_to(receiver.url()))
    usual = threading.stack_size(1 << 62)  # bytes, more than a thread can have
    try:
        tasks._heard()
    finally:
        threading.stack_size(usual)
    tasks._heard()
    receiver.wait_for(1)
    drains.shutdown()
    tasks._heard()


def test_the_task_returns_at_once_when_another_thread_drains(engine, receiver, webhook_to, may_end, monkeypatch):
    monkeypatch.setattr(tasks, "engine", engine)
    receiver.default = answer(once=may_end)
    write(webhook_to(receiver.url()))
    draining = Background(tasks.deliver)
    receiver.wait_for(1)
    assert tasks.deliver() == 0
    assert not draining.is_over
    may_end.set()
    assert draining.result() == 1


RING = (
    "import django, json; django.setup(); from webhooks import wakeup; took = []\n"
    "from tests.harness.background import asleep\n"
    "for _ in range(5):\n"
    "    before = asleep(); wakeup.ring(); took.append(asleep() - before)\n"
    "print(json.dumps(took))"
)


def ring_with(url):
    """For how many seconds each of five rings slept."""
    changes = {"REDIS_URL": url, "DJANGO_SETTINGS_MODULE": "codservice.settings"}
    done = run_python("-c", RING, env=os.environ | changes)
    assert done.returncode == 0, done.stderr
    assert "workers could not be woken" in done.stderr
    return json.loads(done.stdout)


def test_a_redis_that_is_dead_costs_a_commit_next_to_nothing():
    took = ring_with(f"redis://127.0.0.1:{free_port()}/0")
    assert took[0] < 0.3
    assert max(took[1:]) < 0.01


def test_a_redis_that_hangs_costs_one_commit_a_moment_and_the_next_ones_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        took = ring_with(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
    assert took[0] < 0.45
    assert max(took[1:]) < 0.01


def test_a_redis_that_does_not_even_accept_costs_one_commit_a_moment():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        took = ring_with(f"redis://127.0.0.1:{full.getsockname()[1]}/0")
        for each in waiting:
            each.close()
    assert took[0] < 0.45
    assert max(took[1:]) < 0.01
