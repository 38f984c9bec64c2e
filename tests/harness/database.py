"""The test's database: its address for other processes, and what its sessions are at."""

import os
import time
from typing import Any
from urllib.parse import quote

from django.db import connection

from .background import PATIENCE


def database_url() -> str:
    """The test's database, as the service takes it."""
    s = connection.settings_dict
    user = quote(s["USER"], "") + (f":{quote(s['PASSWORD'], '')}" if s["PASSWORD"] else "")
    port = f":{s['PORT']}" if s["PORT"] else ""
    return f"postgresql://{user}@{quote(s['HOST'] or 'localhost', '')}{port}/{quote(s['NAME'], '')}"


def environment(**more: str) -> dict[str, str]:
    """For processes that shall work on the test's database."""
    return {**os.environ, "DATABASE_URL": database_url(), "WEBHOOK_ALLOW_PRIVATE": "true", **more}


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


def wait_for_lock(seconds: float = PATIENCE) -> None:
    """Until some session waits for a lock."""
    deadline = time.monotonic() + seconds
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not one(waiting):
        assert time.monotonic() < deadline
        time.sleep(0.01)
        one("SELECT pg_stat_clear_snapshot()")
