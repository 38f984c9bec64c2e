"""How fast deliveries are sent, and how little one receiver can disturb the others.

    make bench-deliveries
    make bench PARTS="deliveries shares"
    make bench-smoke    # a short look, at this and others

Everything is measured in one run on one machine, which the receivers share with the engine and the database. Things
that are compared take turns, and ratios are medians of the turns.
"""

import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import command_line, peers, processes, service
from benchmarks.load import percentile
from tests.harness.processes import CHECKOUT, free_port
from tests.webhooks.engine.certificates import Authority

MANY = 50_000
NAMES = 1_000
HEALTHY_WEBHOOKS = 18  # two more, a tenth of all, hang
TURNS = 3

FILL = """
WITH numbered AS (
    SELECT gen_random_uuid() AS id, n FROM generate_series(1, {count}) AS n
), event AS (
    INSERT INTO webhooks_event (id, account_id, kind, body, created_at)
    SELECT id, '{account}', 'order.confirmed', '{body}', now() FROM numbered
)
INSERT INTO webhooks_delivery
    (id, account_id, webhook_id, event_id, status, attempt_count, retries_left, next_attempt_at, created_at)
SELECT gen_random_uuid(), '{account}', (ARRAY[{webhooks}]::uuid[])[1 + n % {number}], id, 'pending', 0, 3, now(), now()
FROM numbered
"""


class Bench(service.Installation):
    """The database of a run, with an account for webhooks and deliveries."""

    def __init__(self, data_dir: Path, name: str = "bench", **settings: str) -> None:
        super().__init__(data_dir, WEBHOOK_ALLOW_PRIVATE="true", LOG_LEVEL="WARNING", **settings)
        self.account = self.merchant(name).id
        self.secret = self.shell("from webhooks import secrets; print(secrets.encrypt(secrets.make_secret()).hex())")

    def step(self, *arguments: str) -> dict[str, Any]:
        return json.loads(self.python("-m", "benchmarks.draining", *arguments))

    def webhooks(self, url: str, count: int) -> list[str]:
        """Make `count` webhooks, each with a path of its own."""
        return [self.webhook(f"{url}/{number}") for number in range(count)]

    def webhook(self, url: str) -> str:
        return self.sql(
            "INSERT INTO webhooks_webhook (id, account_id, url, events, is_active, secret, secret_hint, is_failing,"
            f" created_at) VALUES (gen_random_uuid(), '{self.account}', '{url}', '{{order.confirmed}}', true,"
            f" '\\x{self.secret}', 'whsec_…', false, now()) RETURNING id"
        )

    def fill(self, webhooks: list[str], count: int) -> None:
        """Replace all deliveries with `count` due ones, spread over the webhooks."""
        self.empty()
        self.add(webhooks, count)
        self.sql("UPDATE webhooks_webhook SET is_failing = false")
        for table in ("event", "delivery", "claim", "attempt", "webhook"):
            self.sql(f"VACUUM ANALYZE webhooks_{table}")
        self.sql("CHECKPOINT")

    def empty(self) -> None:
        self.sql("TRUNCATE webhooks_event, webhooks_delivery, webhooks_claim, webhooks_attempt")

    def add(self, webhooks: list[str], count: int) -> None:
        names = listed(webhooks)
        self.sql(FILL.format(count=count, account=self.account, webhooks=names, number=len(webhooks), body=BODY))

    def wait_until_done(self, webhooks: list[str]) -> None:
        pending = f"status = 'pending' AND webhook_id IN ({listed(webhooks)})"
        while self.sql(f"SELECT 1 FROM webhooks_delivery WHERE {pending} LIMIT 1"):
            time.sleep(0.3)

    def span(self, webhooks: list[str]) -> float:
        """The seconds from the start of these webhooks' first attempt to the end of their last one."""
        return float(
            self.sql(
                "SELECT extract(epoch FROM max(ended_at) - min(ended_at - milliseconds * interval '1 ms'))"
                " FROM webhooks_attempt a JOIN webhooks_delivery d ON d.id = a.delivery_id"
                f" WHERE d.webhook_id IN ({listed(webhooks)})"
            )
        )

    def transactions(self) -> int:
        return int(self.sql("SELECT pg_stat_clear_snapshot(), xact_commit FROM pg_stat_database WHERE datname ="
                            " current_database()").split("|")[1])  # fmt: skip


def listed(webhooks: list[str]) -> str:
    return ", ".join(f"'{webhook}'" for webhook in webhooks)


BODY = json.dumps({"event": "order.confirmed", "timestamp": "2026-11-21T02:43:51.565740Z", "data": {
    "id": "01a1fbfd-1c8d-77fb-aac0-31803f02af07", "status": "confirmed", "customer_name": "Amine Benali"}})  # fmt: skip


@contextmanager
def receiver(*options: str, scheme: str = "http") -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.receiver", str(port), *options],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield f"{scheme}://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    command_line(__doc__).parse_args()
    result: dict[str, Any] = {}
    with service.storage() as storage, receiver() as fast, receiver("hang") as hanging:
        bench = Bench(storage.data_dir)
        healthy, stuck = bench.webhooks(fast, HEALTHY_WEBHOOKS), bench.webhooks(hanging, 2)
        result |= against_bare_client(bench, healthy, fast)
        result |= over_names(bench, fast)
        result |= over_https(storage.data_dir)
        result |= by_two(bench, healthy)
        result |= against_peers(bench, fast, result["deliveries_per_second"])
        result |= beside_hanging(bench, healthy, stuck)
        result |= neighbour(bench, stuck[0])
        bench.fill(healthy, 200_000)
        result["worker_rss_mb"] = round(bench.step("drain")["rss_mb"])
        print(f"worker with 200 000 due rows: {result['worker_rss_mb']} MB at its peak")
    result |= killed() | arrival()
    print(json.dumps(result))


def against_bare_client(
    bench: Bench, webhooks: list[str], url: str, many: int = MANY, turns: int = TURNS
) -> dict[str, float]:
    rates, ratios, statements = [], [], []
    for turn in range(turns):
        bare = bench.step("bare", str(many), url, str(len(webhooks)), BODY)["rate"]
        bench.fill(webhooks, many)
        before = bench.transactions()
        bench.step("drain")
        time.sleep(1.5)  # PostgreSQL's counters come a second late
        statements.append((bench.transactions() - before) / many)
        rate = many / bench.span(webhooks)
        assert bench.sql("SELECT count(*) FROM webhooks_delivery WHERE status = 'delivered'") == str(many)
        rates.append(rate)
        ratios.append(rate / bare)
        print(f"turn {turn + 1}: drained {rate:6.0f}/s   bare client {bare:6.0f}/s   ratio {ratios[-1]:.2f}")
    return {
        "vs_bare_client": round(statistics.median(ratios), 3),
        "deliveries_per_second": round(statistics.median(rates)),
        "statements_per_delivery": round(statistics.median(statements), 4),
    }


def over_names(bench: Bench, url: str) -> dict[str, float]:
    """A thousand webhooks on a thousand names, which are looked up. Most posts need a new connection."""
    url = url.replace("127.0.0.1", "shop{}.bench")
    webhooks = [bench.webhook(url.format(number)) for number in range(NAMES)]
    return {"names_vs_bare_client": against_bare_client(bench, webhooks, url)["vs_bare_client"]}


def over_https(data_dir: Path) -> dict[str, float]:
    """Deliveries to one host by HTTPS, over connections that are kept."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        certificate = authority.certified("127.0.0.1")
        bench = Bench(data_dir, "secure", WEBHOOK_CA_FILE=str(authority.file))
        with receiver("tls", str(certificate), scheme="https") as url:
            webhooks = bench.webhooks(url, HEALTHY_WEBHOOKS)
            return {"https_vs_bare_client": against_bare_client(bench, webhooks, url)["vs_bare_client"]}


def by_two(bench: Bench, webhooks: list[str]) -> dict[str, float]:
    """What two workers send compared with one, on this machine's processors."""
    ratios = []
    for turn in range(TURNS):
        rates = []
        for workers in (1, 2):
            bench.fill(webhooks, MANY)
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(lambda _: bench.step("drain"), range(workers)))
            rates.append(MANY / bench.span(webhooks))
        ratios.append(rates[1] / rates[0])
        print(f"turn {turn + 1}: one worker {rates[0]:6.0f}/s, two {rates[1]:6.0f}/s: {ratios[-1]:.2f}")
    return {"two_workers_vs_one": round(statistics.median(ratios), 3)}


def against_peers(bench: Bench, url: str, ours: float) -> dict[str, float]:
    each = peers.celery_task_each(bench, url)
    package = peers.django_webhook(bench, url)
    print(f"one Celery task per delivery, tuned: {each:.0f}/s   django-webhook: {package:.0f}/s")
    return {"vs_celery_task_each": round(ours / each, 1), "vs_django_webhook": round(ours / package, 1)}


def beside_hanging(bench: Bench, healthy: list[str], stuck: list[str]) -> dict[str, float]:
    """The part of their rate that healthy webhooks keep while a tenth of all deliveries goes to hanging receivers."""
    ratios = []
    for turn in range(TURNS):
        rates = []
        for webhooks in (healthy, healthy + stuck):
            bench.fill(webhooks, MANY * len(webhooks) // 20)
            draining = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "benchmarks.draining", "drain"],
                cwd=CHECKOUT,
                env=bench.environ,
                stdout=subprocess.DEVNULL,
            )
            bench.wait_until_done(healthy)
            rates.append(MANY * len(healthy) / 20 / bench.span(healthy))
            draining.kill()
            draining.wait()
        ratios.append(rates[1] / rates[0])
        print(f"turn {turn + 1}: healthy {rates[0]:6.0f}/s, beside hanging ones {rates[1]:6.0f}/s: {ratios[-1]:.2f}")
    return {"hanging_kept": round(statistics.median(ratios), 3)}


def neighbour(bench: Bench, stuck: str) -> dict[str, float]:
    """The p99 of a quiet webhook's arrivals, alone and beside another one with 10 000 hanging deliveries."""
    growths = []
    for turn in range(TURNS):
        p99 = []
        for hanging in (0, 10_000):
            with tempfile.NamedTemporaryFile() as file:
                with receiver(file.name) as url:
                    webhook = bench.webhook(url)
                    bench.fill([stuck], hanging)
                    bench.step("neighbour", webhook, "8", BODY)
                p99.append(percentile(arrivals(bench, webhook, file.name), 0.99))
        growths.append(p99[1] / p99[0])
        print(f"turn {turn + 1}: neighbour's p99 {p99[0] * 1000:.0f} ms, beside 10 000 hanging {p99[1] * 1000:.0f} ms")
    return {"neighbour_p99_growth": round(statistics.median(growths), 3)}


def arrivals(installation: service.Installation, webhook: str, file: str) -> list[float]:
    """The seconds from writing each of the webhook's deliveries to its arrival at the receiver that wrote `file`."""
    rows = installation.sql(
        f"SELECT id, extract(epoch FROM created_at) FROM webhooks_delivery WHERE webhook_id = '{webhook}'"
    )
    written = dict(row.split("|") for row in rows.splitlines())
    arrived = dict(reversed(line.split()) for line in Path(file).read_text().splitlines())
    assert set(written) == set(arrived), (len(written), len(arrived))
    return [float(arrived[delivery]) - float(at) for delivery, at in written.items()]


def killed() -> dict[str, float]:
    """How long nothing arrives after the worker is killed during a drain, and how many deliveries arrive twice."""
    pauses, repeats = [], []
    for turn in range(TURNS):
        with tempfile.NamedTemporaryFile() as file:
            with service.running(WEBHOOK_ALLOW_PRIVATE="true") as running, receiver(file.name) as url:
                bench = Bench(running.data_dir)
                webhooks = bench.webhooks(url, HEALTHY_WEBHOOKS)
                bench.fill(webhooks, MANY)
                while bench.sql("SELECT count(*) < 1000 FROM webhooks_attempt") == "t":
                    time.sleep(0.05)
                (worker,) = processes.family(names="cod-worker")
                os.kill(worker, signal.SIGKILL)
                at = time.time()
                bench.wait_until_done(webhooks)
            lines = [line.split() for line in Path(file.name).read_text().splitlines()]
        arrived = [at, *(float(time_) for time_, _ in lines if float(time_) > at)]
        pauses.append(max(after - before for before, after in itertools.pairwise(arrived)))
        repeats.append(len(lines) - len({delivery for _, delivery in lines}))
        assert len(lines) - repeats[-1] == MANY
        print(
            f"turn {turn + 1}: nothing arrived for {pauses[-1]:.1f} s after the worker was killed, {repeats[-1]} twice"
        )
    return {"killed_pause_seconds": round(statistics.median(pauses), 1), "killed_repeats": max(repeats)}


def arrival() -> dict[str, float]:
    """The time from a cancellation over the API to the webhook's arrival, on a service that does nothing else.

    It begins when the order's row is locked (`order.now`): the delivery's row has this time.
    """
    count = 300
    with tempfile.NamedTemporaryFile() as file, service.running(WEBHOOK_ALLOW_PRIVATE="true") as running:
        session, api = running.session(running.merchant("arrival").key), running.api
        with receiver(file.name) as url:
            answer = session.post(f"{api}/webhooks", json={"url": f"{url}/hook", "events": ["order.cancelled"]})
            assert answer.status_code == 201, answer.text
            for _ in range(count):
                order = session.post(f"{api}/orders", json=ORDER).json()["id"]
                time.sleep(0.02)
                assert session.post(f"{api}/orders/{order}/cancel").status_code == 200
                time.sleep(0.02)
            time.sleep(1)
        waits = arrivals(running, answer.json()["data"]["id"], file.name)
    assert len(waits) == count
    p50, p99 = percentile(waits, 0.5) * 1000, percentile(waits, 0.99) * 1000
    print(f"arrival after the change: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    return {"arrival_p50_ms": round(p50, 1), "arrival_p99_ms": round(p99, 1)}


ORDER = {
    "customer_name": "Amine Benali",
    "customer_phone": "0550123456",
    "customer_address": "12 rue Didouche Mourad",
    "customer_wilaya": "16",
    "total_amount": 4900,
    "items": [{"product_name": "Robe", "quantity": 1, "unit_price": 4500}],
}


if __name__ == "__main__":
    main()
