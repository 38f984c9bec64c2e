"""The whole service under load, its processes killed at random moments: every committed change is told of.

The checker reads HTTP answers, what the receiver has noted, and the rows that are left.
"""

import asyncio
import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from codservice import data_folder
from tests.factories import order_body
from tests.harness.background import PATIENCE, Background, eventually
from tests.harness.onebox import OneBox
from tests.harness.processes import descendants
from tests.harness.receivers import Connection, Receiver, answer
from webhooks.models import Event

SEED = int(os.environ.get("KILL_SEED", "20260117"))
STEPS = 200  # each an order that is imported and cancelled, or two products' new stock
CLIENTS = 4
KILLED = ["worker", "database", "web", "application", "broker", "worker"]
COMMANDS = {"database": "postgres -D", "broker": "valkey-server"}  # the others are forks that have a name
ALL, CANCELLED, STOCK = "/all", "/cancelled", "/stock"
SUBSCRIBED = {ALL: Event.Kind.values, CANCELLED: ["order.cancelled"], STOCK: ["inventory.updated"]}


class Merchant:
    """Sends requests until they are answered, as a shop would; notes the answers."""

    def __init__(self, service: OneBox, key: str) -> None:
        self.port, self.key = int(service.port), key
        self.cancelled: list[str] = []
        self.stock_changes = 0
        self.lock = threading.Lock()
        self.steps = 0

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **headers}
        try:
            connection.request(method, f"/api/v1/{path}", json.dumps(body) if body is not None else None, sent)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"null")
        finally:
            connection.close()

    def until_answered(self, *args: Any, **kwargs: str) -> tuple[int, Any]:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                status, body = self.request(*args, **kwargs)
            except (OSError, http.client.HTTPException):
                status, body = 0, None
            if status not in (0, 503):
                return status, body
            assert time.monotonic() < deadline, "the service did not come back"
            time.sleep(0.1)

    def work(self, seed: int, steps: int) -> None:
        dice = random.Random(seed)
        for _ in range(steps):
            if dice.random() < 0.5:
                key = {"Idempotency-Key": str(uuid.UUID(int=dice.getrandbits(128), version=4))}
                status, body = self.until_answered("POST", "orders", order_body(), **key)
                assert status == 201, body
                status, body = self.until_answered("POST", f"orders/{body['id']}/cancel")
                assert status in (200, 422), body  # 422: its first answer was lost
                self.cancelled.append(body["id"] if status == 200 else "")
            else:
                updates = [{"sku": f"SKU-{n}", "quantity": dice.randrange(1000)} for n in dice.sample(range(20), 2)]
                status, body = self.until_answered("PUT", "inventory", {"updates": updates})
                assert status == 200, body
                with self.lock:
                    self.stock_changes += len(body["updated"])
            with self.lock:
                self.steps += 1


@pytest.fixture
def service(tmp_path: Path) -> Iterator[OneBox]:
    running = OneBox(
        tmp_path / "data", tmp_path / "output", "codservice.onebox", [], sys.executable, WEBHOOK_ALLOW_PRIVATE="true"
    )
    try:
        yield running.wait_until_up()
    finally:
        below = descendants(running.popen.pid)
        try:
            running.stop()
        finally:
            running.popen.kill()
            running.popen.wait()
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def manage(service: OneBox, *arguments: str) -> str:
    environ = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env=environ | {"DATA_DIR": str(service.data)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


class Killer:
    """Kills processes of a service, and counts the attempts that were under way then."""

    def __init__(self, service: OneBox) -> None:
        self.service = service
        self.in_flight = 0
        self.did: list[tuple[str, int]] = []

    def kill(self, name: str) -> None:
        eventually(lambda: self._is_running(name))
        before = self._claims() if name == "database" else 0
        leader = self._find(name)
        for pid in [leader, *descendants(leader)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        under_way = before
        if name in ("worker", "application"):
            under_way = self._claims()
            # What was the dead one's is free when its lease ends: let that time pass.
            self.service.query("UPDATE webhooks_claim SET until = until - interval '31 seconds'")
        self.in_flight += under_way
        self.did.append((name, under_way))

    def _claims(self) -> int:
        try:
            return int(self.service.query("SELECT count(*) FROM webhooks_claim WHERE until > now()"))  # type: ignore[call-overload]
        except psycopg.Error:
            return 0

    def _is_running(self, name: str) -> bool:
        try:
            self._find(name)
            return self.service.query("SELECT 1") == 1
        except (StopIteration, OSError, psycopg.Error):
            return False

    def _find(self, name: str) -> int:
        """The process of this name, or of this command; StopIteration when there is none."""
        running = descendants(self.service.popen.pid)
        if name in COMMANDS:
            return next(pid for pid, command in running.items() if COMMANDS[name] in command)
        return next(pid for pid in running if _name(pid) == f"cod-{name}")


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def rows(service: OneBox, sql: str) -> list[Any]:
    with psycopg.connect(data_folder.database_url(service.data)) as connection:
        return connection.execute(sql).fetchall()


def test_every_committed_change_arrives_whatever_is_killed_when(service, tmp_path):
    print(f"KILL_SEED={SEED}")
    dice = random.Random(SEED)

    async def sometimes_slow(connection: Connection) -> None:
        await asyncio.sleep(dice.choice([0, 0, 0.02, 0.3]))
        await answer()(connection)

    manage(service, "create_account", "Alice", "--email", "alice@example.dz", "--rate-limit", "1000000")
    merchant = Merchant(service, manage(service, "create_api_key", "--account", "alice@example.dz"))
    catalog = tmp_path / "products.csv"
    catalog.write_text("sku,name,price\n" + "".join(f"SKU-{number},Product,10\n" for number in range(20)))
    manage(service, "import_products", str(catalog), "--account", "alice@example.dz")
    with Receiver(default=sometimes_slow) as receiver:
        for path, kinds in SUBSCRIBED.items():
            status, body = merchant.request("POST", "webhooks", {"url": receiver.url(path), "events": kinds})
            assert status == 201, body
        killer = Killer(service)
        clients = [
            Background(lambda number=number: merchant.work(SEED + number, STEPS // CLIENTS))
            for number in range(CLIENTS)
        ]
        moments = sorted(dice.sample(range(STEPS // 20, STEPS - STEPS // 10), len(KILLED)))
        for moment, name in zip(moments, KILLED, strict=True):
            eventually(lambda moment=moment: merchant.steps >= moment or any(each.is_over for each in clients))
            time.sleep(dice.random() * 0.05)
            killer.kill(name)
        for client in clients:
            client.result()
        assert merchant.steps == STEPS
        looked = 0

        def is_drained() -> bool:
            nonlocal looked
            try:
                looked += 1
                if looked % 40 == 0:  # a claim that was committed and never heard of
                    service.query("UPDATE webhooks_claim SET until = until - interval '31 seconds'")
                return service.query("SELECT count(*) FROM webhooks_delivery WHERE status = 'pending'") == 0
            except psycopg.Error:
                return False

        eventually(is_drained)
        check(service, merchant, receiver, killer)


def check(service: OneBox, merchant: Merchant, receiver: Receiver, killer: Killer) -> None:
    # No change without its event, no event without its change.
    canceled = {str(id_) for (id_,) in rows(service, "SELECT id FROM orders_order WHERE status = 'canceled'")}
    written = rows(service, "SELECT id, kind, body FROM webhooks_event")
    events = {str(id_): (kind, json.loads(body)) for id_, kind, body in written}
    told = Counter(body["data"]["id"] for kind, body in events.values() if kind == "order.cancelled")
    assert told == Counter(canceled)
    assert {id_ for id_ in merchant.cancelled if id_} <= canceled
    assert len(merchant.cancelled) == len(canceled)
    moves = rows(service, "SELECT count(*) FROM inventory_stockmovement")[0][0]
    assert sum(kind == "inventory.updated" for kind, _ in events.values()) == moves >= merchant.stock_changes
    # A delivery for each event and subscribed webhook.
    deliveries = {
        str(id_): (str(event), "/" + url.rpartition("/")[2], status)
        for id_, event, url, status in rows(
            service,
            "SELECT d.id, d.event_id, w.url, d.status FROM webhooks_delivery d"
            " JOIN webhooks_webhook w ON w.id = d.webhook_id",
        )
    }
    expected = {(id_, path) for id_, (kind, _) in events.items() for path, kinds in SUBSCRIBED.items() if kind in kinds}
    assert Counter((event, path) for event, path, _ in deliveries.values()) == Counter(expected)
    assert {status for *_, status in deliveries.values()} == {"delivered"}
    # Every one arrived, where it should and as it was written; a repeat is known by its id.
    seen: dict[str, list[Any]] = {}
    for request in receiver.requests:
        seen.setdefault(request.delivery, []).append(request)
    assert set(seen) == set(deliveries)
    for id_, requests in seen.items():
        event, path, _ = deliveries[id_]
        assert {request.path for request in requests} == {path}
        assert {json.dumps(json.loads(request.body)) for request in requests} == {json.dumps(events[event][1])}
        assert len({(request.body, request.headers["x-service-signature"]) for request in requests}) == 1
    repeats = len(receiver.requests) - len(deliveries)
    print(f"{len(events)} events, {len(deliveries)} deliveries, {repeats} repeats; killed (in flight): {killer.did}")
    assert repeats <= killer.in_flight
