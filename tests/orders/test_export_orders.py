"""export_orders: every order once, shown as text by a spreadsheet, which runs none of it."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.core.management import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts.models import Account
from codservice.files.tables import Table
from orders import export as exporting
from orders.models import Order, OrderItem
from tests.factories import make_order, order_line
from tests.harness.manage import output
from tests.harness.sheets import read_records

pytestmark = pytest.mark.django_db


def export(account: Account, *options: str) -> str:
    return output("export_orders", "--account", account.holder.email, *options)


def rows(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    assert text.startswith("\ufeff")
    return read_records(text.encode(), delimiter)


def ids(account: Account, *options: str) -> list[str]:
    return [row["external_id"] for row in rows(export(account, *options))]


def test_a_row_says_all_of_an_order(alice: Account) -> None:
    order = make_order(
        alice,
        external_id="A-1",
        customer_commune="Bab Ezzouar",
        notes="Après 17 h",
        customer_phone_2="021 55 66 77",
        delivery_type="desk",
        source="facebook",
        items=[
            order_line(
                quantity=2, product_name="Robe", unit_price=Decimal(5), attributes={"taille": "M", "ton": "bleu"}
            ),
            order_line(quantity=1, product_name="Sac", unit_price=Decimal(1)),
        ],
    )
    Order.objects.update(created_at=datetime(2026, 3, 1, 23, 30, 5, tzinfo=UTC))

    (row,) = rows(export(alice))

    assert tuple(row) == tuple(exporting.COLUMNS)
    assert row["order_id"] == str(order.id)
    assert row["created_at"] == "2026-03-02 00:30:05", "Algiers is an hour ahead"
    expected = {
        "external_id": "A-1",
        "status": "pending_confirmation",
        "confirmed_at": "",
        "customer_phone": "'+213550123456",
        "wilaya": "Alger",
        "commune": "Bab Ezzouar",
        "items": "2 × Robe (ton: bleu, taille: M); 1 × Sac",
        "total_amount": "4500.50",
        "notes": "Après 17 h",
        "delivery_type": "desk",
        "source": "facebook",
        "customer_phone_2": "'+21321556677",
    }
    assert {name: row[name] for name in expected} == expected


HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("http://evil.example")', "a\n=1", "a;=1", 'quote " and, comma']


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_no_cell_is_a_formula_and_all_come_back_as_they_were(
    alice: Account, tmp_path: Path, text: str, delimiter: str
) -> None:
    order = make_order(alice, items=[order_line(quantity=1, product_name="Sac", unit_price=Decimal(1))])
    # Written directly, because an import would refuse some of these.
    written = {"customer_name": text, "customer_address": text, "notes": text, "external_id": text}
    Order.objects.filter(id=order.id).update(**written)
    OrderItem.objects.filter(order_id=order.id).update(product_name=text, attributes={text: text})
    path = tmp_path / "orders.csv"
    path.write_text(export(alice, "--delimiter", delimiter), encoding="utf-8", newline="")

    (row,) = rows(path.read_text(encoding="utf-8"), delimiter)
    (read,) = Table(path)

    assert [cell for cell in row.values() if cell[:1] in tuple("=+-@\t\r\n")] == []
    assert [read.cells[name] for name in ("customer_name", "customer_address", "notes", "external_id")] == [text] * 4
    assert read.cells["customer_phone"] == "+213550123456"


def test_each_order_comes_once_and_oldest_first_over_all_batches(
    alice: Account, charlie: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "BATCH", 4)
    make_order(charlie, external_id="theirs")
    for number in range(10):
        make_order(alice, external_id=f"N{number}")
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    for number in range(10):  # seven at the same moment, across the border of two batches
        Order.objects.filter(external_id=f"N{number}").update(
            created_at=moment + timedelta(days=0 if 1 < number < 9 else number)
        )

    found = ids(alice)

    assert sorted(found) == [f"N{number}" for number in range(10)]
    assert found[-2:] == ["N1", "N9"]


def test_filters(alice: Account) -> None:
    for number, day in enumerate((1, 2, 3)):
        make_order(alice, external_id=f"N{number}")
        # 23:30 UTC is the next day in Algiers.
        Order.objects.filter(external_id=f"N{number}").update(created_at=datetime(2026, 3, day, 23, 30, tzinfo=UTC))
    Order.objects.filter(external_id="N2").update(status="confirmed")

    assert ids(alice, "--from", "2026-03-03", "--to", "2026-03-03") == ["N1"]
    assert ids(alice, "--to", "2026-03-02") == ["N0"]
    assert ids(alice, "--from", "2026-03-02T23:30:00Z") == ["N1", "N2"]
    assert ids(alice, "--status", "confirmed,shipped") == ["N2"]
    assert ids(alice, "--status", "canceled") == []
    unusable = {"--status": "x", "--from": "yesterday", "--to": "2026-02-30"}
    for options in (*unusable.items(), *((option, "") for option in unusable)):
        with pytest.raises(CommandError, match=options[0]):
            export(alice, *options)
    with pytest.raises(CommandError, match="--to: The period must end after it begins"):
        export(alice, "--from", "2026-03-03", "--to", "2026-03-02")


def test_json_is_an_object_per_line_as_it_is(alice: Account) -> None:
    make_order(alice, customer_name="=1+1", external_id="A")
    make_order(alice, external_id="B")

    lines = [json.loads(line, parse_float=Decimal) for line in export(alice, "--json").splitlines()]

    assert [line["external_id"] for line in lines] == ["A", "B"]
    assert (lines[0]["customer_name"], lines[0]["total_amount"]) == ("=1+1", Decimal("4500.50"))
    assert lines[0]["customer_phone"] == "+213550123456"


def test_a_batch_costs_one_statement_and_no_transaction(alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "BATCH", 10)
    for _ in range(25):
        make_order(alice)

    with CaptureQueriesContext(connection) as queries:
        assert len(rows(export(alice))) == 25

    assert len(queries) == 2 + 3  # + the account and the count for the progress bar
    assert not [query for query in queries if "DECLARE" in query["sql"] or "SAVEPOINT" in query["sql"]]


def test_no_orders_are_a_header(alice: Account) -> None:
    assert export(alice) == "\ufeff" + ",".join(exporting.COLUMNS) + "\r\n"
    assert export(alice, "--json") in ("", "\n")
