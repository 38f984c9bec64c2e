"""How fast files go in and out, against what the same rows cost without us.

    make bench-commands

Each command runs as people run it, in a process of its own, on files of believable orders (`orders.demo`: names of
regions in both scripts, phones in four forms). It takes turns with PostgreSQL alone: `COPY` of the same columns into
copies of the tables with their indexes and keys, or for the export `COPY` out of a join of the same rows. Ratios are
medians of the turns. A command's rate is that of its whole process, including the start of Python and Django. The
processor time of a row, in the command and in PostgreSQL, is given too: others on the machine do not change it.
"""

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")

import django

django.setup()

from benchmarks import command_line, service  # noqa: E402
from benchmarks.processes import TICKS  # noqa: E402
from codservice.data_folder import Layout  # noqa: E402
from orders import demo  # noqa: E402
from tests.harness.processes import CHECKOUT  # noqa: E402

ROWS = 20_000
TURNS = 3
EMAIL = "files@example.dz"
ORDER = ("external_id", "customer_name", "customer_phone", "customer_address", "customer_wilaya", "customer_commune",
         "total_amount", "shipping_fee", "notes")  # fmt: skip
ITEM = ("product_name", "quantity", "unit_price", "attributes")

SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'codservice'"
# What an import writes. The schema `beside` has tables with the same indexes and keys, but without our triggers.
TABLES = ("orders_order", "orders_orderitem", "orders_statuschange")


class Run(NamedTuple):
    """What a command took: time, its own and PostgreSQL's processor time, and peak memory."""

    seconds: float
    own: float
    servers: float
    megabytes: float


class Bench:
    """Runs and times commands and statements. Files are in `folder`."""

    def __init__(self, storage: service.Installation, folder: Path) -> None:
        self.storage, self.folder = storage, folder
        self.postmaster = (Layout(storage.data_dir).cluster / "postmaster.pid").read_text().split()[0]

    def manage(self, *arguments: Any, out: Any = subprocess.DEVNULL) -> Run:
        before = self.servers_processor()
        began = time.perf_counter()
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                [sys.executable, "manage.py", *map(str, arguments)],
                cwd=CHECKOUT, env=self.storage.environ, stdout=out, stderr=said,
            )  # fmt: skip
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                said.seek(0)
                raise SystemExit(f"{arguments[0]} failed: {said.read()[-500:]}")
        seconds = time.perf_counter() - began
        while self.storage.sql(SESSIONS) != "0":  # the session's process ends a little after its client
            time.sleep(0.1)
        own, servers = usage.ru_utime + usage.ru_stime, self.servers_processor() - before
        return Run(seconds, own, servers, usage.ru_maxrss / 1024)

    def servers_processor(self) -> float:
        """Seconds of processor time that ended sessions of PostgreSQL have taken: their postmaster's children."""
        fields = Path(f"/proc/{self.postmaster}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[13:15])) / TICKS

    def sql(self, sql: str) -> float:
        """Run SQL, and return how many seconds it took."""
        began = time.perf_counter()
        self.storage.sql(sql)
        return time.perf_counter() - began


def main() -> None:
    command_line(__doc__).parse_args()
    with service.storage() as storage, tempfile.TemporaryDirectory() as folder:
        bench = Bench(storage, Path(folder))
        storage.merchants("files", "few")
        results = imports(bench) | shipments(bench) | products(bench) | exports(bench)
    print(json.dumps(results))


def imports(bench: Bench) -> dict[str, float]:
    """Import orders with one line each, and orders with all their lines, one row each."""
    bench.sql(
        "CREATE SCHEMA beside;"
        + "".join(f"CREATE TABLE beside.{table} (LIKE {table} INCLUDING ALL);" for table in TABLES)
        + "ALTER TABLE beside.orders_order ADD FOREIGN KEY (account_id) REFERENCES accounts_account(id);"
        "ALTER TABLE beside.orders_orderitem ADD FOREIGN KEY (order_id) REFERENCES beside.orders_order(id);"
        "ALTER TABLE beside.orders_statuschange ADD FOREIGN KEY (order_id) REFERENCES beside.orders_order(id);"
    )
    figures = Figures("import_orders", "COPY")
    for turn in range(TURNS):
        path, rows = orders_file(bench.folder, f"S{turn}", one_line=True)
        run = bench.manage("import_orders", path, "--account", EMAIL)
        figures.add(rows, run, copy_in(bench, f"S{turn}"))
        again = rows / bench.manage("import_orders", path, "--account", EMAIL).seconds
        path, rows = orders_file(bench.folder, f"M{turn}", one_line=False)
        several = rows / bench.manage("import_orders", path, "--account", EMAIL).seconds
        print(f"  the same file again {again:.0f} rows/s, orders of several rows {several:.0f} rows/s", flush=True)
    return figures.middle()


def copy_in(bench: Bench, prefix: str) -> float:
    """The seconds for the same rows by COPY into tables like ours."""
    mine = f"(SELECT id FROM orders_order WHERE external_id LIKE '{prefix}-%')"
    seconds = 0.0
    for table, key in zip(TABLES, ("id", "order_id", "order_id"), strict=True):
        file = bench.folder / table
        bench.sql(f"\\copy (SELECT * FROM {table} WHERE {key} IN {mine}) TO '{file}'")
        seconds += bench.sql(f"\\copy beside.{table} FROM '{file}'")
    return seconds


def shipments(bench: Bench) -> dict[str, float]:
    """Ship and deliver confirmed orders by a courier's file: two moves each."""
    figures = Figures("update_shipments", "SQL")
    for turn in range(TURNS):
        bench.sql(f"UPDATE orders_order SET status = 'confirmed' WHERE external_id LIKE 'S{turn}-%'")
        bench.sql("VACUUM ANALYZE")
        path = bench.folder / "courier.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("external_id", "status", "reason"))
            writer.writerows((f"S{turn}-{number}", "Livré", "") for number in range(ROWS))
        run = bench.manage("update_shipments", path, "--account", EMAIL)
        # PostgreSQL alone: the same change of the same number of rows, and their history, in one statement each.
        alone = bench.sql(
            "BEGIN; UPDATE beside.orders_order SET status = 'delivered', version = version + 2, updated_at = now()"
            f" WHERE external_id LIKE 'S{turn}-%';"
            " INSERT INTO beside.orders_statuschange"
            " (id, account_id, order_id, from_status, to_status, at, actor, reason)"
            " SELECT 1000000000 + row_number() OVER () + (SELECT count(*) FROM beside.orders_statuschange),"
            " account_id, id, 'confirmed', step, now(), 'x', ''"
            " FROM beside.orders_order, unnest(ARRAY['shipped', 'delivered']) step"
            f" WHERE external_id LIKE 'S{turn}-%'; COMMIT"
        )
        figures.add(ROWS, run, alone)
    return figures.middle()


def products(bench: Bench) -> dict[str, float]:
    """Import new products with stock: a product, movement and event each."""
    figures = Figures("import_products", "COPY")
    bench.sql(
        "".join(
            f"CREATE TABLE beside.{table} (LIKE {table} INCLUDING ALL);"
            for table in ("inventory_product", "inventory_stockmovement", "webhooks_event")
        )
    )
    for turn in range(TURNS):
        path = bench.folder / "products.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("sku", "name", "price", "stock_quantity"))
            writer.writerows((f"P{turn}-{n}", f"Robe kabyle n° {n}", f"{n % 9000}.50", n % 50) for n in range(ROWS))
        last = bench.storage.sql("SELECT coalesce(max(id), 0) FROM inventory_stockmovement")
        began = bench.storage.sql("SELECT clock_timestamp()")
        run = bench.manage("import_products", path, "--account", EMAIL)
        alone = 0.0
        for table, condition in (
            ("inventory_product", f"created_at >= '{began}'"),
            ("inventory_stockmovement", f"id > {last}"),
            ("webhooks_event", f"created_at >= '{began}'"),
        ):
            copy = bench.folder / table
            bench.sql(f"\\copy (SELECT * FROM {table} WHERE {condition}) TO '{copy}'")
            alone += bench.sql(f"\\copy beside.{table} FROM '{copy}'")
        figures.add(ROWS, run, alone)
    return figures.middle()


def exports(bench: Bench) -> dict[str, float]:
    """Export all orders, and compare the memory of an export with that of another ten times as large."""
    figures = Figures("export_orders", "COPY")
    orders = int(bench.storage.sql("SELECT count(*) FROM orders_order"))
    for _ in range(TURNS):
        with (bench.folder / "export.csv").open("wb") as out:
            run = bench.manage("export_orders", "--account", EMAIL, out=out)
        alone = bench.sql(
            "\\copy (SELECT o.*, (SELECT string_agg(i.quantity || ' ' || i.product_name, '; ') FROM orders_orderitem i"
            " WHERE i.order_id = o.id) FROM orders_order o ORDER BY created_at, id)"
            f" TO '{bench.folder / 'copy.csv'}' WITH (FORMAT csv)"
        )
        figures.add(orders, run, alone)
    path, _ = orders_file(bench.folder, "F", one_line=True, orders=orders // 10)
    bench.manage("import_orders", path, "--account", "few@example.dz")
    few = bench.manage("export_orders", "--account", "few@example.dz")
    print(f"  {few.megabytes:.0f} MB for {orders // 10} orders, {run.megabytes:.0f} MB for {orders}")
    return {**figures.middle(), "export_memory_10x": round(run.megabytes / few.megabytes, 3)}


class Figures:
    """A command's turns, compared with PostgreSQL alone."""

    def __init__(self, name: str, beside: str) -> None:
        self.name, self.beside, self.turns = name, beside, list[tuple[float, ...]]()

    def add(self, rows: int, run: Run, alone: float) -> None:
        """Add a turn. `alone` is the seconds that PostgreSQL alone took for the same rows."""
        turn = rows / run.seconds, alone / run.seconds, run.own / rows * 1e6, run.servers / rows * 1e6
        self.turns.append(turn)
        print(
            f"{self.name} {turn[0]:.0f} rows/s, processor {turn[2]:.0f} + {turn[3]:.0f} µs, {run.megabytes:.0f} MB;"
            f" {self.beside} {rows / alone:.0f}/s; ratio {turn[1]:.3f}",
            flush=True,
        )

    def middle(self) -> dict[str, float]:
        rate, ratio, own, servers = (statistics.median(column) for column in zip(*self.turns, strict=True))
        return {
            f"{self.name}_per_second": round(rate),
            f"{self.name}_vs_{self.beside.lower()}": round(ratio, 3),
            f"{self.name}_us": round(own),
            f"{self.name}_postgresql_us": round(servers),
        }


def orders_file(folder: Path, prefix: str, *, one_line: bool, orders: int = ROWS) -> tuple[Path, int]:
    """Write a file of orders. Returns its path and the number of rows."""
    chance, rows, path = Random(prefix), 0, folder / f"{prefix}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow((*ORDER, *ITEM))
        for number in range(orders):
            order = demo.order(chance, f"{prefix}-{number}")
            head = [order[name] for name in ORDER]
            for item in order["items"][: 1 if one_line else None]:
                attributes = json.dumps(item["attributes"]) if "attributes" in item else ""
                writer.writerow((*head, item["product_name"], item["quantity"], item["unit_price"], attributes))
                head, rows = [order["external_id"], *[""] * (len(ORDER) - 1)], rows + 1
    return path, rows


if __name__ == "__main__":
    main()
