"""While PostgreSQL is away every answer is a 503 that says when to come back. Then all goes on without a restart."""

import contextlib
import os
import signal
import sys

import psycopg
import pytest

from codservice import data_folder
from tests.harness.background import eventually
from tests.harness.processes import descendants
from tests.harness.python import run_python
from tests.harness.service import Service

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

OUR_SESSIONS = "FROM pg_stat_activity WHERE application_name = 'codservice'"


@pytest.fixture
def service(run):
    return run(module="codservice.onebox").wait_until_up()


@pytest.fixture
def ask(service):
    """Call the API: true if it answered, false after a proper 503, otherwise an error."""
    environ = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}

    def manage(*arguments):
        done = run_python("manage.py", *arguments, env=environ | {"DATA_DIR": str(service.data)})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    manage("create_account", "Alice", "--email", "a@example.dz", "--rate-limit", "1000000")
    key = manage("create_api_key", "--account", "a@example.dz")
    web = Service(int(service.port), None)

    def call():
        answer = web.send("GET", "/api/v1/orders", key=key)
        if answer.status != 200:
            assert (answer.status, answer.json()["error"], answer.headers["Retry-After"]) == (503, "unavailable", "1")
        return answer.status == 200

    return call


def ours(service):
    """Return the processes of web, worker and beat."""
    return {pid for pid, line in descendants(service.popen.pid).items() if "codservice.onebox.application" in line}


def test_a_database_that_crashes_hangs_up_or_is_full_is_a_503_and_then_forgotten(service, ask):
    assert [ask() for _ in range(8)] == [True] * 8
    before = ours(service)
    assert len(before) >= 5

    postmaster = service.find("bin/postgres")
    os.kill(postmaster, signal.SIGQUIT)  # an immediate stop, as in a crash
    eventually(lambda: not ask())
    eventually(ask)
    assert service.find("bin/postgres") != postmaster
    assert [ask() for _ in range(8)] == [True] * 8

    service.query(f"SELECT bool_and(pg_terminate_backend(pid, 60000)) {OUR_SESSIONS}")  # until they have ended
    assert [ask() for _ in range(8)] == [True] * 8

    taken = []

    def take_all():
        with contextlib.suppress(psycopg.OperationalError):
            while True:
                taken.append(psycopg.connect(data_folder.database_url(service.data), autocommit=True))

    def is_refused():
        take_all()
        taken[0].execute(f"SELECT pg_terminate_backend(pid) {OUR_SESSIONS}").fetchall()
        take_all()
        return not ask()

    eventually(is_refused)
    for session in taken:
        session.close()
    eventually(ask)
    assert [ask() for _ in range(8)] == [True] * 8

    assert ours(service) == before
    assert service.stop() == 0
