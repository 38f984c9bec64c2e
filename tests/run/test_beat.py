"""Beat sends what recurs: at once, then by a clock that nobody sets, with no memory that could be damaged."""

import logging
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from secrets import token_hex

import pytest
import redis
from celery import Celery
from django.conf import settings

from codservice.data_folder import redis_url
from codservice.run.beat import Scheduler
from codservice.run.pulse import MOST_SECONDS
from tests.harness.background import PATIENCE, eventually
from tests.harness.broker import moving_address, running_broker
from tests.harness.processes import CHECKOUT


@pytest.fixture
def app():
    made = Celery("test", set_as_current=False, broker=settings.CELERY_BROKER_URL)
    made.conf.beat_schedule = {
        "often": {"task": "tests.often", "schedule": 0.05, "options": {"expires": 60}},
        "seldom": {"task": "tests.seldom", "schedule": 3600},
    }
    return made


@pytest.fixture
def sent(app, monkeypatch):
    """Return the names of the tasks sent."""
    names = []
    monkeypatch.setattr(Scheduler, "producer", None)
    monkeypatch.setattr(app, "send_task", lambda name, *args, **options: names.append(name))
    return names


@pytest.fixture
def start_beat(tmp_path):
    """Start beat in a process of its own, which ends with the test."""
    started = []

    def start(redis, **environ):
        environ |= {
            "DATA_DIR": str(tmp_path), "REDIS_URL": redis, "PYTHONPATH": str(CHECKOUT),
            "DATABASE_URL": "postgresql://nobody/none", "SECRET_KEY": token_hex(32),
            "ENCRYPTION_KEYS": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        }  # fmt: skip
        command = [sys.executable, "-m", "codservice.run.beat"]
        started.append(subprocess.Popen(command, cwd=tmp_path, env=os.environ | environ))
        return started[-1]

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def tick_until(scheduler, check):
    def tick():
        scheduler.tick()
        return check()

    eventually(tick)


def test_all_of_it_is_asked_for_at_the_start_and_then_in_its_time(app, sent):
    tick_until(Scheduler(app), lambda: sent.count("tests.often") > 3)

    assert sent.count("tests.seldom") == 1


def test_a_clock_that_was_wrong_and_is_set_right_silences_nothing(app, sent, monkeypatch):
    ahead = timedelta(hours=1)
    monkeypatch.setattr(app, "now", lambda: datetime.now(UTC) + ahead)
    scheduler = Scheduler(app)
    tick_until(scheduler, lambda: "tests.often" in sent)
    ahead = timedelta()
    before = len(sent)

    tick_until(scheduler, lambda: len(sent) > before)


def test_a_redis_that_refuses_is_told_of_in_one_line_a_minute(app, sent, monkeypatch, caplog):
    def refuse(*args, **options):
        sent.append("refused")
        raise redis.ReadOnlyError("You can't write against a read only replica.")

    monkeypatch.setattr(app, "send_task", refuse)
    with caplog.at_level(logging.WARNING):
        tick_until(Scheduler(app), lambda: len(sent) > 10)

    (line,) = caplog.messages
    assert "read only replica" in line
    assert caplog.records[0].exc_info is None


def test_without_a_worker_messages_do_not_fill_redis(app, monkeypatch, caplog):
    monkeypatch.setattr(settings, "MOST_MESSAGES", 5)
    app.conf.beat_schedule["often"]["schedule"] = 0
    scheduler = Scheduler(app)
    with redis.Redis.from_url(settings.REDIS_URL) as broker:
        for _ in range(2):
            for _ in range(50):
                scheduler.tick()
            assert broker.llen("celery") == 5
            broker.delete("celery")  # workers take them
    scheduler.connection.release()
    assert "5 wait there. Does a worker run?" in caplog.messages[0]


def test_where_the_address_of_redis_moves_it_goes_along(app, tmp_path):
    """The server that had it before becomes a replica, which keeps connections and takes no messages."""
    with (
        running_broker(tmp_path / "first") as first,
        running_broker(tmp_path / "second") as second,
        moving_address() as (url, lead_to),
    ):
        app.conf.broker_url = url.replace("unix://", "redis+socket://").partition("?")[0]
        app.conf.task_publish_retry = settings.CELERY_TASK_PUBLISH_RETRY
        scheduler = Scheduler(app)
        lead_to(first)
        tick_until(scheduler, first.tasks)
        first.refuse("replica")
        lead_to(second)
        tick_until(scheduler, second.tasks)
        scheduler.connection.release()


def test_where_redis_is_away_at_its_start_it_waits_for_it_and_lives(tmp_path, start_beat):
    """Otherwise a container's health check would restart it again and again, each time after a longer pause."""
    pulse = tmp_path / "pulse"
    start_beat(redis_url(tmp_path / "broker"), PULSE_FILE=str(pulse))
    first = eventually(lambda: pulse.exists() and pulse.read_bytes())
    eventually(lambda: pulse.read_bytes() != first, seconds=MOST_SECONDS)

    with running_broker(tmp_path / "broker") as broker:
        eventually(broker.tasks, seconds=MOST_SECONDS)


def test_a_damaged_schedule_of_an_older_version_is_no_concern_of_it(tmp_path, start_beat):
    """The schedule was in the data folder, and an empty one kept the whole service from starting."""
    for name in ("celerybeat-schedule", "celerybeat-schedule.dat", "celerybeat-schedule.db"):
        (tmp_path / name).touch()
    files = sorted(tmp_path.iterdir())
    with running_broker(tmp_path / "broker") as broker:
        beat = start_beat(broker.url)
        eventually(lambda: broker.tasks() == len(settings.CELERY_BEAT_SCHEDULE) or beat.poll() is not None)
        assert beat.poll() is None
    assert sorted(path for path in tmp_path.iterdir() if path.name != "broker") == files
