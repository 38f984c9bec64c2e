"""Hosts whose clocks are wrong by an hour: when what is due is the database's to say, and windows are Redis'."""

import glob
import json
import signal
import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from codservice.accounts.key_format import digest_of
from codservice.accounts.models import ApiKey
from orders.models import Order
from tests.factories import AccountFactory, AgentFactory, order_body
from tests.harness.background import PATIENCE
from tests.harness.client import new_key
from tests.harness.database import environment
from tests.harness.deliveries import write
from tests.harness.python import FreshPython
from tests.harness.service import running_service
from webhooks.models import Event

ORDERS = "/api/v1/orders"
# libfaketime takes locks of its own, which a second process may be forked with, and makes sleeps fail, such as that
# before a process is killed that does not end.
ONE_WEB = {"WEB_WORKERS": "1"}
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["+3600", "-3600"], ids=["ahead", "behind"])
def wrong_clock(request):
    """The environment of a process whose clock differs by so many seconds."""
    (library,) = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")  # `make languages` installs it
    return {"LD_PRELOAD": library, "FAKETIME": f"{request.param}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def test_a_worker_whose_clock_is_wrong_sends_what_is_due_and_nothing_else(receiver, webhook_to, wrong_clock):
    webhook = webhook_to(receiver.url())
    later = {str(id_) for id_ in (*write(webhook, 3, attempts=1, age=-1800), *write(webhook, 3, age=-1800))}
    due = {str(id_) for id_ in (*write(webhook, 3, attempts=1), *write(webhook, 3))}
    worker = FreshPython("-m", "codservice.run.worker", env=environment(**wrong_clock))
    try:
        receiver.wait_for(6)
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    assert {request.delivery for request in receiver.requests} == due
    signed_at = [int(request.headers["webhook-timestamp"]) for request in receiver.requests]
    assert max(abs(time.time() - at) for at in signed_at) < PATIENCE, "or receivers take them for replayed ones"
    assert not due & later


def test_a_web_whose_clock_is_wrong_dates_by_the_database_and_counts_by_redis(webhook_to, tmp_path, wrong_clock):
    """And it signs out who did nothing and nobody else."""
    key, over = new_key(AccountFactory(rate_limit=3)), new_key(AccountFactory())
    half_an_hour = timedelta(minutes=30)
    ApiKey.objects.update(expires_at=Now() + half_an_hour)
    ApiKey.objects.filter(digest=digest_of(over)).update(expires_at=Now() - half_an_hour)
    webhook = webhook_to("http://127.0.0.1:9/")
    here, away = Client(), Client()
    for client in (here, away):
        client.force_login(AgentFactory())
    session = away.session
    session["seen_at"] -= 40 * 60
    session.save()
    environ = ONE_WEB | wrong_clock | {"REDIS_URL": settings.REDIS_URL}
    with running_service(tmp_path / "log", FreshPython, **environ) as service:
        made = service.send("POST", ORDERS, order_body(), key=key)
        assert made.status == 201
        read = service.send("GET", f"{ORDERS}/{made.json()['id']}", key=key)
        cancelled = service.send("POST", f"{ORDERS}/{made.json()['id']}/cancel", key=key)
        assert (read.status, cancelled.status) == (200, 200)
        refused = service.send("GET", ORDERS, key=key)
        assert service.send("POST", f"/api/v1/webhooks/{webhook.id}/ping", key=new_key(webhook.account)).status == 202
        assert service.send("GET", ORDERS, key=over).status == 401
        cookies = [f"sessionid={client.cookies['sessionid'].value}" for client in (here, away)]
        pages = [service.send("GET", "/console/desk/", headers={"Cookie": cookie}) for cookie in cookies]
    order = Order.objects.get()
    pinged = parse_datetime(json.loads(Event.objects.get(kind=Event.PING).body)["timestamp"])
    for at in (order.created_at, order.updated_at, order.canceled_at, pinged):
        assert abs(timezone.now() - at) < timedelta(minutes=30)
    assert parse_datetime(made.json()["created_at"]).utcoffset() is not None
    assert refused.status == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert [page.status for page in pages] == [200, 302]
