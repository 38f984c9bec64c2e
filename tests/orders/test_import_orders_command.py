"""import_orders: a file of orders, by the API's rules."""

import csv
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, ApiKey, User
from codservice.files.tables import SafeWriter
from orders import customer_data
from orders.management.commands.import_orders import Command
from orders.models import Order, OrderEdit, OrderItem, Status, StatusChange
from orders.order_files import OrderRows
from tests.factories import ProductFactory, make_order
from tests.harness.background import PATIENCE, held_up
from tests.harness.database import end_sessions, environment, wait_for_lock
from tests.harness.manage import printed
from tests.harness.sheets import workbook, write_xlsx

ROOT = Path(__file__).resolve().parents[2]

COLUMNS = ("external_id", "customer_name", "customer_phone", "customer_address", "customer_wilaya", "total_amount",
           "product_name", "quantity", "unit_price", "attributes", "product_id", "customer_phone_2", "delivery_type",
           "source")  # fmt: skip


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
        **changes,
    }


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_csv(rows: list[dict[str, str]], *, delimiter: str = ",", encoding: str = "utf-8") -> Path:
        path = tmp_path / "orders.csv"
        with path.open("w", newline="", encoding=encoding) as file:
            writer = csv.DictWriter(file, COLUMNS, delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
        return path

    return write_csv


def run(path: Path, account: Account, *options: str) -> tuple[dict[str, Any], int]:
    return printed("import_orders", str(path), "--account", account.holder.email, *options)


@pytest.mark.parametrize("command", ["import_orders", "import_products"])
@pytest.mark.parametrize("who", ["account", "holder"])
def test_a_deactivated_account_takes_no_file_in(command: str, who: str, alice: Account, write: Any) -> None:
    """As by the API and the pages."""
    (Account if who == "account" else User).objects.update(is_active=False)
    with pytest.raises(CommandError, match="is deactivated"):
        call_command(command, str(write([row()])), "--account", alice.holder.email)


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(",", "utf-8"), (";", "utf-8-sig"), (";", "cp1256"), ("\t", "utf-16")]
)
def test_rows_of_one_number_become_one_order(alice: Account, write: Any, delimiter: str, encoding: str) -> None:
    item = {"external_id": "A1", "product_name": "Foulard", "quantity": "1", "unit_price": "0"}
    second = dict.fromkeys(COLUMNS, "") | item
    path = write(
        [row(attributes='{"taille": "M"}'), second, row(external_id="A2", customer_name="فاطمة")],
        delimiter=delimiter,
        encoding=encoding,
    )

    result, status = run(path, alice)

    assert (result["imported"], result["refused"], status) == (2, 0, 0)
    first = Order.objects.get(external_id="A1")
    lines = list(first.items.order_by("position").values_list("product_name", "quantity", "attributes"))
    assert lines == [("Robe", 2, {"taille": "M"}), ("Foulard", 1, {})]
    assert Order.objects.get(external_id="A2").customer_name == "فاطمة"


def test_numbers_may_be_written_with_the_digits_of_an_arabic_keyboard(alice: Account, write: Any) -> None:
    said = {"customer_phone": "٠٥٥٠١٢٣٤٥٦", "quantity": "٢", "unit_price": "٢٬٠٠٠٫٥", "total_amount": "٤٥٠١ د.ج"}
    result, _ = run(write([row(**said), row(external_id="A2", quantity="²")]), alice)

    assert (result["imported"], [set(each["errors"]) for each in result["errors"]]) == (1, [{"items.0.quantity"}])
    order = Order.objects.get(external_id="A1")
    assert (order.total_amount, order.phone_e164) == (Decimal(4501), "+213550123456")
    assert order.items.values_list("quantity", "unit_price").get() == (2, Decimal("2000.50"))


@pytest.mark.parametrize("mark", ["p:", "P: ", "'"])
def test_a_phone_may_have_the_mark_of_a_list_of_leads_or_of_a_spreadsheet(
    alice: Account, write: Any, mark: str
) -> None:
    rows = [
        row(customer_phone=f"{mark}+213550123456"),
        row(external_id="A2", customer_phone_2=f"{mark}0661 23 45 67"),
        row(external_id="A3", customer_phone=f"{mark}x"),
        row(external_id="A4", customer_phone=f"p:{mark}0550123456"),
    ]
    result, _ = run(write(rows), alice)
    assert (result["imported"], result["refused"]) == (2, 2)
    assert Order.objects.get(external_id="A1").customer_phone == "+213550123456"
    assert Order.objects.get(external_id="A2").customer_phone_2 == "0661 23 45 67"


def test_an_order_may_say_how_it_is_delivered_where_it_came_from_and_a_second_phone(alice: Account, write: Any) -> None:
    said = {"customer_phone_2": "021 55 66 77", "delivery_type": "desk", "source": "facebook"}
    result, _ = run(write([row(**said), row(external_id="A2"), row(external_id="A3", delivery_type="x")]), alice)

    assert (result["imported"], [set(each["errors"]) for each in result["errors"]]) == (2, [{"delivery_type"}])
    assert Order.objects.filter(external_id="A1", phone_2_e164="+21321556677", **said).exists()
    plain = Order.objects.get(external_id="A2")
    assert (plain.delivery_type, plain.source, plain.customer_phone_2) == ("home", None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"customer_name": "Nadia"},
        {"customer_phone": "0661234567"},
        {"customer_address": "rue 2"},
        {"total_amount": "4000"},
        {"source": "facebook"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_rows_of_one_number_that_contradict_each_other_are_refused(
    alice: Account, write: Any, changes: dict[str, str]
) -> None:
    out, path = StringIO(), write([row(), row(**changes), row(external_id="A2")])
    with pytest.raises(CommandError):
        call_command("import_orders", str(path), "--account", alice.holder.email, stdout=out, stderr=StringIO())
    (name,) = changes
    assert out.getvalue() == f"line 3: {name}: Line 2 of the same order says otherwise.\n"
    assert [order.external_id for order in Order.objects.all()] == ["A2"]


def test_what_is_only_written_otherwise_is_no_contradiction(alice: Account, write: Any) -> None:
    same = {"customer_name": "AMINE", "customer_phone": "+213 550 12 34 56", "total_amount": "100,5 DA"}
    result, status = run(write([row(), row(**same)]), alice)
    assert (result["imported"], status) == (1, 0)


@pytest.mark.parametrize("number", ["2,02611E+11", "2.02611e+11", "2E+11"])
def test_a_number_that_a_spreadsheet_has_shortened_is_refused(alice: Account, write: Any, number: str) -> None:
    result, status = run(write([row(external_id=number), row(external_id=number)]), alice)
    assert (result["imported"], result["refused"], status) == (0, 1, 1)
    assert "format the column as text" in result["errors"][0]["errors"]["external_id"][0]


@pytest.mark.parametrize("number", ["5,50123E+08", "2.13550E+11"])
def test_a_phone_that_a_spreadsheet_has_shortened_is_told_as_such(alice: Account, write: Any, number: str) -> None:
    rows = [row(customer_phone=number), row(external_id="A2", customer_phone_2=number, quantity="x")]
    result, _ = run(write(rows), alice)
    first, second = (each["errors"] for each in result["errors"])
    assert (set(first), set(second)) == ({"customer_phone"}, {"customer_phone_2", "items.0.quantity"})
    for said in (first["customer_phone"], second["customer_phone_2"]):
        assert ["last digits are lost: format the column as text" in each for each in said] == [True]


def test_a_row_whose_number_is_merged_with_the_one_above_is_of_its_order(alice: Account, write: Any) -> None:
    nobody = dict.fromkeys(COLUMNS, "")
    merged = nobody | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    bad = row(external_id="A2", total_amount="")
    result, _ = run(write([row(total_amount=""), merged, merged, bad, merged | {"quantity": "x"}]), alice)

    assert (result["imported"], result["refused"]) == (1, 1), "and no half order"
    order = Order.objects.get()
    assert (order.external_id, order.items.count(), order.total_amount) == ("A1", 3, Decimal("8100.50"))

    rows = [merged, row(external_id="A3"), nobody | {"total_amount": "9000"}, row(external_id=""), merged]
    result, _ = run(write(rows), alice)
    assert (result["imported"], [each["line"] for each in result["errors"]]) == (2, [2, 4]), "below nothing; a sum"
    assert Order.objects.get(external_id=None).items.count() == 2


@pytest.mark.parametrize("column", ["product_name", "customer_wilaya", "external_id", "customer_name"])
@pytest.mark.parametrize("word", ["TOTAL", "Total général :", "Sous-total", "المجموع", "الإجمالي", "مجموع"])
def test_a_total_at_the_foot_is_no_line_of_the_last_order(alice: Account, write: Any, word: str, column: str) -> None:
    nobody = dict.fromkeys(COLUMNS, "")
    sums = nobody | {"quantity": "3", "unit_price": "51.25"}
    merged = nobody | {"product_name": "Total look", "quantity": "1", "unit_price": "1"}
    result, _ = run(write([row(total_amount=""), merged, sums | {column: word}, sums]), alice)

    assert (result["imported"], [each["line"] for each in result["errors"]]) == (1, [4, 5])
    assert result["errors"][0]["errors"] == {"": ["Is a total of rows above, and no order."]}
    order = Order.objects.get()
    assert (order.items.count(), order.total_amount) == (2, Decimal("101.50"))


FEET = {
    "of the column of amounts": [{"product_name": "Total", "total_amount": "9 102,50 DA"}],
    "with how many pieces": [{"product_name": "TOTAL", "quantity": "6", "total_amount": "9102.5"}],
    "with what the lines amount to": [{"product_name": "Total", "quantity": "6", "unit_price": "9 102,50 DA"}],
    "with the column of prices summed up": [{"product_name": "Total", "quantity": "6", "unit_price": "4551.25"}],
    "with tax": [
        {"product_name": "Total HT", "unit_price": "7649.16"},
        {"product_name": "TVA 19 %", "unit_price": "1453.34"},
        {"product_name": "Total TTC", "unit_price": "9102.50"},
    ],
}


@pytest.mark.parametrize("foot", FEET.values(), ids=FEET)
def test_a_foot_in_the_column_of_products_keeps_no_order_out(
    alice: Account, write: Any, foot: list[dict[str, str]]
) -> None:
    nobody = dict.fromkeys(COLUMNS, "")
    second = row(external_id="A2", quantity="2", unit_price="1", total_amount="9002")
    merged = nobody | {"product_name": "Sac", "quantity": "2", "unit_price": "4500"}
    result, _ = run(write([row(), second, merged, *(nobody | cells for cells in foot)]), alice)

    assert (result["imported"], [each["line"] for each in result["errors"]]) == (2, [*range(5, 5 + len(foot))])
    assert products_of(Order.objects.get(external_id="A2")) == ["Robe", "Sac"]


@pytest.mark.parametrize("below", [["Sac"], []])
def test_a_total_that_may_be_a_product_keeps_the_order_out(
    alice: Account, write: Any, tmp_path: Path, below: list[str]
) -> None:
    """There is a brand of this name: the order went in without this line and those below it."""
    nobody = dict.fromkeys(COLUMNS, "")
    total, *sac = (nobody | {"product_name": name, "quantity": "1", "unit_price": "10"} for name in ("Total", *below))
    path, report = write([row(total_amount=""), total, *sac, row(external_id="A2")]), tmp_path / "refused.csv"

    for imported in (1, 0):  # however often
        result, _ = run(path, alice, "--report", str(report))
        assert (result["imported"], [each["line"] for each in result["errors"]]) == (imported, [2])
        assert "where it is a product" in result["errors"][0]["errors"]["external_id"][0]
        path, report = report, tmp_path / "again.csv"

    mended(path, lambda cells: cells.update(external_id="A1") if cells["product_name"] == "Sac" else None)
    assert run(path, alice)[0]["imported"] == 0, "nor without this line alone"
    mended(path, lambda cells: cells.update(external_id="A1"))
    assert run(path, alice)[0]["imported"] == 1
    assert products_of(Order.objects.get(external_id="A1")) == ["Robe", "Total", *below]


def test_no_total_of_a_report_is_told_by_its_sums(alice: Account, write: Any, tmp_path: Path) -> None:
    """In the file it was not the sum of the lines above, of which the report lacks some."""
    nobody = dict.fromkeys(COLUMNS, "")
    sac = nobody | {"product_name": "Sac", "quantity": "1", "unit_price": "1"}
    total = nobody | {"product_name": "Total", "quantity": "2", "unit_price": "9"}
    rows = [row(), row(external_id="A2", quantity="1", unit_price="8", total_amount=""), sac, total]
    path, report = write(rows), tmp_path / "refused.csv"

    assert run(path, alice, "--report", str(report))[0]["imported"] == 1
    assert run(report, alice)[0]["imported"] == 0


def test_an_empty_row_ends_an_order_and_a_cell_of_several_lines_does_not(alice: Account, write: Any) -> None:
    nobody = dict.fromkeys(COLUMNS, "")
    merged = nobody | {"product_name": "Sac", "quantity": "1", "unit_price": "1"}
    first = row(customer_address="rue 1\n\n\nAlger\n\n", total_amount="")
    result, _ = run(write([first, merged, nobody, nobody, merged, merged]), alice)

    assert (result["imported"], len(result["errors"])) == (1, 2)
    assert Order.objects.get().items.count() == 2


def test_an_empty_row_below_each_row_ends_none(alice: Account, write: Any) -> None:
    """As of a file whose line ends some program has doubled."""
    merged = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "1"}
    path = write([row(total_amount=""), merged, row(external_id="A2", total_amount="")])
    path.write_text(path.read_text().replace("\n", "\n\n"))

    assert run(path, alice)[0]["imported"] == 2
    assert products_of(Order.objects.get(external_id="A1")) == ["Robe", "Sac"]


@pytest.mark.process
def test_of_several_sheets_the_one_that_is_read_is_named(alice: Account, tmp_path: Path) -> None:
    path, err = tmp_path / "orders.xlsx", StringIO()
    path.write_bytes(workbook({"Août": [list(COLUMNS), list(row().values())], "Juillet": []}))
    call_command("import_orders", str(path), "--account", alice.holder.email, "--json", stdout=StringIO(), stderr=err)
    assert "the first that is shown is read: Août." in err.getvalue()


def test_the_report_is_nobody_elses_to_read(alice: Account, write: Any, tmp_path: Path) -> None:
    """Also in the place of one that was."""
    report = tmp_path / "report.csv"
    for _ in range(2):
        run(write([row(customer_phone="1")]), alice, "--report", str(report))
        assert report.stat().st_mode & 0o777 == 0o600
        report.chmod(0o644)


def test_rows_without_a_number_are_orders_of_their_own(alice: Account, write: Any) -> None:
    result, _ = run(write([row(external_id=""), row(external_id="")]), alice)

    assert result["imported"] == Order.objects.count() == 2


def test_a_total_that_is_left_out_is_made_of_the_catalogs_prices_too(
    alice: Account, charlie: Account, write: Any
) -> None:
    mine, theirs = (ProductFactory(account=account, price=Decimal("1200.50")) for account in (alice, charlie))
    left_out = dict.fromkeys(("total_amount", "product_name", "unit_price"), "")
    bad = row(external_id="A2", product_id=str(theirs.id), **left_out)
    result, status = run(write([row(product_id=str(mine.id).upper(), **left_out), bad]), alice)
    assert (status, result["imported"]) == (1, 1)
    assert result["errors"] == [
        {"line": 3, "external_id": "A2", "errors": {"items.0.product_id": ["No product of this account has this id."]}}
    ]
    assert Order.objects.get().total_amount == Decimal("2401.00")


def test_good_orders_are_kept_and_each_bad_one_is_reported_with_its_line(alice: Account, write: Any) -> None:
    path = write([row(), row(external_id="A2", customer_phone="12", quantity="two"), row(external_id="A3")])

    result, status = run(path, alice)

    assert (result["imported"], result["refused"], status) == (2, 1, 1)
    (refused,) = result["errors"]
    assert refused["line"] == 3
    assert set(refused["errors"]) == {"customer_phone", "items.0.quantity"}


def test_a_negative_quantity_is_out_of_bounds_and_not_said_to_be_no_number(alice: Account, write: Any) -> None:
    result, _ = run(write([row(quantity="-2")]), alice)

    assert result["errors"][0]["errors"] == {"items.0.quantity": ["Must be from 1 to 10000."]}


def test_a_file_can_be_imported_again(alice: Account, write: Any) -> None:
    path = write([row(), row(external_id="A2")])
    run(path, alice)

    result, status = run(path, alice)

    assert (result["imported"], result["already_there"], status) == (0, 2, 0)
    assert Order.objects.count() == 2


def test_a_dry_run_says_what_would_happen_and_writes_nothing(alice: Account, write: Any) -> None:
    result, status = run(write([row(), row(external_id="A2", total_amount="-1")]), alice, "--dry-run")

    assert (result["imported"], result["refused"], result["dry_run"], status) == (1, 1, True, 1)
    assert not Order.objects.exists()


def test_atomic_imports_all_or_nothing(alice: Account, write: Any) -> None:
    bad, status = run(write([row(), row(external_id="A2", total_amount="1.001")]), alice, "--atomic")
    assert (bad["imported"], bad["refused"], status, Order.objects.count()) == (0, 1, 1, 0)

    good, status = run(write([row(), row(external_id="A2")]), alice, "--atomic")
    assert (good["imported"], status, Order.objects.count()) == (2, 0, 2)


def test_a_batch_costs_as_many_statements_as_an_order(
    alice: Account, write: Any, django_assert_num_queries: Any
) -> None:
    good = [row(external_id=f"N{number}") for number in range(400)]
    bad = [row(external_id=f"B{number}", total_amount="-1", product_id=str(uuid4())) for number in range(400)]

    # Account, numbers that are there, products, the insert; and erasures, before and after.
    with django_assert_num_queries(6):
        result, _ = run(write(good + bad), alice)

    assert (result["imported"], result["refused"]) == (400, 400)


def test_a_row_of_an_order_that_is_there_is_not_refused_however_bad(alice: Account, write: Any) -> None:
    run(write([row()]), alice)

    result, status = run(write([row(customer_phone="12", quantity="0")]), alice)

    assert (result["already_there"], result["refused"], status) == (1, 0, 0)


def test_rows_of_one_order_that_lie_apart_are_refused_and_not_lost(alice: Account, write: Any) -> None:
    path = write([row(), row(external_id="A2"), row(product_name="Foulard")])

    for _ in range(2):
        result, status = run(path, alice)
        (refused,) = result["errors"]
        assert (refused["line"], status) == (4, 1)
        assert "Line 2 has the same external_id" in refused["errors"]["external_id"][0]
    assert Order.objects.count() == 2


def test_a_row_with_more_cells_than_columns_is_refused(alice: Account, tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    names = ("external_id", "customer_name", "customer_phone", "customer_address", "customer_wilaya", "total_amount",
             "product_name", "quantity", "unit_price")  # fmt: skip
    path.write_text(f"{','.join(names)}\nA1,Amine,0550123456,12 rue 1, Alger,Alger,100,Robe,1,100\n")

    result, _ = run(path, alice, "--report", str(tmp_path / "refused.csv"))

    assert "quotes" in result["errors"][0]["errors"][""][0]
    assert (tmp_path / "refused.csv").read_text().endswith(",12 rue 1,Alger,Alger,100,Robe,1,100\n")


def mended(report: Path, mend: Callable[[dict[str, str]], None]) -> None:
    """What a person does in a spreadsheet: open, mend some cells, save."""
    with report.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    for cells in rows:
        mend(cells)
    with report.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, reader.fieldnames or ())
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_refused_rows_are_mended_and_fed_back(alice: Account, write: Any, tmp_path: Path, kind: str) -> None:
    second = dict.fromkeys(COLUMNS, "") | {"external_id": "A2", "product_name": "Sac", "quantity": "x"}
    second |= {"unit_price": "5"}
    address = "=HYPERLINK(1)\nrue 2;-3, « @ »"
    rows = [row(), row(external_id="A2", customer_phone="+213550123456", customer_address=address), second]
    rows.append(row(external_id="A3", customer_wilaya="Atlantis"))
    path, report, lines_of_address = write(rows), tmp_path / "refused.csv", 2
    if kind == "xlsx":
        path, lines_of_address = tmp_path / "orders.xlsx", 1
        write_xlsx(path, [list(COLUMNS), *([*cells.values()] for cells in rows)])

    result, status = run(path, alice, "--report", str(report))

    assert (result["imported"], result["refused"], status) == (1, 2, 1)
    assert report.read_bytes().startswith(b"\xef\xbb\xbf")
    with report.open(encoding="utf-8-sig", newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["line", "refused", *COLUMNS]
    assert [(line[0], line[1].partition(":")[0]) for line in lines] == [
        ("3", f"See line {3 + lines_of_address}."),
        (f"{3 + lines_of_address}", "quantity"),
        (f"{4 + lines_of_address}", "customer_wilaya"),
    ]
    assert not [cell for line in lines for cell in line if cell[:1] in tuple("=+-@\t\r")]

    def mend(cells: dict[str, str]) -> None:
        if cells["refused"].startswith("quantity"):
            cells["quantity"] = "3"
        if cells["refused"].startswith("customer_wilaya"):
            cells["customer_wilaya"] = "Alger"

    mended(report, mend)
    result, status = run(report, alice)

    assert (result["imported"], result["refused"], status) == (2, 0, 0)
    order = Order.objects.get(external_id="A2")
    assert (order.customer_phone, order.customer_address) == ("+213550123456", address)
    assert list(order.items.order_by("position").values_list("quantity", flat=True)) == [2, 3]


def test_a_row_that_is_fed_back_is_a_line_of_its_own_order_and_of_no_other(
    alice: Account, write: Any, tmp_path: Path
) -> None:
    """The good order between them is not in the report."""
    merged = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    ours = row(customer_phone="1", total_amount="")
    rows = [ours, merged | {"product_name": "Foulard"}, row(external_id="", customer_name="Nadia"), merged]
    path, report = write(rows), tmp_path / "refused.csv"
    result, _ = run(path, alice, "--report", str(report))
    assert (result["imported"], result["refused"]) == (1, 1)
    assert products_of(Order.objects.get()) == ["Robe", "Sac"]

    mended(report, lambda cells: cells.update(customer_phone="0550123456") if cells["customer_phone"] else None)
    result, _ = run(report, alice)

    assert (result["imported"], result["refused"]) == (1, 0)
    first = Order.objects.get(external_id="A1")
    assert (products_of(first), first.total_amount) == (["Robe", "Foulard"], Decimal("4100.50"))


def products_of(order: Order) -> list[str]:
    return list(order.items.order_by("position").values_list("product_name", flat=True))


def test_a_row_without_a_number_in_a_report_is_refused_with_the_order_above(alice: Account, tmp_path: Path) -> None:
    """It may be a line of it, and may be a stranger's: so it stood in reports of earlier versions."""
    merged = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    foulard, good = merged | {"product_name": "Foulard"}, row(external_id="A2")
    report = tmp_path / "refused.csv"
    with report.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["line", "refused", *COLUMNS])
        writer.writeheader()
        rows = zip((2, 3, 5, 6), (row(total_amount=""), foulard, merged, good), strict=True)
        writer.writerows({"line": line, "refused": "x"} | cells for line, cells in rows)

    for imported in (1, 0):  # however often
        again = tmp_path / f"again{imported}.csv"
        result, _ = run(report, alice, "--report", str(again))
        assert (result["imported"], result["refused"]) == (imported, 1)
        assert set(result["errors"][0]["errors"]) == {"external_id", "items.1.external_id", "items.2.external_id"}
        report = again

    mended(report, lambda cells: cells.update(external_id="A1" if cells["product_name"] != "Sac" else "A3"))
    assert run(report, alice)[0]["imported"] == 0, "nobody's yet"
    whose = {name: cell for name, cell in good.items() if name.startswith("customer_")}
    mended(report, lambda cells: cells.update(whose) if cells["product_name"] == "Sac" else None)
    assert run(report, alice)[0]["imported"] == 2
    assert products_of(Order.objects.get(external_id="A1")) == ["Robe", "Foulard"]


@pytest.mark.parametrize("number", ["1,23457E+11", "x" * 65])
@pytest.mark.parametrize("is_merged", [True, False])
def test_a_refused_number_is_mended_in_each_row_or_the_order_stays_out(
    alice: Account, write: Any, tmp_path: Path, number: str, is_merged: bool
) -> None:
    below = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    rows = [row(external_id=number, total_amount=""), below | {"external_id": "" if is_merged else number}]
    path, report = write(rows), tmp_path / "refused.csv"
    run(path, alice, "--report", str(report))
    with report.open(encoding="utf-8-sig", newline="") as file:
        assert [cells["refused"].partition(":")[0] for cells in csv.DictReader(file)] == ["external_id"] * 2

    if is_merged:
        mended(report, lambda cells: cells.update(external_id="A1") if cells["customer_name"] else None)
        result, _ = run(report, alice, "--report", str(report.with_name("again.csv")))
        assert (result["imported"], result["refused"]) == (0, 1)
        report = report.with_name("again.csv")
    mended(report, lambda cells: cells.update(external_id="A1"))
    result, _ = run(report, alice)

    assert (result["imported"], result["refused"]) == (1, 0)
    order = Order.objects.get()
    assert (products_of(order), order.total_amount) == (["Robe", "Sac"], Decimal("4100.50"))


@pytest.mark.parametrize("number", ["1,23457E+11", "x" * 65])
@pytest.mark.parametrize("whose", [{"customer_name": "AMINE", "customer_phone": "+213550123456"}, {}])
def test_an_order_whose_number_is_mended_in_its_first_row_alone_waits_for_the_others(
    alice: Account, write: Any, tmp_path: Path, number: str, whose: dict[str, str]
) -> None:
    """It went in without them; and with its number, when that was mended, they were called already there."""
    below = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    below |= {"external_id": number} | whose
    other = row(external_id=number, customer_name="Nadia", customer_phone="0661234567")
    path, report = write([row(external_id=number, total_amount=""), below, below, other]), tmp_path / "refused.csv"
    assert run(path, alice, "--report", str(report))[0]["refused"] == 1

    mended(report, lambda cells: cells.update(external_id="A1") if cells["product_name"] == "Robe" else None)
    mended(report, lambda cells: cells.update(external_id="A2") if cells["customer_name"] == "Nadia" else None)
    result, _ = run(report, alice, "--report", str(report.with_name("again.csv")))

    assert (result["imported"], result["refused"]) == (1, 1)
    assert set(result["errors"][0]["errors"]) == {"items.1.external_id", "items.2.external_id"}
    report = report.with_name("again.csv")
    with report.open(encoding="utf-8-sig", newline="") as file:
        assert [cells["external_id"] for cells in csv.DictReader(file)] == ["A1", number, number]
    mended(report, lambda cells: cells.update(external_id="A1"))
    assert run(report, alice)[0]["imported"] == 1
    assert products_of(Order.objects.get(external_id="A1")) == ["Robe", "Sac", "Sac"]
    assert products_of(Order.objects.get(external_id="A2")) == ["Robe"]


@pytest.mark.parametrize("number", ["1,23457E+11", "x" * 65])
@pytest.mark.parametrize("whose", [{"customer_name": "Amine", "customer_phone": "0550123456"}, {}])
def test_nor_is_one_imported_short_when_it_is_mended_in_the_file_itself(
    alice: Account, write: Any, number: str, whose: dict[str, str]
) -> None:
    below = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"} | whose
    left = below | {"external_id": number}

    result, _ = run(write([row(total_amount=""), left, left]), alice)
    assert (result["imported"], result["refused"]) == (0, 1)
    assert set(result["errors"][0]["errors"]) == {"items.1.external_id", "items.2.external_id"}

    assert run(write([row(total_amount=""), *[below | {"external_id": "A1"}] * 2]), alice)[0]["imported"] == 1
    assert products_of(Order.objects.get()) == ["Robe", "Sac", "Sac"]


@pytest.mark.parametrize("number", ["#N/A", "idem", '"', "a1", "A1.", "A2"])
def test_a_line_with_another_number_and_no_customer_keeps_the_order_above_out(
    alice: Account, write: Any, tmp_path: Path, number: str
) -> None:
    """It can be no order of its own, and the order above may lack it."""
    below = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    path, report = write([row(total_amount=""), below | {"external_id": number}, below]), tmp_path / "refused.csv"
    for again in ("again.csv", "last.csv", "unread.csv"):  # however often
        result, _ = run(path, alice, "--report", str(report))
        assert (result["imported"], result["refused"]) == (0, 1)
        ((column, (said,)),) = result["errors"][0]["errors"].items()
        assert column == "items.1.external_id"
        assert said.startswith("Is an error" if number == "#N/A" else "May be a line of the order above")
        path, report = report, tmp_path / again

    mended(path, lambda cells: cells.update(external_id="A1"))
    assert run(path, alice)[0]["imported"] == 1
    assert products_of(Order.objects.get()) == ["Robe", "Sac", "Sac"]


def test_what_says_no_line_or_is_below_no_order_keeps_none_out(alice: Account, write: Any) -> None:
    nobody = dict.fromkeys(COLUMNS, "")
    sac = nobody | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    rows = [
        sac | {"external_id": "B1"},
        sac | {"external_id": "B2"},
        row(),
        nobody | {"external_id": "Fait à Alger", "quantity": "3"},
        row(external_id="A2"),
        nobody,
        sac | {"external_id": "B3"},
    ]
    result, _ = run(write(rows), alice)

    assert (result["imported"], [each["line"] for each in result["errors"]]) == (2, [2, 3, 5, 8])
    assert all("customer_name" in each["errors"] for each in result["errors"])


def test_a_formula_that_has_failed_in_a_report_keeps_the_order_above_out_again(
    alice: Account, write: Any, tmp_path: Path
) -> None:
    below = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    path, report = write([row(total_amount=""), below | {"external_id": "#N/A"}]), tmp_path / "refused.csv"
    run(path, alice, "--report", str(report))
    result, _ = run(report, alice)
    assert (result["imported"], set(result["errors"][0]["errors"])) == (0, {"items.1.external_id"})


@pytest.mark.parametrize(("number", "why"), [("x" * 70, "at most 64"), ("1,23457E+11", "as text"), ("#N/A", "formula")])
def test_a_second_order_of_a_customer_is_told_first_that_its_number_cannot_be_used(
    alice: Account, write: Any, tmp_path: Path, number: str, why: str
) -> None:
    path, report = write([row(), row(external_id=number, product_name="Sac")]), tmp_path / "refused.csv"
    result, _ = run(path, alice, "--report", str(report))

    assert result["imported"] == 0, "it may be a line of the first order"
    first, *others = result["errors"][0]["errors"]["items.1.external_id"]
    assert why in first
    assert all("otherwise one of its own" in each for each in others)

    mended(report, lambda cells: cells.update(external_id="A2") if cells["product_name"] == "Sac" else None)
    assert run(report, alice)[0]["imported"] == 2


def test_lines_that_an_order_was_imported_without_are_not_called_already_there(alice: Account, write: Any) -> None:
    """Rows that lay apart are moved below each other, and the file is given again."""
    rows = [row(), row(external_id="A2"), row(product_name="Sac")]
    assert run(write(rows), alice)[0]["imported"] == 2

    together = write([rows[0], rows[2], rows[1]])
    for _ in range(2):
        result, _ = run(together, alice)
        assert (result["already_there"], [each["line"] for each in result["errors"]]) == (1, [2])
        assert "with fewer lines" in result["errors"][0]["errors"]["external_id"][0]

    order = Order.objects.get(external_id="A1")
    edit = OrderEdit(order=order, account=alice, field="items.1", new="1 × Sac", at=order.created_at, actor="Nadia")
    edit.save()
    assert run(together, alice)[0]["already_there"] == 2, "somebody has decided on its lines"


def test_a_row_that_an_order_was_imported_without_is_not_called_already_there(
    alice: Account, write: Any, tmp_path: Path
) -> None:
    below = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "1"}
    below |= {"external_id": "A1"}
    path, report = write([row(), row(external_id="A2"), row(total_amount=""), below]), tmp_path / "refused.csv"
    assert run(path, alice, "--report", str(report))[0]["imported"] == 2

    mended(report, lambda cells: cells.update(external_id="A3") if cells["customer_name"] else None)
    result, _ = run(report, alice)
    assert (result["imported"], set(result["errors"][0]["errors"])) == (0, {"items.1.external_id"}), "may be of A3"

    header, _, alone = report.read_text().splitlines(keepends=True)
    report.write_text(header + alone)
    for _ in range(2):
        result, _ = run(report, alice)
        assert (result["already_there"], result["refused"]) == (0, 1)
        assert "without this row" in result["errors"][0]["errors"]["external_id"][0]


def test_the_rows_of_a_refused_order_without_a_number_are_to_have_one(
    alice: Account, write: Any, tmp_path: Path
) -> None:
    below = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    path, report = write([row(external_id="", customer_phone="1"), below]), tmp_path / "refused.csv"
    result, _ = run(path, alice, "--report", str(report))
    assert set(result["errors"][0]["errors"]) == {"customer_phone", "external_id", "items.1.external_id"}

    mended(report, lambda cells: cells.update(customer_phone="0550123456") if cells["customer_phone"] else None)
    assert run(report, alice, "--report", str(tmp_path / "again.csv"))[0]["imported"] == 0
    mended(tmp_path / "again.csv", lambda cells: cells.update(external_id="A1"))
    assert run(tmp_path / "again.csv", alice)[0]["imported"] == 1
    assert products_of(Order.objects.get()) == ["Robe", "Sac"]


def test_the_report_may_not_be_the_file_itself(alice: Account, write: Any) -> None:
    path = write([row()])

    with pytest.raises(CommandError, match="another file"):
        call_command("import_orders", str(path), "--account", alice.holder.email, "--report", str(path))
    assert not Order.objects.exists()


@pytest.mark.parametrize("is_linked", [False, True])
def test_nor_the_file_under_the_name_that_the_report_has_until_it_is_whole(
    alice: Account, write: Any, tmp_path: Path, is_linked: bool
) -> None:
    path = write([row(customer_phone="12")]).rename(tmp_path / "orders.csv.part")
    report = tmp_path / ("link" if is_linked else "orders.csv")
    if is_linked:
        report.symlink_to(tmp_path / "orders.csv")
    before = path.read_bytes()

    with pytest.raises(CommandError, match=r"orders\.csv\.part, which is the file that is read"):
        call_command("import_orders", str(path), "--account", alice.holder.email, "--report", str(report))

    assert path.read_bytes() == before
    assert not (tmp_path / "orders.csv").exists()


def test_a_folder_is_no_file(alice: Account, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: Is a directory"):
        call_command("import_orders", str(tmp_path), "--account", alice.holder.email)


def test_a_report_that_cannot_be_written_is_said_before_anything_is_imported(alice: Account, write: Any) -> None:
    with pytest.raises(CommandError, match=r"/no/where\.csv cannot be used"):
        call_command("import_orders", str(write([row()])), "--account", alice.holder.email, "--report", "/no/where.csv")
    assert not Order.objects.exists()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
@pytest.mark.parametrize("is_linked", [False, True])
def test_a_report_takes_the_place_of_no_folder_and_no_pipe(
    alice: Account, write: Any, tmp_path: Path, make: Callable[[Path], None], is_linked: bool
) -> None:
    """A device is as a pipe: with a file in its place nothing else on the machine would find it."""
    there, report = tmp_path / "there", tmp_path / ("link" if is_linked else "there")
    make(there)
    before = there.stat()
    if is_linked:
        report.symlink_to(there)

    with pytest.raises(CommandError, match=f"--report: {report} is there already and is no file"):
        call_command("import_orders", str(write([row()])), "--account", alice.holder.email, "--report", str(report))

    assert not Order.objects.exists()
    assert (there.stat().st_ino, there.stat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_report_is_written_where_a_link_leads(alice: Account, write: Any, tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "folder").mkdir()
    target, report = tmp_path / "folder/refused.csv", tmp_path / "link"
    if is_there:
        target.write_text("an earlier one")
    report.symlink_to(target)

    run(write([row(quantity="0")]), alice, "--report", str(report))

    assert report.is_symlink()
    assert "quantity" in target.read_text()
    assert not target.is_symlink()


def test_what_a_person_reads(alice: Account, write: Any) -> None:
    out, err = StringIO(), StringIO()
    second = row(quantity="0") | dict.fromkeys(("customer_name", "customer_phone", "total_amount"), "")
    path = write([row(customer_phone="12"), second, *[row(external_id="", quantity=each) for each in ("1", "0", "x")]])

    with pytest.raises(CommandError, match="3 were refused: --report FILE"):
        call_command("import_orders", str(path), "--account", alice.holder.email, stdout=out, stderr=err)

    assert [line.split(":")[:2] for line in out.getvalue().splitlines()] == [
        ["line 2", " customer_phone"],
        ["line 3", " quantity"],
        ["line 5", " quantity"],
        ["line 6", " quantity"],
    ]
    assert "1 orders imported, 0 were there already, 3 refused. 1 have no external_id" in err.getvalue()


@pytest.mark.django_db(transaction=True)
def test_killed_in_the_middle_and_run_again(alice: Account, write: Any) -> None:
    path = write([row(external_id=f"N{number}") for number in range(6000)])
    command = [sys.executable, "manage.py", "import_orders", str(path), "--account", alice.holder.email]
    with held_up(lambda: make_order(alice, external_id="N5999")):  # it is not through before it is killed
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while not Order.objects.count():
                assert process.poll() is None
                time.sleep(0.005)
        finally:
            process.kill()
            process.wait()
    end_sessions()  # what it had asked PostgreSQL for is over
    before = Order.objects.count()
    assert 0 < before < 6000

    result, status = run(path, alice)

    assert (result["already_there"], result["imported"], result["refused"], status) == (before, 6000 - before, 0, 0)
    assert Order.objects.count() == OrderItem.objects.count() == StatusChange.objects.count() == 6000


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("told", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_says_how_to_go_on(
    told: signal.Signals, code: int, alice: Account, write: Any, tmp_path: Path
) -> None:
    """Ctrl-C, or systemd, while a batch waits for another import of the same order, whose transaction is still open."""
    path, report = write([row(external_id=f"N{number}") for number in range(1500)]), tmp_path / "refused.csv"
    with transaction.atomic():
        make_order(alice, external_id="N1200")
        process = subprocess.Popen(
            [sys.executable, "manage.py", "import_orders", str(path), "--account", alice.holder.email, "--json",
             "--report", str(report)],
            cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_for_lock()
        process.send_signal(told)
        out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == code, err
    assert json.loads(out)["imported"] == 1000
    assert "Run the same command again" in err
    assert "Traceback" not in err
    assert not list(tmp_path.glob("refused*"))
    result, _ = run(path, alice)
    assert (result["already_there"], result["imported"]) == (1001, 499)


def interrupted(path: Path, account: Account, *options: str) -> tuple[str, str]:
    """What is said, and how it ends."""
    err = StringIO()
    with pytest.raises(CommandError) as raised:
        call_command(
            "import_orders", str(path), "--account", account.holder.email, *options, stdout=StringIO(), stderr=err
        )
    return err.getvalue(), str(raised.value)


@pytest.mark.parametrize("options", [(), ("--atomic",), ("--dry-run",)])
def test_interrupted_it_says_which_orders_without_a_number_are_in(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(Command, "batch", 2)
    path, whole, batches = write([row(external_id="")] * 5), OrderRows.take, []

    def stopped(self: OrderRows, entries: Any) -> Any:
        batches.append(entries)
        if len(batches) == 3:
            raise KeyboardInterrupt
        return whole(self, entries)

    monkeypatch.setattr(OrderRows, "take", stopped)
    _, problem = interrupted(path, alice, *options)
    if options:
        assert "Run the same command again" in problem
        assert not Order.objects.exists()
    else:
        assert "All up to line 5 is done, and 4 orders there have no external_id: cut lines 2 to 5" in problem
        assert "goes on where it was" not in problem
        assert Order.objects.count() == 4


@pytest.mark.parametrize("options", [(), ("--atomic",), ("--json",)])
@pytest.mark.parametrize("is_twins", [False, True])
def test_who_is_erased_meanwhile_may_be_back_and_that_is_said(
    alice: Account, charlie: Account, write: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...],
    is_twins: bool,
) -> None:  # fmt: skip
    """Of a file that is uploaded the erasure knows, and refuses; of one that a command takes in the command does."""
    twin = ApiKey.issue(alice, name="Trial", is_test=True)[0].account
    path, whole = write([row(external_id=f"N{number}") for number in range(3)]), OrderRows.take
    for account in (charlie, twin if is_twins else alice):
        make_order(account, phone="0661 22 33 44")
    Order.objects.update(status=Status.CANCELED)

    def imported() -> str:
        err = StringIO()
        call_command("import_orders", str(path), "--account", alice.holder.email, *options,
                     stdout=StringIO(), stderr=err)  # fmt: skip
        return err.getvalue()

    def beside_an_erasure_in(account: Account) -> str:
        def take(self: OrderRows, entries: Any) -> Any:
            customer_data.erase(account, "+213661223344", actor=Actor.of_command("erase_customer"))
            return whole(self, entries)

        with monkeypatch.context() as erasing:
            erasing.setattr(OrderRows, "take", take)
            return imported()

    assert "erased" not in beside_an_erasure_in(charlie)
    assert "A customer of this account was erased while this ran" in beside_an_erasure_in(alice)
    assert "erased" not in imported()


def test_what_is_to_be_cut_off_are_whole_rows_and_no_heading(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Command, "batch", 2)
    path, whole = write([row(external_id="", customer_address="rue 1\nAlger\n")] * 5), OrderRows.take
    path.write_text(f"sep=,\n{path.read_text()}")

    def stopped(self: OrderRows, entries: Any) -> Any:
        if Order.objects.count() == 4:
            raise KeyboardInterrupt
        return whole(self, entries)

    monkeypatch.setattr(OrderRows, "take", stopped)
    _, problem = interrupted(path, alice)
    assert "All up to line 14 is done, and 4 orders there have no external_id: cut lines 3 to 14" in problem

    monkeypatch.setattr(OrderRows, "take", whole)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[14:]))
    assert run(path, alice)[0]["imported"] == 1
    assert Order.objects.count() == 5


def test_a_disk_that_is_full_hides_nothing_that_is_in(
    alice: Account, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path, report = write([row(), row(external_id="A2", customer_phone="1"), row(external_id="")]), tmp_path / "r.csv"
    monkeypatch.setattr(SafeWriter, "write", lambda self, cells: full() if "A2" in map(str, cells) else None)
    said, problem = interrupted(path, alice, "--report", str(report))
    assert "2 orders imported" in said
    assert f"{report} cannot be used: No space left on device. All up to line 4 is done" in problem

    said, problem = interrupted(path, alice, "--report", str(report), "--atomic")
    assert "0 orders imported" in said
    assert "Nothing was kept of this run." in problem


@pytest.mark.parametrize("options", [(), ("--atomic",), ("--dry-run",)])
def test_of_a_file_that_breaks_off_it_says_whether_what_comes_before_is_in(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(Command, "batch", 1)
    path = write([row(), row(external_id="A2"), row(external_id="A3")])
    path.write_text(f'{path.read_text()}"')
    _, problem = interrupted(path, alice, *options)
    assert "with the whole file" in problem
    assert Order.objects.exists() == ("What comes before is done" in problem) == (not options)
    assert ("Nothing was kept of this run." in problem) == bool(options)


@pytest.mark.django_db(transaction=True)
def test_a_batch_waits_for_locks_of_others_longer_than_a_request_would(alice: Account, write: Any) -> None:
    held, done = Event(), Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                make_order(alice, external_id="A1")
                held.set()
                done.wait(3)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        held.wait(PATIENCE)
        result, status = run(write([row(), row(external_id="A2")]), alice)
        done.set()
        holding.result()

    assert (result["already_there"], result["imported"], status) == (1, 1, 0)


@pytest.mark.parametrize(
    ("content", "says"), [(b"", "is empty"), ("name\nCafé".encode("cp850"), "UTF-8"), (None, "no file")]
)
@pytest.mark.django_db
def test_a_file_that_cannot_be_read_is_refused_in_words(
    alice: Account, tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "orders.csv"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(CommandError, match=says):
        call_command("import_orders", str(path), "--account", alice.holder.email)


@pytest.mark.django_db
def test_a_standard_input_that_is_closed_is_a_sentence(alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(CommandError, match="The standard input is closed"):
        call_command("import_orders", "-", account=alice.holder.email)


@pytest.mark.django_db
def test_a_file_comes_by_standard_input(alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As into a container, which does not see the file."""
    rows = [row(external_id=f"A{number}") for number in range(3)]
    with write(rows).open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        call_command("import_orders", "-", "--account", alice.holder.email)
    assert Order.objects.count() == 3

    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO("name\nCafé".encode("cp850"))))
    with pytest.raises(CommandError, match="The file is not UTF-8"):
        call_command("import_orders", "-", "--account", alice.holder.email)


@pytest.mark.django_db
def test_a_file_comes_by_a_pipe(alice: Account, write: Any, tmp_path: Path) -> None:
    """`zcat orders.csv.gz | manage.py import_orders /dev/stdin`, or `<(…)`."""
    content, pipe = write([row(), row(external_id="A2")]).read_bytes(), tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as writer:
        written = writer.submit(pipe.write_bytes, content)
        call_command("import_orders", str(pipe), "--account", alice.holder.email)
        written.result()
    assert Order.objects.count() == 2
