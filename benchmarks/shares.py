"""How long each part works: processor time of each kind of process for an import and a delivery.

    make bench-shares

The whole service runs as `make run` starts it. The kernel counts processor time, which others on the machine change
less than rates.
"""

import json

from benchmarks import command_line, service
from benchmarks.deliveries import Bench, receiver
from benchmarks.orders import importing
from benchmarks.processes import shares, worked

SECONDS = 15.0
DELIVERIES = 50_000


def main() -> None:
    command_line(__doc__).parse_args()
    with receiver() as url, service.running(WEBHOOK_ALLOW_PRIVATE="true") as running:
        result = {"import_ms": imports_cost(running), "delivery_ms": deliveries_cost(running, url)}
    print(json.dumps(result))


def imports_cost(running: service.Service) -> dict[str, float]:
    ask = importing(running.orders, running.merchant("shares").key)
    ask(2)
    before = worked()
    return shares(before, len(ask(SECONDS).latencies))


def deliveries_cost(running: service.Service, receiver_url: str) -> dict[str, float]:
    bench = Bench(running.data_dir)
    webhook = bench.webhook(receiver_url)
    bench.add([webhook], DELIVERIES)
    before = worked()
    bench.wait_until_done([webhook])
    return shares(before, DELIVERIES)


if __name__ == "__main__":
    main()
