"""The files that merchants without one of their own begin with."""

import zipfile
from io import BytesIO

import pytest
from django.test import Client

from codservice.accounts.models import Account
from inventory.models import Product
from orders.models import Order
from tests.uploads.files import PAGE, chosen, downloaded, send, take_in

pytestmark = pytest.mark.process  # XLSX files are read by a process of their own


def written_over(workbook: bytes, **changes: str) -> bytes:
    """The same workbook with texts of its cells replaced."""
    written = BytesIO()
    with zipfile.ZipFile(BytesIO(workbook)) as old, zipfile.ZipFile(written, "w") as new:
        for name in old.namelist():
            part = old.read(name).decode()
            for text, other in changes.items():
                part = part.replace(text, other)
            new.writestr(name, part)
    return written.getvalue()


@pytest.mark.parametrize("language", ["ar", "en", "fr"])
def test_an_example_that_is_written_over_is_imported_as_it_is_matched(
    browser: Client, alice: Account, language: str
) -> None:
    browser.cookies["django_language"] = language
    file = written_over(downloaded(browser, f"{PAGE}/example.xlsx"), XX="12")

    upload = send(browser, file, "orders.xlsx")
    matched = chosen(browser, upload)
    assert {str(place) for place in range(len(upload.titles))} <= set(matched.values())
    assert take_in(browser, upload).counts == {"imported": 2, "refused": 0}

    first, second = Order.objects.filter(account=alice).order_by("external_id")
    assert list(first.items.values_list("product_name", "quantity")) == [("Robe", 1), ("Foulard", 2)]
    assert (first.total_amount, second.total_amount) == (7400, 7200)
    assert second.customer_commune == "Bir El Djir"


def test_nobody_is_called_for_an_example_that_is_sent_as_it_is(browser: Client) -> None:
    upload = take_in(browser, send(browser, downloaded(browser, f"{PAGE}/example.xlsx"), "orders.xlsx"))

    assert upload.counts == {"refused": 2}
    assert "0550 XX XX XX" in browser.get(f"/account/uploads/{upload.id}").content.decode()


@pytest.mark.parametrize("language", ["ar", "en", "fr"])
def test_an_example_of_products_is_taken_in(browser: Client, alice: Account, language: str) -> None:
    browser.cookies["django_language"] = language
    page = "/account/products/upload"
    assert f"{page}/example.xlsx" in browser.get(page).content.decode()

    take_in(browser, send(browser, downloaded(browser, f"{page}/example.xlsx"), "products.xlsx", page))

    products = Product.objects.filter(account=alice).order_by("sku").values_list("sku", "stock_quantity")
    assert list(products) == [("FOULARD", 35), ("ROBE-M", 20)]
