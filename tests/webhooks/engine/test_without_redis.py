"""A worker delivers by a clock of its own: neither Redis nor beat is needed, and nothing that Redis says ends it."""

import re
from datetime import timedelta

import pytest
from celery import Celery
from django.utils import timezone

from codservice.operations import duties
from tests.harness.background import PATIENCE, eventually
from tests.harness.broker import running_broker
from tests.harness.database import environment
from tests.harness.deliveries import publish, write
from tests.harness.processes import CHECKOUT
from tests.harness.python import Python
from tests.harness.receivers import answer
from webhooks import recovery, registry
from webhooks.models import Delivery, Recovery

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def start():
    """Starts parts of ours with a Redis of the test's own."""
    started = []

    def make(name, url):
        started.append(Python("-m", f"codservice.run.{name}", env=environment(REDIS_URL=url)))
        return started[-1]

    yield make
    for each in started:
        each.terminate()
    for each in started:
        try:
            each.wait(PATIENCE)
        finally:
            each.kill()
            each.wait()


def test_without_redis_and_beat_deliveries_go_on_and_a_stop_ends_it(start, receiver, webhook_to):
    webhook = webhook_to(receiver.url())
    write(webhook, 2)
    worker = start("worker", "redis://127.0.0.1:1/0")
    receiver.wait_for(2)
    write(webhook, 1)
    write(webhook, 1, attempts=1)
    receiver.wait_for(4)
    assert duties.age("worker") < PATIENCE
    worker.terminate()
    assert worker.wait(PATIENCE) == 0


def test_without_redis_and_beat_a_recovery_goes_on(start, receiver, webhook_to, alice, monkeypatch):
    """It is left to a worker, as when there is more than a request has time for."""
    webhook = webhook_to(receiver.url(), events=["order.created"])
    publish(alice, 3)
    registry.change(alice.id, webhook.id, {"events": ["order.confirmed"]})
    monkeypatch.setattr(recovery, "SECONDS", -1)
    recovered = recovery.recover(alice.id, webhook.id, since=timezone.now() - timedelta(hours=1))
    assert recovered == (0, False)
    start("worker", "redis://127.0.0.1:1/0")
    receiver.wait_for(3)
    eventually(lambda: not Recovery.objects.exists())


def test_an_hours_backlog_is_sent_once_by_itself(start, receiver, webhook_to):
    """As when all workers, beat or Redis were down for so long."""
    for path in ("/first", "/second"):
        write(webhook_to(receiver.url(path)), 1250, age=3600)
        write(webhook_to(receiver.url(path)), 1250, age=3600, attempts=1)
    start("worker", "redis://127.0.0.1:1/0")
    start("worker", "redis://127.0.0.1:1/0")
    eventually(lambda: not Delivery.objects.filter(status="pending").exists())
    assert len(receiver.requests) == len({request.delivery for request in receiver.requests}) == 5000


def test_two_beats_and_two_workers_send_nothing_twice(start, receiver, webhook_to, tmp_path, capfd):
    """With the rights in Redis that docs/operators.md names."""
    receiver.default = answer(after=0.1)
    webhook = webhook_to(receiver.url())
    write(webhook, 300)
    with running_broker(tmp_path / "broker") as broker:
        rights = re.search(r"ACL SETUSER (.+)", (CHECKOUT / "docs/operators.md").read_text())[1]
        broker.client.execute_command("ACL", "SETUSER", "codservice", "on", ">OTHER", "~*", "&*")  # as it once was
        broker.client.execute_command("ACL", "SETUSER", *rights.split())
        url = broker.url.replace("unix://", "unix://codservice:PASSWORD@")
        *_, worker = (start(name, url) for name in ("beat", "beat", "worker", "worker"))
        eventually(lambda: duties.age("beat") is not None)
        Celery(broker=broker.url.replace("unix:", "redis+socket:"), set_as_current=False).control.shutdown()
        assert broker.client.acl_log() == []
        write(webhook, 300)
        eventually(lambda: not Delivery.objects.filter(status="pending").exists())
    assert len(receiver.requests) == len({request.delivery for request in receiver.requests}) == 600
    said = []

    def is_told():
        said.append(capfd.readouterr().err)
        return "Connection to broker lost" in "".join(said)

    eventually(is_told)
    assert worker.poll() is None, "not even told to stop through Redis"
    worker.terminate()
    worker.wait(PATIENCE)
    assert "Celery 5.1" not in "".join([*said, capfd.readouterr().err]), "nothing of what Celery may do one day"


@pytest.mark.parametrize("why", ["replica", "full"])
def test_a_redis_that_refuses_all_writes_ends_no_worker_and_no_beat(start, receiver, webhook_to, tmp_path, why):
    webhook = webhook_to(receiver.url())
    with running_broker(tmp_path / "broker") as broker:
        broker.refuse(why)
        worker, beat = start("worker", broker.url), start("beat", broker.url)
        write(webhook, 1)
        receiver.wait_for(1)
        write(webhook, 1)  # by the next look of the same worker
        receiver.wait_for(2)
        assert duties.age("beat") is None
        broker.accept()
        eventually(lambda: duties.age("beat") is not None)
        assert worker.poll() is None
        assert beat.poll() is None

        broker.refuse(why)
        write(webhook, 1)
        receiver.wait_for(3)
        broker.accept()
        age = duties.age("beat")
        eventually(lambda: duties.age("beat") < age)
        assert worker.poll() is None
        assert beat.poll() is None
