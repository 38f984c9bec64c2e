"""How fast the other calls are, against what PostgreSQL itself does for them.

    make bench-calls

As in `orders.py` this is one run on one machine, in turns, and ratios are medians of the turns. Reads are measured
against pgbench sending the queries behind them, a bulk update of stock against pgbench writing the same rows in one
commit, and the whole inventory against COPY of the same columns to the client.
"""

import itertools
import json
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import command_line, load, service
from benchmarks.deliveries import receiver
from benchmarks.orders import against_pgbench
from benchmarks.postgresql import CLIENTS, PROGRAMS
from benchmarks.processes import family, shares_of_service, worked
from tests.harness.processes import free_port

SECONDS = 5.0
TURNS = 5
CONFIRMED = 20_000
ENTRIES = 100  # of a bulk update
CATALOGS = (1_000, 100_000)

FILL = """
WITH made AS (
    INSERT INTO orders_order (id, account_id, status, version, customer_name, customer_phone, phone_e164,
        customer_address, customer_wilaya, wilaya_code, customer_commune, commune_code, total_amount, shipping_fee,
        notes, cancel_reason, created_at, updated_at)
    SELECT gen_random_uuid(), '{account}', CASE WHEN n <= {confirmed} THEN 'confirmed' ELSE 'canceled' END, 1,
        'Customer ' || n, '05' || lpad(n::text, 8, '0'), '+2135' || lpad(n::text, 8, '0'), 'rue ' || n, '16', '16', '',
        NULL, 1000 + n % 9000, 400, '', '', now() - n * interval '1 second', now() - n * interval '1 second'
    FROM generate_series(1, 2 * {confirmed}) AS n RETURNING id, account_id, created_at
), lines AS (
    INSERT INTO orders_orderitem (id, account_id, order_id, position, product_name, quantity, unit_price, attributes)
    SELECT gen_random_uuid(), account_id, id, position, 'Robe', 1, 500, '{{"size": "M"}}'
    FROM made CROSS JOIN generate_series(0, 1) AS position
), moves AS (
    INSERT INTO orders_statuschange (account_id, order_id, to_status, at, actor, reason)
    SELECT account_id, id, 'pending_confirmation', created_at, 'API key shop', '' FROM made
)
SELECT id FROM made LIMIT 1000
"""
LIST = """
SELECT id, status, customer_name, customer_phone, wilaya_code, total_amount, created_at, updated_at
FROM orders_order WHERE account_id = '{account}' AND status = 'confirmed' ORDER BY created_at DESC, id DESC LIMIT 15;
SELECT count(*) FROM orders_order WHERE account_id = '{account}' AND status = 'confirmed';
"""
# The call's own statement, with the ids of order and account left open.
STATEMENT = "from orders import reading; print(reading._READ)"
UPDATE = """
\\set first random(1, {last})
\\set quantity random(1, 100000)
BEGIN;
SELECT id, sku, stock_quantity FROM inventory_product WHERE account_id = '{account}'
    AND sku = ANY(ARRAY(SELECT 'SKU-' || n FROM generate_series(:first, :first + {entries} - 1) AS n)) ORDER BY id
    FOR NO KEY UPDATE;
UPDATE inventory_product SET stock_quantity = :quantity, updated_at = now() WHERE account_id = '{account}'
    AND sku = ANY(ARRAY(SELECT 'SKU-' || n FROM generate_series(:first, :first + {entries} - 1) AS n));
INSERT INTO inventory_stockmovement (account_id, product_id, old_quantity, new_quantity, at, actor)
SELECT account_id, id, 0, :quantity, now(), 'API key shop' FROM inventory_product WHERE account_id = '{account}'
    AND sku = ANY(ARRAY(SELECT 'SKU-' || n FROM generate_series(:first, :first + {entries} - 1) AS n));
WITH event AS (
    INSERT INTO webhooks_event (id, account_id, kind, body, request_id, created_at, position)
    SELECT gen_random_uuid(), '{account}', 'inventory.updated', repeat('x', 230), '', now(), 0
    FROM generate_series(1, {entries}) RETURNING id, account_id, created_at
)
INSERT INTO webhooks_delivery
    (id, account_id, webhook_id, event_id, status, attempt_count, retries_left, next_attempt_at, created_at)
SELECT gen_random_uuid(), event.account_id, w.id, event.id, 'pending', 1, 2, now() + interval '12h', event.created_at
FROM event JOIN webhooks_webhook w ON w.account_id = event.account_id;
COMMIT;
"""
CATALOG = """
INSERT INTO inventory_product (id, account_id, sku, name, price, stock_quantity, is_active, image_url, script,
    created_at, updated_at)
SELECT gen_random_uuid(), '{account}', 'SKU-' || n, 'Product ' || n, 1500, 10, true, '', '', now(), now()
FROM generate_series(1, {count}) AS n
"""


def main() -> None:
    command_line(__doc__).parse_args()
    with service.running(WEBHOOK_ALLOW_PRIVATE="true", LOG_LEVEL="WARNING") as running:
        # `updates` comes last: its deliveries to missing receivers would be tried during the others.
        result = reads(running) | catalogs(running) | one_change(running) | updates(running)
    print(json.dumps(result))


def reads(running: service.Service) -> dict[str, float]:
    """A page of a filtered list with its exact total, and one order."""
    account, key = running.merchant("reads")
    ids = running.sql(FILL.format(account=account, confirmed=CONFIRMED)).split()
    running.sql(f"CREATE TABLE bench_order AS SELECT row_number() OVER () AS n, id AS order_id FROM orders_order "
              f"WHERE account_id = '{account}' LIMIT 1000; ALTER TABLE bench_order ADD PRIMARY KEY (n)")  # fmt: skip
    # Only these: if ANALYZE sees an empty table, its foreign keys' checks read all of it until the next ANALYZE.
    running.sql("VACUUM ANALYZE orders_order, orders_orderitem, bench_order")
    statement = running.shell(STATEMENT)
    read = "\\set n random(1, 1000)\n" + statement % ("(SELECT order_id FROM bench_order WHERE n = :n)", f"'{account}'")
    page = load.request_bytes("GET", f"{running.orders}?status=confirmed", key)
    each = [load.request_bytes("GET", f"{running.orders}/{id_}", key) for id_ in ids]
    return {
        "list_vs_pgbench": _ratio(running, lambda client: itertools.repeat(page), LIST.format(account=account)),
        "read_vs_pgbench": _ratio(running, lambda client: itertools.cycle(each), read),
    }


def catalogs(running: service.Service) -> dict[str, float]:
    """The whole inventory: its time against COPY, and how much more memory web takes than for a small one."""
    result, peaks = {}, []
    for count in CATALOGS:
        account, key = running.merchant(f"catalog{count}")
        running.sql(CATALOG.format(account=account, count=count))
        running.sql("VACUUM ANALYZE inventory_product")
        session = running.session(key)
        copy = (
            "COPY (SELECT id, sku, name, price, stock_quantity, is_active, updated_at FROM inventory_product"
            f" WHERE account_id = '{account}' ORDER BY sku) TO STDOUT"
        )
        rows = []
        for _ in range(TURNS + 1):
            began = time.perf_counter()
            answer = session.get(f"{running.api}/inventory")
            ours = time.perf_counter() - began
            assert answer.content.count(b'"sku"') == count
            began = time.perf_counter()
            subprocess.run([PROGRAMS / "psql", running.database, "-XAtqc", copy], check=True, stdout=subprocess.DEVNULL)
            rows.append((ours, time.perf_counter() - began))
        del rows[0]  # caches, plans
        result["inventory_vs_copy"] = round(statistics.median(ours / theirs for ours, theirs in rows), 2)
        result["inventory_ms"] = round(statistics.median(ours for ours, _ in rows) * 1000)
        peaks.append(_web_peak_mb())
    return result | {"inventory_growth_mb": round(peaks[1] - peaks[0], 1)}


def updates(running: service.Service) -> dict[str, float]:
    """A bulk update of stock with two subscribed webhooks. Nobody answers these: only writing the rows is measured."""
    account, key = running.merchant("updates")
    last = 10_000
    running.sql(CATALOG.format(account=account, count=last))
    for number in range(2):  # nobody listens there, so that deliveries are written but hardly any is sent
        _webhook(running, key, f"http://127.0.0.1:{free_port()}/{number}")

    def puts(client: int) -> Iterator[bytes]:
        for number in itertools.count(client * 1_000):
            first = number * ENTRIES % (last - ENTRIES) + 1
            entries = [{"sku": f"SKU-{n}", "quantity": number % 1000} for n in range(first, first + ENTRIES)]
            yield load.request_bytes("PUT", f"{running.api}/inventory", key, json.dumps({"updates": entries}).encode())

    script = UPDATE.format(account=account, entries=ENTRIES, last=last - ENTRIES)
    return {"update_vs_pgbench": _ratio(running, puts, script)}


def one_change(running: service.Service) -> dict[str, float]:
    """Processor time of all processes for a change of one product's stock, up to the arrival of its webhook."""
    account, key = running.merchant("change")
    running.sql(CATALOG.format(account=account, count=1000))
    inventory, count = f"{running.api}/inventory", itertools.count()
    with receiver() as hook:
        _webhook(running, key, f"{hook}/hook")

        def change() -> bytes:
            number = next(count)
            entry = {"sku": f"SKU-{1 + number % 1000}", "quantity": 1 + number}
            return load.request_bytes("PUT", inventory, key, json.dumps({"updates": [entry]}).encode())

        load.drive(inventory, lambda client: iter(change, None), clients=CLIENTS, seconds=2)
        _arrived(running, account)
        before = worked()
        done = load.drive(inventory, lambda client: iter(change, None), clients=CLIENTS, seconds=2 * SECONDS)
        _arrived(running, account)
        parts = shares_of_service(before, len(done.latencies))
    print(f"  processor time of one change until it has arrived, ms: {parts}")
    return {"change_cpu_ms": round(sum(parts.values()), 2), "changes_per_second": round(done.rate)}


def _arrived(running: service.Service, account: str) -> None:
    while running.sql(f"SELECT 1 FROM webhooks_delivery WHERE account_id = '{account}' AND status = 'pending' LIMIT 1"):
        time.sleep(0.05)


def _webhook(running: service.Service, key: str, url: str) -> None:
    body = {"url": url, "events": ["inventory.updated"]}
    running.session(key).post(f"{running.api}/webhooks", json=body).raise_for_status()


def _web_peak_mb() -> float:
    """The peak memory of the web processes together since their start."""
    peaks = [re.search(r"Name:\tcod-web\n(?s:.*)VmHWM:\s+(\d+)", _status(pid)) for pid in family()]
    return sum(int(peak[1]) for peak in peaks if peak) / 1024


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""


def _ratio(running: service.Service, asked: Callable[[int], Iterator[bytes]], script: str) -> float:
    def ask(seconds: float) -> load.Result:
        return load.drive(running.url, asked, clients=CLIENTS, seconds=seconds)

    rates = against_pgbench(running, ask, script, TURNS, SECONDS)
    return round(statistics.median(ours / theirs for ours, theirs in rates), 3)


if __name__ == "__main__":
    main()
