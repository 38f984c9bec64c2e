"""How fast orders are imported and listed, against what PostgreSQL itself does with the same rows.

    make bench-orders

Everything is measured in one run on one machine: the load client, the service and its database share the processors.
The import and pgbench take turns, as do two services that list few and many orders, so that a machine whose speed
drifts does so for both. Ratios are medians of the turns.
"""

import itertools
import json
import random
import statistics
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import command_line, load, service
from benchmarks.lists import NO_INDEX
from benchmarks.postgresql import CLIENTS, pgbench

SECONDS = 8.0
TURNS = 5
SECONDS_OF_A_LIST = 3.0
ACCOUNTS = 50

# A random uuid, built as text because pgbench has no such variables.
ID = "(lpad(to_hex(:a::bigint), 8, '0') || '-0000-4000-8000-' || lpad(to_hex(:b::bigint), 12, '0'))::uuid"
# Writes the same rows as an import (order, two lines, first status change), prepared and in one commit.
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
        result = import_against_pgbench(running)
    print(json.dumps(result | list_when_it_grows()))


def import_against_pgbench(
    running: service.Service, turns: int = TURNS, seconds: float = SECONDS, name: str = "import"
) -> dict[str, float]:
    """Import orders in turns with pgbench, by a new account of this name."""
    merchant = running.merchant(name)
    script = PGBENCH.format(account=merchant.id).replace(":id", ID)
    rates = against_pgbench(running, importing(running.orders, merchant.key), script, turns, seconds)
    return {
        "import_vs_pgbench": round(statistics.median(ours / theirs for ours, theirs in rates), 3),
        "imports_per_second": round(statistics.median(ours for ours, _ in rates)),
    }


def against_pgbench(
    running: service.Service, ask: Callable[[float], load.Result], script: str, turns: int, seconds: float
) -> list[tuple[float, float]]:
    """Our rate and pgbench's, turn by turn, after one turn of each that does not count."""
    ask(2)
    pgbench(running.database, script, 2)
    rates = []
    for turn in range(turns):
        ours, theirs = ask(seconds).rate, pgbench(running.database, script, seconds)
        rates.append((ours, theirs))
        print(f"turn {turn + 1}: service {ours:8.0f}/s   pgbench {theirs:8.0f}/s   ratio {ours / theirs:.3f}")
    return rates


def importing(url: str, key: str) -> Callable[[float], load.Result]:
    """A function that imports with CLIENTS clients for some seconds."""
    return lambda seconds: load.drive(
        url, lambda client: imports(url, key, client), clients=CLIENTS, seconds=seconds, expected=(201,)
    )


def imports(url: str, key: str, client: int) -> Iterator[bytes]:
    """Requests that import the orders of `bodies`."""
    return (load.request_bytes("POST", url, key, json.dumps(body).encode()) for body in bodies(client))


def bodies(client: int) -> Iterator[dict[str, Any]]:
    """Orders of different customers, with two lines each."""
    chance = random.Random(client)
    for number in itertools.count():
        yield {
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


def list_when_it_grows(
    few: int = 10_000, many: int = 1_000_000, seconds: float = SECONDS_OF_A_LIST, accounts: int = ACCOUNTS
) -> dict[str, float]:
    """The first page of two services side by side, one with few orders and one with many."""
    with service.running() as small, service.running() as large:
        asked = {
            small: pages_of_all(small, few, accounts),
            large: pages_of_all(large, many, accounts),
        }
        turns = [
            [load.drive(running.orders, pages, clients=1, seconds=seconds).p50 for running, pages in asked.items()]
            for _ in range(TURNS)
        ]
    of_few, of_many = (statistics.median(column) * 1000 for column in zip(*turns, strict=True))
    print(f"list p50: {of_few:.2f} ms at {few:,} orders, {of_many:.2f} ms at {many:,}")
    growth = statistics.median(many_took / few_took for few_took, many_took in turns)
    return {"list_1m_vs_10k": round(growth, 3), "list_p50_ms": round(of_many, 2)}


def pages_of_all(running: service.Service, orders: int, accounts: int) -> Callable[[int], Iterator[bytes]]:
    """Write the orders of `accounts` accounts, and return requests for the first page of each account."""
    merchants = running.merchants(*(f"list{number}" for number in range(accounts)))
    running.sql(NO_INDEX)
    fill(running, orders, accounts)
    requests = [load.request_bytes("GET", running.orders, merchant.key) for merchant in merchants]
    return lambda client: itertools.cycle(requests)


def fill(running: service.Installation, orders: int, accounts: int) -> None:
    """Write orders of the accounts that are called `list…`."""
    running.write(FILL, orders, accounts=accounts)
    running.sql("VACUUM ANALYZE")


if __name__ == "__main__":
    main()
