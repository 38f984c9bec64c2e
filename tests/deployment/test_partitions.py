"""docs/operations/partition.sql partitions deliveries and attempts by time, and deliveries go on as before."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks.postgresql import PROGRAMS
from codservice import data_folder
from codservice.data_folder import Layout
from tests.harness.background import eventually
from tests.harness.python import run_python

from . import backing

# Two events. The first attempts of their deliveries fail, the second ones succeed, and one is sent once more.
DELIVER = """
import time
from uuid import uuid4
from django.db import transaction
from django.utils import timezone
from codservice.accounts.models import Account, User
from webhooks import delivery, events, resending, secrets
from webhooks.models import Attempt, Claim, Delivery, Webhook
from webhooks.posts import Outcome

holder, _ = User.objects.get_or_create(username="a@example.dz")
account, _ = Account.objects.get_or_create(name="A", defaults={"holder": holder})
more = {"events": ["order.confirmed"], "secret": secrets.encrypt(secrets.make_secret()), "secret_hint": "whsec_"}
Webhook.objects.get_or_create(account=account, url="https://shop.example/", defaults=more)
with transaction.atomic():
    events.publish([events.Told(account.id, "order.confirmed", {"n": n}, timezone.now()) for n in (1, 2)])

def attempt(failure, status):
    token = uuid4()
    posts = delivery.claim(token, 10, limit_failing=10, asked_at=time.monotonic())
    outcomes = [Outcome(post, failure, status, 5, b"") for post in posts]
    delivery.settle(token, outcomes)
    assert not Claim.objects.exists()
    return [post.delivery_id for post in posts]

first = attempt("status", 500)
assert len(first) == 2 and attempt("", 200) == []
Delivery.objects.filter(status="pending").update(next_attempt_at=timezone.now())
assert sorted(attempt("", 200)) == sorted(first)
assert resending.resend(first[:1]) == first[:1] and attempt("", 200) == first[:1]
assert Attempt.objects.filter(delivery_id=first[0]).count() == 3
assert set(Delivery.objects.values_list("status", flat=True)) == {"delivered"}
"""
# In a session of its own: the script waits for transactions that have looked at something.
WAITS_FOR_EVENTS = "SELECT 1 FROM pg_locks WHERE relation = 'webhooks_event'::regclass AND NOT granted"
IN_ALGERIA = os.environ | {"PGTZ": "Africa/Algiers"}  # as on a server of its own


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    layout = Layout(tmp_path / "database")
    running = backing.start(backing.database(layout))
    try:
        yield data_folder.database_url(layout.data)
    finally:
        running.kill()
        running.wait()


def manage(url: str, *arguments: str) -> None:
    done = run_python("manage.py", *arguments, env=os.environ | {"DATABASE_URL": url})
    assert done.returncode == 0, done.stderr


def script(url: str, begins: datetime) -> list[Any]:
    from_, until = (f"{at:%Y-%m-%d %H:%M:%S.%f}" for at in (begins, begins + timedelta(days=28)))  # without a zone
    variables = [f"--set=from={from_}", f"--set=until={until}"]
    return [PROGRAMS / "psql", url, "-X", "--quiet", *variables, f"--file={backing.OPERATIONS / 'partition.sql'}"]


def divide(url: str, begins: datetime) -> subprocess.CompletedProcess[str]:
    return subprocess.run(script(url, begins), env=IN_ALGERIA, capture_output=True, text=True, check=False)


def indexes(connection: psycopg.Connection[Any], table: str) -> list[str]:
    """The definitions of the table's indexes, without their names."""
    found = connection.execute("SELECT indexdef FROM pg_indexes WHERE tablename = %s", [table]).fetchall()
    return sorted(re.sub(r"INDEX \S+ ON \S+ ", "INDEX ", definition) for (definition,) in found)


def test_deliveries_go_on_when_their_table_is_divided(url: str) -> None:
    manage(url, "migrate", "-v0")
    with psycopg.connect(url) as connection:
        whole = {table: indexes(connection, f"webhooks_{table}") for table in ("delivery", "attempt")}
    by_id = "CREATE UNIQUE INDEX USING btree (id)"  # of attempts: a partitioned table's key has its dividing column
    whole["attempt"] = sorted({*whole["attempt"], "CREATE UNIQUE INDEX USING btree (delivery_id, id)"} - {by_id})
    done = divide(url, datetime.now(UTC) - timedelta(seconds=1))
    assert "ERROR:  `from` must be in the future." in done.stderr
    manage(url, "shell", "-v0", "-c", DELIVER)
    begins = datetime.now(UTC) + timedelta(seconds=20)
    with psycopg.connect(url) as connection:  # as a long report would: the script fails half-way
        connection.execute("LOCK webhooks_attempt IN ACCESS SHARE MODE")
        done = divide(url, begins)
        assert "canceling statement due to lock timeout" in done.stderr
    with psycopg.connect(url) as connection:  # as a request that publishes meanwhile
        connection.execute("LOCK webhooks_event IN ROW EXCLUSIVE MODE")
        dividing = subprocess.Popen(script(url, begins), env=IN_ALGERIA, stderr=subprocess.PIPE, text=True)
        with psycopg.connect(url, autocommit=True) as other:
            eventually(lambda: other.execute(WAITS_FOR_EVENTS).fetchone())
        connection.execute("LOCK webhooks_delivery IN ROW EXCLUSIVE MODE")
    _, errors = dividing.communicate()
    assert dividing.returncode == 0, errors
    done = divide(url, begins)
    assert "ERROR:  The tables are divided already." in done.stderr
    time.sleep(max((begins - datetime.now(UTC)).total_seconds(), 0) + 0.1)

    manage(url, "shell", "-v0", "-c", DELIVER)

    part = begins.strftime("%Y_%m_%d")
    with psycopg.connect(url) as connection:
        for table, rows in (("delivery", 2), ("attempt", 5)):
            counts = [
                connection.execute(f"SELECT count(*) FROM webhooks_{table}_{name}").fetchone()
                for name in ("first", part, "later")
            ]
            assert counts == [(rows,), (rows,), (0,)]
            analyzed = connection.execute("SELECT 1 FROM pg_stats WHERE tablename = %s", [f"webhooks_{table}"])
            assert analyzed.fetchone()
            for name in ("first", part, "later"):
                assert indexes(connection, f"webhooks_{table}_{name}") == whole[table], name
    manage(url, "prune", "--older-than", "1")
    manage(url, "makemigrations", "--check", "--dry-run")
