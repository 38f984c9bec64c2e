"""What observing the service costs: log lines against a request's time, and /metrics over a million rows.

    make bench-seeing

Requests take turns one by one. Their processor time is compared, because other users of the machine disturb it least.
"""

import io
import json
import logging
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat

import requests

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

from benchmarks import command_line, service
from benchmarks.load import percentile
from benchmarks.orders import FILL as ORDERS
from benchmarks.orders import bodies
from tests.harness.processes import CHECKOUT

REQUESTS = 2000
MILLION = 1_000_000
ACCOUNTS = 50
WEBHOOKS = 1000
DUE = 200_000
SCRAPES = 50

WEBHOOK = """
INSERT INTO webhooks_webhook (id, account_id, url, events, is_active, secret, secret_hint, is_failing, created_at)
SELECT gen_random_uuid(), (SELECT id FROM accounts_account LIMIT 1), 'https://receiver.example/' || n,
    '{{order.confirmed}}', true, '', '', n % 10 = 0, now()
FROM generate_series(1, {webhooks}) AS n
"""
# Of a million deliveries DUE are due now, half of them for another attempt. The others have arrived.
DELIVERIES = """
WITH webhook AS (
    SELECT id, account_id, row_number() OVER () - 1 AS number FROM webhooks_webhook
), numbered AS (
    SELECT gen_random_uuid() AS id, n, n <= {due} AS is_due FROM generate_series({first}, {last}) AS n
), event AS (
    INSERT INTO webhooks_event (id, account_id, kind, body, created_at)
    SELECT numbered.id, webhook.account_id, 'order.confirmed', '{{}}', now()
    FROM numbered JOIN webhook ON webhook.number = numbered.n % {webhooks}
)
INSERT INTO webhooks_delivery (id, account_id, webhook_id, event_id, status, attempt_count, retries_left,
    next_attempt_at, created_at, finished_at)
SELECT gen_random_uuid(), webhook.account_id, webhook.id, numbered.id,
    CASE WHEN is_due THEN 'pending' ELSE 'delivered' END, CASE WHEN is_due THEN (n / {webhooks}) % 2 ELSE 1 END, 3,
    CASE WHEN is_due THEN now() - n * interval '1 millisecond' END, now(), CASE WHEN NOT is_due THEN now() END
FROM numbered JOIN webhook ON webhook.number = numbered.n % {webhooks}
"""


def main() -> None:
    if sys.argv[1:] == ["requests"]:
        print(json.dumps(requests_by_turns()))
    else:
        command_line(__doc__).parse_args()
        print(json.dumps(cost_of_seeing() | metrics_over_a_million()))


def cost_of_seeing() -> dict[str, float]:
    """Run the requests in a process of their own, with JSON lines on a stderr that is discarded."""
    with service.storage() as storage, tempfile.TemporaryDirectory() as folder:
        environ = storage.environ | service.PRODUCTION | {"PROMETHEUS_MULTIPROC_DIR": folder}
        command = [sys.executable, "-m", "benchmarks.seeing", "requests"]
        done = subprocess.check_output(command, cwd=CHECKOUT, env=environ, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.splitlines()[-1])


def requests_by_turns() -> dict[str, float]:
    """The application's processor time for a request, with and without its log line, and with and without its counters.

    They take turns request by request, so that other work on the machine is the same for all.
    """
    from codservice.wsgi import application  # isort: skip  (it sets Django up)
    from codservice import middleware
    from codservice.accounts.models import Account, ApiKey, User

    holder = User.objects.create(username="bench")
    account = Account.objects.create(name="bench", holder=holder, rate_limit=1_000_000)
    key = ApiKey.issue(account, name="bench")[1]
    count, lines = middleware.metrics.count_request, logging.getLogger("codservice.access")
    result: dict[str, float] = {}
    statuses: list[str] = []
    imported = (json.dumps(body).encode() for body in bodies(0))
    for name, sent, expected in (("import", imported, "201"), ("list", repeat(b""), "200")):
        took: dict[str, list[float]] = {"line": [], "counters": [], "neither": []}
        for number in range(3 * REQUESTS):
            turn = ("line", "counters", "neither")[number % 3]
            lines.setLevel("INFO" if turn == "line" else "WARNING")
            middleware.metrics.count_request = count if turn == "counters" else lambda *_: None  # type: ignore[assignment]
            environ = _environ(key, next(sent))
            started = time.process_time()
            list(application(environ, lambda status, *_: statuses.append(status)))
            took[turn].append(time.process_time() - started)
        assert {status[:3] for status in statuses} == {expected}, set(statuses)
        statuses.clear()
        base = statistics.median(took["neither"])
        for turn in ("line", "counters"):
            result[f"{name}_with_{turn}"] = round(statistics.median(took[turn]) / base, 3)
        result[f"{name}_us"] = round(base * 1e6)
    return result


def _environ(key: str, body: bytes) -> dict[str, object]:
    """A WSGI environment as the gateway makes it."""
    return {
        "REQUEST_METHOD": "POST" if body else "GET",
        "PATH_INFO": "/api/v1/orders",
        "HTTP_HOST": "localhost",
        "HTTP_AUTHORIZATION": f"Bearer {key}",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
    }


def metrics_over_a_million() -> dict[str, float]:
    with service.storage() as storage:
        _fill(storage)
        with _web(storage) as address, requests.Session() as session:
            for path in ("/api/v1/orders", "/healthz", "/nowhere", "/account/", "/console/", "/api/schema"):
                session.get(address + path, timeout=10)
            for statement in ("VACUUM ANALYZE", "CHECKPOINT"):
                storage.sql(statement)
            storage.shell("from orders.metrics import count_pending; count_pending()")
            took = []
            for _ in range(SCRAPES):
                began = time.perf_counter()
                answer = session.get(f"{address}/metrics", timeout=10)
                took.append((time.perf_counter() - began) * 1000)
                answer.raise_for_status()
        figures = dict(re.findall(r"^(codservice_\w+(?:\{[^}]+\})?) (\S+)$", answer.text, re.M))
    for name in (
        "codservice_deliveries_due",
        "codservice_oldest_due_seconds",
        'codservice_orders_pending{age="over_24h"}',
    ):
        print(name, figures[name])
    return {"metrics_p50_ms": round(percentile(took, 0.5), 1), "metrics_max_ms": round(max(took), 1)}


def _fill(storage: service.Installation) -> None:
    storage.merchants(*(f"list{number}" for number in range(ACCOUNTS)))
    # A fifth of the orders are pending.
    orders = ORDERS.replace("'canceled', 'delivered'", "'canceled', 'delivered', 'shipped'").replace("n % 4", "n % 5")
    storage.sql(WEBHOOK.format(webhooks=WEBHOOKS))
    storage.write(orders, MILLION, accounts=ACCOUNTS)
    storage.write(DELIVERIES, MILLION, webhooks=WEBHOOKS, due=DUE)


@contextmanager
def _web(storage: service.Installation) -> Iterator[str]:
    """Web processes without a worker, which would send what is due. So they are never ready."""
    web = service.Service(storage.data_dir, LOG_LEVEL="ERROR")
    with web.started(sys.executable, "-m", "codservice.run.web", path="/healthz"):
        yield web.url


if __name__ == "__main__":
    main()
