"""How long an agent waits for the next customer, at 10 000 orders and at 1 000 000, when fifty work at once.

    make bench-desk
    python -m benchmarks.desk --orders 100000 --turns 1

Two services run side by side, one with each number of orders, a fifth of them pending: new ones, tries that are due and
not yet due, promised calls, orders for review, customers with several orders. They are measured in turns, so that a
machine whose speed drifts does so for both. Each of fifty agents, on a connection of their own, presses Next order and
reads the call screen (both are timed together), talks for some 20 seconds, notes that nobody answered, and so on.
Before that they only press Next order and read the screen, as fast as they can, and SQL deletes their claims. This is
where the processor time of all the service's processes is counted, because they do little else than screens.
"""

import http.client
import json
import random
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

import psycopg

from benchmarks import command_line, service
from benchmarks.lists import NO_INDEX, SUM_UP
from benchmarks.load import percentile
from benchmarks.processes import shares_of_service, worked

AGENTS = 50
ACCOUNTS = 50
SMALL, LARGE = 10_000, 1_000_000
TURNS = 5
SECONDS = 60.0
TALKS = 20.0  # seconds, from half of it to one and a half
READS = 1.05  # seconds: an outcome of a screen's first second is refused
CSRF = "0123456789abcdefghijklmnopqrstuv"
# The tables that grow with the orders. There are only as many claims as agents, so reading them all is fine.
TABLES = ("orders_order", "orders_orderitem", "orders_callnote", "orders_statuschange")

PEOPLE = """
from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.sessions.backends.db import SessionStore
from codservice.accounts.models import Account, User
from inventory.models import Product
from tests.factories import open_always
open_always()
for number in range({accounts}):
    holder = User.objects.create(username=f"shop{{number}}@example.dz", email=f"shop{{number}}@example.dz")
    account = Account.objects.create(name=f"Shop {{number}}", holder=holder)
    Product.objects.bulk_create(
        Product(account=account, sku=f"SKU-{{n}}", name=f"Product {{n}}", price=1500, stock_quantity=n)
        for n in range(20)
    )
for number in range({agents}):
    agent = User.objects.create(username=f"agent{{number:02}}", first_name=f"Agent {{number}}", is_staff=True)
    agent.groups.add(Group.objects.get(name="Agents"))
    session = SessionStore()
    session["_auth_user_id"] = str(agent.pk)
    session["_auth_user_backend"] = settings.AUTHENTICATION_BACKENDS[0]
    session["_auth_user_hash"] = agent.get_session_auth_hash()
    session.save()
    print(session.session_key)
"""

# Order n of {count} belongs to one of 0.7 × orders customers, so that many have several. Every fifth is pending and
# recent. Calls come soon after their order, so that no day has more of them than a call center could make.
FILL = """
SET session_replication_role = replica; SET synchronous_commit = off;
CREATE TEMP TABLE made AS
SELECT gen_random_uuid() AS id, n, a.id AS account_id, n % 5 = 0 AS is_pending, n / 5 % 20 AS fate,
    (n * 7919::bigint) % ({count} * 7 / 10) AS customer, chance, u.id AS agent_id, now() - interval '10 minutes'
        - chance * CASE WHEN n % 5 = 0 THEN interval '3 days' ELSE interval '200 days' END AS created_at
FROM generate_series({first}, {last}) AS n
CROSS JOIN LATERAL (SELECT (n * 104729::bigint) % 1000003 / 1000003.0) AS c(chance)
JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS number FROM accounts_account) a ON a.number = n % {accounts}
JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS number FROM accounts_user WHERE is_staff) u
    ON u.number = n / 7 % {agents};
INSERT INTO orders_order (id, account_id, status, version, customer_name, customer_phone, phone_e164, customer_address,
    customer_wilaya, wilaya_code, customer_commune, commune_code, total_amount, shipping_fee, notes, cancel_reason,
    call_state, call_due_at, call_attempts, callback_agent_id, created_at, updated_at)
SELECT id, account_id,
    CASE WHEN is_pending THEN 'pending_confirmation'
        ELSE (ARRAY['confirmed', 'canceled', 'shipped', 'delivered', 'delivered', 'returned'])[1 + fate % 6] END,
    1, 'Customer ' || customer % 5000, '05' || lpad(customer::text, 8, '0'), '+2135' || lpad(customer::text, 8, '0'),
    'Cité ' || customer % 40000 || ' logements', '16', '16', 'Bab Ezzouar', '1621', 3400, 400,
    CASE WHEN fate < 4 THEN 'Appeler après 17 h' ELSE '' END, '',
    CASE WHEN fate < 8 THEN 'new' WHEN fate < 16 THEN 'retry' WHEN fate < 19 THEN 'callback' ELSE 'review' END,
    now() + CASE WHEN fate < 12 OR fate = 16 THEN -chance ELSE chance END * interval '2 days',
    CASE WHEN fate BETWEEN 8 AND 15 THEN 1 + n % 4 ELSE 0 END,
    CASE WHEN fate BETWEEN 16 AND 18 THEN agent_id END,
    created_at, created_at
FROM made;
INSERT INTO orders_orderitem (id, account_id, order_id, position, product_id, product_name, sku, quantity, unit_price,
    attributes)
SELECT gen_random_uuid(), made.account_id, made.id, position, p.id, p.name, p.sku, 1, 1500, '{{"taille": "M"}}'
FROM made CROSS JOIN generate_series(0, 1) AS position
JOIN inventory_product p ON p.account_id = made.account_id AND p.sku = 'SKU-' || ((made.n / 50 + position * 7) % 20);
INSERT INTO orders_statuschange (account_id, order_id, to_status, at, actor, reason)
SELECT account_id, id, 'pending_confirmation', created_at, 'API key shop', '' FROM made;
INSERT INTO orders_callnote (id, account_id, order_id, outcome, note, agent_id, agent_name, created_at)
SELECT gen_random_uuid(), account_id, id, 'no_answer', '', agent_id, 'Agent', created_at + call * interval '4 minutes'
FROM made CROSS JOIN generate_series(1, 2) AS call WHERE fate BETWEEN 8 AND 15;
DROP TABLE made;
"""


@dataclass
class Desk:
    """A service with `orders` orders, and its agents' sessions."""

    running: service.Service
    orders: int
    sessions: list[str]

    def __post_init__(self) -> None:
        self.connection = psycopg.connect(self.running.database, autocommit=True)  # shared by agents, one at a time

    def free(self, screen: str) -> None:
        self.connection.execute("DELETE FROM agents_claim WHERE id = %s", [screen.strip("/").split("/")[-1]])

    def read_whole(self) -> dict[str, int]:
        """How often each of TABLES has been read sequentially."""
        rows = self.running.sql("SELECT relname, seq_scan FROM pg_stat_user_tables").splitlines()
        return {name: int(count) for name, count in (row.split("|") for row in rows) if name in TABLES}


class Agent:
    """Presses Next order, reads the screen, talks, notes that nobody answered, and so on.

    Without talking (`talks` is 0) the claim is deleted instead, and the agent goes on at once.
    """

    def __init__(self, desk: Desk, session: str, talks: float) -> None:
        self.desk, self.talks = desk, talks
        address = urlsplit(desk.running.url)
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        self.headers = {"Cookie": f"sessionid={session}; csrftoken={CSRF}", "X-CSRFToken": CSRF}
        self.waits: list[float] = []
        self.served: list[str] = []

    def work(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        time.sleep(random.uniform(0, self.talks))  # people do not all begin in the same second
        while time.perf_counter() < end:
            began = time.perf_counter()
            status, screen, _ = self.ask("POST", "/console/desk/next/")
            assert status == 302, status
            assert screen != "/console/desk/", "nobody was due: there are too few orders"
            status, _, page = self.ask("GET", screen)
            assert status == 200, status
            self.waits.append(time.perf_counter() - began)
            self.served.append(screen)
            if self.talks:
                self.let_go(screen, page)
            else:
                self.desk.free(screen)

    def let_go(self, screen: str, page: str) -> None:
        seen = re.findall(r'name="seen" value="([^"]+)"', page)
        note_id = re.search(r'name="note_id" value="([^"]+)"', page)[1]
        form = [("seen", one) for one in seen] + [("order", seen[0].split(":")[0]), ("note_id", note_id)]
        form += [(name, re.search(rf'name="{name}" value="([^"]+)"', page)[1]) for name in ("shown_at", "seal")]
        form += [("outcome", "no_answer"), ("pause", "on")]
        self.connection.close()  # the service would close it meanwhile
        time.sleep(max(READS, self.talks * random.uniform(0.5, 1.5)))
        body = urlencode(form)
        status, to, _ = self.ask("POST", f"{screen}outcome/", body)
        assert (status, to) == (302, "/console/desk/"), (status, to)

    def ask(self, method: str, path: str, body: str = "") -> tuple[int, str, str]:
        headers = {**self.headers, **({"Content-Type": "application/x-www-form-urlencoded"} if body else {})}
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.headers.get("Location", ""), answer.read().decode()


def prepare(running: service.Service, orders: int) -> Desk:
    sessions = running.shell(PEOPLE.format(accounts=ACCOUNTS, agents=AGENTS)).split()
    # Keep workers from indexing so many orders for minutes, which no desk waits for.
    running.sql(NO_INDEX)
    running.write(FILL, orders, accounts=ACCOUNTS, agents=AGENTS)
    running.sql("VACUUM ANALYZE")
    running.shell(SUM_UP)
    return Desk(running, orders, sessions)


def work(desk: Desk, seconds: float = SECONDS, talks: float = TALKS) -> list[float]:
    """The waits of all agents in one turn, in seconds."""
    agents = [Agent(desk, session, talks) for session in desk.sessions]
    with ThreadPoolExecutor(AGENTS) as pool:
        list(pool.map(lambda agent: agent.work(seconds), agents))
    served = [screen for agent in agents for screen in agent.served]
    assert len(served) == len(set(served)), "two agents were served the same customer"
    return [wait for agent in agents for wait in agent.waits]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--orders", type=int, default=LARGE, help=f"of the larger service (default: {LARGE})")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of each service (default: {TURNS})")
    options = parser.parse_args()
    with service.running(LOG_LEVEL="WARNING") as first, service.running(LOG_LEVEL="WARNING") as second:
        small, large = prepare(first, SMALL), prepare(second, options.orders)
        costs = []
        for desk in (small, large):
            work(desk, 5, 0)  # caches and prepared statements
            so_far = worked()
            parts = shares_of_service(so_far, len(work(desk, 20, 0)))
            costs.append(sum(parts.values()))
            print(f"  processor time of a screen at {desk.orders} orders, ms: {parts}", flush=True)
        before = large.read_whole()
        rows: list[tuple[float, ...]] = []
        for turn in range(options.turns):
            few, many = work(small), work(large)
            p50s, p95s = ([percentile(waits, part) for waits in (few, many)] for part in (0.5, 0.95))
            rows.append((p50s[0], p95s[0], p50s[1], p95s[1], p95s[1] / p95s[0]))
            milliseconds = " ".join(f"{seconds * 1000:6.0f}" for seconds in rows[-1][:4])
            print(
                f"turn {turn + 1}: p50, p95 of the smaller and the larger, ms: {milliseconds}  ratio {rows[-1][4]:.3f}"
            )
        time.sleep(2)  # until the processes have reported what they read
        whole = {table: count - before[table] for table, count in large.read_whole().items() if count > before[table]}
    p50_ms, p95_ms = (round(statistics.median(row[column] for row in rows) * 1000) for column in (2, 3))
    ratio = round(statistics.median(row[4] for row in rows), 3)
    figures = {
        "desk_p95_1m_vs_10k": ratio,
        "p50_ms": p50_ms,
        "p95_ms": p95_ms,
        "screen_cpu_ms": round(costs[1], 1),
        "screen_cpu_1m_vs_10k": round(costs[1] / costs[0], 2),
    }
    print(json.dumps({**figures, "tables_read_whole": whole}))


if __name__ == "__main__":
    main()
