"""Files of products on the account's pages: imported by the catalog's rules, and downloaded as they are imported."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext

from codservice.accounts.models import Account
from codservice.files import intake
from codservice.files.headings import meant
from codservice.uploads import processing
from codservice.uploads.models import RefusedRow, Upload
from inventory import product_files
from inventory.models import Product, StockMovement
from inventory.product_files import COLUMNS, ProductRows
from tests.factories import ProductFactory
from tests.harness.background import held_up
from tests.harness.client import browser_of
from tests.harness.database import end_sessions
from tests.harness.manage import kill_once
from tests.harness.sheets import Failed, ods, read_csv, workbook
from tests.inventory.stock import kinds_told, products
from tests.uploads import files
from tests.uploads.files import chosen, csv_of, downloaded, take_in, xlsx_of

PAGE = "/account/products/upload"
HEADER = ("Référence", "Désignation", "Prix de vente", "Qté en stock", "En vente", "Lien image", "Argumentaire")
ROBE = ("ROBE", "Robe kabyle", "4 500,50 DA", "12", "oui", "https://shop.example/robe.jpg", "S, M, L")
WORKER = """
import django; django.setup()
from codservice.uploads import processing
from inventory.product_files import ProductRows
ProductRows.batch = 500
processing.go_on()
"""


def send(browser: Client, data: bytes, name: str = "products.csv") -> Upload:
    return files.send(browser, data, name, PAGE)


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_a_file_makes_and_changes_products(browser: Client, alice: Account, charlie: Account, kind: str) -> None:
    ProductFactory(account=alice, sku="SAC", name="Old", stock_quantity=3)
    ProductFactory(account=alice, sku="SAME", name="Same", price=Decimal(10), stock_quantity=0)
    ProductFactory(account=charlie, sku="ROBE", name="Charlie's")
    rows = [ROBE, ("SAC", "حقيبة", "99", "", "لا", "", ""), ("SAME", "Same", "10", "0", "1", "", "")]
    upload = send(browser, csv_of(rows, HEADER) if kind == "csv" else xlsx_of(rows, HEADER), f"products.{kind}")
    assert chosen(browser, upload) == {column.name: str(place) for place, column in enumerate(COLUMNS)}

    upload = take_in(browser, upload)

    assert (upload.status, upload.counts) == ("done", {"created": 1, "updated": 1, "unchanged": 1, "refused": 0})
    assert products(alice) == [
        ("ROBE", "Robe kabyle", "4500.50", 12, True),
        ("SAC", "حقيبة", "99.00", 3, False),
        ("SAME", "Same", "10.00", 0, True),
    ]
    assert [row[1] for row in products(charlie)] == ["Charlie's"]
    robe = Product.objects.get(account=alice, sku="ROBE")
    assert (robe.image_url, robe.script) == ("https://shop.example/robe.jpg", "S, M, L")
    movement = StockMovement.objects.get()
    assert (movement.product, movement.actor, movement.user) == (robe, alice.holder.display_name, alice.holder)
    assert kinds_told() == {"product.updated": 2, "inventory.updated": 1}
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "<dt>New</dt>" in page
    assert 'href="/account/products"' in page


def test_a_stock_may_stand_as_a_spreadsheet_shows_it(browser: Client, alice: Account) -> None:
    ProductFactory(account=alice, sku="SAC", name="Sac", price=Decimal(10), stock_quantity=3)
    upload = take_in(browser, send(browser, csv_of([("SAC", "1\u202f200,00")], ("SKU", "Stock"))))
    assert upload.counts == {"updated": 1, "refused": 0}
    assert products(alice) == [("SAC", "Sac", "10.00", 1200, True)]


@pytest.mark.process
@pytest.mark.parametrize("write", [workbook, ods])
def test_a_formula_that_has_failed_is_no_empty_cell(browser: Client, alice: Account, write: Any) -> None:
    ProductFactory(account=alice, sku="SAC", stock_quantity=3)
    rows = [["SKU", "Nom", "Stock"], ["SAC", "Sac à main", Failed("#N/A")]]
    upload = take_in(browser, send(browser, write({"1": rows}), "products.xlsx"))
    assert upload.counts == {"refused": 1}
    assert [column for column, _said in RefusedRow.objects.get().faults] == ["stock_quantity"]


def test_arabic_of_which_only_question_marks_were_saved_is_no_name(browser: Client, alice: Account) -> None:
    """As French Excel saves it, unless told otherwise."""
    rows = [("SAC", "حقيبة يد", "10", ""), ("ROBE", "Robe", "10", "???")]
    data = csv_of(rows, ("SKU", "Nom", "Prix", "Argumentaire")).decode().encode("cp1252", "replace")
    upload = take_in(browser, send(browser, data))
    assert upload.counts == {"created": 1, "refused": 1}
    assert RefusedRow.objects.get().faults == [["name", [intake.LOST]]]
    assert Product.objects.get(account=alice).script == "???"


def test_a_list_of_stock_is_a_file_too(browser: Client, alice: Account) -> None:
    ProductFactory(account=alice, sku="ROBE", name="Robe", stock_quantity=3)
    upload = take_in(browser, send(browser, csv_of([("ROBE", "40"), ("SAC", "5")], ("SKU", "المخزون"))))
    assert upload.counts == {"updated": 1, "refused": 1}
    assert products(alice) == [("ROBE", "Robe", "1500.00", 40, True)]
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert page.count("You have no product with this SKU yet, and a new product needs this.") == 2


def test_a_name_may_have_several_lines(browser: Client, alice: Account) -> None:
    take_in(browser, send(browser, csv_of([("SAC", "Sac\nà main", "10")], ("SKU", "Nom", "Prix"))))
    assert products(alice) == [("SAC", "Sac à main", "10.00", 0, True)]


def test_a_sku_alone_says_nothing(browser: Client) -> None:
    upload = send(browser, csv_of([("ROBE", "x")], ("SKU", "?")))
    answer = browser.post(f"/account/uploads/{upload.id}", chosen(browser, upload))
    assert answer.status_code == 422
    assert "Choose one of: Name, Price, In stock" in answer.content.decode()


@pytest.mark.parametrize(
    "header",
    [
        "sku,name,price,stock_quantity,is_active,image_url,script",
        "SKU,Name,Price,In stock,For sale,Link to a picture,What agents say about it",
        "SKU,Name,Price,In stock,On sale,Link to a picture,What agents say of it",
        "Référence produit,Nom du produit,Prix unitaire,Quantité en stock,En vente,Photo,Argumentaire",
        "المرجع,اسم المنتج,السعر,الكمية المتوفرة,للبيع,رابط الصورة,script",
        "Variant SKU,Title,Variant Price,Variant Inventory Qty,active,Image Src,script",
    ],
)
def test_headings_are_known_in_three_languages(header: str) -> None:
    assert meant(header.split(","), COLUMNS) == [column.name for column in COLUMNS]


BAD = [
    ROBE,
    ("SAC", "", "12", "1", "", "", ""),
    ("=SUM(1)", "Robe", "dear", "-1", "perhaps", "http://shop.example/x.jpg", ""),
    ("ROBE", "Other", "1", "", "", "", ""),
    ("", "Robe", "1", "", "", "", ""),
    (*ROBE, "surplus"),
]


def test_refused_rows_come_back_with_their_reasons_and_are_sent_again(browser: Client, alice: Account) -> None:
    upload = take_in(browser, send(browser, csv_of(BAD, HEADER)))
    assert upload.counts == {"created": 1, "refused": 5}
    header, *rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"))
    assert [(cells[0], cells[1]) for cells in rows] == [
        ("3", "Désignation: You have no product with this SKU yet, and a new product needs this."),
        ("4", "Prix de vente: Must be an amount such as 400 or 400.50. Qté en stock: Must be a whole number from 0 to"
              " 1 000 000 000. En vente: Must be yes or no. Lien image: Must start with https://."),
        ("5", "Référence: Line 2 has the same SKU."),
        ("6", "Référence: Must not be empty."),
        ("7", "The row has more cells than the first line has columns. Put text with commas in quotes."),
    ]  # fmt: skip
    mended = [[*cells[:2], f"N{place}", "Robe", "1", "1", "", "", ""] for place, cells in enumerate(rows)]
    again = send(browser, csv_of(mended, header))
    assert take_in(browser, again).counts == {"created": 5, "refused": 0}

    browser.cookies["django_language"] = "fr"
    rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"), ";")
    assert [cells[1] for cells in rows[1:] if {"Must", "You", "Line", "The"} & set(cells[1].split())] == []


def test_a_file_is_taken_in_by_a_few_statements(alice: Account, browser: Client) -> None:
    def statements(count: int) -> int:
        rows = [(f"{count}-{number}", "Robe", "1", str(number)) for number in range(count)]
        rows += [("MISSING", "", "", "1")]
        upload = send(browser, csv_of(rows, HEADER[:4]))
        browser.post(f"/account/uploads/{upload.id}", chosen(browser, upload))
        with CaptureQueriesContext(connection) as queries:
            processing.go_on()
        upload.refresh_from_db()
        assert upload.counts == {"created": count, "refused": 1}
        return len(queries)

    assert statements(10) == statements(200)


def test_what_was_said_of_a_sku_before_a_restart_is_still_known(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProductRows, "batch", 2)
    # Stop after each batch, so that the next one starts as after a restart.
    monkeypatch.setattr(processing, "SECONDS", 0)
    rows = [("A", "First", "1", "5"), ("B", "", "", ""), ("A", "Second", "1", "9"), ("B", "B", "1", "")]
    upload = take_in(browser, send(browser, csv_of(rows, HEADER[:4])))
    assert upload.counts == {"created": 1, "refused": 3}
    assert list(RefusedRow.objects.order_by("line").values_list("line", flat=True)) == [3, 4, 5]
    assert Product.objects.get().name == "First"


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_killed_in_the_middle_another_worker_goes_on_where_it_was(alice: Account) -> None:
    """Stock that was sold between two batches is not set a second time."""
    browser = browser_of(alice.holder)
    count = 5000
    rows = ((f"P{number}", "Robe", "x" if number % 100 == 7 else "1", "5") for number in range(count))
    upload = send(browser, csv_of(rows, HEADER[:4]))
    browser.post(f"/account/uploads/{upload.id}", chosen(browser, upload))
    with held_up(lambda: ProductFactory(account=alice, sku=f"P{count - 1}")):  # still running when it is killed
        kill_once(lambda: Upload.objects.get().position, "-c", WORKER)
    end_sessions()  # what it had asked PostgreSQL to do has ended
    upload.refresh_from_db()
    assert (upload.status, Product.objects.count()) == ("running", upload.counts["created"])
    Product.objects.filter(sku="P1").update(stock_quantity=4)
    Upload.objects.update(claimed_until=Now() - timedelta(seconds=1))  # its claim has run out

    processing.go_on()

    upload.refresh_from_db()
    refused = count // 100
    assert (upload.status, upload.counts) == ("done", {"created": count - refused, "refused": refused})
    assert Product.objects.count() == StockMovement.objects.count() == count - refused
    assert Product.objects.get(sku="P1").stock_quantity == 4


# --- Downloads -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "fr", "ar-dz"])
@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_what_is_downloaded_can_be_uploaded_again(
    browser: Client, alice: Account, charlie: Account, kind: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_files, "BATCH", 2)
    ProductFactory(account=charlie)
    for number in range(5):
        ProductFactory(
            account=alice, sku=f"P{number}", name=f"=Robe;{number}", price=Decimal("1500.50"), is_active=number > 1,
            image_url="https://shop.example/1.jpg", script="S, M\n@L",
        )  # fmt: skip
    before = list(Product.objects.order_by("id").values())
    browser.cookies["django_language"] = language

    upload = send(browser, downloaded(browser, f"/account/products/download.{kind}"), f"products.{kind}")

    assert len(chosen(browser, upload)) == len(COLUMNS)
    assert take_in(browser, upload).counts == {"unchanged": 5, "refused": 0}
    assert list(Product.objects.order_by("id").values()) == before


def test_the_list_is_downloaded_as_its_filters_leave_it(browser: Client, alice: Account) -> None:
    ProductFactory(account=alice, sku="FOU-01", name="Foulard", is_active=False, stock_quantity=100)
    ProductFactory(account=alice, sku="ROB-01", name="Robe")

    def found(query: str) -> list[str]:
        return [row[0] for row in read_csv(downloaded(browser, f"/account/products/download.csv{query}"))[1:]]

    assert found("") == found("?after=FOU-01") == ["FOU-01", "ROB-01"]
    assert found("?q=rob") == ["ROB-01"]
    assert found("?q=robes") == []
    assert found("?is_active=false") == ["FOU-01"]
    assert found("?stock_below=٥٠") == ["ROB-01"]
    assert browser.get("/account/products/download.csv?stock_below=few").url == "/account/products?stock_below=few"


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("Quantité,Stock", {"stock_quantity": "Stock"}),
        ("Qté,Stock actuel", {"stock_quantity": "Stock actuel"}),
        ("الكمية,المخزون", {"stock_quantity": "المخزون"}),
        ("Vendu,Stock", {"stock_quantity": "Stock", "is_active": None}),  # the number sold
        ("P.U.,Prix de vente", {"price": "Prix de vente"}),
        ("Tarif,Prix", {"price": "Prix"}),
        ("Nb,Quantité", {"stock_quantity": "Quantité"}),
        ("Pièces,Stock", {"stock_quantity": "Stock"}),
        ("Nbre,Prix", {"stock_quantity": "Nbre", "price": "Prix"}),
        ("Article,Désignation", {"name": "Désignation"}),
        ("Code,Référence produit", {"sku": "Référence produit"}),
        ("الرمز,رمز المنتج", {"sku": "رمز المنتج"}),
        ("الرمز,الاسم", {"sku": "الرمز", "name": "الاسم"}),
    ],
)
def test_of_two_columns_the_one_that_says_more_clearly_what_it_has_is_meant(
    header: str, chosen: dict[str, str | None]
) -> None:
    for headings in (header.split(","), header.split(",")[::-1]):
        found = dict(zip(meant(headings, COLUMNS), headings, strict=True))
        assert {name: found.get(name) for name in chosen} == chosen


@pytest.mark.parametrize(
    ("header", "titles"),
    [
        ("ID,Type,SKU,Name,Published,Description,Tax status,Tax class,In stock?,Stock,Sale price,Regular price,Images",
         ["SKU", "Name", "Regular price", "Stock"]),
        ("ID,Type,UGS,Nom,Publié,Description,État de la TVA,Classe de TVA,En stock ?,Stock,Tarif promo,Tarif régulier",
         ["UGS", "Nom", "Tarif régulier", "Stock"]),
    ],
)  # fmt: skip
def test_the_stock_of_a_shop_is_its_number_and_not_whether_there_is_any(header: str, titles: list[str]) -> None:
    found = dict(zip(meant(header.split(","), COLUMNS), header.split(","), strict=True))
    assert [found[name] for name in ("sku", "name", "price", "stock_quantity")] == titles
