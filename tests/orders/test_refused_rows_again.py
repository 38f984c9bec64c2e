"""Refused rows of orders: mended in the report or in the file, and imported again."""

import csv
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from orders import amending, importing
from orders.models import Order, OrderEdit
from tests.factories import make_order
from tests.harness.sheets import read_csv, read_records, write_xlsx
from tests.orders.files import COLUMNS, mended, products_of, row, run


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
    header, *lines = read_csv(report.read_bytes())
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


def test_a_row_without_a_number_in_a_report_is_refused_with_the_order_above(alice: Account, tmp_path: Path) -> None:
    """It may be a line of that order or of a stranger's. Reports of earlier versions had such rows."""
    merged = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    foulard, good = merged | {"product_name": "Foulard"}, row(external_id="A2")
    report = tmp_path / "refused.csv"
    with report.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["line", "refused", *COLUMNS])
        writer.writeheader()
        rows = zip((2, 3, 5, 6), (row(total_amount=""), foulard, merged, good), strict=True)
        writer.writerows({"line": line, "refused": "x"} | cells for line, cells in rows)

    for imported in (1, 0):  # however often it is imported
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
    assert [cells["refused"].partition(":")[0] for cells in read_records(report.read_bytes())] == ["external_id"] * 2

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
    """It used to go in without them. Once their number was mended too, they were reported as already there."""
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
    assert [cells["external_id"] for cells in read_records(report.read_bytes())] == ["A1", number, number]
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
    for again in ("again.csv", "last.csv", "unread.csv"):  # however often it is imported
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


def test_a_formula_that_has_failed_is_one_with_an_invisible_mark_too(alice: Account, write: Any) -> None:
    """Such a file was given up as a whole, and a first row was imported as the order `#N/A`."""
    nobody = dict.fromkeys(COLUMNS, "")
    below = nobody | {"external_id": "\u200f#N/A", "product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    result, _ = run(write([row(external_id="1001"), below, nobody, row(external_id="\u200f#N/A")]), alice)

    assert (result["imported"], result["refused"]) == (0, 2)
    assert [[*each["errors"]] for each in result["errors"]] == [["items.1.external_id"], ["items.0.external_id"]]
    assert all(said.startswith("Is an error") for each in result["errors"] for (said,) in each["errors"].values())


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("x" * 70, ["at most 64", "If not, enter a number of its own"]),
        ("1,23457E+11", ["as text", "If not, enter a number of its own"]),
        ("#N/A", ["formula. Correct it, or enter the value"]),
    ],
    ids=["too long", "altered", "failed"],
)
def test_a_second_order_of_a_customer_is_told_first_that_its_number_cannot_be_used(
    alice: Account, write: Any, tmp_path: Path, number: str, said: list[str]
) -> None:
    path, report = write([row(), row(external_id=number, product_name="Sac")]), tmp_path / "refused.csv"
    result, _ = run(path, alice, "--report", str(report))

    assert result["imported"] == 0, "it may be a line of the first order"
    for part, text in zip(said, result["errors"][0]["errors"]["items.1.external_id"], strict=True):
        assert part in text

    mended(report, lambda cells: cells.update(external_id="A2") if cells["product_name"] == "Sac" else None)
    assert run(report, alice)[0]["imported"] == 2


def test_lines_that_an_order_was_imported_without_are_not_called_already_there(alice: Account, write: Any) -> None:
    """Rows that were apart are moved below each other, and the file is given again."""
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


def test_another_customers_order_is_not_called_already_there(alice: Account, write: Any) -> None:
    """A list that is numbered anew each day. Its orders were left out, and counted as if they had been imported."""
    first = write([row(customer_phone="0550 12 34 56 / 0661 11 22 33"), row(external_id="A2")])
    assert run(first, alice)[0]["imported"] == 2
    order = Order.objects.get(external_id="A1")
    amending.amend(alice.id, order.id, {"customer_phone": "0770112233"}, actor=Actor.of_command("test"))
    assert run(first, alice)[0]["already_there"] == 2, "somebody has corrected the phone"

    next_day = write([row(customer_phone="0555000000"), row(external_id="A2", customer_phone="0661 11 22 33")])
    for _ in range(2):
        result, _status = run(next_day, alice)
        assert (result["already_there"], result["refused"]) == (0, 2)
        assert {"with another phone" in each["errors"]["external_id"][0] for each in result["errors"]} == {True}
    Order.objects.filter(account=alice).update(anonymised_at=order.created_at)
    assert run(next_day, alice)[0]["already_there"] == 2, "nobody knows any more"


def test_nor_is_one_that_comes_while_the_file_is_taken_in(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two colleagues send different lists at once, each numbered from 1. Orders of the second were dropped."""
    named_products = importing.named_products

    def after_another(account_id: UUID, orders: Any) -> Any:
        monkeypatch.setattr(importing, "named_products", named_products)
        make_order(alice, external_id="1", phone="0550123456")
        make_order(alice, external_id="2", phone="0661112233")
        return named_products(account_id, orders)

    monkeypatch.setattr(importing, "named_products", after_another)
    result, _status = run(write([row(external_id="1"), row(external_id="2"), row(external_id="3")]), alice)

    assert (result["imported"], result["already_there"], result["refused"]) == (1, 1, 1)
    assert result["errors"][0]["line"] == 3
    assert "with another phone" in result["errors"][0]["errors"]["external_id"][0]


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
