"""What it costs to see the service: log lines against a request's time, and /metrics over a million rows.

    make bench-seeing

Two services that differ in LOG_LEVEL alone take turns under the same load; compared is the processor time that their
web processes took for a request, which other users of the machine disturb least.
"""

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

from benchmarks import load, service
from benchmarks.orders import FILL as ORDERS
from benchmarks.orders import imports, psql
from codservice.embedded import database_url

CLIENTS = 4
SECONDS = 5.0
TURNS = 6
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
    print(json.dumps(cost_of_logs() | metrics_over_a_million()))


def cost_of_logs() -> dict[str, float]:
    with logging_service("INFO") as on, logging_service("WARNING") as off:
        keys = {each: each.make_key("logs") for each in (on, off)}
        result = {}
        for name, requests in (("import", _imports), ("list", _lists)):
            for each in (on, off):
                per_request(each, requests(each, keys[each]), 2.0)
            turns: list[float] = []
            for turn in range(TURNS):
                first, second = (on, off) if turn % 2 else (off, on)
                took = {each: per_request(each, requests(each, keys[each]), SECONDS) for each in (first, second)}
                turns.append(took[on] / took[off])
                print(f"{name}: {took[on] * 1e6:.0f} µs of processor with access lines, {took[off] * 1e6:.0f} without")
            result[f"{name}_with_lines"] = round(statistics.median(turns), 3)
        return result


@contextmanager
def logging_service(level: str) -> Iterator[service.Service]:
    with open(os.devnull, "w") as nowhere, service.running(nowhere, **PRODUCTION, LOG_LEVEL=level) as running:
        yield running


def _imports(running: service.Service, key: str) -> Callable[[int], Iterator[bytes]]:
    return lambda client: imports(f"{running.url}/api/v1/orders", key, client)


def _lists(running: service.Service, key: str) -> Callable[[int], Iterator[bytes]]:
    return lambda client: itertools.repeat(load.request_bytes("GET", f"{running.url}/api/v1/orders", key))


def per_request(running: service.Service, requests: Callable[[int], Iterator[bytes]], seconds: float) -> float:
    """Seconds of processor that the web processes take for one of these requests."""
    before = _processor(running)
    done = load.drive(running.url, requests, clients=CLIENTS, seconds=seconds)
    if not set(done.statuses) <= {200, 201}:
        raise SystemExit(f"Not every request was answered: {dict(done.statuses)}")
    return (_processor(running) - before) / len(done.latencies)


def _processor(running: service.Service) -> float:
    """Seconds of processor of all web processes so far."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            data = f"DATA_DIR={running.environ['DATA_DIR']}\0".encode()
            if (process / "comm").read_text().strip() == "cod-web" and data in (process / "environ").read_bytes():
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:  # it has ended
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def metrics_over_a_million() -> dict[str, float]:
    with service.storage() as environ:
        url = database_url(Path(environ["DATA_DIR"]))
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
    for number in range(50):
        _manage(environ, "create_account", f"list{number}", "--email", f"list{number}@example.dz")
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
