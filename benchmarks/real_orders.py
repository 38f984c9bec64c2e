"""Sends a real shop's invoices through the API: every line becomes an order's line or is refused by a named field.

    python -m benchmarks.real_orders online_retail.csv [--clients 8]

The file is the UCI data set "Online Retail" (columns invoice_no, stock_code, description, quantity, invoice_date,
unit_price, customer_id). It has no Algerian customers, so `orders.demo` makes them from a fixed seed. An invoice is
sent as it is. If the answer names lines that cannot be used, these count as refused and the rest is sent again, as a
shop would do. An invoice of more than 100 lines is refused as a whole, and sent in parts. Then everything is read back
over the API and compared: lines, counts, totals to the centime.
"""

import csv
import json
import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

import django
import requests

django.setup()

from benchmarks import command_line, service  # noqa: E402
from orders import demo  # noqa: E402

MAX_ITEMS = 100


class Shop:
    """Sends carts, and records what became an order, what was refused, and why."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.headers = f"{url}/api/v1/orders", {"Authorization": f"Bearer {key}"}
        self.lock = threading.Lock()
        self.orders: dict[str, dict[str, Any]] = {}  # id → body that was sent
        self.refused: Counter[str] = Counter()  # field → lines
        self.requests: Counter[int] = Counter()  # status → requests

    def send(self, session: requests.Session, cart: dict[str, Any]) -> None:
        """Send a cart until each of its lines is in an order or refused."""
        waiting = [cart]
        while waiting:
            body = waiting.pop()
            body["total_amount"] = str(sum(line_total(item) for item in body["items"]))
            answer = session.post(self.url, json=body, headers=self.headers, timeout=30)
            with self.lock:
                self.requests[answer.status_code] += 1
                if answer.status_code == 201:
                    self.orders[answer.json()["id"]] = body
                    continue
            assert answer.status_code == 422, answer.text
            errors = answer.json()["errors"]
            waiting += self.mend(body, errors)

    def mend(self, body: dict[str, Any], errors: dict[str, list[str]]) -> list[dict[str, Any]]:
        """What to send instead of a refused cart: nothing, the cart without its bad lines, or its parts."""
        items = body["items"]
        if "items" in errors:
            parts = [items[start : start + MAX_ITEMS] for start in range(0, len(items), MAX_ITEMS)]
            number = body["external_id"]
            return [{**body, "external_id": f"{number}/{n}", "items": part} for n, part in enumerate(parts, start=1)]
        bad = {int(path.split(".")[1]): path.split(".")[2] for path in errors if path.startswith("items.")}
        unexplained = set(errors) - {path for path in errors if path.startswith("items.")} - {"total_amount"}
        assert bad, errors
        assert not unexplained, errors
        with self.lock:
            self.refused.update(bad.values())
        good = [item for position, item in enumerate(items) if position not in bad]
        return [{**body, "items": good}] if good else []


def line_total(item: dict[str, Any]) -> Decimal:
    return Decimal(item["unit_price"]) * int(item["quantity"])


def carts(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The invoices as carts, and the number of lines."""
    chance = Random(20101201)
    invoices: dict[str, dict[str, Any]] = {}
    lines = 0
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            lines += 1
            number = row["invoice_no"]
            if number not in invoices:
                invoices[number] = {**demo.customer(chance), "external_id": number, "items": []}
            item = {
                "quantity": int(row["quantity"]),
                "unit_price": row["unit_price"],
                "attributes": {"code": row["stock_code"]},
            }
            if row["description"].strip():
                item["product_name"] = row["description"]
            invoices[number]["items"].append(item)
    return list(invoices.values()), lines


def send_all(shop: Shop, waiting: list[dict[str, Any]], clients: int) -> None:
    def client(number: int) -> None:
        with requests.Session() as session:
            for cart in waiting[number::clients]:
                shop.send(session, cart)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))


def read_back(shop: Shop) -> tuple[int, int, Decimal]:
    """Read every order by list and detail, and compare it with what was sent. Returns orders, lines, sum of totals."""
    count = lines = 0
    total = Decimal(0)
    with requests.Session() as session:
        session.headers.update(shop.headers)
        page, last = 1, 1
        while page <= last:
            listed = json.loads(session.get(shop.url, params={"per_page": 100, "page": page}).text, parse_float=Decimal)
            last = listed["meta"]["last_page"]
            assert listed["meta"]["total"] == len(shop.orders), listed["meta"]
            for row in listed["data"]:
                order = json.loads(session.get(f"{shop.url}/{row['id']}").text, parse_float=Decimal)
                sent = shop.orders[row["id"]]
                assert order["total_amount"] == row["total_amount"] == Decimal(sent["total_amount"])
                assert [
                    (item["quantity"], item["unit_price"], item["attributes"]["code"]) for item in order["items"]
                ] == [
                    (item["quantity"], Decimal(item["unit_price"]), item["attributes"]["code"])
                    for item in sent["items"]
                ]
                assert sum(item["unit_price"] * item["quantity"] for item in order["items"]) == order["total_amount"]
                count, lines, total = count + 1, lines + len(order["items"]), total + order["total_amount"]
            page += 1
    return count, lines, total


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args()
    waiting, lines = carts(options.file)
    with service.running() as running:
        shop = Shop(running.url, running.merchant("retail").key)
        began = time.perf_counter()
        send_all(shop, waiting, options.clients)
        seconds = time.perf_counter() - began
        count, kept, total = read_back(shop)
        refused = sum(shop.refused.values())
        sent_total = sum(Decimal(body["total_amount"]) for body in shop.orders.values())
        assert kept + refused == lines, (kept, refused, lines)
        assert total == sent_total, (total, sent_total)
        result = {
            "invoices": len(waiting),
            "lines": lines,
            "orders": count,
            "lines_in_orders": kept,
            "lines_refused": dict(shop.refused),
            "requests": {str(status): number for status, number in sorted(shop.requests.items())},
            "total_amount": str(total),
            "seconds": round(seconds, 1),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
