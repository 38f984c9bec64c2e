"""One step of `benchmarks.deliveries`, in a process with its own memory and connections.

    python -m benchmarks.draining bare N URL HOOKS BODY | drain | neighbour WEBHOOK_ID SECONDS BODY

Prints one JSON object.
"""

import json
import os
import resource
import socket
import sys
import threading
import time
from typing import Any
from uuid import uuid4

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

import django

django.setup()

from django.conf import settings  # noqa: E402

from codservice import postgresql  # noqa: E402
from webhooks import secrets  # noqa: E402
from webhooks.engine import WINDOW, engine  # noqa: E402
from webhooks.sender import Post, Sender  # noqa: E402


def bare(count: int, url: str, hooks: int, body: str) -> dict[str, float]:
    """Post with the same client and signatures but without a database, to `hooks` addresses (see `address`)."""
    sender = Sender(width=WINDOW, allow_private=True, ca_file=settings.WEBHOOK_CA_FILE)
    secret = secrets.make_secret()
    began, started, done = time.perf_counter(), 0, 0
    while done < count:
        for _ in range(min(sender.room, count - started)):
            sender.start(Post(uuid4(), address(url, started % hooks), "order.confirmed", body.encode(), [secret], 1))
            started += 1
        outcomes = sender.finished(1.0)
        if any(outcome.failure for outcome in outcomes):
            raise SystemExit("The receiver did not acknowledge.")
        done += len(outcomes)
    return {"rate": count / (time.perf_counter() - began)}


def address(url: str, number: int) -> str:
    """The URL of the webhook with this number: with a name of its own if `url` has `{}`, otherwise a path."""
    return url.format(number) if "{}" in url else f"{url}/{number}"


def _know_names() -> None:
    """Resolve names in .bench to this machine."""
    look_up = socket.getaddrinfo

    def known(host: Any, *args: Any, **kwargs: Any) -> Any:
        return look_up("127.0.0.1" if str(host).endswith(".bench") else host, *args, **kwargs)

    socket.getaddrinfo = known


def drain() -> dict[str, float]:
    """Send everything that is due, and return the peak memory."""
    engine.drain()
    return {"rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def neighbour(webhook_id: str, seconds: float, body: str) -> None:
    """Add a delivery to one webhook every 5 ms, while an engine drains whatever is due."""
    threading.Thread(target=_keep_draining, daemon=True).start()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        postgresql.execute(
            "WITH event AS (INSERT INTO webhooks_event (id, account_id, kind, body, created_at) SELECT"
            " gen_random_uuid(), account_id, 'order.confirmed', %s, now() FROM webhooks_webhook WHERE id = %s"
            " RETURNING id, account_id)"
            " INSERT INTO webhooks_delivery (id, account_id, webhook_id, event_id, status, attempt_count,"
            " retries_left, next_attempt_at, created_at)"
            " SELECT gen_random_uuid(), account_id, %s, id, 'pending', 0, 3, now(), clock_timestamp() FROM event",
            [body, webhook_id, webhook_id],
        )
        engine.wake_up()
        time.sleep(0.005)
    time.sleep(1)


def _keep_draining() -> None:
    while True:
        engine.drain()
        time.sleep(0.002)


if __name__ == "__main__":
    settings.WEBHOOK_ALLOW_PRIVATE = True
    _know_names()
    step, *arguments = sys.argv[1:]
    result: dict[str, float] = {}
    match step:
        case "bare":
            result = bare(int(arguments[0]), arguments[1], int(arguments[2]), arguments[3])
        case "drain":
            result = drain()
        case "neighbour":
            neighbour(arguments[0], float(arguments[1]), arguments[2])
    print(json.dumps(result), flush=True)
    os._exit(0)  # without waiting for what still hangs
