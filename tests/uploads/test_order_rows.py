"""What the cells of uploaded files of orders say, and which orders they become."""

import json
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from django.test import Client
from django.utils.translation import gettext, override

from codservice import values
from codservice.accounts.models import Account
from codservice.files import intake
from codservice.uploads import processing
from codservice.uploads.models import RefusedRow, Upload
from orders import fees, regions
from orders.models import DeliveryType, Order, OrderItem
from tests.factories import ProductFactory, make_order
from tests.harness.sheets import read_csv, workbook
from tests.orders.files import run
from tests.uploads.files import (
    ECOTRACK,
    HEADER,
    PAGE,
    chosen,
    csv_of,
    downloaded,
    row,
    send,
    take_in,
    xlsx_of,
)


def test_a_name_in_two_columns_is_one(browser: Client) -> None:
    def split(number: str, first: str, last: str, **changes: str) -> list[str]:
        cells = row(number, name=first, **changes)
        return [*cells[:2], last, *cells[2:]]

    header = [HEADER[0], "Nom", "Prénom", *HEADER[2:]]
    rows = [
        split("A1", "Benali", "Amine"),
        split("A1", "", "", phone="", wilaya="", address="", product="Sac"),
        split("A2", "", "Nadia"),
        split("A3", "Saïdi", ""),
        split("A4", "Haddad", "Lina", quantity="0"),
        split("A5", "Benali", "Amine"),
        split("A5", "Benali", "Karim", product="Sac"),
        split("A6", "", ""),
    ]
    upload = take_in(browser, send(browser, csv_of(rows, header)))

    assert upload.counts == {"imported": 3, "refused": 3}
    names = dict(Order.objects.values_list("external_id", "customer_name"))
    assert names == {"A1": "Benali Amine", "A2": "Nadia", "A3": "Saïdi"}
    header, *refused = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"))
    assert [cells[1] for cells in refused] == [
        "Qté: Must be from 1 to 10\N{NARROW NO-BREAK SPACE}000.",
        "This row is fine. See line 8 of the same order.",
        "Prénom: Line 7 of the same order has a different value.",
        "Nom: This is missing.",
    ]
    mended = [[cell.replace("0", "1") if cell == "0" else cell for cell in refused[0]]]
    assert mended[0][3:5] == ["Haddad", "Lina"]
    take_in(browser, send(browser, csv_of(mended, header), "again.csv"))
    assert Order.objects.get(external_id="A4").customer_name == "Haddad Lina"


@pytest.mark.parametrize("language", ["en", "fr", "ar-dz"])
def test_a_delivery_is_known_by_the_words_of_our_pages_and_of_our_sentences(browser: Client, language: str) -> None:
    with override(language):
        shown = [str(label) for label in DeliveryType.labels]
        said = re.findall(r"[“«]\s?(.+?)\s?[”»]", gettext("Must be “home” or “desk” (a stop desk)."))
    rows = [[*row(number), word] for number, word in enumerate([*shown, *said])]
    take_in(browser, send(browser, csv_of(rows, [*HEADER, "delivery_type"])))
    taken = Order.objects.order_by("external_id").values_list("delivery_type", flat=True)
    assert list(taken) == ["home", "desk", "home", "desk"]


def test_a_delivery_is_known_by_the_words_of_algerian_shops(browser: Client) -> None:
    homes = (
        "Livraison à domicile", "التوصيل إلى المنزل", "توصيل للمنزل", "للبيت", "توصيل إلى باب المنزل", "توصيل منزلي",
        "لباب المنزل", "الدار",
    )  # fmt: skip
    desks = (
        "Livraison au bureau", "Au bureau", "Stop-Desk", "التوصيل للمكتب", "إلى المكتب", "مكتب", "ستوب ديسك",
        "نقطة استلام", "Livraison bureau", "Relais", "استلام من المكتب", "livraison stopdesk",
        "Livraison au stop desk", "En agence", "retrait au bureau", "Retrait en point relais",
    )  # fmt: skip
    rows = [[*row(number), word] for number, word in enumerate((*homes, *desks))]
    take_in(browser, send(browser, csv_of(rows, [*HEADER, "delivery_type"])))
    taken = dict(Order.objects.values_list("external_id", "delivery_type"))
    assert sorted(taken.values()) == ["desk"] * len(desks) + ["home"] * len(homes)


def test_wilaya_and_commune_may_stand_in_one_cell(browser: Client) -> None:
    said = ("Alger / Bab Ezzouar", "باب الزوار، الجزائر", "16 - Alger", "Alger / Tataouine")
    rows = [row(f"A{number}", wilaya=place) for number, place in enumerate(said)]
    header = [{"Wilaya": "Wilaya et commune"}.get(title, title) for title in HEADER]

    upload = take_in(browser, send(browser, csv_of(rows, header)))

    places = Order.objects.order_by("external_id").values_list("wilaya_code", "commune_code", "customer_commune")
    assert list(places) == [("16", "1621", "Bab Ezzouar"), ("16", "1621", "Bab Ezzouar"), ("16", None, "")]
    assert [each.faults[0][0] for each in RefusedRow.objects.filter(upload=upload)] == ["customer_wilaya"]


def test_two_phones_may_stand_in_one_cell(browser: Client) -> None:
    said = (
        "0550 12 34 56 / 0661 11 22 33", "p:+213550123456,0661112233", "0550123456 ou 0661112233",
        "0550123456-0661112233", "550123456 0661112233", "0550 12 34 56-0661 11 22 33",
        "0550-12-34-56 0661-11-22-33", "0550/12/34/56", "0550-12-34-56", "0550 123456",
        "0550123456-066", "0550123456 / 066", "0550123456 / 0661112233 / 0770112233",
        "2026-11-27 0550123456", "0550123456-27112026",  # a date is not a landline
    )  # fmt: skip
    rows = [[*row(f"A{number}", phone=phone), ""] for number, phone in enumerate(said)]
    rows.append([*row("B", phone=said[0]), "0770 11 22 33"])  # which of three would be the second one?

    upload = take_in(browser, send(browser, csv_of(rows, [*HEADER, "Téléphone 2"])))

    taken = list(Order.objects.order_by("external_id").values_list("phone_e164", "phone_2_e164"))
    assert taken == [("+213550123456", "+213661112233")] * 7 + [("+213550123456", None)] * 3
    assert [each.faults[0][0] for each in RefusedRow.objects.filter(upload=upload)] == ["customer_phone"] * 6


def test_a_second_phone_stands_in_for_one_that_is_missing(browser: Client) -> None:
    """As Shopify exports it: `Shipping Phone` is often empty, and `Phone` repeats the number that was given once."""
    said = [
        ("", "0661 11 22 33"), ("", "0661112233 / 0550123456"), ("0550123456", "+213 550 12 34 56"),
        ("0550123456 / 0550 12 34 56", ""), ("0550123456", "0661112233"), ("", ""), ("", "0"), ("", "066"),
        ("066", "0661112233"),
    ]  # fmt: skip
    rows = [[*row(f"A{number}", phone=first), second] for number, (first, second) in enumerate(said)]

    upload = take_in(browser, send(browser, csv_of(rows, [*HEADER, "Téléphone 2"])))

    taken = list(Order.objects.order_by("external_id").values_list("phone_e164", "phone_2_e164"))
    one, other = "+213550123456", "+213661112233"
    assert taken == [(other, None), (other, one), (one, None), (one, None), (one, other)]
    blamed = [each.faults[0][0] for each in RefusedRow.objects.filter(upload=upload).order_by("line")]
    assert blamed == ["customer_phone", "customer_phone", "customer_phone_2", "customer_phone"]


def test_a_cell_may_have_several_lines(browser: Client) -> None:
    """As Alt and Enter make them in a spreadsheet."""
    cells = row(name="Amine\nBenali", wilaya="Tizi\r\nOuzou", address="rue 1\ncité 2", product="Robe\n\tkabyle")
    phones = [[*row("A2", phone="0550 12\n34 56"), ""], [*row("A3", phone="0550123456\n0661112233"), "lin\nblanc"]]

    upload = take_in(browser, send(browser, csv_of([[*cells, ""], *phones], [*HEADER, "Couleur"])))

    assert upload.counts == {"imported": 3, "refused": 0}
    first, second, third = Order.objects.order_by("external_id")
    assert (first.customer_name, first.wilaya_code, first.customer_address) == ("Amine Benali", "15", "rue 1\ncité 2")
    assert first.items.get().product_name == "Robe kabyle"
    assert (second.phone_e164, third.phone_2_e164) == ("+213550123456", "+213661112233")
    assert third.items.get().attributes == {"couleur": "lin blanc"}


def test_so_may_a_sku_that_becomes_the_products_name(browser: Client) -> None:
    rows = [[*row()[:-3], "Robe\nkabyle", "1", "2500"]]
    upload = take_in(browser, send(browser, csv_of(rows, [*HEADER[:-3], "SKU", "Qté", "Prix"])))
    assert upload.counts == {"imported": 1, "refused": 0}
    assert OrderItem.objects.get().product_name == "Robe kabyle"


def test_size_and_colour_are_attributes(browser: Client) -> None:
    said = [
        ("42", "noir", "", {"taille": "42", "couleur": "noir"}),
        ("M", "", '{"tissu": "lin"}', {"taille": "M", "tissu": "lin"}),
        ("M", "", '{"taille": "L"}', {"taille": "L"}),
        ("M", "", "null", {"taille": "M"}),
        ("", "", "", {}),
        ("M", "", "lin", None),
        ("x" * 300, "", "", None),
        ("", "x" * 300, '{"tissu": "lin"}', None),
        ("M", "", json.dumps({"taille": "x" * 300}), None),
    ]
    rows = [[*row(f"A{number}"), *cells] for number, (*cells, _) in enumerate(said)]

    upload = take_in(browser, send(browser, csv_of(rows, [*HEADER, "Pointure", "Couleur", "attributes"])))

    taken = OrderItem.objects.order_by("order__external_id").values_list("attributes", flat=True)
    assert list(taken) == [wanted for *_, wanted in said if wanted is not None]
    blamed = [each.faults[0][0] for each in RefusedRow.objects.filter(upload=upload).order_by("line")]
    assert blamed == ["attributes", "size", "colour", "attributes.taille"]
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert page.count("Pointure</bdi>: Must have at most") == 1


@pytest.mark.process
def test_a_size_or_sku_of_which_a_spreadsheet_has_made_a_date_is_refused(browser: Client, alice: Account) -> None:
    """As Excel does with `4-5`, a size of children's clothes."""
    made, known = datetime(2026, 5, 4), datetime(2026, 5, 5)
    ProductFactory(account=alice, sku="2026-05-05", name="Robe")
    said = [(made, "", ""), ("", made, ""), ("", "", made), ("", "", known), ("4-5", "", "4-5")]
    rows = [[*row(f"A{number}", product=""), *cells] for number, cells in enumerate(said)]
    header = [*HEADER, "Taille", "Couleur", "SKU"]

    upload = take_in(browser, send(browser, xlsx_of(rows, header), "orders.xlsx"))

    assert upload.counts == {"imported": 2, "refused": 3}
    refused = RefusedRow.objects.filter(upload=upload).order_by("line")
    assert [each.faults for each in refused] == [[[name, [intake.A_DATE]]] for name in ("size", "colour", "sku")]
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert page.count("The spreadsheet has made a date of this.") == 3


@pytest.mark.process
def test_an_order_number_of_which_a_spreadsheet_has_made_a_date_is_refused(browser: Client) -> None:
    """As Excel does with `11-12`, the twelfth order of November."""
    made = date(2026, 12, 11)
    merged = row("", **NOBODY, product="Sac")
    rows = [[made, *row()[1:]], merged, [made, *row(product="Foulard")[1:]], row("11-13")]

    upload = take_in(browser, send(browser, xlsx_of(rows), "orders.xlsx"))

    assert upload.counts == {"imported": 1, "refused": 1}
    assert Order.objects.get().external_id == "11-13"
    refused = RefusedRow.objects.filter(upload=upload).order_by("line")
    assert [each.faults for each in refused] == [[["external_id", [intake.A_DATE]]]] * 3


def test_a_row_of_nothing_but_a_size_is_a_line_of_the_order_above(browser: Client) -> None:
    """With merged cells, two sizes are two pieces. An order of only one would be a different order."""
    header = [*HEADER[:-2], "Total", "Taille"]  # without Qté, Prix unitaire
    rows = [[*row("A1")[:-2], "9000", "S"], [*[""] * (len(header) - 1), "M"]]

    upload = take_in(browser, send(browser, csv_of(rows, header)))

    assert upload.counts == {"refused": 1}
    assert Order.objects.count() == 0
    assert [each.line for each in RefusedRow.objects.filter(upload=upload).order_by("line")] == [2, 3]


def test_a_list_for_couriers_is_taken_as_it_is(browser: Client) -> None:
    """It says neither how many pieces there are nor what each costs: only a parcel, and what is to be paid for it."""
    cells = ["Amine Benali", "0550123456", "", "16", "Alger", "Bab Ezzouar", "12 rue Didouche", "2 robes"]
    rows = [
        [f"A{number}", *cells, "", paid, *[""] * 7] for number, paid in enumerate(("3 400 DA", "0", "", "beaucoup"))
    ]
    rows[0][16] = "OUI"
    rows.insert(3, ["A2", *[""] * 7, "Sac", *[""] * 9])  # a second line of the order above

    upload = send(browser, csv_of(rows, ECOTRACK.split(",")))
    assert chosen(browser, upload)["quantity_constant"] == "1"
    upload = take_in(browser, upload)

    assert upload.counts == {"imported": 2, "refused": 2}
    lines = OrderItem.objects.order_by("order__external_id").values_list("product_name", "quantity", "unit_price")
    assert list(lines) == [("2 robes", 1, Decimal("3400.00")), ("2 robes", 1, Decimal("0.00"))]
    first = Order.objects.get(external_id="A0")
    assert (first.total_amount, first.delivery_type) == (Decimal("3400.00"), "desk")
    assert [[column for column, _ in each.faults] for each in RefusedRow.objects.order_by("line")] == [
        ["unit_price"], ["unit_price"], ["total_amount"]
    ]  # fmt: skip


def test_a_file_that_the_version_before_has_matched_has_one_piece_in_each_row(browser: Client) -> None:
    """That version knows no constants. It may run beside this one, or have run when the columns were chosen."""
    header = [title for title in HEADER if title != "Qté"]
    upload = send(browser, csv_of([[*row("A1")[:6], "2500"], [*row("A2")[:6], "900"]], header))
    places = {name: int(place) for name, place in chosen(browser, upload).items() if "constant" not in name}
    Upload.objects.filter(id=upload.id).update(status=Upload.Status.RUNNING, mapping=places)

    processing.go_on()

    assert list(OrderItem.objects.values_list("quantity", flat=True)) == [1, 1]


@pytest.mark.process
@pytest.mark.parametrize(("language", "form"), [("en", "xlsx"), ("fr", "csv"), ("ar-dz", "csv")])
def test_of_our_own_list_sent_back_no_order_is_imported_again(
    browser: Client, alice: Account, twin: Account, language: str, form: str
) -> None:
    """An order written by hand has no number: it came in once more, as pending, though it had been canceled."""
    for number in (None, None, "N3"):
        make_order(alice, external_id=number)
    Order.objects.filter(external_id=None).update(status="canceled")
    browser.cookies["django_language"] = language
    data = downloaded(browser, f"/account/orders/download.{form}")
    theirs = make_order(twin)

    upload = send(browser, data, f"orders.{form}")
    assert chosen(browser, upload)["our_id"] == "0"
    assert take_in(browser, upload).counts == {"already_there": 3, "refused": 0}

    first = Order.objects.filter(account=alice).earliest("id")
    others = data.decode("utf-8-sig").replace(str(first.id), str(theirs.id)) if form == "csv" else ""
    if others:
        counts = take_in(browser, send(browser, others.encode())).counts
        assert counts == {"already_there": 2, "imported": 1, "refused": 0}, "another account's id says nothing"


def test_a_row_with_an_orders_id_and_another_phone_is_not_lost(browser: Client, alice: Account) -> None:
    order = make_order(alice)
    rows = [[order.id, *row("A1", phone="0661112233")], [order.id, *row("A2")], ["x", *row("A3")], ["", *row("A4")]]
    upload = take_in(browser, send(browser, csv_of(rows, ["Identifiant", *HEADER])), our_id="0")

    assert upload.counts == {"imported": 2, "already_there": 1, "refused": 1}
    said = "The order with this id already exists, with another phone. Correct it, or leave the id out."
    assert RefusedRow.objects.get().faults == [["our_id", [said]]]


LEADS = (
    "id,created_time,ad_id,ad_name,adset_id,adset_name,campaign_id,campaign_name,form_id,form_name,is_organic,platform,"
    "full_name,phone_number,province,lead_status"
)


def test_leads_of_an_advertisement_get_what_all_of_them_have(browser: Client, alice: Account) -> None:
    """As Facebook exports them: UTF-16 with tabs, an id each, but no product, price or address."""
    product = ProductFactory(account=alice, sku="R-1", name="Robe", price="2500")

    def lead(number: int, name: str, phone: str, wilaya: str, campaign: str = "Robe") -> list[str]:
        ad = ["2026-11-20T10:12:01-06:00", *["x:12"] * 5, campaign, "x:12", "formulaire <b>", "false", "fb"]
        return [f"l:{number}", *ad, name, phone, wilaya, "CREATED"]

    rows = [lead(1, "Amine", "p:+213550123456", "Oran"), lead(2, "نادية", "p:+213661112233", "وهران")]
    data = csv_of(rows, LEADS.split(","), "\t").decode().encode("utf-16")
    upload = send(browser, data, "leads.csv")
    titles = {
        name: upload.titles[int(place)] for name, place in chosen(browser, upload).items() if "constant" not in name
    }
    assert titles == {
        "external_id": "id", "customer_name": "full_name", "customer_phone": "phone_number",
        "customer_wilaya": "province", "source": "platform",
    }  # fmt: skip
    said = {
        "customer_address_constant": "À demander <b>",
        "product_name_constant": " R-1",
        "shipping_fee_constant": "600 DA",
    }
    upload = take_in(browser, upload, **said, quantity_constant="2")

    assert upload.counts == {"imported": 2, "refused": 0}
    first = Order.objects.get(external_id="l:1")
    assert (first.customer_address, first.total_amount, first.source) == ("À demander <b>", Decimal("5600.00"), "fb")
    (line,) = first.items.all()
    assert (line.product_id, line.product_name, line.quantity) == (product.id, "Robe", 2)
    again = send(browser, csv_of([lead(3, "Lina", "p:+213770112233", "16")], LEADS.split(",")))
    assert chosen(browser, again).items() >= (said | {"product_name_constant": "R-1"}).items()
    other = send(browser, csv_of([lead(4, "Lina", "p:+213770112233", "16", "Sac")], LEADS.split(",")))
    of_others = {"product_name_constant", "quantity_constant"}
    assert chosen(browser, other).items() >= {name: said[name] for name in said.keys() - of_others}.items()
    assert not chosen(browser, other).get("product_name_constant"), "that was another campaign's"
    assert chosen(browser, other)["quantity_constant"] == "1"
    corrected = {"customer_address_constant": "Stop desk"}
    take_in(browser, other, **corrected, source="", product_name_constant="Sac", unit_price_constant="900")
    back = chosen(browser, send(browser, csv_of([lead(5, "Lina", "p:+213770112233", "16")], LEADS.split(","))))
    assert back.items() >= (said | corrected | {"product_name_constant": "R-1", "quantity_constant": "2"}).items()
    assert not back.keys() & {"source", "unit_price_constant"}


def test_what_all_rows_have_is_checked_before_any_is_taken_and_counts_only_without_a_column(browser: Client) -> None:
    header = HEADER[:-3]  # without product, quantity and price
    upload = send(browser, csv_of([row("A1")[:-3], ["A2", "Lina", "", "", ""]], header))
    address = f"/account/uploads/{upload.id}"
    said = chosen(browser, upload) | {"product_name_constant": "Sac", "customer_wilaya_constant": "Atlantis"}
    wrong = said | {"quantity_constant": "0", "unit_price_constant": "cher <b>"}

    page = browser.post(address, wrong)
    assert (page.status_code, Order.objects.count()) == (422, 0)
    assert {name: errors.get_json_data()[0]["message"] for name, errors in page.context["form"].errors.items()} == {
        "quantity_constant": "Must be from 1 to 10\N{NARROW NO-BREAK SPACE}000.",
        "unit_price_constant": "Must be an amount such as 400 or 400.50.",
    }
    nothing = browser.post(address, said | {"quantity_constant": " ", "unit_price_constant": "1"})
    assert list(nothing.context["form"].errors) == ["quantity"]
    assert list(browser.post(address, said).context["form"].errors) == ["unit_price"], "no SKU, so it has no price"

    upload = take_in(browser, upload, **said | {"unit_price_constant": "1 500,50"})
    assert upload.counts == {"imported": 1, "refused": 1}
    order = Order.objects.get()
    assert (order.external_id, order.wilaya_code, order.total_amount) == ("A1", "16", Decimal("1500.50"))
    refused = RefusedRow.objects.get()
    assert {column for column, _ in refused.faults} == {"customer_phone", "customer_wilaya", "customer_address"}
    assert refused.cells == ["A2", "Lina", "", "", ""]


def test_what_is_wrong_with_a_text_counts_only_without_a_column(browser: Client) -> None:
    """Beside a column the page hides the text: Word's own line break, pasted into the box, was a fault nobody saw."""
    upload = send(browser, csv_of([row("A1")]))
    address, said = f"/account/uploads/{upload.id}", {"customer_address_constant": "3, rue\x0bDidouche"}
    refused = browser.post(address, chosen(browser, upload) | said | {"customer_address": ""})
    assert "customer_address_constant" in refused.context["form"].errors
    assert take_in(browser, upload, **said).counts == {"imported": 1, "refused": 0}
    assert Order.objects.get().customer_address == "3, rue Didouche"


def test_the_product_of_all_rows_gives_way_to_a_rows_own(browser: Client, alice: Account) -> None:
    for sku in ("R-1", "R-2"):
        ProductFactory(account=alice, sku=sku)
    rows = [[*row("A1")[:-3], "R-2"], [*row("A2")[:-3], ""]]

    upload = take_in(
        browser, send(browser, csv_of(rows, [*HEADER[:-3], "SKU"])), product_name_constant="R-1", quantity_constant="1"
    )

    assert upload.counts == {"imported": 2, "refused": 0}
    assert list(OrderItem.objects.order_by("order__external_id").values_list("sku", flat=True)) == ["R-2", "R-1"]


def test_a_product_for_all_rows_is_found_with_invisible_marks_around_its_sku(browser: Client, alice: Account) -> None:
    product = ProductFactory(account=alice, sku="SKU1")

    upload = take_in(
        browser, send(browser, csv_of([row()[:-3]], HEADER[:-3])), product_name_constant="\u200fSKU1",
        quantity_constant="1",
    )  # fmt: skip

    assert upload.counts == {"imported": 1, "refused": 0}
    assert OrderItem.objects.get().product_id == product.id


def test_nor_does_the_name_of_all_rows_replace_that_of_a_product_of_the_catalog(
    browser: Client, alice: Account
) -> None:
    product = ProductFactory(account=alice, sku="R-1", name="Robe Sahara")
    own = {"A1": ["R-1", ""], "A2": ["", str(product.id)], "A3": ["", ""], "A4": ["unknown", ""]}
    rows = [[*row(number)[:-3], "1", "2500", *cells] for number, cells in own.items()]
    header = [*HEADER[:-3], "Qté", "Prix", "SKU", "product_id"]

    upload = take_in(browser, send(browser, csv_of(rows, header)), product_name_constant="Tunique")

    assert upload.counts == {"imported": 4, "refused": 0}
    names = OrderItem.objects.order_by("order__external_id").values_list("product_name", flat=True)
    assert list(names) == ["Robe Sahara", "Robe Sahara", "Tunique", "Tunique"]


def test_an_order_that_says_neither_fee_nor_total_has_the_fee_of_where_it_goes(
    browser: Client, alice: Account, charlie: Account
) -> None:
    """Orders written by hand do the same. A command's columns are the API's, and it keeps 0."""
    fees.set_fees(alice.id, [{"wilaya_code": "16", "home": Decimal(400), "desk": Decimal(0)}])
    fees.set_fees(charlie.id, [{"wilaya_code": "31", "home": Decimal(900)}])
    header = [*HEADER, "Frais de livraison", "Total", "Mode de livraison"]
    said = {
        "A1": ("Alger", "", "", "", 400, 5401), "A2": ("الجزائر", "", "", "bureau", 0, 5001),
        "A3": ("Alger", "0", "", "", 0, 5001), "A4": ("Alger", "", "6000", "", 0, 6000),
        "A5": ("Oran", "", "", "", 0, 5001), "A6": ("Alger", "", "", "avion", None, None),
        "A7": ("Atlantis", "", "", "", None, None),
    }  # fmt: skip
    rows = [[*row(number, wilaya=wilaya), fee, total, kind] for number, (wilaya, fee, total, kind, *_) in said.items()]

    upload = take_in(browser, send(browser, csv_of(rows, header)))

    assert upload.counts == {"imported": 5, "refused": 2}
    taken = Order.objects.values_list("external_id", "shipping_fee", "total_amount")
    assert {number: (int(fee), int(total)) for number, fee, total in taken} == {
        number: (fee, total) for number, (*_, fee, total) in said.items() if fee is not None
    }
    without = send(browser, csv_of([row("B1"), row("B2", wilaya="Oran")]))
    page = browser.get(f"/account/uploads/{without.id}").content.decode()
    assert (
        page.count("If you leave it out, your shipping fees by wilaya apply, unless the file gives the amount to pay.")
        == 1
    )
    take_in(browser, without, shipping_fee_constant="0")
    assert set(Order.objects.filter(external_id__startswith="B").values_list("shipping_fee")) == {(Decimal(0),)}


def test_free_shipping_as_in_yalidines_template_costs_the_customer_no_fee(browser: Client, alice: Account) -> None:
    fees.set_fees(alice.id, [{"wilaya_code": "16", "home": Decimal(400)}])
    said = {"True": 0, "OUI": 0, "1": 0, "False": 400, "non": 400, "0": 400, "": 400, "500": None, "peut-être": None}
    rows = [[*row(f"A{number}"), word, ""] for number, word in enumerate(said)]
    rows += [[*row("B"), "oui", "600"], [*row("C"), "x", "600"], [*row("D"), "oui", ""], [*row("D"), "non", ""]]

    upload = take_in(browser, send(browser, csv_of(rows, [*HEADER, "freeshipping", "Frais de livraison"])))

    taken = dict(Order.objects.values_list("external_id", "shipping_fee"))
    wanted = {f"A{number}": fee for number, fee in enumerate(said.values()) if fee is not None}
    assert taken == wanted | {"B": 600, "C": 600}, "a fee that the row gives counts"
    assert set(Order.objects.filter(shipping_fee=0).values_list("total_amount", flat=True)) == {5001}
    faults = [each.faults for each in RefusedRow.objects.filter(upload=upload).order_by("line")]
    assert faults[:2] == [[["free_shipping", [values.YES_OR_NO]]]] * 2
    assert faults[3][0][0] == "free_shipping"


def test_the_fee_of_where_it_goes_looks_up_a_name_once(
    browser: Client, alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is not spelled exactly takes milliseconds, and all rows of a file may have it."""
    fees.set_fees(alice.id, [{"wilaya_code": "16", "home": Decimal(400)}])
    find, looked_up = regions.find_wilaya, []
    monkeypatch.setattr(regions, "find_wilaya", lambda text: looked_up.append(text) or find(text))

    take_in(browser, send(browser, csv_of(row(number, wilaya="Algeerr") for number in range(9))))

    assert set(Order.objects.values_list("wilaya_code", "shipping_fee")) == {("16", Decimal(400))}
    assert looked_up == ["Algeerr"]


def test_the_price_of_an_only_line_is_what_the_total_leaves_beside_the_fee(browser: Client) -> None:
    header = [*(title for title in HEADER if title != "Prix unitaire"), "Total", "Frais de livraison"]

    def priced(number: str, total: str, fee: str, **changes: str) -> list[str]:
        cells = dict(zip(HEADER, row(number, **changes), strict=True))
        return [*(cells[title] for title in header[:-2]), total, fee]

    rows = [
        priced("A1", "3400", "400", quantity="2"),
        priced("A2", "1000", "", quantity="3"),
        priced("A3", "300", "400", quantity="1"),
        priced("A4", "3400", "400", quantity=""),
        priced("A5", "3400", "400", quantity="1"),
        priced("A5", "", "", quantity="1", product="Sac"),
    ]
    upload = take_in(browser, send(browser, csv_of(rows, header)))

    assert upload.counts == {"imported": 1, "refused": 4}
    assert OrderItem.objects.get().unit_price == Decimal("1500.00")
    assert [[column for column, _ in each.faults] for each in RefusedRow.objects.order_by("line")] == [
        ["unit_price"], ["unit_price"], ["quantity"], ["unit_price"], ["unit_price"]
    ]  # fmt: skip
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert page.count("The total less the shipping fee gives no price for each piece in whole centimes.") == 2


def test_a_column_of_yes_and_no_says_whether_it_is_the_desk(browser: Client) -> None:
    said = {
        "OUI": "desk", "نعم": "desk", "1": "desk", "stop desk": "desk", "à domicile": "home", "non": "home",
        "0": "home", "": "home", "peut-être": None,
    }  # fmt: skip
    rows = [[*row(f"A{number}"), "", word] for number, word in enumerate(said)]
    rows.append([*row("B"), "à domicile", "peut-être"])  # the cell in words counts
    rows += [[*row("C"), "à domicile", "OUI"], [*row("D"), "desk", "non"]]  # unless the other one contradicts it

    take_in(browser, upload := send(browser, csv_of(rows, [*HEADER, "delivery_type", "STOP DESK"])))

    taken = dict(Order.objects.values_list("external_id", "delivery_type"))
    wanted = {f"A{number}": kind for number, kind in enumerate(said.values()) if kind} | {"B": "home"}
    assert taken == wanted
    unclear, *otherwise = [each.faults for each in RefusedRow.objects.order_by("line")]
    assert unclear == [["stop_desk", [values.YES_OR_NO]]]
    assert [[column for column, _ in faults] for faults in otherwise] == [["delivery_type"]] * 2
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "STOP DESK</bdi>: Must be yes or no." in page
    assert page.count("The stop desk column contradicts this. Correct one of the two.") == 2


def test_an_order_for_a_stop_desk_needs_no_address(browser: Client) -> None:
    said = [
        ("", "Bab Ezzouar", "desk", ""), ("", "1621", "", "oui"), ("rue 1", "Bab Ezzouar", "desk", ""),
        ("", "", "desk", ""), ("", "Bab Ezzouar", "home", ""), ("", "Bab Ezzouar", "", ""),
    ]  # fmt: skip
    rows = [[*row(f"A{number}", address=address), *cells] for number, (address, *cells) in enumerate(said)]
    rows.append([*row("B", wilaya="Alger / Bab Ezzouar", address=""), "", "desk", ""])

    upload = take_in(browser, send(browser, csv_of(rows, [*HEADER, "Commune", "delivery_type", "STOP DESK"])))

    taken = dict(Order.objects.values_list("external_id", "customer_address"))
    assert taken == {"A0": "Bab Ezzouar", "A1": "1621", "A2": "rue 1", "B": "Bab Ezzouar"}
    faults = [each.faults for each in RefusedRow.objects.filter(upload=upload)]
    assert [[column for column, _ in each] for each in faults] == [["customer_address"]] * 3


@pytest.mark.parametrize("language", ["fr", "ar-dz"])
def test_a_sentence_that_asks_for_yes_or_no_says_words_of_its_language(language: str) -> None:
    with override(language):
        asked = re.findall(r"«\s?(.+?)\s?»", gettext("Must be yes or no."))
        assert asked == [gettext("yes"), gettext("no")]


def test_orders_are_counted_as_orders_beside_the_rows_of_their_file(browser: Client) -> None:
    upload = send(browser, csv_of([row("A1"), row("A1"), row("A2", quantity="0"), row("A2"), row("A2")]))
    take_in(browser, upload)
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "Done: 5 rows." in page
    assert re.findall(r'<dt>([^<]*)</dt><dd><bdi dir="ltr">(\d+)</bdi>', page) == [
        ("Orders imported", "1"),
        ("Orders refused", "1"),
    ]


def test_large_counts_of_a_file_are_read_in_groups_of_three(browser: Client) -> None:
    upload = take_in(browser, send(browser, csv_of([row("A1")])))
    Upload.objects.update(row_count=200_000, counts={"imported": 12345, "refused": 0})
    for address in (PAGE, f"/account/uploads/{upload.id}"):
        assert '<bdi dir="ltr">12\u202f345</bdi>' in browser.get(address).content.decode()
    assert '<bdi dir="ltr">200\u202f000</bdi>' in browser.get(PAGE).content.decode()


def test_a_sku_is_found_however_its_letters_are_composed(browser: Client, alice: Account) -> None:
    product = ProductFactory(account=alice, sku="\u00c91", price=Decimal(100))
    header = [*HEADER[:5], "SKU", *HEADER[6:]]
    take_in(browser, send(browser, csv_of([row("A1", product=" E\u03011", price="")], header)))
    assert OrderItem.objects.get().product_id == product.id


def test_a_sku_of_the_catalog_is_its_product(browser: Client, alice: Account, charlie: Account) -> None:
    product = ProductFactory(account=alice, sku="R-M", name="Robe M", price=Decimal(1900))
    ProductFactory(account=charlie, sku="C-1", price=Decimal(1))
    header = ["commande", "client", "tel", "wilaya", "adresse", "sku", "qte", "prix"]
    rows = [row("A1", product="R-M", price=""), row("A2", product="C-1", price="5"), row("A3", product="C-1", price="")]

    upload = take_in(browser, send(browser, csv_of(rows, header)))

    assert upload.counts == {"imported": 2, "refused": 1}
    ours, free = (Order.objects.get(external_id=number).items.get() for number in ("A1", "A2"))
    assert (ours.product_id, ours.product_name, ours.order.total_amount) == (product.id, "Robe M", Decimal(3800))
    assert (free.product_id, free.product_name, free.unit_price) == (None, "C-1", Decimal(5))


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_what_stands_at_the_foot_is_no_line_of_the_last_order(browser: Client, kind: str) -> None:
    nobody = {"name": "", "phone": "", "wilaya": "", "address": ""}
    merged, sums = row("", **nobody, product="Sac"), row("", **nobody, product="")
    rows = [
        row("A1", address="rue 1\n\nAlger\n"),
        merged,
        row("", **nobody, product="TOTAL", quantity="4", price="10 002,00"),
        row("A2"),
        [""] * 8,
        sums,
    ]
    upload = send(browser, csv_of(rows) if kind == "csv" else xlsx_of(rows), f"orders.{kind}")
    assert take_in(browser, upload).counts == {"imported": 2, "refused": 2}
    assert [order.items.count() for order in Order.objects.order_by("external_id")] == [2, 1]
    assert RefusedRow.objects.earliest("line").faults == [["", ["Is a total of the rows above, not an order."]]]
    assert "This looks like a total of the rows above" in browser.get(f"/account/uploads/{upload.id}").content.decode()


@pytest.mark.process  # the process that reads a spreadsheet
def test_a_number_of_more_digits_than_a_spreadsheet_keeps_is_refused(browser: Client) -> None:
    """Otherwise the two would get the same number, and be one order."""
    long = [7301234567890123456, 7301234567890123457]
    table = [[*HEADER], *([number, *row()[1:]] for number in (*long, 999_999_999_999_999))]

    take_in(browser, send(browser, workbook({"1": table}), "orders.xlsx"))

    assert Order.objects.get().external_id == "999999999999999"
    refused = RefusedRow.objects.order_by("line")
    assert [(each.cells[0], each.faults) for each in refused] == [
        ("7.30123E+18", [["external_id", [intake.NO_NUMBER]]])
    ] * len(long)


NOBODY = {"name": "", "phone": "", "wilaya": "", "address": ""}


@pytest.mark.parametrize("by_command", [False, True])
@pytest.mark.parametrize("title", ["Date", "N°"])
def test_a_foot_may_begin_in_a_column_that_is_not_imported(
    browser: Client, alice: Account, tmp_path: Path, title: str, by_command: bool
) -> None:
    foot = ["TOTAL", *row("", **NOBODY, product="", quantity="2", price="")]
    assert counts_of([["1", *row("A1")], foot], title, browser, alice, tmp_path if by_command else None) == (1, 1)


@pytest.mark.parametrize("by_command", [False, True])
@pytest.mark.parametrize(("title", "word"), [("Paiement", "Total"), ("Remarque", "COD")])
def test_a_line_is_no_foot_for_what_a_column_says_of_its_payment(
    browser: Client, alice: Account, tmp_path: Path, title: str, word: str, by_command: bool
) -> None:
    rows = [[word, *row("A1")], [word, *row("", **NOBODY, product="Sac")]]
    assert counts_of(rows, title, browser, alice, tmp_path if by_command else None) == (1, 0)
    assert list(OrderItem.objects.order_by("position").values_list("product_name", flat=True)) == ["Robe", "Sac"]


@pytest.mark.parametrize("by_command", [False, True])
@pytest.mark.parametrize("number", ["", "A1"])
def test_a_foot_that_says_how_many_products_there_are_is_no_line_either(
    browser: Client, alice: Account, tmp_path: Path, number: str, by_command: bool
) -> None:
    foot = ["TOTAL", *row(number, **NOBODY, product="3 articles", quantity="3", price="7501,50")]
    rows = [["1", *row("A1", quantity="3")], foot]
    assert counts_of(rows, "Date", browser, alice, tmp_path if by_command else None) == (0, 1)


@pytest.mark.parametrize("by_command", [False, True])
@pytest.mark.parametrize(
    ("title", "word", "below"),
    [
        ("Marque", "Total", row("", **NOBODY, product="Quartz 5W40 5L", price="5200")),
        ("Marque", "TOTAL", row("A1", **NOBODY, product="Quartz 5W40 5L", price="5200")),
        ("Paiement", "À payer", row("A1", product="Sac", quantity="1", price="5001")),
    ],
    ids=["a brand", "a brand, with the number", "as much as the order above, of the same customer"],
)
def test_a_line_is_no_foot_for_what_a_column_says_of_it_alone(
    browser: Client, alice: Account, tmp_path: Path, title: str, word: str, below: list[str], by_command: bool
) -> None:
    """Oil of the brand Total was refused beside oil of another."""
    rows = [["Castrol", *row("A1", product="Magnatec 5L")], [word, *below]]
    assert counts_of(rows, title, browser, alice, tmp_path if by_command else None) == (1, 0)
    assert OrderItem.objects.count() == 2


def test_no_order_loses_the_line_of_which_a_note_says_a_total(browser: Client) -> None:
    rows = [
        [*row("A1", quantity="1"), ""], [*row("", **NOBODY, product="Sac", quantity="1"), "à payer"],
        [*row("A2"), ""], [*row("", **NOBODY, product="Sac", price="3000"), "à payer"],
    ]  # fmt: skip
    assert take_in(browser, send(browser, csv_of(rows, [*HEADER, "Remarque"]))).counts == {"refused": 2}


@pytest.mark.parametrize("quantity", ["", "3"])
@pytest.mark.parametrize("below", [("Livraison", "", "1200"), ("Remise", "1", "500"), ("Nombre de commandes", "2", "")])
def test_what_stands_below_the_total_of_a_whole_file_is_of_no_order(
    browser: Client, below: tuple[str, str, str], quantity: str
) -> None:
    """It used to cost the file its last order."""
    foot = [("Total", quantity, "6500"), below, ("Net à payer", "", "7000")]
    rows = [
        row("A1", quantity="1", price="2500"),
        row("A2", price="2000"),
        *(row("", **NOBODY, product=word, quantity=number, price=price) for word, number, price in foot),
    ]
    assert take_in(browser, send(browser, csv_of(rows))).counts == {"imported": 2, "refused": 3}
    assert set(Order.objects.values_list("total_amount", flat=True)) == {2500, 4000}


@pytest.mark.parametrize("by_command", [False, True])
def test_a_foot_that_says_how_many_products_a_file_of_several_orders_has_is_no_line(
    browser: Client, alice: Account, tmp_path: Path, by_command: bool
) -> None:
    foot = ["TOTAL", *row("", **NOBODY, product="4 articles", quantity="4", price="10002")]
    rows = [["1", *row("A1")], ["2", *row("A2")], foot]
    assert counts_of(rows, "Date", browser, alice, tmp_path if by_command else None) == (2, 1)
    assert OrderItem.objects.count() == 2


def counts_of(
    rows: list[list[str]], title: str, browser: Client, account: Account, folder: Path | None
) -> tuple[int, int]:
    """Return how many orders are imported and refused, from rows with one more column in front: by an upload, or, with
    a `folder`, by the command.
    """
    data = csv_of(rows, [title, *HEADER])
    if folder is None:
        counts = take_in(browser, send(browser, data)).counts
    else:
        (file := folder / "orders.csv").write_bytes(data)
        counts, _ = run(file, account)
    return counts.get("imported", 0), counts.get("refused", 0)


WITHOUT_QUANTITY = [title for title in HEADER if title != "Qté"]


def priced(number: str, product: str, price: str, **whose: str) -> list[str]:
    """Return a row of a file without a column of quantities."""
    cells = dict(zip(HEADER, row(number, product=product, price=price, **whose), strict=True))
    return [cells[title] for title in WITHOUT_QUANTITY]


OWN_TOTAL = "May be a total of the rows above. Leave it out or, if it is a product, give it a longer name."


def test_a_total_that_has_its_orders_number_is_no_line_of_it(browser: Client) -> None:
    rows = [
        row("A1", product="Robe"), row("A1", product="Sac", price="400", **NOBODY),
        row("A1", product="Total", quantity="4", price="5801", **NOBODY),
        row("A2", product="Robe"), row("A2", product="Sac", price="400", **NOBODY),
        row("A2", product="Total", price="300", **NOBODY),
        row("A3", product="Robe"), row("A3", product="Total", price="5001", **NOBODY),
    ]  # fmt: skip
    upload = take_in(browser, send(browser, csv_of(rows)))

    assert upload.counts == {"imported": 1, "refused": 2}
    assert (order := Order.objects.get()).external_id == "A2"
    assert order.total_amount == 6401, "of a product that is called so"
    said = [each.faults[0] for each in RefusedRow.objects.filter(upload=upload).order_by("line")]
    assert said[2] == said[4] == ["product_name", [OWN_TOTAL]]

    rows = [
        priced("B1", "Robe", "2500"), priced("B1", "Sac", "4000", **NOBODY), priced("B1", "Total", "6500", **NOBODY),
        priced("B2", "Robe", "2500"), priced("B2", "Total", "400", **NOBODY),
    ]  # fmt: skip
    assert take_in(browser, send(browser, csv_of(rows, WITHOUT_QUANTITY))).counts == {"imported": 1, "refused": 1}
    rows = [[*row("C1"), "600"], [*row("C1", product="Total", price="5601", **NOBODY), ""]]
    assert take_in(browser, send(browser, csv_of(rows, [*HEADER, "Livraison"]))).counts == {"refused": 1}
    rows = [row("C2"), row("C2", product="Total", quantity="1", price="5001", **NOBODY)]
    assert take_in(browser, send(browser, csv_of(rows))).counts == {"refused": 1}, "one time what all costs"
    header = [*HEADER[:5], "Réf", *HEADER[6:]]
    rows = [row("D1"), row("D1", product="Total de la commande", price="5001", **NOBODY)]
    assert take_in(browser, send(browser, csv_of(rows, header))).counts == {"refused": 1}


@pytest.mark.parametrize(
    ("word", "quantity", "price"),
    [
        ("Total TTC", "3", "7736"), ("Total", "1", "7101"), ("Total", "3", "6000"), ("Total à encaisser", "1", "6501"),
        ("Montant à payer", "3", "6501"), ("السعر الإجمالي", "", "6501"),
    ],
    ids=["a tax", "a fee that the file does not say", "a discount", "to be cashed", "to pay", "in Arabic"],
)  # fmt: skip
def test_so_it_is_with_what_the_file_does_not_say(browser: Client, word: str, quantity: str, price: str) -> None:
    """Such a total was taken for a product, and the order cost two or four times as much at the door."""
    rows = [
        row("A1"), row("A1", product="Sac", quantity="1", price="1500", **NOBODY),
        row("A1", product=word, quantity=quantity, price=price, **NOBODY),
    ]  # fmt: skip
    assert take_in(browser, send(browser, csv_of(rows))).counts == {"refused": 1}
    assert RefusedRow.objects.latest("line").faults == [["product_name", [OWN_TOTAL]]]


@pytest.mark.parametrize("word", ["Total à encaisser", "Prix total", "Montant", "TOTAL (DZD)", "السعر الإجمالي"])
def test_what_heads_a_column_of_totals_stands_at_the_foot_of_a_list_too(browser: Client, word: str) -> None:
    rows = [row("A1"), row("A2"), row("", product=word, quantity="4", price="10002", **NOBODY)]
    upload = take_in(browser, send(browser, csv_of(rows)))
    assert upload.counts == {"imported": 2, "refused": 1}
    assert set(Order.objects.values_list("total_amount", flat=True)) == {5001}


def test_a_fee_that_is_none_does_not_ask_for_the_total_too(browser: Client) -> None:
    upload = take_in(browser, send(browser, csv_of([[*row(), "x"]], [*HEADER, "Frais de livraison"])))
    assert upload.counts == {"refused": 1}
    assert [name for name, _said in RefusedRow.objects.get().faults] == ["shipping_fee"]


def test_a_total_below_an_order_may_count_its_shipping_fee(browser: Client) -> None:
    rows = [
        [*row("A1"), "600"], [*row("", product="Total", price="5601", **NOBODY), ""],
        [*row("A2"), "400"], [*row("", product="Total", price="5401", **NOBODY), ""],
        [*row("A3"), "400"], [*row("", product="Total", price="5402", **NOBODY), ""],
    ]  # fmt: skip
    upload = take_in(browser, send(browser, csv_of(rows, [*HEADER, "Livraison"])))

    assert upload.counts == {"imported": 2, "refused": 3}
    assert list(Order.objects.order_by("external_id").values_list("total_amount", flat=True)) == [5601, 5401]


def test_so_it_is_with_what_is_written_for_all_rows(browser: Client) -> None:
    rows = [
        row("A1"), row("", product="Total", price="5601", **NOBODY),
        row("A2"), row("A2", product="Total", price="5601", **NOBODY),
    ]  # fmt: skip
    upload = take_in(browser, send(browser, csv_of(rows)), shipping_fee_constant="600")
    assert upload.counts == {"imported": 1, "refused": 2}
    assert Order.objects.get().total_amount == 5601
    rows = [priced("B1", "Robe", "2500"), priced("B1", "Total", "5000", **NOBODY)]
    upload = take_in(browser, send(browser, csv_of(rows, WITHOUT_QUANTITY)), quantity_constant="2")
    assert upload.counts == {"refused": 1}


def test_no_order_loses_the_line_below_a_total_in_a_file_without_quantities(browser: Client) -> None:
    rows = [
        priced("A1", "Robe", "2500"), priced("", "Sac", "4000", **NOBODY), priced("", "Total", "6500", **NOBODY),
        priced("", "Foulard", "300", **NOBODY), priced("A2", "Robe", "2500"), priced("", "Sac", "1", **NOBODY),
        priced("", "Total", "2501", **NOBODY),
    ]  # fmt: skip
    upload = take_in(browser, send(browser, csv_of(rows, WITHOUT_QUANTITY)))

    assert upload.counts == {"imported": 1, "refused": 2}
    assert Order.objects.get().items.count() == 2
    assert list(RefusedRow.objects.order_by("line").values_list("line", flat=True)) == [2, 3, 4, 5, 8]
    assert (
        "One of this order&#x27;s rows may be a total" in browser.get(f"/account/uploads/{upload.id}").content.decode()
    )


@pytest.mark.parametrize("quantity", ["1", "2", ""])
def test_no_order_loses_what_its_delivery_costs_below_a_total_of_its_lines(browser: Client, quantity: str) -> None:
    foot = [("Sous-total", quantity, "5001"), ("Livraison", "", "600"), ("Total", quantity, "5601")]
    rows = [
        row("A1"), *(row("", product=said, quantity=count, price=price, **NOBODY) for said, count, price in foot),
        row("A2"),
    ]  # fmt: skip
    take_in(browser, send(browser, csv_of(rows)))
    assert Order.objects.get().external_id == "A2"


def test_a_quantity_may_say_that_it_counts_pieces(browser: Client) -> None:
    said = {"x2": 2, "2x": 2, "2 X": 2, "× 3": 3, "4 pcs": 4, "5 pièces": 5, "x ٢": 2, "2 x 3": 0, "x": 0, "2 m": 0}
    take_in(browser, send(browser, csv_of([row(number, quantity=text) for number, text in enumerate(said)])))
    found = dict(OrderItem.objects.values_list("order__external_id", "quantity"))
    assert found == {str(number): count for number, count in enumerate(said.values()) if count}


def test_a_foot_with_its_tax_keeps_no_order_out_of_a_file_without_quantities(browser: Client) -> None:
    feet = [("Total HT", "2100"), ("TVA 19 %", "399"), ("Total TTC", "2499")]
    rows = [priced("A1", "Robe", "2499"), *(priced("", word, price, **NOBODY) for word, price in feet)]

    assert take_in(browser, send(browser, csv_of(rows, WITHOUT_QUANTITY))).counts == {"imported": 1, "refused": 3}


def test_nor_does_what_costs_nothing_or_is_still_to_pay(browser: Client) -> None:
    """A `Signature` below a list's total made the lines of its last order uncertain."""
    for number, word, price in (("A1", "Signature :", ""), ("A2", "Net à payer", "5001")):
        rows = [priced(number, "Robe", "2499")]
        rows += [priced("", said, cell, **NOBODY) for said, cell in (("Total", "2499"), (word, price))]
        upload = take_in(browser, send(browser, csv_of(rows, WITHOUT_QUANTITY)))
        assert upload.counts == {"imported": 1, "refused": 2}, word


def test_rows_without_a_number_are_orders_of_their_own_and_many_of_one_are_refused(browser: Client) -> None:
    rows = [row(""), row(""), *(row("A1") for _ in range(2500))]
    upload = take_in(browser, send(browser, csv_of(rows)))
    assert upload.counts == {"imported": 2, "refused": 3}
    assert (RefusedRow.objects.count(), upload.rows_done) == (2500, 2502)
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert '<td data-label="Why" class="all"><div>An order can have at most 100 lines.</div></td>' in page


@pytest.mark.parametrize("sign", [b"\0", b"\x01"])
def test_a_name_with_nul_or_an_order_of_anothers_is_no_matter(browser: Client, charlie: Account, sign: bytes) -> None:
    make_order(charlie, external_id="A1")
    upload = take_in(browser, send(browser, csv_of([row("A1", name="a\x01b"), row("A2")]).replace(b"\x01", sign)))
    assert upload.counts == {"imported": 1, "refused": 1}


def test_arabic_of_which_only_question_marks_were_saved_is_refused(browser: Client) -> None:
    """As French Excel saves it, unless told otherwise. No file could correct it: the order would be there already."""
    header = (*HEADER, "Remarque")
    rows = [
        [*row("A1", name="أمين بن علي"), ""],
        [*row("A2", address="حي 500 مسكن، رقم 12", product="فستان"), ""],
        [*row("A3", name="??", address="Rue 12 ???"), "???"],
    ]
    upload = take_in(browser, send(browser, csv_of(rows, header).decode().encode("cp1252", "replace")))
    assert upload.counts == {"imported": 1, "refused": 2}
    assert Order.objects.get().notes == "???"
    assert [each.faults for each in RefusedRow.objects.order_by("line")] == [
        [["customer_name", [intake.LOST]]],
        [["customer_address", [intake.LOST]], ["product_name", [intake.LOST]]],
    ]
