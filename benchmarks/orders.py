"""How fast orders are imported and listed, against what PostgreSQL itself does with the same rows.

    make bench-orders

Everything is measured in one run on one machine: the load client, the service and its database share the
processors. The import and pgbench take turns, so that a machine whose speed drifts does so for both; ratios are
medians of the turns.
"""

import itertools
import json
import os
import random
import re
import statistics
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

from benchmarks import command_line, load, service
from codservice.onebox.binaries import ServerUser, find_postgres

PROGRAMS = find_postgres(
    major=None, user=ServerUser(os.getuid(), os.getgid()), copies=Path(tempfile.gettempdir())
).folder
CLIENTS = 8
SECONDS = 8.0
TURNS = 5
ACCOUNTS = 50

# A random uuid: pgbench has no variable of that type, so the text is put together.
ID = "(lpad(to_hex(:a::bigint), 8, '0') || '-0000-4000-8000-' || lpad(to_hex(:b::bigint), 12, '0'))::uuid"
# The same rows as an import writes, order, two lines and the first of the history, prepared, in one commit.
PGBENCH = """
\\set a random(0, 4294967295)
\\set b random(0, 281474976710655)
\\set phone random(10000000, 99999999)
BEGIN;
INSERT INTO orders_order (id, account_id, status, version, customer_name, customer_phone, phone_e164,
    customer_address, customer_wilaya, wilaya_code, customer_commune, commune_code, total_amount, shipping_fee, notes,
    cancel_reason, created_at, updated_at)
VALUES (:id, '{account}', 'pending_confirmation', 1, 'Amine Benali', '05' || :phone, '+2135' || :phone,
    '12 rue Didouche Mourad', '16', '16', 'Bab Ezzouar', '1621', 4500.50, 400, '', '', now(), now());
INSERT INTO orders_orderitem (id, account_id, order_id, position, product_name, quantity, unit_price, attributes)
VALUES (gen_random_uuid(), '{account}', :id, 0, 'Robe kabyle', 2, 1800.25, '{{"size": "M"}}'),
    (gen_random_uuid(), '{account}', :id, 1, 'Foulard', 1, 500, '{{}}');
INSERT INTO orders_statuschange (account_id, order_id, to_status, at, actor, reason)
VALUES ('{account}', :id, 'pending_confirmation', now(), 'API key pgbench', '');
COMMIT;
"""

FILL = """
INSERT INTO orders_order (id, account_id, status, version, customer_name, customer_phone, phone_e164,
    customer_address, customer_wilaya, wilaya_code, customer_commune, commune_code, total_amount, shipping_fee, notes,
    cancel_reason, created_at, updated_at)
SELECT gen_random_uuid(), accounts.id, (ARRAY['pending_confirmation', 'confirmed', 'canceled', 'delivered'])[1 + n % 4],
    1, 'Customer ' || n, '0550' || n, '+2135' || lpad(n::text, 8, '0'), 'rue ' || n, '16', '16', '', NULL,
    1000 + n % 9000,
    400, '', '', now() - n * interval '1 second', now() - n * interval '1 second'
FROM generate_series({first}, {last}) AS n
JOIN (SELECT id, row_number() OVER (ORDER BY id) AS number FROM accounts_account WHERE name LIKE 'list%') AS accounts
    ON accounts.number = 1 + n % {accounts};
"""


def main() -> None:
    command_line(__doc__).parse_args()
    with service.running() as running:
        url = service.database(running.environ)
        result = import_against_pgbench(running, url) | list_when_it_grows(running, url)
    print(json.dumps(result))


def import_against_pgbench(
    running: service.Service, url: str, turns: int = TURNS, seconds: float = SECONDS, name: str = "import"
) -> dict[str, float]:
    """By a new account of this name."""
    key = running.make_key(name)
    account = psql(url, f"SELECT id FROM accounts_account WHERE name = '{name}'")
    requests = f"{running.url}/api/v1/orders"
    load.drive(requests, lambda client: imports(requests, key, client), clients=CLIENTS, seconds=2)
    script = PGBENCH.format(account=account).replace(":id", ID)
    pgbench(url, script, 2)
    rows = []
    for turn in range(turns):
        ours = load.drive(requests, lambda client: imports(requests, key, client), clients=CLIENTS, seconds=seconds)
        if set(ours.statuses) != {201}:
            raise SystemExit(f"Not every import was answered with 201: {dict(ours.statuses)}")
        theirs = pgbench(url, script, seconds)
        rows.append((ours.rate, theirs, ours.rate / theirs))
        print(f"turn {turn + 1}: import {ours.rate:8.0f}/s   pgbench {theirs:8.0f}/s   ratio {ours.rate / theirs:.3f}")
    return {
        "import_vs_pgbench": round(statistics.median(ratio for _, _, ratio in rows), 3),
        "imports_per_second": round(statistics.median(rate for rate, _, _ in rows)),
    }


def imports(url: str, key: str, client: int) -> Iterator[bytes]:
    """Different customers, two lines each."""
    chance = random.Random(client)
    for number in itertools.count():
        body = {
            "customer_name": "Amine Benali",
            "customer_phone": f"05{chance.randrange(50_000_000, 60_000_000)}",
            "customer_address": "12 rue Didouche Mourad",
            "customer_wilaya": "Alger",
            "customer_commune": "Bab Ezzouar",
            "total_amount": 4500.50,
            "shipping_fee": 400,
            "external_id": f"{uuid.uuid4()}",
            "items": [
                {"product_name": "Robe kabyle", "quantity": 2, "unit_price": "1800.25", "attributes": {"size": "M"}},
                {"product_name": "Foulard", "quantity": 1 + number % 3, "unit_price": 500},
            ],
        }
        yield load.request_bytes("POST", url, key, json.dumps(body).encode())


def list_when_it_grows(
    running: service.Service,
    url: str,
    few: int = 10_000,
    many: int = 1_000_000,
    seconds: float = 3,
    accounts: int = ACCOUNTS,
) -> dict[str, float]:
    keys = [running.make_key(f"list{number}") for number in range(accounts)]
    lists = f"{running.url}/api/v1/orders"
    requests = [load.request_bytes("GET", lists, key) for key in keys]

    def p50() -> float:
        psql(url, "VACUUM ANALYZE")
        rounds = [
            load.drive(lists, lambda client: itertools.cycle(requests), clients=1, seconds=seconds).p50
            for _ in range(TURNS)
        ]
        return statistics.median(rounds)

    psql(url, FILL.format(first=1, last=few, accounts=accounts))
    small = p50()
    for first in range(few + 1, many + 1, 99_000):
        psql(url, FILL.format(first=first, last=min(first + 98_999, many), accounts=accounts))
    large = p50()
    print(f"list p50: {small * 1000:.2f} ms at {few:,} orders, {large * 1000:.2f} ms at {many:,}")
    return {"list_1m_vs_10k": round(large / small, 3), "list_p50_ms": round(large * 1000, 2)}


def psql(url: str, sql: str) -> str:
    command: list[Any] = [PROGRAMS / "psql", url, "-XAtqc", sql]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def pgbench(url: str, script: str, seconds: float) -> float:
    """Transactions of this script a second, by `CLIENTS` clients."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        command = [str(PROGRAMS / "pgbench"), "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "1"]
        done = subprocess.run(
            [*command, "-T", str(int(seconds)), "-f", file.name, url], check=True, capture_output=True, text=True
        )
    return float(re.search(r"tps = ([0-9.]+)", done.stdout)[1])  # type: ignore[index]


if __name__ == "__main__":
    main()
