"""import_orders: a file of orders, by the API's rules."""

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from codservice.accounts.models import Account
from orders.models import Order

COLUMNS = ("external_id", "customer_name", "customer_phone", "customer_address", "customer_wilaya", "total_amount",
           "product_name", "quantity", "unit_price", "attributes")  # fmt: skip


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
    """What the command prints as JSON, and its exit status."""
    out = StringIO()
    try:
        arguments = ["import_orders", str(path), "--account", account.holder.email, "--json", *options]
        call_command(*arguments, stdout=out, stderr=StringIO())
    except CommandError as error:
        return json.loads(out.getvalue()), error.returncode
    return json.loads(out.getvalue()), 0


@pytest.mark.parametrize(("delimiter", "encoding"), [(",", "utf-8"), (";", "utf-8-sig"), ("\t", "utf-8")])
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


def test_rows_without_a_number_are_orders_of_their_own(alice: Account, write: Any) -> None:
    result, _ = run(write([row(external_id=""), row(external_id="")]), alice)

    assert result["imported"] == Order.objects.count() == 2


def test_good_orders_are_kept_and_each_bad_one_is_reported_with_its_line(alice: Account, write: Any) -> None:
    path = write([row(), row(external_id="A2", customer_phone="12", quantity="two"), row(external_id="A3")])

    result, status = run(path, alice)

    assert (result["imported"], result["refused"], status) == (2, 1, 1)
    (refused,) = result["errors"]
    assert refused["line"] == 3
    assert set(refused["errors"]) == {"customer_phone", "items.0.quantity"}


def test_a_file_can_be_imported_again(alice: Account, write: Any) -> None:
    path = write([row(), row(external_id="A2")])
    run(path, alice)

    result, status = run(path, alice)

    assert (result["imported"], result["skipped"], status) == (0, 2, 0)
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


def test_a_batch_costs_one_statement_however_many_orders(
    alice: Account, write: Any, django_assert_max_num_queries: Any
) -> None:
    path = write([row(external_id=f"N{number}") for number in range(400)])

    with django_assert_max_num_queries(4):
        result, _ = run(path, alice)

    assert result["imported"] == 400


@pytest.mark.parametrize(
    ("content", "says"), [(b"", "is empty"), ("name\nCafé".encode("latin-1"), "UTF-8"), (None, "no file")]
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
