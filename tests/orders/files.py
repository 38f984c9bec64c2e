"""Files of orders, and running `import_orders` on them."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codservice.accounts.models import Account
from orders.models import Order
from tests.harness.manage import printed

COLUMNS = ("external_id", "customer_name", "customer_phone", "customer_address", "customer_wilaya", "total_amount",
           "product_name", "quantity", "unit_price", "attributes", "product_id", "customer_phone_2", "delivery_type",
           "source", "customer_commune", "sku")  # fmt: skip


def row(**changes: str) -> dict[str, str]:
    return {
        "external_id": "A1",
        "customer_name": "Amine",
        "customer_phone": "0550123456",
        "customer_address": "rue 1",
        "customer_wilaya": "Alger",
        "total_amount": "100.50",
        "product_name": "Robe",
        "quantity": "2",
        "unit_price": "50.25",
        "attributes": "",
        "product_id": "",
        "customer_phone_2": "",
        "delivery_type": "",
        "source": "",
        "customer_commune": "",
        "sku": "",
        **changes,
    }


def write_csv(path: Path, rows: list[dict[str, str]], *, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def run(path: Path, account: Account, *options: str) -> tuple[dict[str, Any], int]:
    return printed("import_orders", str(path), "--account", account.holder.email, *options)


def mended(report: Path, mend: Callable[[dict[str, str]], None]) -> None:
    """Correct a report as a person does in a spreadsheet: open it, change some cells, save it."""
    with report.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    for cells in rows:
        mend(cells)
    with report.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, reader.fieldnames or ())
        writer.writeheader()
        writer.writerows(rows)


def products_of(order: Order) -> list[str]:
    return list(order.items.order_by("position").values_list("product_name", flat=True))
