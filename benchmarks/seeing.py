"""What it costs to see the service: log lines against a request's time, and /metrics over a million rows.

    make bench-seeing

Compared is the processor time of requests that take turns one by one, which other users of the machine disturb least.
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
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

from benchmarks import command_line, service
from benchmarks.orders import FILL as ORDERS
from benchmarks.orders import imports, psql

REQUESTS = 2000
MILLION = 1_000_000
WEBHOOKS = 1000
DUE = 200_000
SCRAPES = 50

# JSON lines, as in production.
PRODUCTION = {
    "SECRET_KEY": "".join(map(chr, range(48, 110))),
    "ENCRYPTION_KEYS": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    "HTTPS": "false",
}
WEBHOOK = """
INSERT INTO webhooks_webhook (id, account_id, url, events, is_active, secret, secret_hint, is_failing, created_at)
SELECT gen_random_uuid(), (SELECT id FROM accounts_account LIMIT 1), 'https://receiver.example/' || n,
    '{{order.confirmed}}', true, '', '', n % 10 = 0, now()
FROM generate_series(1, {webhooks}) AS n
"""
# Of a million deliveries DUE are due now, half of them for another attempt; the others have arrived.
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
    """The requests in a process of their own, with JSON lines on a stderr that leads nowhere."""
    with service.storage() as environ:
        command = [sys.executable, "-m", "benchmarks.seeing", "requests"]
        with tempfile.TemporaryDirectory() as folder:
            environ |= PRODUCTION | {"PROMETHEUS_MULTIPROC_DIR": folder}
            done = subprocess.run(command, cwd=service.CHECKOUT, env=environ, check=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def requests_by_turns() -> dict[str, float]:
    """Processor time of the application for a request: with its log line and without, with its counters and without.

    They take turns request by request, so that whatever else the machine does is the same for both.
    """
    from codservice.wsgi import application  # isort: skip  (it sets Django up)
    from codservice import middleware
    from codservice.accounts.models import Account, ApiKey, User

    holder = User.objects.create(username="bench")
    account = Account.objects.create(name="bench", holder=holder, rate_limit=1_000_000)
    key = ApiKey.issue(account, name="bench")[1]
    count, lines = middleware.metrics.count_request, logging.getLogger("codservice.access")
    result: dict[str, float] = {}
    for name, body in (("import", next(_bodies())), ("list", b"")):
        took: dict[str, list[float]] = {"line": [], "counters": [], "neither": []}
        for number in range(3 * REQUESTS):
            turn = ("line", "counters", "neither")[number % 3]
            lines.setLevel("INFO" if turn == "line" else "WARNING")
            middleware.metrics.count_request = count if turn == "counters" else lambda *_: None  # type: ignore[assignment]
            environ = _environ(key, body)
            started = time.process_time()
            list(application(environ, lambda *_: None))
            took[turn].append(time.process_time() - started)
        base = statistics.median(took["neither"])
        for turn in ("line", "counters"):
            result[f"{name}_with_{turn}"] = round(statistics.median(took[turn]) / base, 3)
        result[f"{name}_us"] = round(base * 1e6)
    return result


def _bodies() -> Iterator[bytes]:
    return (request.partition(b"\r\n\r\n")[2] for request in imports("http://localhost/", "", 0))


def _environ(key: str, body: bytes) -> dict[str, object]:
    """As the gateway gives it; each import is of another order."""
    body = re.sub(rb'"external_id": "[^"]*"', f'"external_id": "{uuid.uuid4()}"'.encode(), body)
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
    with service.storage() as environ:
        url = service.database(environ)
        _fill(environ, url)
        with _web(environ) as address:
            for path in ("/api/v1/orders", "/healthz", "/nowhere", "/account/", "/console/", "/api/schema"):
                _get(address + path)
            for statement in ("VACUUM ANALYZE", "CHECKPOINT"):
                psql(url, statement)
            _manage(environ, "shell", "-v0", "-c", "from orders.metrics import count_pending; count_pending()")
            took = sorted(_timed(address + "/metrics") for _ in range(SCRAPES))
        figures = dict(re.findall(r"^(codservice_\w+(?:\{[^}]+\})?) (\S+)$", _last, re.M))
    for name in (
        "codservice_deliveries_due",
        "codservice_oldest_due_seconds",
        'codservice_orders_pending{age="over_24h"}',
    ):
        print(name, figures[name])
    print(f"/metrics: {took[SCRAPES // 2] * 1000:.1f} ms, at most {took[-1] * 1000:.1f} ms")
    return {"metrics_p50_ms": round(took[SCRAPES // 2] * 1000, 1), "metrics_max_ms": round(took[-1] * 1000, 1)}


def _fill(environ: dict[str, str], url: str) -> None:
    code = (
        "from codservice.accounts.models import Account, User\n"
        "for n in range(50): Account.objects.create(name=f'list{n}', holder=User.objects.create(username=f'list{n}'))"
    )
    _manage(environ, "shell", "-v0", "-c", code)
    step = MILLION // 10
    # A fifth of the orders is pending.
    orders = ORDERS.replace("'canceled', 'delivered'", "'canceled', 'delivered', 'shipped'").replace("n % 4", "n % 5")
    psql(url, WEBHOOK.format(webhooks=WEBHOOKS))
    for first in range(1, MILLION, step):
        psql(url, orders.format(first=first, last=first + step - 1, accounts=50))
        psql(url, DELIVERIES.format(first=first, last=first + step - 1, webhooks=WEBHOOKS, due=DUE))


@contextmanager
def _web(environ: dict[str, str]) -> Iterator[str]:
    """Web processes without a worker, which would send what is due."""
    port = service.free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "codservice.run.web"],
        cwd=service.CHECKOUT, env=environ | {"PORT": str(port), "LOG_LEVEL": "ERROR"},
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}"
        while _get(f"{address}/healthz") != 200:
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


_last = ""


def _get(url: str) -> int:
    global _last
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            _last = answer.read().decode()
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _timed(url: str) -> float:
    started = time.perf_counter()
    if _get(url) != 200:
        raise SystemExit(f"{url} was not answered.")
    return time.perf_counter() - started


def _manage(environ: dict[str, str], *arguments: str) -> None:
    subprocess.run([sys.executable, "manage.py", *arguments], cwd=service.CHECKOUT, env=environ, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip


if __name__ == "__main__":
    main()
