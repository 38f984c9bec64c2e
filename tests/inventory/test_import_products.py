"""import_products: a file of products, upserted by sku; each bad row with its line, each change of stock told."""

import csv
import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from codservice.files.intake import NO_NUMBER
from codservice.files.tables import Row, Table
from inventory.models import Product, StockMovement
from inventory.product_files import ProductRows
from tests.factories import ProductFactory
from tests.harness.manage import printed
from tests.harness.sheets import write_xlsx
from tests.inventory.stock import INVENTORY, kinds_told, movements, products, told
from webhooks.models import Event

pytestmark = pytest.mark.django_db

HEADER = ("sku", "name", "price", "stock_quantity", "is_active")


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a CSV file: `write(("ROBE", "Robe", "1500", "3", ""), …, header=…)`."""

    def write_csv(*rows: tuple[str, ...], header: tuple[str, ...] = HEADER, delimiter: str = ",") -> Path:
        path = tmp_path / "products.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=delimiter).writerows([header, *rows])
        return path

    return write_csv


def run(path: Path, account: Account, *options: str) -> tuple[dict[str, Any], int]:
    return printed("import_products", path, "--account", account.holder.email, *options)


def counts(result: dict[str, Any]) -> tuple[int, int, int, int]:
    return tuple(result[name] for name in ("created", "updated", "unchanged", "refused"))  # type: ignore[return-value]


def test_new_products_are_made(alice: Account, write: Any) -> None:
    path = write(
        ("ROBE", "Robe kabyle", "1500", "3", "no"),
        ("SAC", " حقيبة ", "99.9", "0", ""),
        ("FOULARD", "F", "0", "", "Oui"),
    )

    result, status = run(path, alice)

    assert (counts(result), status, result["errors"], result["dry_run"]) == ((3, 0, 0, 0), 0, [], False)
    assert products(alice) == [
        ("FOULARD", "F", "0.00", 0, True),
        ("ROBE", "Robe kabyle", "1500.00", 3, False),
        ("SAC", "حقيبة", "99.90", 0, True),
    ]
    robe = Product.objects.get(sku="ROBE")
    assert movements(robe) == told(robe) == [(0, 3)]
    assert StockMovement.objects.get().actor == "import_products"
    assert kinds_told() == {"product.updated": 3, "inventory.updated": 1}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_optional_columns_may_be_missing(alice: Account, write: Any, delimiter: str) -> None:
    path = write(("9.5", "ROBE", "Robe"), header=("Price", " SKU", "name"), delimiter=delimiter)

    assert run(path, alice)[1] == 0
    assert products(alice) == [("ROBE", "Robe", "9.50", 0, True)]


def test_headings_and_amounts_are_understood_as_people_write_them(alice: Account, write: Any) -> None:
    header = ("Référence", "Désignation", "Prix de vente", "Qté en stock", "En vente")
    assert run(write(("ROBE", "Robe", "1 500,50 DA", "3", "Non"), header=header), alice)[1] == 0
    assert products(alice) == [("ROBE", "Robe", "1500.50", 3, False)]


def test_a_known_product_keeps_what_a_row_leaves_empty(alice: Account, charlie: Account, write: Any) -> None:
    ProductFactory(account=alice, sku="ROBE", name="Robe", stock_quantity=1)
    ProductFactory(account=charlie, sku="SAC")
    result, status = run(write(("ROBE", "", "", "7", ""), ("SAC", "", "", "7", "")), alice)

    assert (products(alice), status) == ([("ROBE", "Robe", "1500.00", 7, True)], 1)
    assert [(error["sku"], set(error["errors"])) for error in result["errors"]] == [("SAC", {"name", "price"})]


def test_pictures_and_scripts_come_by_file_too(alice: Account, write: Any) -> None:
    header = ("sku", "name", "price", "image_url", "script")
    run(write(("ROBE", "Robe", "1500", "https://shop.example/robe.jpg", "S, M, L"), header=header), alice)
    run(write(("ROBE", "Robe", "1500", "", ""), header=header), alice)  # empty counts as not given

    assert Product.objects.values_list("image_url", "script").get() == ("https://shop.example/robe.jpg", "S, M, L")
    result, status = run(write(("ROBE", "Robe", "1500", "http://shop.example/1", "x" * 2001), header=header), alice)
    assert (status, result["errors"][0]["errors"].keys()) == (1, {"image_url", "script"})


def test_known_products_are_changed_by_sku(alice: Account, charlie: Account, write: Any) -> None:
    ProductFactory(account=alice, sku="ROBE", name="Old", is_active=False)
    ProductFactory(account=alice, sku="SAC", name="Sac")
    ProductFactory(account=charlie, sku="ROBE", name="Charlie's")

    result, _ = run(write(("ROBE", "New", "2000", "4", "1"), ("SAC", "Sac bleu", "1500.00", "", "")), alice)

    assert counts(result) == (0, 2, 0, 0)
    assert products(alice) == [("ROBE", "New", "2000.00", 4, True), ("SAC", "Sac bleu", "1500.00", 10, True)]
    assert [row[1] for row in products(charlie)] == ["Charlie's"]
    robe = Product.objects.get(account=alice, sku="ROBE")
    assert movements(robe) == told(robe) == [(10, 4)]
    assert StockMovement.objects.count() == 1
    assert kinds_told() == {"product.updated": 2, "inventory.updated": 1}


def test_a_product_that_is_made_or_edited_is_told_as_the_inventory_lists_it(
    alice: Account, api: Any, write: Any
) -> None:
    run(write(("ROBE", "Robe", "1500", "3", "no"), ("SAC", "Sac", "9.5", "", "")), alice)
    run(write(("ROBE", "Robe", "1500.00", "8", ""), ("SAC", "Sac", "10", "", "")), alice)

    told = [json.loads(event.body) for event in Event.objects.filter(kind="product.updated").order_by("created_at")]
    listed = {each["sku"]: each for each in api.get(INVENTORY).json()["data"]}
    robe, sac = listed["ROBE"], listed["SAC"]
    assert sorted((each["data"] for each in told[:2]), key=lambda data: data["sku"]) == [
        robe | {"stock_quantity": 3},
        sac | {"price": "9.50"},
    ]
    assert [each["data"] for each in told[2:]] == [sac]  # only the stock of the other one is new


def test_what_is_unchanged_is_not_written(alice: Account, write: Any) -> None:
    path = write(("ROBE", "Robe", "1500.0", "3", ""), ("SAC", "Sac", "10", "", "false"))
    run(path, alice)
    before = list(Product.objects.order_by("sku").values())

    result, _ = run(path, alice)

    assert counts(result) == (0, 0, 2, 0)
    assert list(Product.objects.order_by("sku").values()) == before
    assert StockMovement.objects.count() == 1
    assert kinds_told() == {"product.updated": 2, "inventory.updated": 1}


BAD_ROWS = {
    "no sku": (("", "Robe", "1", "1", ""), {"sku"}),
    "long sku": (("x" * 65, "Robe", "1", "1", ""), {"sku"}),
    "control character": (("A\x01", "Robe", "1", "1", ""), {"sku"}),
    "shortened sku": (("6,13E+12", "Robe", "1", "1", ""), {"sku"}),
    "sku made a date": (("2026-05-04", "Robe", "1", "1", ""), {"sku"}),
    "no name": (("BAD", "", "1", "1", ""), {"name"}),
    "invisible name": (("BAD", "\u200b", "1", "1", ""), {"name"}),
    "no price": (("BAD", "Robe", "", "1", ""), {"price"}),
    "price with two commas": (("BAD", "Robe", "1,5,0", "1", ""), {"price"}),
    "negative price": (("BAD", "Robe", "-1", "1", ""), {"price"}),
    "three places": (("BAD", "Robe", "1.005", "1", ""), {"price"}),
    "too dear": (("BAD", "Robe", "100000000", "1", ""), {"price"}),
    "superscript digits": (("BAD", "Robe", "¹²", "¹²", ""), {"price", "stock_quantity"}),
    "exponent": (("BAD", "Robe", "1e3", "1e3", ""), {"price", "stock_quantity"}),
    "negative stock": (("BAD", "Robe", "1", "-1", ""), {"stock_quantity"}),
    "too much stock": (("BAD", "Robe", "1", "1000000001", ""), {"stock_quantity"}),
    "half a thing": (("BAD", "Robe", "1", "1.5", ""), {"stock_quantity"}),
    "perhaps": (("BAD", "Robe", "1", "1", "maybe"), {"is_active"}),
    "everything": (("", "", "", "x", "x"), set(HEADER)),
    "too short": (("BAD",), {"name", "price"}),
}


@pytest.mark.parametrize(("row", "fields"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_each_bad_row_is_reported_with_its_line_and_the_good_are_kept(
    alice: Account, write: Any, row: tuple[str, ...], fields: set[str]
) -> None:
    result, status = run(write(("A", "Robe", "1", "1", ""), row, ("Z", "Robe", "1", "1", ""), row), alice)

    assert [(error["line"], set(error["errors"])) for error in result["errors"]] == [(3, fields), (5, fields)]
    assert (counts(result), status) == ((2, 0, 0, 2), 1)
    assert [product[0] for product in products(alice)] == ["A", "Z"]


@pytest.mark.parametrize(("row", "name"), [(("New", "2000"), "New"), (("", ""), "Robe")], ids=["full", "stock alone"])
def test_a_sku_that_looks_shortened_is_read_where_a_product_has_it(
    alice: Account, charlie: Account, write: Any, row: tuple[str, str], name: str
) -> None:
    ProductFactory(account=alice, sku="6,13E+12", name="Robe")
    ProductFactory(account=charlie, sku="6,14E+12")

    result, _ = run(write(("6,13E+12", *row, "4", ""), ("6,14E+12", "New", "2000", "4", "")), alice)

    assert (counts(result), result["errors"][0]["errors"].keys()) == ((0, 1, 0, 1), {"sku"})
    product = Product.objects.get(account=alice)
    assert (product.name, product.stock_quantity) == (name, 4)


def test_invisible_marks_around_a_sku_are_the_spreadsheets_unless_a_product_has_them(
    alice: Account, write: Any
) -> None:
    """As Excel brings them with text in both scripts."""
    ProductFactory(account=alice, sku="SKU1", name="Robe")
    ProductFactory(account=alice, sku="\u200fSKU2", name="Caftan")  # the API stores what it is sent

    rows = (
        ("\u200fSKU1", "", "", "4", ""),
        ("\u200fSKU2", "", "", "5", ""),
        ("\u202aNEW\u202c", "Haïk", "2000", "6", ""),
        ("SKU1\u200e", "", "", "7", ""),
    )
    result, _ = run(write(*rows), alice)

    assert (counts(result), result["errors"][0]["errors"]) == ((1, 2, 0, 1), {"sku": ["Line 2 has the same SKU."]})
    assert [(product[0], product[3]) for product in products(alice)] == [("NEW", 6), ("SKU1", 4), ("\u200fSKU2", 5)]


def test_two_products_may_differ_by_invisible_marks_around_their_skus_in_one_file(alice: Account, write: Any) -> None:
    """As the download has them, which can be sent again."""
    for sku in ("SKU1", "\u200fSKU1"):
        ProductFactory(account=alice, sku=sku, name="Robe")

    result, _ = run(write(("SKU1", "", "", "4", ""), ("\u200fSKU1", "", "", "5", ""), ("SKU1", "", "", "6", "")), alice)

    assert (counts(result), result["errors"][0]["errors"]) == ((0, 2, 0, 1), {"sku": ["Line 2 has the same SKU."]})
    assert [(product[0], product[3]) for product in products(alice)] == [("SKU1", 4), ("\u200fSKU1", 5)]


def test_what_an_earlier_run_took_in_is_noted_without_asking_for_each_row(
    alice: Account, django_assert_num_queries: Any
) -> None:
    """Otherwise a large file whose SKUs all have marks would not come to its next rows before its lease is over."""
    rows = ProductRows(alice.id, actor=Actor.of_command("import_products"))
    with django_assert_num_queries(0):
        for line in range(2, 12):
            rows.note([Row(line, {"sku": f"\u200fSKU{line}", "stock_quantity": "4"}, [])])
    ProductFactory(account=alice, sku="SKU3", name="Robe")

    refused = rows.take([[Row(12, {"sku": "\u200fSKU3", "stock_quantity": "5"}, [])]]).refused

    assert [errors for _entry, errors in refused] == [{"sku": ["Line 3 has the same SKU."]}]


def test_numbers_may_be_written_with_the_digits_of_an_arabic_keyboard(alice: Account, write: Any) -> None:
    result, status = run(write(("A", "Robe", "٢٬٥٠٠٫٥٠", "١٢", "")), alice)

    assert (counts(result), status) == ((1, 0, 0, 0), 0)
    assert products(alice) == [("A", "Robe", "2500.50", 12, True)]


def test_lines_are_counted_as_an_editor_counts_them(alice: Account, tmp_path: Path) -> None:
    path = tmp_path / "products.csv"
    path.write_text('sku,name,price,note\n\nA,Robe,1,"two\n lines"\n,,\nB,Robe,x\nA,Robe,1\n')

    result, _ = run(path, alice)

    assert [(error["line"], error["sku"]) for error in result["errors"]] == [(6, "B"), (7, "A")]


def test_a_sku_that_comes_twice_is_reported_and_the_first_row_holds(alice: Account, write: Any) -> None:
    path = write(("CAFÉ", "First", "1", "1", ""), ("X", "X", "1", "", ""), ("CAFE\u0301", "Second", "2", "2", ""))

    result, status = run(path, alice)

    assert (counts(result), status) == ((2, 0, 0, 1), 1)
    assert result["errors"] == [{"line": 4, "sku": "CAFE\u0301", "errors": {"sku": ["Line 2 has the same SKU."]}}]
    assert products(alice)[0][:2] == ("CAFÉ", "First")


def test_a_dry_run_says_what_would_happen_and_changes_nothing(alice: Account, write: Any) -> None:
    ProductFactory(account=alice, sku="ROBE", name="Old")
    path = write(("ROBE", "New", "1", "9", ""), ("SAC", "Sac", "1", "9", ""), ("BAD", "", "", "", ""))
    before = products(alice)

    for options in (["--dry-run"], ["--dry-run", "--atomic"]):
        result, status = run(path, alice, *options)
        assert (counts(result), status, result["dry_run"]) == ((1, 1, 0, 1), 1, True)

    assert products(alice) == before
    assert not StockMovement.objects.exists()
    assert not Event.objects.exists()


def test_atomic_imports_all_or_nothing(alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProductRows, "batch", 2)
    good = [(f"P{number}", "Robe", "1", "1", "") for number in range(5)]

    result, status = run(write(*good, ("BAD", "", "1", "", ""), ("P9", "Robe", "x", "", "")), alice, "--atomic")
    assert (counts(result), status) == ((0, 0, 0, 2), 1)
    assert [error["line"] for error in result["errors"]] == [7, 8]
    assert not Product.objects.exists()
    assert not Event.objects.exists()

    result, status = run(write(*good), alice, "--atomic")
    assert (counts(result), status) == ((5, 0, 0, 0), 0)
    assert Product.objects.count() == 5
    assert kinds_told() == {"product.updated": 5, "inventory.updated": 5}


def test_a_file_is_imported_in_batches_of_a_few_statements(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProductRows, "batch", 100)
    path = write(*((f"P{number:03}", "Robe", "1", str(number), "") for number in range(250)))

    with CaptureQueriesContext(connection) as queries:
        assert counts(run(path, alice)[0]) == (250, 0, 0, 0)

    assert Product.objects.count() == 250
    assert StockMovement.objects.count() == 249
    assert kinds_told() == {"product.updated": 250, "inventory.updated": 249}
    # The account; a batch: two for each savepoint, its own and that of its products, and lock, look, write, tell.
    assert len(queries) == 1 + 3 * 8


def test_what_a_person_reads(alice: Account, write: Any) -> None:
    out, err = StringIO(), StringIO()
    path = write(("ROBE", "Robe", "1", "", ""), ("BAD", "Robe", "x", "y", ""))

    with pytest.raises(CommandError, match=r"Refused: 1\. "):
        call_command("import_products", path, "--account", alice.holder.email, stdout=out, stderr=err)

    assert out.getvalue().splitlines() == [
        "line 3: price: Must be a number, or a string of digits with at most one point.",
        "line 3: stock_quantity: Must be an integer from 0 to 1000000000.",
    ]
    assert "1 created, 0 changed, 0 unchanged, 1 refused" in err.getvalue()


def test_a_terminal_sees_a_progress_bar(alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)

    run(write(*((f"P{number}", "Robe", "1", "", "") for number in range(40))), alice)

    assert "41/41" in terminal.getvalue()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"sku,name\nA,B", "no column price"),
        (b"id;sku", "no column name, price"),
        ("sku,name,price\nA,Café,1".encode("cp850"), "UTF-8"),
        (None, "no file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_words(
    alice: Account, tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "products.csv"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(CommandError, match=says):
        call_command("import_products", path, "--account", alice.holder.email, stdout=StringIO(), stderr=StringIO())
    assert not Product.objects.exists()


def test_a_header_alone_is_an_empty_import(alice: Account, write: Any) -> None:
    assert counts(run(write(), alice)[0]) == (0, 0, 0, 0)


def test_an_unknown_account_is_refused(write: Any) -> None:
    with pytest.raises(CommandError, match=r"nobody@example\.dz"):
        call_command("import_products", write(), "--account", "nobody@example.dz")


@pytest.mark.process  # the process that reads a spreadsheet
def test_a_spreadsheet(alice: Account, tmp_path: Path) -> None:
    path = tmp_path / "products.xlsx"
    write_xlsx(
        path,
        [[*HEADER], ["ROBE", "Robe", 1500, 3, True], [1042, "حقيبة", 99.5, "", False], ["BAD", "", 1.005, 1.5, ""]],
    )

    result, _ = run(path, alice)

    assert products(alice) == [("1042", "حقيبة", "99.50", 0, False), ("ROBE", "Robe", "1500.00", 3, True)]
    assert [(error["line"], set(error["errors"])) for error in result["errors"]] == [
        (4, {"name", "price", "stock_quantity"})
    ]


@pytest.mark.process  # the process that reads a spreadsheet
def test_a_sku_of_more_digits_than_a_spreadsheet_keeps_is_refused(alice: Account, tmp_path: Path) -> None:
    path = tmp_path / "products.xlsx"
    write_xlsx(path, [[*HEADER], *([sku, "Robe", 1500, 3, ""] for sku in (6130000000000000123, 613_000_000_000_000))])

    result, _ = run(path, alice)

    assert products(alice) == [("613000000000000", "Robe", "1500.00", 3, True)]
    assert [(error["line"], error["errors"]) for error in result["errors"]] == [(2, {"sku": [NO_NUMBER]})]


@pytest.mark.process  # the process that reads a spreadsheet
def test_progress_goes_by_lines_of_which_a_row_may_have_several(alice: Account, write: Any, tmp_path: Path) -> None:
    rows = ((f"P{number}", "Robe", "1", "", "", "bleue\nou rouge") for number in range(30))
    path = write(*rows, header=(*HEADER, "remarques"))
    with path.open("a") as file:
        file.write(",,,,,\n" * 9)  # as spreadsheets leave them
    sheet, err = tmp_path / "products.xlsx", StringIO()
    write_xlsx(sheet, [["sku"], ["A"], ["B"]])

    call_command("import_products", path, "--account", alice.holder.email, stdout=StringIO(), stderr=err)

    assert "100 %: 70 of 70 lines" in err.getvalue().splitlines()
    path.write_bytes(path.read_bytes().rstrip(b",\r\n"))
    wide = tmp_path / "utf-16.csv"
    wide.write_text("sku\nA\nB", encoding="utf-16")
    for table in (Table(path), Table(wide), Table(sheet)):
        assert table.line_count() == [row.end for row in table][-1]


def test_refused_rows_are_mended_and_fed_back(alice: Account, write: Any, tmp_path: Path) -> None:
    path = write(("=SUM(1)", "-Robe", "x", "3", ""), ("SAC", "Sac", "1", "", ""), delimiter=";")
    report = tmp_path / "refused.csv"

    result, status = run(path, alice, "--report", str(report))

    assert (counts(result), status) == ((1, 0, 0, 1), 1)
    header, line = report.read_text(encoding="utf-8-sig").splitlines()
    assert header == "line;refused;sku;name;price;stock_quantity;is_active"
    assert line.endswith(";'=SUM(1);'-Robe;x;3;")

    report.write_text(f"{header}\n{line.replace(';x;', ';1;')}\n", encoding="utf-8")
    assert counts(run(report, alice)[0]) == (1, 0, 0, 0)
    assert products(alice)[0][:2] == ("=SUM(1)", "-Robe")
