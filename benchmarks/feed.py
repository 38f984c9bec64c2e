"""What a page of the feed of events costs at 10 000 and at 10 000 000 events.

    make bench-feed
    python -m benchmarks.feed --events 1000000

Pages of 100 are read from all over the feed with Django's test client, so without the web server. Half of the events
are this account's, the rest belong to ten others.
"""

import json
import random
import statistics
import time

from benchmarks import command_line, service
from benchmarks.load import percentile

FEW, MANY = 10_000, 10_000_000
CHUNK = 1_000_000
OTHERS = 10
PAGES = 400
# Event n of {count}, evenly spread over the days. Each transaction wrote three.
FILL = """
SET session_replication_role = replica; SET synchronous_commit = off;
INSERT INTO webhooks_event (id, account_id, kind, body, created_at, position)
SELECT uuidv7(shift), CASE WHEN n % 2 = 0 THEN '{account}' ELSE others.id END,
    (ARRAY['order.created', 'order.confirmed', 'order.call_attempted', 'order.shipped', 'order.delivered'])[1 + n % 5],
    json_build_object('event', 'order.created', 'n', n, 'data', repeat('x', 400))::text, now() + shift, n / 3
FROM generate_series({first}, {last}) AS n
CROSS JOIN LATERAL (SELECT (n / {count}.0 - 1) * interval '29 days' AS shift) s
JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS number FROM accounts_account WHERE name LIKE 'Other%') others
    ON others.number = n / 2 % {others};
"""


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--events", type=int, default=MANY, help=f"at last (default: {MANY})")
    options = parser.parse_args()
    with service.with_django(LOG_LEVEL="WARNING") as storage:
        print(json.dumps(measure(options.events, storage)))


def measure(many: int, storage: service.Installation) -> dict[str, float]:
    merchant, *_ = storage.merchants("Feed", *(f"Other {number}" for number in range(OTHERS)))
    fill(storage, merchant.id, FEW)
    few = pages(*merchant)
    fill(storage, merchant.id, many)
    full = pages(*merchant)
    for total, each in ((FEW, few), (many, full)):
        print(f"  a page at {total:>10} events: {statistics.median(each):5.2f} ms, at most {max(each):5.2f}")
    return {
        "page_many_vs_few": round(statistics.median(full) / statistics.median(few), 3),
        "page_p50_ms": round(statistics.median(full), 2),
        "page_p95_ms": round(percentile(full, 0.95), 2),
    }


def fill(storage: service.Installation, account_id: str, total: int) -> None:
    """Replace all events with `total` new ones."""
    storage.sql("TRUNCATE webhooks_event CASCADE")
    storage.write(FILL, total, CHUNK, account=account_id, others=OTHERS)
    storage.sql("VACUUM ANALYZE webhooks_event")


def pages(account_id: str, key: str) -> list[float]:
    """The milliseconds of single pages, from places all over the feed."""
    from django.test import Client

    from webhooks.feed import MOST, Cursor, first_id
    from webhooks.models import Event

    client = Client(headers={"host": "localhost", "authorization": f"Bearer {key}"})
    chance, of_account = random.Random(1), Event.objects.filter(account=account_id)
    begins, ends = (of_account.order_by(order).values_list("created_at", flat=True)[0] for order in ("id", "-id"))
    waits = []
    for _ in range(PAGES + 50):
        at = begins + (ends - begins) * chance.random() * 0.9
        event = of_account.filter(id__gte=first_id(at)).order_by("id")[0]
        after = Cursor(event.position, event.id, event.created_at).sign(account_id)
        began = time.perf_counter()
        answer = client.get(f"/api/v1/events?limit={MOST}&after={after}")
        waits.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, answer.content
        assert len(answer.json()["data"]) == MOST
    return waits[50:]  # without the first ones, which fill caches and plans


if __name__ == "__main__":
    main()
