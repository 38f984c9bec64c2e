"""Which part works how long: processor time of each kind of process, an import and a delivery.

    make bench-shares

The whole service as `make run` starts it. Processor time is what the kernel counts, so that others on the machine
change it less than they change rates.
"""

import json
import os
from collections import Counter
from pathlib import Path

from benchmarks import command_line, load, service
from benchmarks.deliveries import Bench, receiver, wait_until_done
from benchmarks.orders import CLIENTS, imports

SECONDS = 15.0
DELIVERIES = 50_000
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    command_line(__doc__).parse_args()
    with (
        receiver() as url,
        open(os.devnull, "w") as log,
        service.running(stderr=log, WEBHOOK_ALLOW_PRIVATE="true") as running,
    ):
        result = {"import_ms": imports_cost(running), "delivery_ms": deliveries_cost(running, url)}
    print(json.dumps(result))


def imports_cost(running: service.Service) -> dict[str, float]:
    key = running.make_key("shares")
    requests = f"{running.url}/api/v1/orders"
    load.drive(requests, lambda client: imports(requests, key, client), clients=CLIENTS, seconds=2)
    before = worked()
    done = load.drive(requests, lambda client: imports(requests, key, client), clients=CLIENTS, seconds=SECONDS)
    return shares(before, sum(done.statuses.values()))


def deliveries_cost(running: service.Service, receiver_url: str) -> dict[str, float]:
    bench = Bench(running.environ)
    webhook = bench.webhook(receiver_url)
    bench.add([webhook], DELIVERIES)
    before = worked()
    wait_until_done(bench, [webhook])
    return shares(before, DELIVERIES)


def worked() -> Counter[str]:
    """Seconds of processor time so far, of all processes below this one, by name."""
    seconds: Counter[str] = Counter()
    for pid in service.pids():
        try:
            _, name, rest = Path(f"/proc/{pid}/stat").read_text().replace(")", "(").split("(", 2)
        except (OSError, ValueError):
            continue
        fields = rest.split()
        seconds[name] += (int(fields[11]) + int(fields[12])) / TICKS
    return seconds


def shares(before: Counter[str], count: int) -> dict[str, float]:
    """Milliseconds each, of those that took any."""
    each = {name: (seconds - before[name]) / count * 1000 for name, seconds in worked().items()}
    return {name: round(ms, 3) for name, ms in sorted(each.items(), key=lambda item: -item[1]) if ms >= 0.001}


if __name__ == "__main__":
    main()
