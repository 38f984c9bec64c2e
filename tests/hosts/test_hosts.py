"""With two webs, two workers and two beats, one of each is cut off and the other killed: nothing is lost, and only
what was under way then may be sent twice.

The check reads HTTP answers, what the receiver recorded, and the rows at the end.
"""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness.background import Background, eventually
from tests.harness.receivers import Connection, Receiver, answer
from tests.hosts.deployment import Deployment

from .traffic import Shop

pytestmark = pytest.mark.hosts

CLIENTS = 4
ALL, CANCELLED, STOCK = "/all", "/cancelled", "/stock"
SUBSCRIBED = {
    ALL: ["order.cancelled", "inventory.updated"],
    CANCELLED: ["order.cancelled"],
    STOCK: ["inventory.updated"],
}
# A deadline of 3 s, and the time to write the result: a worker that holds a claim for longer has gone.
SETTLED_SECONDS = 4.0
AWAY_SECONDS = 7.0  # longer than connections survive
PATIENCE = 40.0
Claim = tuple[str, str]


class Event(NamedTuple):
    kind: str
    body: str


class Delivery(NamedTuple):
    event: str
    path: str


class Watch:
    """Watches a deployment while its hosts come and go."""

    def __init__(self, deployment: Deployment, shop: Shop, receiver: Receiver, quiet_account: str) -> None:
        self.deployment, self.shop, self.receiver, self.quiet_account = deployment, shop, receiver, quiet_account
        self.in_flight: set[str] = set()
        """The deliveries that were under way when a worker was cut off or killed. Only these may arrive twice."""

    def claims(self) -> set[Claim]:
        held = self.deployment.rows("SELECT delivery_id::text, token::text FROM webhooks_claim WHERE until > now()")
        return {(id_, token) for id_, token in held}

    def has_lost_a_worker(self) -> None:
        """Record what the worker had under way, and make its claims run out."""
        held = self.claims()
        self.in_flight |= {id_ for id_, _ in held}
        self.end_claims(held)

    def end_claims(self, held: set[Claim]) -> None:
        time.sleep(SETTLED_SECONDS)
        orphans = [list(column) for column in zip(*(held & self.claims()), strict=True)] or [[], []]
        self.deployment.rows(
            "UPDATE webhooks_claim SET until = now() - interval '1 second'"
            " WHERE (delivery_id, token) IN (SELECT * FROM unnest(%s::uuid[], %s::uuid[]))",
            *orphans,
        )

    def goes_on(self) -> None:
        """Wait until requests are answered and new deliveries arrive."""
        answered = self.shop.steps
        arrived = {request.delivery for request in list(self.receiver.requests)}
        eventually(lambda: self.shop.steps > answered + 50, PATIENCE)
        eventually(lambda: len({r.delivery for r in list(self.receiver.requests)} - arrived) > 50, PATIENCE)

    def beat_goes_on(self) -> None:
        """Wait until counts that sum up to nothing are folded away, which only beat asks for."""
        self.deployment.rows(
            "INSERT INTO orders_ordercount (account_id, status, delta)"
            " SELECT %s, 'confirmed', CASE WHEN n %% 2 = 0 THEN 1 ELSE -1 END FROM generate_series(1, 200) n",
            self.quiet_account,
        )
        folded = "SELECT count(*) FROM orders_ordercount WHERE account_id = %s"
        eventually(lambda: self.deployment.one(folded, self.quiet_account) == 0, PATIENCE)

    def is_drained(self) -> bool:
        return self.deployment.one("SELECT count(*) FROM webhooks_delivery WHERE status = 'pending'") == 0


async def as_receivers_do(connection: Connection) -> None:
    """Answer after a while, so that something is always under way."""
    await asyncio.sleep(random.choice([0.01, 0.05, 0.3]))
    await answer()(connection)


def set_up(deployment: Deployment, folder: Path) -> tuple[Shop, str]:
    """Make a merchant with products, whose shop is returned with the id of another account, where nothing happens."""
    deployment.manage("manage.py", "create_account", "Alice", "--email", "a@example.dz", "--rate-limit", "1000000")
    deployment.manage("manage.py", "create_account", "Quiet", "--email", "quiet@example.dz")
    key = deployment.manage("manage.py", "create_api_key", "--account", "a@example.dz")
    catalog = folder / "products.csv"
    catalog.write_text("sku,name,price\n" + "".join(f"SKU-{number},Product,10\n" for number in range(20)))
    deployment.manage("manage.py", "import_products", str(catalog), "--account", "a@example.dz")
    webs = [deployment[name].address() for name, role in deployment.roles.items() if role == "web"]
    quiet = deployment.one("SELECT id FROM accounts_account WHERE name = 'Quiet'")
    return Shop(webs, key), quiet


@pytest.fixture
def receiver(deployment: Deployment) -> Iterator[Receiver]:
    listening = Receiver(default=as_receivers_do, address=(deployment.receiver.address("internet"), 8080))
    with contextlib.ExitStack() as stack:
        with deployment.receiver.inside():
            stack.enter_context(listening)
        yield listening


def test_hosts_are_cut_off_and_killed_and_nothing_is_lost_or_sent_twice(
    deployment: Deployment, receiver: Receiver, tmp_path: Path
) -> None:
    shop, quiet_account = set_up(deployment, tmp_path)
    for name in ("web1", "web2"):
        eventually(lambda name=name: deployment.is_ready(name, shop), PATIENCE)
    web = deployment["web1"].address()
    with deployment.client.inside():
        for path, kinds in SUBSCRIBED.items():
            status, body = shop.request(web, "POST", "/api/v1/webhooks", {"url": receiver.url(path), "events": kinds})
            assert status == 201, body
        clients = [Background(lambda number=number: shop.work(number)) for number in range(CLIENTS)]
    watch = Watch(deployment, shop, receiver, quiet_account)

    watch.goes_on()

    first, second = ("web1", "worker1", "beat1"), ("web2", "worker2", "beat2")
    for name in first:
        deployment[name].cut()
    watch.has_lost_a_worker()
    watch.goes_on()
    watch.beat_goes_on()
    for name in first:
        deployment[name].mend()
    eventually(lambda: deployment.is_ready("web1", shop), PATIENCE)

    for name in second:  # now the first ones, which were cut off before, are on their own
        deployment[name].kill()
    watch.has_lost_a_worker()
    watch.goes_on()
    watch.beat_goes_on()
    for name in second:
        deployment.start_role(name)
    eventually(lambda: deployment.is_ready("web2", shop), PATIENCE)

    for host in (deployment.database, deployment.redis):
        host.cut()
        time.sleep(AWAY_SECONDS)
        host.mend()
        watch.goes_on()

    shop.stop()
    for client in clients:
        client.result(60)
    watch.end_claims(watch.claims())  # claims that were committed by a worker that never heard of it
    eventually(watch.is_drained, PATIENCE)
    check(deployment, shop, receiver, watch.in_flight)


def check(deployment: Deployment, shop: Shop, receiver: Receiver, in_flight: set[str]) -> None:
    assert shop.surprises == []
    assert all(shop.answers.values())  # each web answered some requests
    orders = check_orders(deployment, shop)
    movements = check_stock(deployment, shop)
    events = check_events(deployment, orders, movements)
    deliveries = check_deliveries(deployment, events)
    repeated = check_arrivals(receiver, events, deliveries)
    print(
        f"{len(orders)} orders, {movements} stock changes, {len(deliveries)} deliveries;"
        f" {len(in_flight)} in flight at a cut or kill, {len(repeated)} of them arrived twice; answers {shop.answers}"
    )
    assert repeated <= in_flight


def check_orders(deployment: Deployment, shop: Shop) -> set[str]:
    """Every answered import is stored as it was answered, and no other: a retry finds the order of the first try."""
    rows = deployment.rows("SELECT id::text, status, total_amount::float FROM orders_order")
    assert {id_: total for id_, _, total in rows} == {id_: body["total_amount"] for id_, body in shop.imported.items()}
    orders = {id_ for id_, *_ in rows}
    assert {id_ for id_, status, _ in rows if status == "canceled"} == set(shop.cancelled) == orders
    changes = deployment.rows("SELECT order_id, to_status, count(*) FROM orders_statuschange GROUP BY 1, 2")
    assert {count for *_, count in changes} == {1}
    return orders


def check_stock(deployment: Deployment, shop: Shop) -> int:
    """Each product has a chain of movements, one for each answered change and for some of the unanswered."""
    movements = deployment.rows(
        "SELECT product_id, old_quantity, new_quantity FROM inventory_stockmovement ORDER BY id"
    )
    stock: dict[Any, int] = {}
    for product, old, new in movements:
        assert stock.get(product, old) == old
        stock[product] = new
    assert shop.stock_changes <= len(movements) <= shop.stock_changes + shop.stock_changes_unanswered
    return len(movements)


def check_events(deployment: Deployment, orders: set[str], movements: int) -> dict[str, Event]:
    """There is an event for each change."""
    rows = deployment.rows("SELECT id::text, kind, body FROM webhooks_event")
    events = {id_: Event(kind, body) for id_, kind, body in rows}
    cancelled = [json.loads(event.body)["data"]["id"] for event in events.values() if event.kind == "order.cancelled"]
    assert Counter(cancelled) == Counter(orders)
    kinds = Counter(event.kind for event in events.values())
    assert (kinds["order.created"], kinds["inventory.updated"]) == (len(orders), movements)
    return events


def check_deliveries(deployment: Deployment, events: dict[str, Event]) -> dict[str, Delivery]:
    """Each event has been delivered to each subscribed webhook."""
    rows = deployment.rows(
        "SELECT d.id::text, d.event_id::text, w.url, d.status FROM webhooks_delivery d"
        " JOIN webhooks_webhook w ON w.id = d.webhook_id"
    )
    deliveries = {id_: Delivery(event, "/" + url.rpartition("/")[2]) for id_, event, url, _ in rows}
    expected = [(id_, path) for id_, each in events.items() for path, kinds in SUBSCRIBED.items() if each.kind in kinds]
    assert Counter(deliveries.values()) == Counter(expected)
    assert {status for *_, status in rows} == {"delivered"}
    return deliveries


def check_arrivals(receiver: Receiver, events: dict[str, Event], deliveries: dict[str, Delivery]) -> set[str]:
    """Every delivery arrived as it was written. Returns those that arrived more than once."""
    seen = Counter(request.delivery for request in receiver.requests)
    assert set(seen) == set(deliveries)
    for request in receiver.requests:
        event, path = deliveries[request.delivery]
        assert (request.path, request.body.decode()) == (path, events[event].body)
    return {id_ for id_, count in seen.items() if count > 1}
