"""How steady the service is: a shop's mix of calls at half the rate that it can take, for ten minutes.

    make bench-mix
    python -m benchmarks.mix --minutes 1

Of a hundred calls seventy read (a page of the list, an order, a page of the inventory), twenty import an order, five
cancel one, and five set the stock of a product, which a webhook is told. Each call has a planned time, whatever happens
to those before it, and is timed from then.
"""

import json
import random
from collections.abc import Iterator
from itertools import islice

from benchmarks import command_line, load, service
from benchmarks.calls import CATALOG
from benchmarks.deliveries import receiver
from benchmarks.lists import INDEX
from benchmarks.orders import bodies, imports
from benchmarks.processes import family, memory_mb

CLIENTS = 16
PEAK_SECONDS = 15.0
MINUTES = 10.0
READY = 20_000  # orders from the start
ANY = range(100, 600)  # errors are counted, and do not end the run


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"at half the rate (default: {MINUTES:g})")
    options = parser.parse_args()
    with receiver() as hook, service.running(WEBHOOK_ALLOW_PRIVATE="true", LOG_LEVEL="WARNING") as running:
        shop = Shop(running, hook)
        load.drive(running.url, shop.calls, clients=CLIENTS, seconds=3)
        peak = load.drive(running.url, shop.calls, clients=CLIENTS, seconds=PEAK_SECONDS).rate
        before = memory_mb(family(names="cod-"))
        seconds = options.minutes * 60
        done = load.drive(running.url, shop.calls, clients=CLIENTS, seconds=seconds, rate=peak / 2, expected=ANY)
        after = memory_mb(family(names="cod-"))
    print(f"  peak {peak:.0f}/s; at half of it: {dict(done.statuses)}")
    result = {
        "mix_p99_vs_p50": round(done.p99 / done.p50, 2),
        "mix_p50_ms": round(done.p50 * 1000, 2),
        "mix_p99_ms": round(done.p99 * 1000, 2),
        "mix_errors": sum(count for status, count in done.statuses.items() if status not in load.DONE),
        "mix_memory_growth": round(after / before, 3),
        "mix_calls_per_second": round(done.rate),
    }
    print(json.dumps(result))


class Shop:
    """An account with orders, products and a webhook."""

    def __init__(self, running: service.Service, hook: str) -> None:
        account, self.key = running.merchant("mix")
        self.api = running.api
        running.sql(CATALOG.format(account=account, count=1000))
        session = running.session(self.key)
        kinds = ["order.cancelled", "inventory.updated"]
        session.post(f"{self.api}/webhooks", json={"url": hook, "events": kinds}).raise_for_status()
        orders = list(islice(bodies(-1), READY))
        self.orders: list[str] = []
        for at in range(0, READY, 100):
            answer = session.post(f"{self.api}/orders/batch", json={"orders": orders[at : at + 100]})
            self.orders += [each["id"] for each in answer.json()["created"]]
        running.shell(INDEX)  # as workers do after an import
        running.sql("VACUUM ANALYZE")

    def calls(self, client: int) -> Iterator[bytes]:
        chance = random.Random(client)
        new = imports(f"{self.api}/orders", self.key, client)
        while True:
            match chance.choices(["list", "read", "stock", "import", "cancel", "set"], [30, 25, 15, 20, 5, 5])[0]:
                case "list":
                    yield self._call("GET", "/orders?status=pending_confirmation")
                case "read":
                    yield self._call("GET", f"/orders/{chance.choice(self.orders)}")
                case "stock":
                    yield self._call("GET", f"/inventory?per_page=50&page={chance.randrange(1, 21)}")
                case "import":
                    yield next(new)
                case "cancel":
                    yield self._call("POST", f"/orders/{chance.choice(self.orders)}/cancel")
                case "set":
                    entry = {"sku": f"SKU-{chance.randrange(1, 1001)}", "quantity": chance.randrange(1000)}
                    yield self._call("PUT", "/inventory", {"updates": [entry]})

    def _call(self, method: str, path: str, body: object = None) -> bytes:
        return load.request_bytes(method, self.api + path, self.key, json.dumps(body).encode() if body else b"")


if __name__ == "__main__":
    main()
