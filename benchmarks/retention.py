"""What the daily pruning costs the requests that are answered meanwhile.

    make bench-retention

`prune` deletes a million old attempts of a quarter of a million deliveries and anonymises a hundred thousand customers,
while eight clients import and list orders as fast as they are answered. Prune is paused every few seconds, so that
turns with and without it alternate. PostgreSQL logs each statement that takes longer than LOGGED_MS.
"""

import itertools
import json
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import command_line, load, service
from benchmarks.load import percentile
from benchmarks.orders import imports
from tests.harness.processes import CHECKOUT

DELIVERIES = 250_000
ATTEMPTS_EACH = 4
CUSTOMERS = 100_000
WEBHOOKS = 20
PENDING = 150_000
CLIENTS = 8
SECONDS = 4.0  # per turn
PAIRS = 20  # of turns; prune then goes on without clients
LOGGED_MS = 50

# Rows that are at least a hundred days old, with ids that sort by time, as the service makes them.
FILL = f"""
INSERT INTO webhooks_webhook (id, account_id, url, events, is_active, secret, secret_hint, is_failing, created_at)
SELECT gen_random_uuid(), (SELECT id FROM accounts_account WHERE name = 'import'), 'https://shop.example/' || n,
    '{{order.confirmed}}', true, '', 'whsec_…', false, now() FROM generate_series(1, {WEBHOOKS}) AS n;
CREATE TEMP TABLE old AS SELECT n, now() + shift AS at, uuidv7(shift) AS event, gen_random_uuid() AS delivery
    FROM generate_series(1, {DELIVERIES}) AS n
    CROSS JOIN LATERAL (SELECT interval '-100 days' - n * interval '10 s' AS shift) s;
CREATE TEMP TABLE numbered AS SELECT id, account_id, row_number() OVER () AS number FROM webhooks_webhook;
INSERT INTO webhooks_event (id, account_id, kind, body, created_at)
    SELECT event, account_id, 'order.confirmed', '{{"event":"order.confirmed","data":{{"customer_name":"Amine"}}}}', at
    FROM old JOIN numbered ON number = 1 + n % {WEBHOOKS};
INSERT INTO webhooks_delivery (id, account_id, webhook_id, event_id, status, attempt_count, retries_left, created_at,
    finished_at) SELECT delivery, account_id, id, event, 'failed', {ATTEMPTS_EACH}, 0, at, at
    FROM old JOIN numbered ON number = 1 + n % {WEBHOOKS};
INSERT INTO webhooks_attempt (account_id, delivery_id, number, ended_at, milliseconds, status_code, failure, response)
    SELECT account_id, delivery, attempt, at, 12, 500, 'status', decode(repeat('00', 60), 'hex')
    FROM old JOIN numbered ON number = 1 + n % {WEBHOOKS}, generate_series(1, {ATTEMPTS_EACH}) AS attempt;
INSERT INTO orders_order (id, account_id, status, version, customer_name, customer_phone, phone_e164, customer_address,
    customer_wilaya, wilaya_code, customer_commune, total_amount, shipping_fee, notes, cancel_reason, created_at,
    updated_at) SELECT gen_random_uuid(), (SELECT id FROM accounts_account WHERE name = 'import'), 'delivered', 4,
    'Customer ' || n, '0550' || n, '+2135' || lpad(n::text, 8, '0'), 'rue ' || n, '16', '16', '', 1000, 400, '', '',
    now() - interval '800 days' - n * interval '10 s', now() - interval '800 days' - n * interval '10 s'
    FROM generate_series(1, {CUSTOMERS}) AS n;
INSERT INTO orders_callnote (id, account_id, order_id, outcome, note, agent_name, created_at)
    SELECT gen_random_uuid(), account_id, id, 'answered', 'Oui', 'Samira', updated_at FROM orders_order
    WHERE status = 'delivered';
"""

# Marks today's pruning by beat as done, so that nobody else prunes.
ROUND_IS_OVER = """
INSERT INTO operations_duty (name, done_at, taken_until) VALUES ('prune', now(), now())
ON CONFLICT (name) DO UPDATE SET done_at = now(), taken_until = now()
"""


def main() -> None:
    command_line(__doc__).parse_args()
    with service.running(LOG_LEVEL="WARNING") as running:
        key = running.merchant("import").key
        running.sql(ROUND_IS_OVER)
        running.sql("BEGIN;" + FILL + "COMMIT;")
        running.sql("VACUUM ANALYZE")
        running.sql(f"ALTER SYSTEM SET log_min_duration_statement = {LOGGED_MS}")
        running.sql("SELECT pg_reload_conf()")
        log = running.data_dir / "postgres.log"
        logged = log.stat().st_size
        drive(running, key, 3.0)
        turns, pruned = with_and_without_prune(running, key)
        longest = longest_statement(log, logged)
        deletion = delete_webhook(running, key)
    if (pruned["attempts"], pruned["customers"]) != (DELIVERIES * ATTEMPTS_EACH, CUSTOMERS):
        raise SystemExit(f"Not all was pruned: {pruned}")
    result: dict[str, Any] = {"longest_statement_ms": longest}
    for name, part in (("p50", 0.5), ("p99", 0.99)):
        quiet, busy = (
            percentile([latency for turn in turns for latency in turn[side].latencies], part) for side in (0, 1)
        )
        print(f"{name}: {quiet * 1000:.1f} ms without, {busy * 1000:.1f} ms beside prune")
        result[f"{name}_growth"] = round(busy / quiet, 3)
    result["requests_kept"] = round(statistics.median(busy.rate / quiet.rate for quiet, busy in turns), 3)
    print(json.dumps(result | deletion))


def drive(running: service.Service, key: str, seconds: float) -> load.Result:
    url = running.orders
    return load.drive(url, lambda client: mixed(url, key, client), clients=CLIENTS, seconds=seconds)


def mixed(url: str, key: str, client: int) -> Iterator[bytes]:
    """Requests that import and list orders alternately."""
    lists = itertools.repeat(load.request_bytes("GET", url, key))
    return itertools.chain.from_iterable(zip(imports(url, key, client), lists, strict=False))


def with_and_without_prune(
    running: service.Service, key: str
) -> tuple[list[tuple[load.Result, load.Result]], dict[str, int]]:
    """Pairs of turns without prune and with it, and what it pruned in the end."""
    turns: list[tuple[load.Result, load.Result]] = []
    pruning = subprocess.Popen(
        [sys.executable, "manage.py", "prune", "--json"],
        cwd=CHECKOUT,
        env=running.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        time.sleep(20)  # until it has counted what there is to do, and is deleting
        for _ in range(PAIRS):
            # Pauses it between statements, or during one that PostgreSQL finishes meanwhile.
            pruning.send_signal(signal.SIGSTOP)
            quiet = drive(running, key, SECONDS)
            pruning.send_signal(signal.SIGCONT)
            turns.append((quiet, drive(running, key, SECONDS)))
            if pruning.poll() is not None:
                raise SystemExit("prune ended too soon; give it more to do.")
        shown = pruning.communicate()[0]
    finally:
        if pruning.poll() is None:
            pruning.kill()
    if pruning.returncode:
        raise SystemExit("prune failed.")
    return turns, json.loads(shown)


def delete_webhook(running: service.Service, key: str) -> dict[str, float]:
    """How long a merchant waits for the deletion of a webhook with PENDING deliveries, and until all are dropped."""
    pending = f"""
        WITH webhook AS (
            SELECT id, account_id FROM webhooks_webhook LIMIT 1
        ), event AS (
            INSERT INTO webhooks_event (id, account_id, kind, body, created_at)
            SELECT gen_random_uuid(), account_id, 'order.confirmed', '{{}}', now()
            FROM webhook, generate_series(1, {PENDING}) RETURNING id
        )
        INSERT INTO webhooks_delivery (id, account_id, webhook_id, event_id, status, attempt_count, retries_left,
            next_attempt_at, created_at)
        SELECT gen_random_uuid(), account_id, webhook.id, event.id, 'pending', 1, 2, now() + interval '1 hour', now()
        FROM webhook, event RETURNING webhook_id"""
    webhook = running.sql(pending).splitlines()[0]
    began = time.perf_counter()
    answer = running.session(key).delete(f"{running.api}/webhooks/{webhook}", timeout=60)
    answered = time.perf_counter() - began
    if answer.status_code != 204:
        raise SystemExit(f"The webhook was not deleted: {answer.status_code} {answer.text}")
    while running.sql("SELECT 1 FROM webhooks_delivery WHERE status = 'pending' LIMIT 1"):
        time.sleep(0.5)
    return {"delete_seconds": round(answered, 2), "dropped_after_seconds": round(time.perf_counter() - began)}


def longest_statement(log: Path, since: int) -> float | str:
    """The longest statement in PostgreSQL's log since then, those of requests included, in milliseconds."""
    with log.open("rb") as file:
        file.seek(since)
        durations = re.findall(rb"duration: ([0-9.]+) ms", file.read())
    return max(map(float, durations), default=f"under {LOGGED_MS}")


if __name__ == "__main__":
    main()
