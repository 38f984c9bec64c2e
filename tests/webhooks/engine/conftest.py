"""A queue in the test's database, receivers on this machine, engines here and in processes of their own."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from django.db import connection, connections

from codservice.accounts.models import Account
from webhooks import secrets
from webhooks.engine import WINDOW, Engine
from webhooks.models import Webhook

from .posting import CHECKOUT
from .receivers import Receiver

_WRITE = """
WITH event AS (
    INSERT INTO webhooks_event (id, account_id, kind, body, created_at)
    SELECT gen_random_uuid(), %(account)s, 'order.confirmed',
        '{"event":"order.confirmed","timestamp":"2026-01-01T00:00:00Z","data":{"name":"أمين","n":' || n || '}}', now()
    FROM generate_series(1, %(count)s) AS n RETURNING id
)
INSERT INTO webhooks_delivery
    (id, account_id, webhook_id, event_id, status, attempt_count, retries_left, next_attempt_at, created_at)
SELECT gen_random_uuid(), %(account)s, %(webhook)s, id, 'pending', %(attempts)s, 3 - %(attempts)s, now() - %(age)s,
    now() FROM event RETURNING id
"""


@pytest.fixture(autouse=True)
def _private_addresses(settings: Any) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def webhook_to(alice: Account) -> Callable[..., Webhook]:
    """Makes a webhook of Alice's with this URL."""

    def make(url: str, **changes: Any) -> Webhook:
        secret = secrets.make_secret()
        return Webhook.objects.create(
            **{
                "account": alice,
                "url": url,
                "events": ["order.confirmed"],
                "secret": secrets.encrypt(secret),
                "secret_hint": secrets.hint(secret),
                **changes,
            }
        )

    return make


def write(webhook: Webhook, count: int = 1, *, attempts: int = 0, age: float = 0.0) -> list[UUID]:
    """Write deliveries that are due for `age` seconds and have had `attempts`; their ids."""
    with connection.cursor() as cursor:
        cursor.execute(
            _WRITE,
            {
                "account": webhook.account_id,
                "webhook": webhook.id,
                "count": count,
                "attempts": attempts,
                "age": timedelta(seconds=age),
            },
        )
        return [id_ for (id_,) in cursor.fetchall()]


def pass_time(**interval: float) -> None:
    """Move the clock on: all that the queue compares with it moves back."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE webhooks_delivery SET next_attempt_at = next_attempt_at - %s", [timedelta(**interval)])
        cursor.execute("UPDATE webhooks_claim SET until = until - %s", [timedelta(**interval)])


def one(sql: str, *parameters: Any) -> Any:
    """The one value that a query gives."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]


def session() -> int:
    """The number of this thread's session in the database."""
    return one("SELECT pg_backend_pid()")


def end_sessions(*kept: int) -> int:
    """End every other session of the database, as a restart of PostgreSQL does; how many there were."""
    return one(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND NOT pid = ANY(%s)",
        list(kept),
    )


def wait_for_lock(seconds: float = 5.0) -> None:
    """Until some session waits for a lock."""
    deadline = time.monotonic() + seconds
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not one(waiting):
        assert time.monotonic() < deadline
        time.sleep(0.01)
        one("SELECT pg_stat_clear_snapshot()")


@pytest.fixture
def make_engine() -> Iterator[Callable[..., Engine]]:
    """Makes engines for this process; their connections are closed when the test ends."""
    made: list[Engine] = []

    def make(**kwargs: Any) -> Engine:
        made.append(Engine(**kwargs))
        return made[-1]

    yield make
    for each in made:
        each.stop()
        both_threads = threading.Barrier(2)

        def leave(both: threading.Barrier = both_threads) -> None:
            both.wait(10)
            connections.close_all()

        for future in [each._database.submit(leave) for _ in range(2)]:
            future.result(20)
        each._database.shutdown()
        if each._sender:
            each._sender.close()


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()


class Background:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        finally:
            connections.close_all()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self, seconds: float = 15.0) -> Any:
        self._thread.join(seconds)
        assert self.is_over, f"still at it after {seconds} s"
        if self._error:
            raise self._error
        return self._result


def environment(**more: str) -> dict[str, str]:
    """For processes that shall work on the test's database."""
    database = connection.settings_dict
    host = quote(database["HOST"], safe="")
    user = quote(database["USER"]) + (f":{quote(database['PASSWORD'])}" if database["PASSWORD"] else "")
    port = f":{database['PORT']}" if database["PORT"] else ""
    url = f"postgresql://{user}@{host}{port}/{database['NAME']}"
    return {**os.environ, "DATABASE_URL": url, "WEBHOOK_ALLOW_PRIVATE": "true", **more}


class Worker:
    """An engine in a process of its own, that drains until it is told to stop."""

    def __init__(self, window: int) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tests.webhooks.engine.worker", str(window)],
            cwd=CHECKOUT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> "Worker":
        assert self.popen.stdout is not None
        assert self.popen.stdout.readline() == "ready\n"
        return self

    def start(self) -> None:
        self.tell("go\n")

    def tell(self, line: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(line)
        self.popen.stdin.flush()

    def stop(self) -> int:
        """How many it has sent."""
        self.tell("stop\n")
        assert self.popen.stdout is not None
        sent = int(self.popen.stdout.readline())
        assert self.popen.wait(10) == 0
        return sent

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()


@pytest.fixture
def make_workers() -> Iterator[Callable[..., list[Worker]]]:
    """Makes engines in processes of their own, ready to be started."""
    made: list[Worker] = []

    def make(count: int, *, window: int = WINDOW) -> list[Worker]:
        workers = [Worker(window) for _ in range(count)]
        made.extend(workers)
        return [worker.wait_until_ready() for worker in workers]

    yield make
    for worker in made:
        if worker.popen.poll() is None:
            worker.kill()
        for stream in (worker.popen.stdin, worker.popen.stdout):
            if stream:
                stream.close()
