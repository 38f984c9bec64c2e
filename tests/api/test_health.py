"""`/healthz` says that the process is up, `/readyz` whether it can do its work. Neither takes long."""

import socket

import pytest
import redis
from django.conf import settings
from django.db import connection

from codservice import health
from tests.harness.background import asleep
from tests.harness.broker import running_broker

pytestmark = pytest.mark.django_db


def timed_get(client, path):
    """Return the answer, and the seconds for which this thread slept."""
    before = asleep()
    answer = client.get(path)
    return answer, asleep() - before


def test_the_process_is_up(client):
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", health.ANSWERS)
def test_only_reading_is_possible(client, path):
    answer = client.post(path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.json()["error"] == "method_not_allowed"
    assert client.head(path).status_code == 200


def test_with_database_and_broker_it_is_ready(client):
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert (answer.json()["database"], answer.json()["broker"]) == ("ok", "ok")


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        (["cod.example"], "https://cod.example"),
        (["localhost", "cod.example"], ""),
        (["*"], ""),
        (["cod.example", "shop.example"], ""),  # it may be either
    ],
)
def test_it_tells_make_run_where_it_is_if_not_at_localhost(client, settings, hosts, url):
    settings.HTTPS, settings.ALLOWED_HOSTS = True, hosts
    assert client.get("/readyz?url").json()["url"] == url
    assert "url" not in client.get("/readyz").json()
    assert "url" not in client.get("/readyz?url", REMOTE_ADDR="203.0.113.9").json()


def test_while_the_first_migration_is_under_way_it_is_not_ready_and_no_log_is_filled(client, caplog):
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations")

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert "run `manage.py migrate`" in answer.json()["database"]
    assert not caplog.records  # a starting service asks twenty times a second


@pytest.mark.parametrize("hangs", [True, False])
def test_without_the_broker_it_is_not_ready_and_says_so_soon(client, monkeypatch, hangs):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if not hangs:
            listener.close()
            port = 1
        else:
            port = listener.getsockname()[1]
        pool = redis.ConnectionPool.from_url(f"redis://127.0.0.1:{port}/0", **settings.REDIS_CLIENT)
        monkeypatch.setattr(health._broker, "connection_pool", pool)
        answer, seconds = timed_get(client, "/readyz")
    assert answer.status_code == 503
    assert (answer.json()["database"], answer.json()["broker"]) == (
        "ok",
        "does not answer. Start Redis, and check REDIS_URL.",
    )
    assert seconds < 1.5


def test_without_a_setting_the_broker_is_that_of_make_run(monkeypatch, settings):
    settings.DATA_DIR = "/srv/data"
    monkeypatch.delenv("REDIS_URL")
    monkeypatch.setattr(health, "_broker", redis.Redis(port=1))
    assert health._broker_problem() == "does not answer. Start `make run` with DATA_DIR=/srv/data."


def test_what_is_wrong_is_nothing_for_strangers(client, monkeypatch, tmp_path, settings):
    settings.METRICS_TOKEN = "t" * 16
    with running_broker(tmp_path) as broker:
        monkeypatch.setattr(health._broker, "connection_pool", broker.client.connection_pool)
        broker.refuse("full")
        for stranger in ({"REMOTE_ADDR": "203.0.113.9"}, {"headers": {"X-Forwarded-For": "203.0.113.9"}}):
            answer = client.get("/readyz", **stranger)
            assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
        asked = client.get("/readyz", REMOTE_ADDR="203.0.113.9", headers={"Authorization": f"Bearer {'t' * 16}"})
        assert asked.json()["broker"].startswith("accepts no writes (")
        broker.accept()
        assert client.get("/readyz", REMOTE_ADDR="203.0.113.9").json()["broker"] == "ok"


@pytest.mark.parametrize("given", [None, "another"])
def test_a_broker_that_refuses_the_password_is_told_from_one_that_is_away(client, monkeypatch, tmp_path, given):
    with running_broker(tmp_path) as broker:
        broker.client.config_set("requirepass", "of the broker")
        pool = redis.ConnectionPool.from_url(broker.url, password=given)
        monkeypatch.setattr(health._broker, "connection_pool", pool)
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["broker"]) == (
        503,
        "refuses our password, or that we give none. Check REDIS_URL.",
    )


@pytest.mark.parametrize("why", ["replica", "full"])
def test_with_a_broker_that_answers_and_takes_no_writes_it_is_not_ready(client, monkeypatch, tmp_path, why):
    with running_broker(tmp_path) as broker:
        monkeypatch.setattr(health._broker, "connection_pool", broker.client.connection_pool)
        assert client.get("/readyz").json()["broker"] == "ok"
        broker.refuse(why)
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["broker"].startswith("accepts no writes (")
        assert ".)" not in answer.json()["broker"], "Redis ends its own sentence"
        broker.accept()
        assert client.get("/readyz").json()["broker"] == "ok"


@pytest.mark.django_db(transaction=True)
def test_without_the_database_it_is_up_but_not_ready(client, monkeypatch):
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "/nowhere")
        answer, seconds = timed_get(client, "/readyz")
        assert answer.status_code == 503
        assert answer.json()["database"] != "ok"
        assert seconds < 3
        assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
