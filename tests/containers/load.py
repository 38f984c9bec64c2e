"""A shop's systems over HTTPS through the proxy: `python -m tests.containers.load RATE SECONDS AUTHORITY KEY`.

Sends about RATE requests a second for SECONDS: imports, the orders' cancellations and lists. Each is tried once. Prints
one line of JSON: the answers by status, the orders that were answered, the first failures, and times.
"""

import http.client
import json
import socket
import ssl
import sys
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

DOMAIN = "cod.localhost"  # of the service
PATIENCE = 30.0
BODY = {
    "customer_name": "Amine Benali",
    "customer_phone": "0550123456",
    "customer_address": "12 rue Didouche Mourad",
    "customer_wilaya": "16",
    "customer_commune": "Bab Ezzouar",
    "total_amount": 10,
    "shipping_fee": 1,
    "items": [{"product_name": "Robe", "quantity": 1, "unit_price": "10"}],
}


class Connection(http.client.HTTPSConnection):
    """A connection to this machine, by the name in the certificate."""

    def connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", 443), PATIENCE)
        self.sock = self._context.wrap_socket(plain, server_hostname=DOMAIN)  # type: ignore[attr-defined]


class Shop:
    def __init__(self, authority: str, key: str) -> None:
        self._context = ssl.create_default_context(cafile=authority)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._lock = threading.Lock()
        self.statuses: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.failures: list[Any] = []
        self.imported: list[str] = []
        self.cancelled: list[str] = []

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer's body, or None without an answer or if it was not 2xx."""
        began, status, answer = time.monotonic(), "", None
        connection = Connection(DOMAIN, context=self._context, timeout=PATIENCE)
        try:
            sent = json.dumps(body) if body is not None else None
            connection.request(method, path, sent, self._headers | headers)
            response = connection.getresponse()
            read = response.read()
            status = str(response.status)
            if response.status < 300:
                answer = json.loads(read or b"null") or {}
        except (OSError, http.client.HTTPException, ValueError) as error:
            status = type(error).__name__
        finally:
            connection.close()
        with self._lock:
            self.statuses[status] += 1
            self.seconds.append(time.monotonic() - began)
            if answer is None:
                self.failures.append([round(time.time(), 1), method, path[:40], status])
        return answer

    def buy(self) -> None:
        order = self.send("POST", "/api/v1/orders", BODY, **{"Idempotency-Key": str(uuid.uuid4())})
        if not order:
            return
        self.imported.append(order["id"])
        if self.send("POST", f"/api/v1/orders/{order['id']}/cancel") is not None:
            self.cancelled.append(order["id"])

    def look(self) -> None:
        self.send("GET", "/api/v1/orders?per_page=1")


def main(rate: float, seconds: float, authority: str, key: str) -> None:
    shop = Shop(authority, key)
    began = time.monotonic()
    steps = int(rate * seconds / 4)  # each has four requests: two for an order and two lists
    with ThreadPoolExecutor(128) as pool:
        for step in range(steps):
            time.sleep(max(0.0, began + 4 * step / rate - time.monotonic()))
            for work in (shop.buy, shop.look, shop.look):
                pool.submit(work)
    shop.seconds.sort()
    count = len(shop.seconds)
    said = {
        "requests": count,
        "failed": len(shop.failures),
        "statuses": shop.statuses,
        "median_ms": round(1000 * shop.seconds[count // 2]),
        "longest_ms": round(1000 * shop.seconds[-1]),
        "imported": shop.imported,
        "cancelled": shop.cancelled,
        "failures": shop.failures[:10],
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4])
