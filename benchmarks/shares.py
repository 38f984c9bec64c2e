"""Which part works how long: processor time of each kind of process, an import and a delivery.

    make bench-shares

The whole service as `make run` starts it. Processor time is what the kernel counts, so that others on the machine
change it less than they change rates.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path

from benchmarks import command_line, load, service
from benchmarks.deliveries import FILL, receiver
from benchmarks.orders import CLIENTS, imports, psql
from codservice.data_folder import database_url

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
    database = database_url(Path(running.environ["DATA_DIR"]))
    account = psql(database, "SELECT id FROM accounts_account")
    secret = running.manage(
        "shell", "-v0", "-c", "from webhooks import secrets; print(secrets.encrypt(secrets.make_secret()).hex())"
    )
    webhook = psql(
        database,
        "INSERT INTO webhooks_webhook (id, account_id, url, events, is_active, secret, secret_hint, is_failing,"
        f" created_at) VALUES (gen_random_uuid(), '{account}', '{receiver_url}', '{{order.confirmed}}', true,"
        f" '\\x{secret}', 'whsec_…', false, now()) RETURNING id",
    )
    body = json.dumps({"event": "order.confirmed", "timestamp": "2026-01-01T00:00:00Z", "data": {"n": "x" * 150}})
    psql(database, FILL.format(count=DELIVERIES, account=account, webhooks=f"'{webhook}'", number=1, body=body))
    before = worked()
    while psql(database, "SELECT count(*) FROM webhooks_delivery WHERE status = 'pending'") != "0":
        time.sleep(0.5)
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
