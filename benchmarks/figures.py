"""How long pages of figures take at 1 000 000 orders of one account: the merchant's home, and the supervisors' figures.

    make bench-figures
    python -m benchmarks.figures --orders 100000 --days 90

There is a year of orders, evenly spread over the days, each with a line of one of 300 products, two calls by one of
forty agents and its moves: 500 000 calls in 92 days. The days are summed up as in production. Then each page is read
with Django's test client, so without the web server, by each division and over 7, 30 and 92 days, in turns.
"""

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from benchmarks import command_line, service
from benchmarks.load import percentile

ORDERS = 1_000_000
DAYS = 365
AGENTS = 40
ROUNDS = 5
# Indexes that these pages do not read, and that would take most of the time of filling.
SPARED = "DROP INDEX order_by_folded_name, order_by_address, order_by_phone, order_by_phone_end, order_list_by_update"
# Orders are pending for at most two days. Older ones are decided and, unless canceled, have moved on with time.
FILL = """
SET session_replication_role = replica; SET synchronous_commit = off;
CREATE TEMP TABLE made AS
SELECT uuidv7(shift) AS id, n, shift, now() + shift AS at,
    CASE WHEN n > {count} * (1 - 2.0 / {days}) AND n % 5 < 2 THEN 0 ELSE 2 + n * 7919::bigint % 98 END AS fate,
    900 + n % 9000 AS total, u.id AS agent_id
FROM generate_series({first}, {last}) AS n
CROSS JOIN LATERAL (SELECT (n / {count}.0 - 1) * interval '{days} days' AS shift) s
JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS number FROM accounts_user WHERE is_staff) u
    ON u.number = n / 7 % {agents};
INSERT INTO orders_order (id, account_id, status, version, customer_name, customer_phone, phone_e164, customer_address,
    customer_wilaya, wilaya_code, customer_commune, commune_code, total_amount, shipping_fee, notes, cancel_reason,
    call_state, call_due_at, call_attempts, source, created_at, updated_at)
SELECT id, '{account}', CASE WHEN fate < 2 THEN 'pending_confirmation' WHEN fate < 30 THEN 'canceled'
        WHEN fate < 85 THEN 'delivered' ELSE 'returned' END,
    1, 'Customer', '0550123456', '+213550123456', 'Cité 5 juillet', '16', lpad((1 + n % 58)::text, 2, '0'), '', NULL,
    total, 400, '', '', 'new', at, 0, 'source ' || n % 9, at, at
FROM made;
INSERT INTO orders_orderitem (id, account_id, order_id, position, product_id, product_name, sku, quantity, unit_price,
    attributes)
SELECT uuidv7(shift), '{account}', made.id, 0, p.id, p.name, p.sku, 1 + n % 3, 1500, '{{}}'
FROM made JOIN inventory_product p ON p.account_id = '{account}' AND p.sku = 'SKU-' || made.n % 300;
INSERT INTO orders_callnote (id, account_id, order_id, outcome, note, agent_id, agent_name, created_at)
SELECT uuidv7(called_at - now()), '{account}', id, outcome, '', agent_id, 'Agent', called_at
FROM made CROSS JOIN LATERAL (VALUES
    (at + n % 200 * interval '1 minute', 'no_answer'),
    (at + (n % 200 + 90) * interval '1 minute',
        CASE WHEN fate < 2 AND n % 10 = 0 THEN 'wrong_number' ELSE 'answered' END)
) AS call(called_at, outcome) WHERE called_at < now();
INSERT INTO orders_statuschange (account_id, order_id, from_status, to_status, at, user_id, actor, reason)
SELECT '{account}', id, came, status, made.at + later,
    CASE WHEN came = 'pending_confirmation' THEN agent_id END, 'somebody',
    CASE WHEN status = 'canceled' THEN 'Reason ' || n % 7 ELSE '' END
FROM made CROSS JOIN LATERAL (VALUES
    (NULL, 'pending_confirmation', interval '0', true),
    ('pending_confirmation', 'canceled', interval '5 hours', fate BETWEEN 2 AND 29),
    ('pending_confirmation', 'confirmed', interval '5 hours', fate >= 30),
    ('confirmed', 'shipped', interval '20 hours', fate >= 30),
    ('shipped', 'delivered', interval '70 hours', fate BETWEEN 30 AND 84),
    ('shipped', 'returned', interval '90 hours', fate >= 85)
) AS move(came, status, later, happens) WHERE happens AND made.at + later < now()
ORDER BY made.at + later;
DROP TABLE made;
"""


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--orders", type=int, default=ORDERS, help=f"of the account (default: {ORDERS})")
    parser.add_argument("--days", type=int, default=DAYS, help=f"over which they came (default: {DAYS})")
    options = parser.parse_args()
    with service.with_django(LOG_LEVEL="WARNING") as storage:
        print(json.dumps(measure(options.orders, options.days, storage)))


def measure(orders: int, length: int, storage: service.Installation) -> dict[str, float]:
    from django.contrib.auth.models import Group

    from agents.supervision import summing
    from agents.supervision.figures import DIVISIONS
    from codservice.accounts.models import Account, User
    from inventory.models import Product
    from orders import day_sums, home_page

    holder = User.objects.create(username="home@example.dz", email="home@example.dz")
    agents = User.objects.bulk_create(User(username=f"agent{number}", is_staff=True) for number in range(AGENTS))
    agents[0].groups.add(Group.objects.get(name="Supervisors"))
    account = Account.objects.create(name="Home", holder=holder)
    Product.objects.bulk_create(
        Product(account=account, sku=f"SKU-{number}", name=f"Product {number}", price=1500, stock_quantity=number)
        for number in range(300)
    )
    storage.sql(SPARED)
    storage.write(FILL, orders, days=length, account=account.id, agents=AGENTS)
    storage.sql("VACUUM ANALYZE")
    summed = [timed(lambda: day_sums.sum_up(account.id)), timed(summing.sum_up)]
    storage.sql("VACUUM ANALYZE")
    home = ask("/account/", holder, home_page.DIVISIONS)
    figures = ask("/console/figures/", agents[0], DIVISIONS)
    return {
        **{f"home_{name}_ms": value for name, value in home.items()},
        **{f"figures_{name}_ms": value for name, value in figures.items()},
        "home_summed_up_seconds": summed[0],
        "figures_summed_up_seconds": summed[1],
    }


def timed(step: Callable[[], bool]) -> float:
    """How many seconds it takes to repeat `step` until nothing is left."""
    began = time.perf_counter()
    while step():
        pass
    return round(time.perf_counter() - began, 1)


def ask(page: str, person: Any, divisions: Iterable[str]) -> dict[str, int]:
    """Read the page by each division and over each length, in turns. Returns p50 and p95 in milliseconds."""
    from django.test import Client

    from codservice import days

    browser, today = Client(headers={"host": "localhost"}), days.today()
    browser.force_login(person)
    waits: dict[str, list[float]] = {}
    for _, by, count in itertools.product(range(ROUNDS + 1), divisions, (7, 30, 92)):
        began = time.perf_counter()
        answer = browser.get(f"{page}?by={by}&first={today - timedelta(days=count - 1)}&last={today}")
        waits.setdefault(f"{by} {count}", []).append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200
    for name, each in waits.items():
        print(f"  {page} {name:12} {statistics.median(each[1:]):6.0f} ms, at most {max(each[1:]):6.0f}")
    # Without the first of each, which fills caches, templates and prepared statements.
    every = [wait for each in waits.values() for wait in each[1:]]
    return {"p50": round(percentile(every, 0.5)), "p95": round(percentile(every, 0.95))}


if __name__ == "__main__":
    main()
