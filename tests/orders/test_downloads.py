"""The list of orders as a file: everything its filters leave, safe to open, in constant memory."""

import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from types import SimpleNamespace

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.translation import override
from python_calamine import CalamineWorkbook

from codservice.accounts import team
from codservice.accounts.models import Account, Membership
from codservice.files import downloads, safe_csv, workbooks
from codservice.searches import one_at_a_time
from orders import export
from orders.models import Order, OrderItem
from tests.factories import UserFactory, make_order, make_orders, order_line
from tests.harness.background import PATIENCE
from tests.harness.client import browser_of
from tests.harness.memory import most_memory
from tests.harness.sheets import read_csv

FORMS = ["csv", "xlsx"]


def table(browser: Client, form: str, query: str = "", delimiter: str = ",") -> list[list[str]]:
    answer = browser.get(f"/account/orders/download.{form}{query}")
    assert answer.status_code == 200
    assert answer.headers["Content-Disposition"] == f'attachment; filename="orders.{form}"'
    data = b"".join(answer.streaming_content)
    if form == "csv":
        return read_csv(data, delimiter)
    return CalamineWorkbook.from_filelike(BytesIO(data)).get_sheet_by_index(0).to_python()


def numbers(browser: Client, form: str, query: str = "") -> list[str]:
    header, *rows = table(browser, form, query)
    return [row[header.index("Order number")] for row in rows]


@pytest.mark.parametrize("form", FORMS)
def test_a_list_is_downloaded_as_its_filters_leave_it(
    browser: Client, alice: Account, charlie: Account, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "DOWNLOADED", 3)
    make_order(charlie, external_id="theirs")
    for number in range(7):
        make_order(alice, external_id=f"N{number}", phone=f"055012345{number}", customer_name=f"Client {number % 2}")
        Order.objects.filter(external_id=f"N{number}").update(created_at=datetime(2026, 3, 1 + number, tzinfo=UTC))
    Order.objects.filter(external_id="N2").update(status="confirmed")

    assert numbers(browser, form) == [f"N{number}" for number in range(7)]
    assert numbers(browser, form, "?status=confirmed") == ["N2"]
    assert numbers(browser, form, "?q=Client+1") == ["N1", "N3", "N5"]
    assert numbers(browser, form, "?q=0550+12+34+54") == ["N4"]
    assert numbers(browser, form, "?created_from=2026-03-06&before=x&sort=nothing") == ["N5", "N6"]
    assert numbers(browser, form, "?phone=0699999999") == []
    assert browser.get(f"/account/orders/download.{form}?phone=12&q=a").url == "/account/orders?phone=12&q=a"


@pytest.mark.django_db(transaction=True)
def test_a_file_that_is_being_sent_waits_for_another_search_of_the_account(
    browser: Client, alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "DOWNLOADED", 1)
    for number in range(3):
        make_order(alice, external_id=f"N{number}")
    answer = browser.get("/account/orders/download.csv?q=Amine")
    searching, is_over = threading.Event(), threading.Event()

    def search() -> None:
        try:
            with one_at_a_time(alice.id):
                searching.set()
                time.sleep(0.5)
                is_over.set()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(search)
        assert searching.wait(PATIENCE)
        text = b"".join(answer.streaming_content).decode()
        assert is_over.is_set()
        other.result(PATIENCE)
    assert [f"N{number}" in text for number in range(3)] == [True] * 3


@pytest.mark.parametrize("form", FORMS)
def test_a_row_says_all_of_an_order_and_runs_nothing(browser: Client, alice: Account, form: str) -> None:
    text = "=HYPERLINK(1);\n@x"
    item = order_line(quantity=2, product_name="Robe", unit_price=5, attributes={"taille": "M"})
    make_order(alice, customer_address=text, customer_name="فاطمة & <b>", notes="a_x0041_b", items=[item])

    header, row = table(browser, form)

    said = dict(zip(header, row, strict=True))
    assert (said["Name"], said["Items"], said["Status"]) == (
        "فاطمة & <b>",
        "2 × Robe (taille: M)",
        "Pending confirmation",
    )
    if form == "csv":
        assert said["Address"] == "'=HYPERLINK(1);'\n'@x"
        assert (said["Phone"], said["To pay on delivery"]) == ("'+213550123456", "4500.50")
    else:  # in a spreadsheet, texts stay texts and numbers are numbers
        assert said["Address"] == text
        assert (said["Phone"], said["To pay on delivery"]) == ("0550123456", 4500.5)


@pytest.mark.parametrize(
    ("form", "said"),
    [("csv", ("'+213550123456", "'+21321556677", "")), ("xlsx", ("0550123456", "021556677", ""))],
)
def test_a_workbook_has_phones_as_couriers_take_them(
    browser: Client, alice: Account, form: str, said: tuple[str, ...]
) -> None:
    make_order(alice, customer_phone_2="021 55 66 77")
    make_order(alice)
    header, *rows = table(browser, form)
    first, second = (dict(zip(header, row, strict=True)) for row in rows)
    assert (first["Phone"], first["Second phone"], second["Second phone"]) == said


@pytest.mark.parametrize("form", FORMS)
def test_times_are_of_algeria_and_a_spreadsheet_knows_them_as_such(browser: Client, alice: Account, form: str) -> None:
    order = make_order(alice)
    Order.objects.filter(id=order.id).update(created_at=datetime(2026, 3, 1, 23, 30, 5, 700_000, tzinfo=UTC))

    header, row = table(browser, form)

    said = dict(zip(header, row, strict=True))
    at = datetime(2026, 3, 2, 0, 30, 5)
    assert said["Received"] == (at if form == "xlsx" else "2026-03-02 00:30:05")
    assert said["Confirmed on"] == ""


def test_of_an_order_no_more_is_held_than_a_cell_takes(browser: Client, alice: Account) -> None:
    details = {f"{number:064}": "é" * 255 for number in range(20)}
    make_order(alice, items=[order_line(product_name="Robe", quantity=1, unit_price=5, attributes=details)] * 100)
    ((order,),) = export.batches(Order.objects.filter(account=alice), export.DOWNLOADED)
    text = order[list(export.COLUMNS).index("items")]
    assert (len(text), text[:8]) == (workbooks.MAX_CELL, "1 × Robe")


def test_of_long_orders_few_are_in_memory(browser: Client, alice: Account) -> None:
    """A client may take the first piece of a file, and then nothing for hours."""
    details = {f"{number}": "😀" + "x" * 254 for number in range(20)}
    line = {"account": alice, "quantity": 1, "product_name": "Robe", "unit_price": 5, "attributes": details}
    orders = make_orders(alice, [{}] * 500)
    OrderItem.objects.bulk_create(
        OrderItem(order=order, position=place, **line) for order in orders for place in range(10, 17)
    )
    _, most = most_memory(lambda: next(iter(browser.get("/account/orders/download.csv").streaming_content)))
    assert most < 40 << 20


def test_a_french_spreadsheet_finds_semicolons_french_headings_and_numbers(browser: Client, alice: Account) -> None:
    make_order(alice, external_id="N1", customer_address="rue 1.5", total_amount=Decimal("4500.50"))
    browser.cookies["django_language"] = "fr"
    header, row = table(browser, "csv", delimiter=";")
    said = dict(zip(header, row, strict=True))
    assert (said["Numéro de commande"], said["Adresse"]) == ("N1", "rue 1.5")
    assert said["À payer à la livraison"] == "4500,50", "a number there has a comma"


@pytest.mark.parametrize(("language", "begins"), [("en", "left"), ("fr", "left"), ("ar-dz", "right")])
def test_a_sheet_begins_where_the_language_of_the_page_does(
    browser: Client, alice: Account, language: str, begins: str
) -> None:
    browser.cookies["django_language"] = language
    book = b"".join(browser.get("/account/orders/download.xlsx").streaming_content)
    sheet = zipfile.ZipFile(BytesIO(book)).read("xl/worksheets/sheet1.xml").decode()
    view = '<sheetViews><sheetView rightToLeft="1" workbookViewId="0"/></sheetViews>'
    assert f"{view}<cols>" in sheet if begins == "right" else "sheetView" not in sheet


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", ("Canceled", "Duplicate: of N1", "Stop desk", "Alger", "Bab El Oued")),
        ("fr", ("Annulée", "Doublon\u202f: of N1", "Stop desk", "Alger", "Bab El Oued")),
        ("ar-dz", ("ملغاة", "طلبية مكررة: of N1", "مكتب الاستلام", "الجزائر", "باب الوادي")),
    ],
)
def test_what_an_order_is_and_became_is_said_in_the_language_of_the_page(
    browser: Client, alice: Account, language: str, said: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "DOWNLOADED", 1)
    for _ in range(2):
        make_order(alice, delivery_type="desk")
    Order.objects.update(commune_code="1605", status="canceled", cancel_reason="Duplicate: of N1")
    browser.cookies["django_language"] = language
    answer = browser.get("/account/orders/download.csv")
    with override("en"):  # the language of the thread that sends the rest may be another
        data = b"".join(answer.streaming_content)
    names = ("status", "cancel_reason", "delivery_type", "wilaya", "commune")
    places = [list(export.COLUMNS).index(name) for name in names]
    _header, *rows = read_csv(data, "," if language == "en" else ";")
    assert [tuple(row[place] for place in places) for row in rows] == [said] * 2


def test_it_costs_one_statement_a_batch_and_no_transaction(
    browser: Client, alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "DOWNLOADED", 10)
    counts = []
    for orders in (5, 20):
        for _ in range(orders):
            make_order(alice)
        with CaptureQueriesContext(connection) as queries:
            table(browser, "csv")
        counts.append(len(queries))
        assert not [query for query in queries if "DECLARE" in query["sql"] or "SAVEPOINT" in query["sql"]]
    assert counts[1] - counts[0] == 2


@pytest.mark.parametrize("become", ["removed", "deactivated", "still here"])
def test_whoever_is_shut_out_gets_no_more_of_a_file(
    alice: Account, become: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "DOWNLOADED", 1)
    monkeypatch.setattr(safe_csv, "_PIECE", 1)
    for number in range(3):
        make_order(alice, external_id=f"N{number}")
    person = UserFactory()
    membership = Membership.objects.create(account=alice, user=person, role="manager")
    pieces = iter(browser_of(person).get("/account/orders/download.csv").streaming_content)
    assert b"N0" in next(pieces)

    if become == "removed":
        team.remove(alice.id, membership.id)
    elif become == "deactivated":
        person.deactivate()
    make_order(alice, external_id="later")
    monkeypatch.setattr(downloads, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + downloads.ASKED_EVERY))

    if become == "still here":
        assert b"later" in b"".join(pieces)
    else:
        with pytest.raises(PermissionDenied):
            next(pieces)
        assert list(pieces) == []


def test_a_long_workbook_is_given_piece_by_piece_and_goes_on_in_another_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbooks, "MAX_ROWS", 5000)
    monkeypatch.setattr(workbooks, "PIECE", 1000)
    asked = 0

    def rows() -> object:
        nonlocal asked
        for number in range(12_000):
            asked += 1
            yield [number, f"text {number * 7919 % 10007} \x00\ud800", None, "x" * 40_000 if number == 1 else ""]

    pieces = workbooks.pieces(["a", "b", "c", "d"], rows())  # type: ignore[arg-type]
    first = next(pieces)
    assert asked < 12_000
    book = CalamineWorkbook.from_filelike(BytesIO(first + b"".join(pieces)))
    sheets = [book.get_sheet_by_index(place).to_python() for place in range(3)]
    assert [len(sheet) for sheet in sheets] == [5000, 5000, 2003]
    assert all(sheet[0][:2] == ["a", "b"] for sheet in sheets)
    assert [row[0] for sheet in sheets for row in sheet[1:]] == list(range(12_000))
    assert sheets[0][1][1] == "text 0 \ufffd\ufffd"
    assert len(sheets[0][2][3]) == workbooks.MAX_CELL
