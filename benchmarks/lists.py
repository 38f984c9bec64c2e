"""How lists of orders stay as fast as they grow: any page, any filter, with exact totals.

    make bench-lists
    python -m benchmarks.lists --orders 1000000 --own 200000 --without-q

One client on one connection reads one account's orders, among many more of others, in turns. The p50 of the whole
request is compared with that of the first page. It needs 1.2 GB of disk for each million orders; rows and indexes take
0.9 of these at the end. The orders have no lines and were never moved; `growth` tells the size of real ones.
"""

import itertools
import json
import statistics

from benchmarks import command_line, load, service

FEW, OWN, ALL = 10_000, 2_000_000, 10_000_000
OTHERS = 8_000  # orders of each of the other accounts: fewer than are indexed for `q`
TURNS = 5
SECONDS = 2.0

# Order n. Names and places repeat as in a country, and every third telephone number does. Triggers are off,
# because they would note each order as changed; what they count is counted afterwards.
FILL = """
SET synchronous_commit = off;
SET session_replication_role = replica;
WITH made AS (
    INSERT INTO orders_order (id, account_id, status, version, customer_name, customer_phone, phone_e164,
        customer_address, customer_wilaya, wilaya_code, customer_commune, commune_code, total_amount, shipping_fee,
        notes, cancel_reason, external_id, created_at, updated_at)
    SELECT gen_random_uuid(), a.id, (ARRAY['pending_confirmation', 'confirmed', 'canceled', 'delivered'])[1 + n % 4], 1,
        (ARRAY['Amine', 'Nadia', 'Karim', 'Yasmine', 'Sofiane', 'Meriem', 'Walid', 'Lynda'])[1 + n % 8] || ' '
            || (ARRAY['Ben', 'Bou', 'Ait ', 'Had', 'Cher', 'Mez', 'Zer'])[1 + n % 7]
            || (ARRAY['ali', 'med', 'kaci', 'jadi', 'if', 'iane', 'rouk', 'nane', 'sadi'])[1 + n / 7 % 9],
        '05' || lpad((n / 3)::text, 8, '0'), '+2135' || lpad((n / 3)::text, 8, '0'),
        'Cité ' || n % 40000 || ' logements', lpad((1 + n % 58)::text, 2, '0'), lpad((1 + n % 58)::text, 2, '0'), '',
        NULL, 1000 + n % 9000, 400, '', '', 'X-' || n,
        now() - n * interval '10 seconds', now() - n * interval '10 seconds'
    FROM generate_series({first}, {last}) AS n
    JOIN (SELECT id, row_number() OVER (ORDER BY name) AS number FROM accounts_account WHERE name LIKE '{name}%'
        AND live_id IS NULL) AS a ON a.number = 1 + n % {accounts}
    RETURNING id, account_id, created_at
)
INSERT INTO orders_statuschange (account_id, order_id, to_status, at, actor, reason)
SELECT account_id, id, 'pending_confirmation', created_at, '', '' FROM made WHERE {accounts} = 1
"""
# The other merchants.
OTHER = """
from codservice.accounts.models import Account, User
people = User.objects.bulk_create(User(username=f"other{{n}}", email=f"other{{n}}@example.dz") for n in range({count}))
Account.objects.bulk_create(Account(name=f"other{{n}}", holder=person) for n, person in enumerate(people))
"""
# The indexes without constraints, which are built after all rows are written.
INDEXES = """
SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ('orders_order', 'orders_statuschange')
AND indexname NOT IN (SELECT conname FROM pg_constraint)
"""
# Beat does this too. Whatever it is summing up just now is not due for us.
SUM_UP = """
from orders import day_sums, tasks
while day_sums.due():
    tasks.sum_up_days()
"""
INDEX = """
import time
from orders import trigrams
from orders.models import Order, Searchable
def is_left(account_id):
    orders, through = Order.objects.filter(account_id=account_id), Searchable.objects.get(account_id=account_id).through
    return (orders.filter(created_at__gt=through) if through else orders).count() >= trigrams.STEP
for account_id in trigrams.due():
    while trigrams.index(account_id) or is_left(account_id):
        time.sleep(0.1)
trigrams.clean_pending_list()
"""
NO_INDEX = "INSERT INTO orders_searchable (account_id, through) SELECT id, '9999-01-01' FROM accounts_account"


def filters(running: service.Service, account: str) -> dict[str, str]:
    """The queries for the account's orders. One of these supplies the values to look for."""
    phone, number, day = running.sql(
        "SELECT customer_phone, external_id, created_at::date FROM orders_order"
        f" WHERE account_id = '{account}' ORDER BY id LIMIT 1"
    ).split("|")
    return {
        "none": "",
        "status": "status=confirmed",
        "phone": f"phone={phone}",
        "external_id": f"external_id={number}",
        "wilaya": "wilaya=31",
        "a day": f"created_from={day}&created_to={day}",
        "wilaya and status": "wilaya=31&status=confirmed,delivered",
        "a day and wilaya": f"created_from={day}&created_to={day}&wilaya=31",
        "q of a telephone": f"q={phone[-6:]}",
        "q of an address": "q=Cit%C3%A9+3999+",
        "q of a name": "q=nadia+benmed",
        "q of all of them": "q=logements",
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--orders", type=int, default=ALL, help=f"of all accounts (default: {ALL})")
    parser.add_argument("--own", type=int, default=OWN, help=f"of them the account's (default: {OWN})")
    parser.add_argument("--without-q", action="store_true", help="spares its index, which takes some minutes")
    options = parser.parse_args()
    with service.running(LOG_LEVEL="WARNING") as running:
        few, many = running.merchants("few", "many")
        fill(running, options.own, options.orders - options.own, with_q=not options.without_q)
        asked = filters(running, many.id)
        if options.without_q:
            asked = {name: query for name, query in asked.items() if not query.startswith("q=")}
        last = options.own // 15
        pages = {"none": "", **{f"page {page}": f"page={page}" for page in (2, last // 4, last // 2, last)}}
        first = p50(running, {"few": few.key, "many": many.key})
        growth = round(first["many"] / first["few"], 3)
        result = {"list_many_vs_few": growth, "list_p50_ms": round(first["many"] * 1000, 2)}
        result["slowest_page"] = slowest(p50(running, dict.fromkeys(pages, many.key), pages))
        result["slowest_filter"] = slowest(p50(running, dict.fromkeys(asked, many.key), asked))
    print(json.dumps(result))


def fill(running: service.Service, own: int, others: int, *, with_q: bool) -> None:
    """Write the orders of `few`, of `many` (`own` orders) and of `others`, and all that workers make of them."""
    accounts = max(others // OTHERS, 1)
    running.shell(OTHER.format(count=accounts))
    if not with_q:
        running.sql(NO_INDEX)
    indexes = [line.split("|", 1) for line in running.sql(INDEXES).splitlines()]
    running.sql(f"DROP INDEX {', '.join(name for name, _ in indexes)}")
    running.write(FILL, FEW, name="few", accounts=1)
    running.write(FILL, own, name="many", accounts=1)
    running.write(FILL, others, name="other", accounts=accounts)
    for name, definition in indexes:
        running.sql(f"SET maintenance_work_mem = '1GB'; {definition}")
        print(f"  {name}", flush=True)
    running.python("manage.py", "recount_orders")
    running.sql("VACUUM ANALYZE")
    running.shell(SUM_UP)
    if with_q:
        running.shell(INDEX)
    running.sql("VACUUM ANALYZE")


def p50(running: service.Service, keys: dict[str, str], queries: dict[str, str] | None = None) -> dict[str, float]:
    """The p50 in seconds for each name in `keys`, which take turns."""
    rounds: dict[str, list[float]] = {name: [] for name in keys}
    for _ in range(TURNS):
        for name, key in keys.items():
            query = (queries or {}).get(name, "")
            request = load.request_bytes("GET", f"{running.orders}{query and '?'}{query}", key)
            requests = itertools.repeat(request)
            done = load.drive(running.url, lambda client, requests=requests: requests, clients=1, seconds=SECONDS)
            rounds[name].append(done.p50)
    return {name: statistics.median(each) for name, each in rounds.items()}


def slowest(seconds: dict[str, float]) -> float:
    """The time of the slowest query, as a multiple of the first page's."""
    times = {name: each / seconds["none"] for name, each in seconds.items()}
    for name, each in seconds.items():
        print(f"  {name:20} {each * 1000:9.2f} ms  {times[name]:7.2f} times the first page", flush=True)
    return round(max(times.values()), 2)


if __name__ == "__main__":
    main()
