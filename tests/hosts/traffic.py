"""A shop's systems that send through a load balancer: requests go to either web host until they are answered."""

import http.client
import json
import random
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from tests.factories import order_body

SECONDS = 5.0  # for one answer
PATIENCE = 40.0  # seconds until any host answers
AVOIDED = 2.0  # seconds that balancers avoid a host that has failed
RETRIED = (0, 409, 503)  # no answer, the first try is still being processed, come back later


class Shop:
    """A shop's systems, and a record of what they sent and were answered."""

    def __init__(self, webs: Sequence[str], key: str) -> None:
        self._webs, self._key = list(webs), key
        self._failed_at = dict.fromkeys(webs, -AVOIDED)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._orders = 0
        self.imported: dict[str, dict[str, Any]] = {}
        self.cancelled: list[str] = []
        self.stock_changes = 0
        self.stock_changes_unanswered = 0
        self.answers: dict[str, int] = dict.fromkeys(webs, 0)
        self.surprises: list[Any] = []

    @property
    def steps(self) -> int:
        return sum(self.answers.values())

    def stop(self) -> None:
        self._over.set()

    def request(self, web: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(web, 8000, timeout=SECONDS)
        # As the proxy in front of a web host sends them.
        sent = {"Host": "shop.example", "X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
        sent |= {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json", **headers}
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, sent)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None
        finally:
            connection.close()

    def until_answered(self, *args: Any, **headers: str) -> tuple[int, Any]:
        """The first answer that is not RETRIED. Counts the stock changes of requests without one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            web = self._choose()
            status, body = self.request(web, *args, **headers)
            if status not in RETRIED:
                with self._lock:
                    self.answers[web] += 1
                return status, body
            if status in (0, 503):
                self._failed_at[web] = time.monotonic()
            if args[0] == "PUT":
                with self._lock:
                    self.stock_changes_unanswered += len(args[2]["updates"])
            if time.monotonic() > deadline:
                raise TimeoutError(f"{args[:2]} was not answered for {PATIENCE} s, at last {status}")
            time.sleep(0.1)

    def _choose(self) -> str:
        good = [web for web in self._webs if time.monotonic() - self._failed_at[web] > AVOIDED]
        return random.choice(good or self._webs)

    def work(self, seed: int) -> None:
        """Import and cancel orders and set stock, until told to stop."""
        dice = random.Random(seed)
        while not self._over.is_set():
            if dice.random() < 0.5:
                self._import_and_cancel(dice)
            else:
                self._set_stock(dice)

    def _import_and_cancel(self, dice: random.Random) -> None:
        key = {"Idempotency-Key": str(uuid.UUID(int=dice.getrandbits(128), version=4))}
        with self._lock:
            self._orders += 1
            total = self._orders
        status, order = self.until_answered("POST", "/api/v1/orders", order_body(total_amount=total), **key)
        if not self._expect(status == 201, status, order):
            return
        with self._lock:
            self.imported[order["id"]] = order
        status, body = self.until_answered("POST", f"/api/v1/orders/{order['id']}/cancel")
        if self._expect(status == 200, status, body):
            with self._lock:
                self.cancelled.append(order["id"])

    def _set_stock(self, dice: random.Random) -> None:
        updates = [{"sku": f"SKU-{n}", "quantity": dice.randrange(1000)} for n in dice.sample(range(20), 2)]
        status, body = self.until_answered("PUT", "/api/v1/inventory", {"updates": updates})
        if self._expect(status == 200, status, body):
            with self._lock:
                self.stock_changes += len(body["updated"])

    def _expect(self, is_good: bool, status: int, body: Any) -> bool:
        if not is_good:
            self.surprises.append((status, body))
        return is_good
