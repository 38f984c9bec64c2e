"""Files of orders that merchants upload: read, matched, taken in by the API's rules, once."""

import re
import time
import tracemalloc
from datetime import timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.translation import gettext, override
from python_calamine import CalamineWorkbook

from codservice.accounts import merchants
from codservice.accounts.models import Account, Membership, SecurityEntry
from codservice.files.headings import meant
from codservice.files.sheets import MAX_ROW
from codservice.retention import SWEEPS
from codservice.uploads import account_pages, arrival, wording, work
from codservice.uploads.models import Block, Piece, RefusedRow, Upload
from orders import fees
from orders.models import CallState, DeliveryType, Order, OrderItem, StatusChange
from orders.order_files import COLUMNS, OrderRows
from orders.serializers import read_order
from tests.factories import ProductFactory, UserFactory, make_order
from tests.harness.background import Background
from tests.harness.client import browser_of
from tests.harness.sheets import Failed, workbook
from tests.uploads.files import (
    HEADER,
    PAGE,
    announce,
    chosen,
    csv_of,
    downloaded,
    read_csv,
    row,
    send,
    send_piece,
    take_in,
    xlsx_of,
)

Status = Upload.Status


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_a_file_becomes_orders_as_an_import_makes_them(browser: Client, alice: Account, kind: str) -> None:
    rows = [row("A1"), row("A1", product="Sac", quantity="1", price="99"), row("A2", name="فاطمة", phone="550123457")]
    upload = send(browser, csv_of(rows) if kind == "csv" else xlsx_of(rows), f"orders.{kind}")
    assert (upload.status, upload.row_count, upload.titles) == (Status.MATCHING, 3, list(HEADER))
    assert Order.objects.count() == Piece.objects.count() == 0

    upload = take_in(browser, upload)

    assert (upload.status, upload.rows_done, upload.position) == (Status.DONE, 3, 4)
    assert upload.counts == {"imported": 2, "refused": 0}
    first = Order.objects.get(account=alice, external_id="A1")
    lines = list(first.items.order_by("position").values_list("product_name", "quantity", "unit_price"))
    assert lines == [("Robe", 2, Decimal("2500.50")), ("Sac", 1, Decimal("99.00"))]
    assert (first.total_amount, first.phone_e164, first.wilaya_code) == (Decimal("5100.00"), "+213550123456", "16")
    assert first.status_changes.get().actor == alice.holder.display_name
    assert Order.objects.get(external_id="A2").phone_e164 == "+213550123457"
    assert Block.objects.count() == 0, "the file is not kept"
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert next_steps(page) == {"Orders": "primary", "Another file": "plain"}


@pytest.mark.process
def test_of_several_sheets_the_one_that_is_read_is_named(browser: Client) -> None:
    table = [list(HEADER), row("A1")]
    for sheets, named, status in (
        ({"Août <b>": table, "Juillet": table}, ["Août &lt;b&gt;"] * 2, Status.DONE),
        ({"Août": table}, [], Status.DONE),
        ({"Couverture": [list(HEADER)], "Août": table}, ["Couverture"], Status.FAILED),
    ):
        upload = send(browser, workbook(sheets), "orders.xlsx")
        pages = [browser.get(f"/account/uploads/{upload.id}").content.decode()]
        if upload.status == Status.MATCHING:
            upload = take_in(browser, upload)
            pages.append(browser.get(f"/account/uploads/{upload.id}").content.decode())
        said = [name for page in pages for name in re.findall("sheets this one is read.*<bdi>(.*?)</bdi>", page)]
        assert (said, upload.status) == (named, status)

    empty = send(browser, workbook({"Résumé": [], "Août": table}), "orders.xlsx")
    assert (
        "The first sheet of the file that is shown, Résumé, is empty"
        in browser.get(f"/account/uploads/{empty.id}").content.decode()
    )


def test_a_small_file_may_come_without_scripts(browser: Client) -> None:
    answer = browser.post(PAGE, {"file": SimpleUploadedFile("C:\\orders.CSV", csv_of([row()]))})
    upload = Upload.objects.get()
    assert (answer.url, upload.name) == (f"/account/uploads/{upload.id}", "orders.CSV")
    work.go_on()
    assert "Nom du client" in browser.get(answer.url).content.decode()


def test_a_file_of_several_pieces_may_come_without_scripts(browser: Client) -> None:
    data = csv_of(row(number, address="x" * 100) for number in range(2500))
    assert arrival.PIECE_BYTES < len(data) < 4 * arrival.PIECE_BYTES
    assert browser.post(PAGE, {"file": SimpleUploadedFile("orders.csv", data)}).status_code == 302
    work.go_on()
    upload = Upload.objects.get()
    assert (upload.status, upload.row_count) == (Status.MATCHING, 2500)


@pytest.mark.parametrize(
    ("header", "places"),
    [
        ("external_id,customer_name,customer_phone,customer_wilaya,customer_address,product_name,quantity,unit_price",
         "01234567"),
        ("Order number,Name,Phone,Wilaya,Address,Product,Quantity,Price", "01234567"),
        ("Réf. commande,NOM COMPLET,Tél.,wilaya,Adresse de livraison,Produit,Quantité,P.U.", "01234567"),
        ("Réf. commande,Nom,Tél.,wilaya,Adresse de livraison,Produit,Quantité,Valeur", "0123456-"),
        ("رقم الطلب,الاسم واللقب,رقم الهاتف,الولاية,العنوان,المنتج,الكمية,السعر", "01234567"),
        ("invoice_no,Customer,mobile,Province,shipping address,description,Qty,unit price", "01234567"),
    ],
)  # fmt: skip
def test_headings_are_known_in_three_languages(browser: Client, header: str, places: str) -> None:
    upload = send(browser, csv_of([row()], header.split(",")))
    names = [HEADINGS[number] for number in range(8)]
    found = chosen(browser, upload)
    assert "".join(found.get(name, "-") for name in names) == places


def test_what_is_numbered_is_no_name() -> None:
    header = ["Order #", "Client #", "Client", "Item #", "Item", "Tel #"]
    assert meant(header, COLUMNS) == ["external_id", "", "customer_name", "", "product_name", "customer_phone"]


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("To pay at the door", "total_amount"),
        ("Where it came from", "source"),
        ("D’où elle vient", "source"),
        ("مصدرها", "source"),
    ],
)
def test_headings_of_before_are_known(heading: str, name: str) -> None:
    assert meant([heading], COLUMNS) == [name]


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Prix (DA)", "unit_price"),
        ("Total DA", "total_amount"),
        ("Montant total [DZD]", "total_amount"),
        ("السعر (د.ج)", "unit_price"),
        ("المبلغ الإجمالي دج", "total_amount"),
        ("Commune / Ville", "customer_commune"),
        ("الولاية (Wilaya)", "customer_wilaya"),
        ("Téléphone - الهاتف", "customer_phone"),
        # Whose parts do not all mean the same is nobody's.
        ("Prix (facebook)", ""),
        ("Adresse (e-mail)", ""),
        ("Nom (magasin)", ""),
        ("Produit / Quantité", ""),
        ("(DA)", ""),
    ],
)
def test_what_a_heading_says_in_two_ways_or_counts_in_is_known(heading: str, name: str) -> None:
    assert meant([heading], COLUMNS) == [name]
    assert meant([heading, "Prix", "Total"], COLUMNS)[1:] == ["unit_price", "total_amount"], "a plain one comes first"


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Total à encaisser", "total_amount"),
        ("Type de livraison", "delivery_type"),
        ("طريقة التوصيل", "delivery_type"),
        ("Tarif livraison", "shipping_fee"),
        ("Commentaires", "notes"),
        ("الاسم و اللقب", "customer_name"),
        ("Prénom et nom", "customer_name"),
        ("ثمن التوصيل", "shipping_fee"),
        ("Adresse complète", "customer_address"),
        ("street_address", "customer_address"),
        ("العنوان الكامل", "customer_address"),
    ],
)
def test_what_shops_write_above_their_columns_is_known(heading: str, name: str) -> None:
    assert meant([heading], COLUMNS) == [name]


@pytest.mark.parametrize(
    ("name", "headings"),
    [
        ("external_id", ["Code commande", "Commande n°", "N° BL"]),
        ("customer_name", ["Acheteur", "Nom du destinataire", "Nom et prénoms", "اسم و لقب الزبون", "اسم المستلم"]),
        ("customer_phone", ["Num. téléphone", "N° de tél", "Tél client", "GSM", "Tél. portable", "رقم هاتف الزبون"]),
        ("customer_phone_2", ["Tel2", "Phone2", "2ème téléphone", "Autre tél", "Tél secondaire"]),
        ("customer_wilaya", ["N° wilaya", "Willaya", "Wilaya du client"]),
        ("customer_commune", ["Commune de livraison", "Baladiya", "Nom commune"]),
        ("customer_address", ["Adresse exacte", "Adr."]),
        ("product_name", ["Produits", "Produit commandé", "Désignation de l'article", "المنتوج", "اسم السلعة"]),
        ("quantity", ["Nb", "Nbre", "Nb de pièces", "Pièces", "Pcs", "Qt", "Qté commandée", "عدد القطع"]),
        ("unit_price", ["P.U.", "P.U. (DA)", "Prix unit.", "Prix de vente", "Prix du produit", "سعر المنتج"]),
        ("shipping_fee", ["Coût de livraison", "Frais d'expédition", "Frais de transport"]),
        ("total_amount", ["Net à payer", "Total TTC", "Montant à payer (DA)", "Total commande"]),
        ("notes", ["Note client", "Instructions"]),
    ],
)
def test_how_shops_shorten_their_headings_is_known(name: str, headings: list[str]) -> None:
    assert [heading for heading in headings if meant([heading], COLUMNS) != [name]] == []


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        # What is to be paid is said by the clearest word, wherever it stands.
        ("Montant,Livraison,Total", {"total_amount": "Total"}),
        ("Total,Livraison,Net à payer", {"total_amount": "Net à payer"}),
        ("Numéro,Tél", {"customer_phone": "Tél"}),
        ("Montant (DA),Frais de livraison,Total à payer (DA)", {"total_amount": "Total à payer (DA)"}),
        ("Montant,À payer à la livraison", {"total_amount": "À payer à la livraison"}),
        ("المبلغ,التوصيل,المجموع", {"total_amount": "المجموع"}),
        ("PU HT,PU TTC", {"unit_price": "PU TTC"}),
        ("Livraison,Prix livraison", {"shipping_fee": "Prix livraison"}),
        ("Livraison,Frais de livraison", {"shipping_fee": "Frais de livraison"}),
        ("التوصيل,رسوم التوصيل", {"shipping_fee": "رسوم التوصيل"}),
        ("Ville,Commune", {"customer_commune": "Commune"}),
        ("المدينة,البلدية", {"customer_commune": "البلدية"}),
        ("State,Wilaya", {"customer_wilaya": "Wilaya"}),
        ("Description,Produit", {"product_name": "Produit"}),
        ("Article,Désignation", {"product_name": "Désignation"}),
        ("Commande,Numéro de commande", {"external_id": "Numéro de commande"}),
        ("Facture,N° commande", {"external_id": "N° commande"}),
        ("Code,Référence produit", {"sku": "Référence produit"}),
        ("Nombre,Quantité", {"quantity": "Quantité"}),
        ("NB,Qté", {"quantity": "Qté"}),
        ("Pièces,Qté", {"quantity": "Qté"}),
        ("Montant commande,Total à payer", {"total_amount": "Total à payer"}),
        ("Total commande (DA),Net à payer (DA)", {"total_amount": "Net à payer (DA)"}),
        ("PU HT (DA),Qté", {"unit_price": "PU HT (DA)", "quantity": "Qté"}),
        ("N° BL,N° commande", {"external_id": "N° commande"}),
        ("Code commande,N° commande", {"external_id": "N° commande"}),
        ("Acheteur,Destinataire", {"customer_name": "Destinataire"}),
        ("Nom complet,Nom,Prénom", {"customer_name": "Nom", "customer_name_2": "Prénom"}),
        ("Name,First name", {"customer_name": "Name"}),
        ("Prénom,Nom complet", {"customer_name": "Nom complet"}),
        ("Client,Nom,Prénom", {"customer_name": "Nom", "customer_name_2": "Prénom"}),
        ("Full name,First name,Last name", {"customer_name": "First name", "customer_name_2": "Last name"}),
        # So are WooCommerce's in French, and two in one, beside the column's plain name.
        ("Wilaya / Commune,Wilaya,Commune", {"customer_wilaya": "Wilaya", "customer_commune": "Commune"}),
        ("Code wilaya,Wilaya et commune", {"customer_wilaya": "Wilaya et commune"}),
        ("الولاية والبلدية,الولاية", {"customer_wilaya": "الولاية"}),
        ("Nom (Facturation),Nom du client", {"customer_name": "Nom du client"}),
        ("État (Facturation),Wilaya", {"customer_wilaya": "Wilaya"}),
        ("Ville (Facturation),Commune", {"customer_commune": "Commune"}),
        ("Adresse (Facturation),Adresse de livraison", {"customer_address": "Adresse de livraison"}),
        ("Téléphone (Facturation),Téléphone", {"customer_phone": "Téléphone"}),
        ("Nom de l’élément,Nom du produit", {"product_name": "Nom du produit"}),
        ("Quantité (- Remboursement),Quantité", {"quantity": "Quantité"}),
        ("Coût de l’article,Prix unitaire", {"unit_price": "Prix unitaire"}),
        ("Montant de la livraison,Frais de livraison", {"shipping_fee": "Frais de livraison"}),
        ("Montant de la livraison,Livraison", {"shipping_fee": "Montant de la livraison"}),
        ("Montant total de la commande,À payer", {"total_amount": "À payer"}),
        ("Montant total de la commande,Total", {"total_amount": "Montant total de la commande"}),
    ],
)
def test_of_two_columns_the_one_that_says_more_clearly_what_it_has_is_meant(
    header: str, chosen: dict[str, str]
) -> None:
    for headings in (header.split(","), header.split(",")[::-1]):
        found = dict(zip(meant(headings, COLUMNS), headings, strict=True))
        assert {name: found.get(name) for name in chosen} == chosen
    alone = [heading for heading in header.split(",") if meant([heading], COLUMNS) == [""]]
    assert alone in ([], ["Last name"])


def test_columns_that_nothing_is_read_from_are_named(browser: Client) -> None:
    def unread(page: str) -> tuple[list[str], bool]:
        found = re.findall(r'<li data-place="\d+"( hidden)?><bdi>([^<]*)', page)
        return [title for is_read, title in found if not is_read], '<div class="field" id="unread">' in page

    upload = send(browser, csv_of([[*row(), "5 %", "", "x"]], [*HEADER, "Remise <b>", "", "Qté"]))
    page = f"/account/uploads/{upload.id}"
    assert unread(browser.get(page).content.decode()) == (["Remise &lt;b&gt;", "Qté"], True)
    matched = {name: str(place) for place, name in enumerate(HEADINGS)} | {"quantity": "10", "customer_name": ""}
    refused = browser.post(page, matched)  # as chosen, and the form asks for the name
    assert unread(refused.content.decode()) == (["Nom du client", "Qté", "Remise &lt;b&gt;"], True)
    known = send(browser, csv_of([row("A2")]))
    assert unread(browser.get(f"/account/uploads/{known.id}").content.decode()) == ([], False)


WOOCOMMERCE = (
    "Order Number,Order Status,Order Date,Customer Note,First Name (Billing),Last Name (Billing),Company (Billing),"
    "Address 1&2 (Billing),City (Billing),State Code (Billing),Postcode (Billing),Country Code (Billing),"
    "Email (Billing),Phone (Billing),First Name (Shipping),Last Name (Shipping),Address 1&2 (Shipping),"
    "City (Shipping),State Code (Shipping),Payment Method Title,Cart Discount Amount,Order Subtotal Amount,"
    "Shipping Method Title,Order Shipping Amount,Order Refund Amount,Order Total Amount,Order Total Tax Amount,SKU,"
    "Item #,Item Name,Quantity (- Refund),Item Cost,Coupon Code,Discount Amount,Discount Amount Tax"
)
WOOCOMMERCE_IN_FRENCH = (
    "Facture,Numéro de commande,État de la commande,Date de commande,Type de paiement,Note du client,"
    "Prénom (Facturation),Nom de famille (Facturation),Société (Facturation),Adresse 1 & 2 (Facturation),"
    "Ville (Facturation),Code de l’état (Facturation),Code postal (Facturation),Code du pays (Facturation),"
    "E-mail (Facturation),Téléphone (Facturation),Titre de la méthode de paiement,Montant de la remise panier,"
    "Sous-total de la commande,Montant de la livraison,Montant du remboursement de la commande,Montant total,"
    "Montant total de la commande,UGS,Article #,Nom de l’élément,Quantité (- Remboursement),Coût de l’article"
)
SHOPIFY = (
    "Name,Email,Financial Status,Currency,Subtotal,Shipping,Taxes,Total,Discount Code,Shipping Method,Created at,"
    "Lineitem quantity,Lineitem name,Lineitem price,Lineitem sku,Billing Name,Billing Street,Billing City,"
    "Billing Province,Billing Phone,Shipping Name,Shipping Street,Shipping Address1,Shipping City,Shipping Province,"
    "Shipping Phone,Notes,Phone,Billing Province Name,Shipping Province Name"
)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (WOOCOMMERCE,
         ["Order Number", "First Name (Billing)", "Last Name (Billing)", "Phone (Billing)", "State Code (Billing)",
          "City (Billing)", "Address 1&2 (Billing)", "Item Name", "SKU", "Quantity (- Refund)", "Item Cost",
          "Order Shipping Amount", "Order Total Amount", "Customer Note"]),
        (WOOCOMMERCE_IN_FRENCH,
         ["Numéro de commande", "Prénom (Facturation)", "Nom de famille (Facturation)", "Téléphone (Facturation)",
          "Code de l’état (Facturation)", "Ville (Facturation)", "Adresse 1 & 2 (Facturation)", "Nom de l’élément",
          "UGS", "Quantité (- Remboursement)", "Coût de l’article", "Montant de la livraison",
          "Montant total de la commande", "Note du client"]),
        (SHOPIFY,
         ["Name", "Shipping Name", None, "Shipping Phone", "Shipping Province Name", "Shipping City", "Shipping Street",
          "Lineitem name", "Lineitem sku", "Lineitem quantity", "Lineitem price", "Shipping", "Total", "Notes"]),
    ],
    ids=["WooCommerce", "WooCommerce in French", "Shopify"],
)  # fmt: skip
def test_the_columns_of_shops_are_known(header: str, expected: list[str]) -> None:
    names = ["external_id", "customer_name", "customer_name_2", *HEADINGS[2:4], "customer_commune", "customer_address",
             "product_name", "sku", "quantity", "unit_price", "shipping_fee", "total_amount", "notes"]  # fmt: skip
    found = dict(zip(meant(header.split(","), COLUMNS), header.split(","), strict=True))
    wanted = {name: title for name, title in zip(names, expected, strict=True) if title}
    assert {name: title for name, title in found.items() if name} == wanted


YALIDINE = (
    "order_id,from_wilaya_name,firstname,familyname,contact_phone,address,to_commune_name,to_wilaya_name,product_list,"
    "price,do_insurance,declared_value,length,width,height,weight,freeshipping,is_stopdesk,stopdesk_id,has_exchange"
)
ECOTRACK = (
    "reference commande,nom et prenom du destinataire*,telephone*,telephone 2,code wilaya*,wilaya de livraison,"
    "commune de livraison*,adresse de livraison*,produit*,poids (kg),montant du colis*,remarque,FRAGILE,ECHANGE,"
    "PICK UP,RECOUVREMENT,STOP DESK,Lien map"
)
ZR = "Tracking,Nom client,Téléphone A,Téléphone B,Adresse,Wilaya,Commune,Total,Note"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (YALIDINE,
         {"external_id": "order_id", "customer_name": "firstname", "customer_name_2": "familyname",
          "customer_phone": "contact_phone", "customer_address": "address", "customer_commune": "to_commune_name",
          "customer_wilaya": "to_wilaya_name", "product_name": "product_list", "unit_price": "price",
          "stop_desk": "is_stopdesk"}),
        (ECOTRACK,
         {"external_id": "reference commande", "customer_name": "nom et prenom du destinataire*",
          "customer_phone": "telephone*", "customer_phone_2": "telephone 2", "customer_wilaya": "wilaya de livraison",
          "customer_commune": "commune de livraison*", "customer_address": "adresse de livraison*",
          "product_name": "produit*", "total_amount": "montant du colis*", "notes": "remarque",
          "stop_desk": "STOP DESK"}),
        (ZR,
         {"customer_name": "Nom client", "customer_phone": "Téléphone A", "customer_phone_2": "Téléphone B",
          "customer_address": "Adresse", "customer_wilaya": "Wilaya", "customer_commune": "Commune",
          "total_amount": "Total", "notes": "Note"}),
    ],
    ids=["Yalidine", "EcoTrack", "ZR"],
)  # fmt: skip
def test_the_columns_of_lists_for_couriers_are_known(header: str, expected: dict[str, str]) -> None:
    found = dict(zip(meant(header.split(","), COLUMNS), header.split(","), strict=True))
    assert {name: title for name, title in found.items() if name} == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Nom,Prénom,Tél", "customer_name,customer_name_2,customer_phone"),
        ("Prénom,Nom", "customer_name_2,customer_name"),
        ("Nom de famille,Prénom", "customer_name_2,customer_name"),
        ("Nom du client,Prénom du client", "customer_name,customer_name_2"),
        ("firstname,familyname", "customer_name,customer_name_2"),
        ("الاسم,اللقب", "customer_name,customer_name_2"),
        ("Prénom,Tél", "customer_name,customer_phone"),
        ("Nom complet,Prénom", "customer_name,"),
    ],
)
def test_a_name_in_two_columns_is_known(header: str, expected: str) -> None:
    assert meant(header.split(","), COLUMNS) == expected.split(",")


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
        "Qté: Must be from 1 to 10000.",
        "The row is fine; see line 8 of the same order.",
        "Prénom: Line 7 of the same order says otherwise.",
        "Nom: This is missing.",
    ]
    mended = [[cell.replace("0", "1") if cell == "0" else cell for cell in refused[0]]]
    assert mended[0][3:5] == ["Haddad", "Lina"]
    take_in(browser, send(browser, csv_of(mended, header), "again.csv"))
    assert Order.objects.get(external_id="A4").customer_name == "Haddad Lina"


def test_a_file_may_have_as_many_columns_as_shops_exports(browser: Client) -> None:
    upload = send(browser, csv_of([[*row(), *[""] * 111]], [*HEADER, *(f"Other {number}" for number in range(111))]))
    assert take_in(browser, upload).counts == {"imported": 1, "refused": 0}


def test_columns_that_are_empty_to_the_right_do_not_count(browser: Client) -> None:
    upload = send(browser, csv_of([[*row(), *[""] * 200]], [*HEADER, *[""] * 200]))
    assert take_in(browser, upload).counts == {"imported": 1, "refused": 0}


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
    homes = ("Livraison à domicile", "التوصيل إلى المنزل", "توصيل للمنزل")
    desks = ("Livraison au bureau", "Au bureau", "Stop-Desk", "التوصيل للمكتب", "إلى المكتب", "مكتب", "ستوب ديسك")
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
        "0550/12/34/56", "0550123456 / 066", "0550123456 / 0661112233 / 0770112233",
    )  # fmt: skip
    rows = [[*row(f"A{number}", phone=phone), ""] for number, phone in enumerate(said)]
    rows.append([*row("B", phone=said[0]), "0770 11 22 33"])  # which of three is the second one?

    upload = take_in(browser, send(browser, csv_of(rows, [*HEADER, "Téléphone 2"])))

    taken = list(Order.objects.order_by("external_id").values_list("phone_e164", "phone_2_e164"))
    assert taken == [("+213550123456", "+213661112233")] * 3 + [("+213550123456", None)]
    assert [each.faults[0][0] for each in RefusedRow.objects.filter(upload=upload)] == ["customer_phone"] * 3


def test_size_and_colour_are_attributes(browser: Client) -> None:
    said = [
        ("42", "noir", "", {"taille": "42", "couleur": "noir"}),
        ("M", "", '{"tissu": "lin"}', {"taille": "M", "tissu": "lin"}),
        ("M", "", '{"taille": "L"}', {"taille": "L"}),
        ("", "", "", {}),
        ("M", "", "lin", None),
        ("x" * 300, "", "", None),
    ]
    rows = [[*row(f"A{number}"), *cells] for number, (*cells, _) in enumerate(said)]

    upload = take_in(browser, send(browser, csv_of(rows, [*HEADER, "Pointure", "Couleur", "attributes"])))

    taken = OrderItem.objects.order_by("order__external_id").values_list("attributes", flat=True)
    assert list(taken) == [wanted for *_, wanted in said if wanted is not None]
    blamed = [each.faults[0][0] for each in RefusedRow.objects.filter(upload=upload).order_by("line")]
    assert blamed == ["attributes", "attributes.taille"]


def test_a_row_of_nothing_but_a_size_is_a_line_of_the_order_above(browser: Client) -> None:
    """Where cells are merged, two sizes are two pieces: an order of one of them would be another."""
    header = [*HEADER[:-2], "Total", "Taille"]  # without Qté, Prix unitaire
    rows = [[*row("A1")[:-2], "9000", "S"], [*[""] * (len(header) - 1), "M"]]

    upload = take_in(browser, send(browser, csv_of(rows, header)))

    assert upload.counts == {"refused": 1}
    assert Order.objects.count() == 0
    assert [each.line for each in RefusedRow.objects.filter(upload=upload).order_by("line")] == [2, 3]


def test_a_list_for_couriers_is_taken_as_it_is(browser: Client) -> None:
    """It says neither how many there are nor what each costs: a parcel, and what is to be paid for it."""
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


LEADS = (
    "id,created_time,ad_id,ad_name,adset_id,adset_name,campaign_id,campaign_name,form_id,form_name,is_organic,platform,"
    "full_name,phone_number,province,lead_status"
)


def test_leads_of_an_advertisement_get_what_all_of_them_have(browser: Client, alice: Account) -> None:
    """As Facebook gives them: UTF-16 with tabs, a number each, neither product nor price nor address."""
    product = ProductFactory(account=alice, sku="R-1", name="Robe", price="2500")

    def lead(number: int, name: str, phone: str, wilaya: str) -> list[str]:
        ad = ["2026-11-20T10:12:01-06:00", *["x:12"] * 7, "formulaire <b>", "false", "fb"]
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
    said = {"customer_address_constant": "À demander <b>", "sku_constant": "R-1", "shipping_fee_constant": "600 DA"}
    upload = take_in(browser, upload, **said, delivery_type_constant="Stop desk", quantity_constant="2")

    assert upload.counts == {"imported": 2, "refused": 0}
    first = Order.objects.get(external_id="l:1")
    assert (first.customer_address, first.total_amount, first.delivery_type, first.source) == (
        "À demander <b>", Decimal("5600.00"), "desk", "fb"
    )  # fmt: skip
    assert [(line.product_id, line.quantity) for line in first.items.all()] == [(product.id, 2)]
    again = send(browser, csv_of([lead(3, "Lina", "p:+213770112233", "16")], LEADS.split(",")))
    assert said.items() <= chosen(browser, again).items()


def test_what_all_rows_have_is_checked_before_any_is_taken_and_counts_only_without_a_column(browser: Client) -> None:
    header = HEADER[:-3]  # without product, quantity and price
    upload = send(browser, csv_of([row("A1")[:-3], ["A2", "Lina", "", "", ""]], header))
    address = f"/account/uploads/{upload.id}"
    said = chosen(browser, upload) | {"product_name_constant": "Sac", "customer_wilaya_constant": "Atlantis"}
    wrong = said | {"quantity_constant": "0", "unit_price_constant": "cher <b>", "delivery_type_constant": "avion"}

    page = browser.post(address, wrong)
    assert (page.status_code, Order.objects.count()) == (422, 0)
    assert {name: errors.get_json_data()[0]["message"] for name, errors in page.context["form"].errors.items()} == {
        "quantity_constant": "Must be from 1 to 10000.",
        "unit_price_constant": "Must be an amount such as 400 or 400.50.",
        "delivery_type_constant": "Must be “home” or “desk” (a stop desk).",
    }
    nothing = browser.post(address, said | {"quantity_constant": " ", "unit_price_constant": "1"})
    assert list(nothing.context["form"].errors) == ["quantity"]

    upload = take_in(browser, upload, **said | {"unit_price_constant": "1 500,50"})
    assert upload.counts == {"imported": 1, "refused": 1}
    order = Order.objects.get()
    assert (order.external_id, order.wilaya_code, order.total_amount) == ("A1", "16", Decimal("1500.50"))
    refused = RefusedRow.objects.get()
    assert {column for column, _ in refused.faults} == {"customer_phone", "customer_wilaya", "customer_address"}
    assert refused.cells == ["A2", "Lina", "", "", ""]


def test_an_order_that_says_neither_fee_nor_total_has_the_fee_of_where_it_goes(
    browser: Client, alice: Account, charlie: Account
) -> None:
    """As one that is written by hand has; a command, whose columns are the API's, keeps 0."""
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
    assert page.count("Left empty: your shipping fees by wilaya, unless the file says what is to pay.") == 1
    take_in(browser, without, shipping_fee_constant="0")
    assert set(Order.objects.filter(external_id__startswith="B").values_list("shipping_fee")) == {(Decimal(0),)}


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


def test_a_column_of_yes_and_no_says_whether_it_is_the_desk(browser: Client) -> None:
    said = {
        "OUI": "desk", "نعم": "desk", "1": "desk", "stop desk": "desk", "à domicile": "home", "non": "home",
        "0": "home", "": "home", "peut-être": None,
    }  # fmt: skip
    rows = [[*row(f"A{number}"), "", word] for number, word in enumerate(said)]
    rows.append([*row("B"), "à domicile", "OUI"])  # what says it in words counts

    take_in(browser, upload := send(browser, csv_of(rows, [*HEADER, "delivery_type", "STOP DESK"])))

    taken = dict(Order.objects.values_list("external_id", "delivery_type"))
    wanted = {f"A{number}": kind for number, kind in enumerate(said.values()) if kind} | {"B": "home"}
    assert taken == wanted
    assert b"Must be \xe2\x80\x9chome\xe2\x80\x9d" in browser.get(f"/account/uploads/{upload.id}").content


@pytest.mark.parametrize("language", ["fr", "ar-dz"])
def test_a_sentence_that_asks_for_yes_or_no_says_words_of_its_language(language: str) -> None:
    with override(language):
        asked = re.findall(r"«\s?(.+?)\s?»", gettext("Must be yes or no."))
        assert asked == [gettext("yes"), gettext("no")]


HEADINGS = ["external_id", "customer_name", "customer_phone", "customer_wilaya", "customer_address", "product_name",
            "quantity", "unit_price"]  # fmt: skip


def test_how_columns_were_matched_is_remembered_for_the_same_headings(
    browser: Client, alice: Account, charlie: Account
) -> None:
    header = ["a", "b", "c", "d", "e", "f", "g", "h"]
    upload = send(browser, csv_of([row()], header))
    assert chosen(browser, upload) == {"quantity_constant": "1"}
    answer = browser.post(f"/account/uploads/{upload.id}", {"customer_name": "1"})
    assert answer.status_code == 422
    assert answer.content.decode().count("Choose the column.") == 1
    assert answer.content.decode().count("Choose the column, or write it for all rows.") == 3
    assert "Choose one of: Product, SKU, Product id." in answer.content.decode()
    assert "Choose one of: Price, SKU, Product id, To pay on delivery." in answer.content.decode()
    take_in(browser, upload, **{name: str(place) for place, name in enumerate(HEADINGS)})
    assert Order.objects.get().customer_name == "Amine"

    turned = [cells[::-1] for cells in [header, row("A2", name="Nadia")]]
    upload = send(browser, csv_of([turned[1]], turned[0]))
    assert chosen(browser, upload)["customer_name"] == "6"
    take_in(browser, upload)
    assert Order.objects.get(external_id="A2").customer_name == "Nadia"

    theirs = browser_of(charlie.holder)
    assert chosen(theirs, send(theirs, csv_of([row()], header))) == {"quantity_constant": "1"}


def test_how_columns_were_matched_is_remembered_however_the_headings_are_written(browser: Client) -> None:
    header = ["N° commande", "Preneur", "Téléphone", "Wilaya", "Adresse", "Produit", "Qté", "Montant à Régler"]
    take_in(browser, send(browser, csv_of([row("A1")], header)), customer_name="1", unit_price="7")
    header = ["N° Commande", "PRENEUR", "Telephone", "Wilaya", "Adresse", "Produit", "Qte", "montant a regler"]
    found = chosen(browser, send(browser, csv_of([row("A2")], header)))
    assert found == {name: str(place) for place, name in enumerate(HEADINGS)} | {"quantity_constant": "1"}


def test_a_heading_of_marks_on_a_letter_keeps_no_worker_busy(browser: Client) -> None:
    heading = "e" + "\u0301" * 60_000 + "\u0316" * 60_000
    began = time.thread_time()
    upload = send(browser, csv_of([[*row(), "x"]], [*HEADER, heading]))
    assert time.thread_time() - began < 3, "seconds of a processor that no other thread of the worker gets"
    assert (upload.status, len(upload.titles[-1])) == (Status.MATCHING, 200)


def test_orders_are_counted_as_orders_beside_the_rows_of_their_file(browser: Client) -> None:
    upload = send(browser, csv_of([row("A1"), row("A1"), row("A2", quantity="0"), row("A2"), row("A2")]))
    take_in(browser, upload)
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "Done: 5 rows." in page
    assert re.findall(r'<dt>([^<]*)</dt><dd><bdi dir="ltr">(\d+)</bdi>', page) == [
        ("Orders imported", "1"),
        ("Orders refused", "1"),
    ]


def test_of_columns_with_one_heading_the_same_is_meant_again(browser: Client) -> None:
    header = [*HEADER[:-1], "Prix", "Prix"]
    upload = send(browser, csv_of([[*row("A1"), "1900"]], header))
    take_in(browser, upload, unit_price="8")
    assert chosen(browser, send(browser, csv_of([[*row("A2"), "1900"]], header)))["unit_price"] == "8"


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


# --- What is refused -------------------------------------------------------------------------------------------------


BAD = [
    row("A1"),
    row("A2", phone="12", quantity="two"),
    row("A3"),
    row("A3", product="Sac", quantity="0"),
    row("A1", product="Apart"),
    row("A4", address="=HYPERLINK(1)", wilaya="Atlantis"),
    [*row("A5"), "", "surplus"],
    row("A6"),
]


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_refused_rows_come_back_with_their_reasons_and_are_sent_again(browser: Client, kind: str) -> None:
    upload = take_in(browser, send(browser, csv_of(BAD)))
    assert upload.counts == {"imported": 2, "refused": 5}
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "<bdi>Téléphone</bdi>: Must be an Algerian phone number" in page

    data = downloaded(browser, f"/account/uploads/{upload.id}/refused.{kind}")
    if kind == "csv":
        header, *rows = read_csv(data)
    else:
        header, *rows = CalamineWorkbook.from_filelike(BytesIO(data)).get_sheet_by_index(0).to_python()
    assert header[:10] == ["line", "refused", *HEADER]
    assert [(str(int(cells[0])), cells[1]) for cells in rows] == [
        ("3", "Téléphone: Must be an Algerian phone number, such as 0550 12 34 56. Qté: Must be a whole number."),
        ("4", "The row is fine; see line 5 of the same order."),
        ("5", "Qté: Must be from 1 to 10000."),
        ("6", "N° commande: Line 2 has the same order number, with other orders between. An order's rows must follow"
              " each other."),
        ("7", 'Wilaya: "Atlantis" is not a wilaya.'),
        ("8", "The row has more cells than the first line has columns. Put a text with commas in quotes."),
    ]  # fmt: skip
    assert rows[4][6] == ("'=HYPERLINK(1)" if kind == "csv" else "=HYPERLINK(1)")

    mended = [[*cells[:4], "0550 12 34 56", "Oran", cells[6], cells[7], "3", cells[9]] for cells in rows]
    mended[3][2] = "A7"
    again = send(browser, csv_of(mended, header) if kind == "csv" else xlsx_of(mended, header), f"again.{kind}")
    assert (chosen(browser, again)["customer_name"], again.headings) == ("3", upload.headings)
    assert take_in(browser, again).counts == {"imported": 5, "refused": 0}
    assert Order.objects.count() == 7
    assert Order.objects.get(external_id="A4").customer_address == "=HYPERLINK(1)"


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
@pytest.mark.parametrize("number", ["first", "last"])
def test_a_row_that_is_sent_again_is_a_line_of_its_own_order_and_of_no_other(
    browser: Client, kind: str, number: str
) -> None:
    """The good order between them is not among the refused rows."""
    merged = row("", name="", phone="", wilaya="", address="", product="Sac")
    rows = [row("A1", phone="1"), [*merged[:5], "Foulard", *merged[6:]], row("", name="Nadia"), merged]
    header = list(HEADER)
    if number == "last":  # where a row ends before it when its cell is empty
        header, *rows = [[*cells[1:], *([cells[0]] if cells[0] else [])] for cells in (header, *rows)]
    upload = take_in(browser, send(browser, csv_of(rows, header)))
    assert upload.counts == {"imported": 1, "refused": 1}
    assert products_of(Order.objects.get()) == ["Robe", "Sac"]

    header, *rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"))
    phone = header.index("Téléphone")
    mended = [[*cells[:phone], "0550 12 34 56" if cells[phone] else "", *cells[phone + 1 :]] for cells in rows]
    again = send(browser, csv_of(mended, header) if kind == "csv" else xlsx_of(mended, header), f"again.{kind}")

    assert take_in(browser, again).counts == {"imported": 1, "refused": 0}
    assert products_of(Order.objects.get(external_id="A1")) == ["Robe", "Foulard"]


def products_of(order: Order) -> list[str]:
    return list(order.items.order_by("position").values_list("product_name", flat=True))


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_a_row_without_a_number_that_is_sent_again_is_refused_with_the_order_above(browser: Client, kind: str) -> None:
    """It may be a line of it, and may be a stranger's: so it was kept by earlier versions."""
    merged = row("", name="", phone="", wilaya="", address="", product="Sac")
    rows = [["2", "x", *row("A1")], ["3", "x", *merged], ["5", "x", *merged], ["6", "x", *row("A2")]]
    header = ["line", "refused", *HEADER]
    for imported in (1, 0):
        data = csv_of(rows, header) if kind == "csv" else xlsx_of(rows, header)
        upload = take_in(browser, send(browser, data, f"refused{imported}.{kind}"))
        assert (upload.counts["refused"], upload.counts.get("imported", 0)) == (1, imported)
        header, *rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"))
        assert [cells[1].startswith("N° commande: Write the order's number in each") for cells in rows] == [True] * 3
    assert Order.objects.get().external_id == "A2"


@pytest.mark.parametrize("number", ["1,23457E+11", "x" * 65])
@pytest.mark.parametrize("is_merged", [True, False])
def test_a_refused_number_is_mended_in_each_row_or_the_order_stays_out(
    browser: Client, number: str, is_merged: bool
) -> None:
    merged = row("" if is_merged else number, name="", phone="", wilaya="", address="", product="Sac")
    upload = take_in(browser, send(browser, csv_of([row(number), merged])))
    header, *rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"))
    assert [cells[1].partition(":")[0] for cells in rows] == ["N° commande"] * 2
    place = header.index("N° commande")

    for times, counts in ((1, {"refused": 1}), (2, {"imported": 1, "refused": 0})):
        for cells in rows[:times]:
            cells[place] = "123456789012"
        again = take_in(browser, send(browser, csv_of(rows, header), f"again{times}.csv"))
        assert again.counts == counts

    assert products_of(Order.objects.get()) == ["Robe", "Sac"]


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
    assert RefusedRow.objects.earliest("line").faults == [["", ["Is a total of rows above, and no order."]]]
    assert "This looks like a total of the rows above" in browser.get(f"/account/uploads/{upload.id}").content.decode()


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_a_formula_that_has_failed_is_nothing_that_was_left_out(browser: Client, kind: str) -> None:
    header = (*HEADER, "Frais de livraison", "Total")
    rows = [
        [*row("A1"), "400", Failed("#REF!")],
        [*row("A2"), Failed("#N/A"), ""],
        [*row("A3"), "", ""],
        [*row("A3", product=Failed("#VALEUR !")), "", ""],
        [*row("A4"), "", ""],
    ]
    data = csv_of(rows, header) if kind == "csv" else workbook({"1": [[*header], *rows]})
    upload = take_in(browser, send(browser, data, f"orders.{kind}"))
    assert upload.counts == {"imported": 1, "refused": 3}
    assert [order.external_id for order in Order.objects.all()] == ["A4"]
    assert [[column for column, _said in each.faults] for each in RefusedRow.objects.order_by("line")] == [
        ["total_amount"], ["shipping_fee"], [""], ["product_name"],
    ]  # fmt: skip
    browser.cookies["django_language"] = "fr"
    refused = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"), ";")
    assert refused[1][1].startswith("Total\u202f: C’est une erreur de la formule")
    assert refused[1][-1] == "#REF!"


def test_reasons_are_in_the_persons_language(browser: Client) -> None:
    many = [row("A7")] * 101
    upload = take_in(browser, send(browser, csv_of([*BAD, *many, row("A8", phone="5,50123E+08")])))
    browser.cookies["django_language"] = "fr"
    rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"), ";")
    assert "Téléphone\u202f: Le tableur a abrégé ce numéro, dont les derniers chiffres sont perdus." in rows[-1][1]
    assert "Une commande a 100 articles au plus." in rows[-102][1]
    english = {"Must", "must", "Line ", "The "}
    assert [cells[1] for cells in rows[1:] if any(word in cells[1] for word in english)] == []


@pytest.mark.parametrize(
    "details",
    [{str(number): "x" for number in range(21)}, {"k" * 65: "x"}, {"": "x"}, {"k": "x", "k ": "y"}, {"k": "x" * 256}],
)
def test_what_is_wrong_with_details_is_said_in_the_persons_language(details: dict[str, str]) -> None:
    line = {"product_name": "Robe", "quantity": 1, "unit_price": 1, "attributes": details}
    _order, errors = read_order({"items": [line]})
    (said,) = [sentence for path, sentences in errors.items() if path.startswith("items.") for sentence in sentences]
    with override("fr"):
        assert wording.in_words(said) != said


def test_nothing_in_a_file_is_run_or_breaks_a_page(browser: Client) -> None:
    hostile = "<script>alert(1)</script>{{ 7|add:7 }}"
    header = [*HEADER[:7], hostile]
    upload = send(
        browser,
        csv_of([row(hostile, name=hostile, wilaya=hostile, phone=hostile)], header),
        f"{'x' * 300}{hostile}.csv",
    )
    for _ in range(2):
        page = browser.get(f"/account/uploads/{upload.id}").content.decode()
        assert "&lt;script&gt;alert(1)" in page
        assert "<script>alert" not in page
        if upload.status == Status.MATCHING:
            upload = take_in(browser, upload, unit_price="7")
    assert upload.counts == {"refused": 1}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\n\n", "The file is empty; its first line must name the columns."),
        (b"a,b\n", "The file has no rows below its first line."),
        ("name\nCafé".encode("cp850"), "characters cannot be read"),
        (b'a,b\n1,"2\n', "The file is not a CSV file: the row at line 2 cannot be read."),
        (b"a\n" + b'"' + b"x" * (1 << 20), "The file has a row at line 2 that does not end"),
        (b",".join([b"x"] * 121) + b"\n1\n", "The file has 121 columns, at most 120 are read."),
        (b"a\n" + b'"' + b"x\n" * 600_000, "The file is not a CSV file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_words(browser: Client, data: bytes, says: str) -> None:
    upload = send(browser, data)
    assert upload.status == Status.FAILED
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert says in page
    assert next_steps(page) == {"Orders": "plain", "Another file": "primary"}
    assert (Piece.objects.count(), Block.objects.count()) == (0, 0)


def next_steps(page: str) -> dict[str, str]:
    return {
        name: kind for kind, name in re.findall(r'<a class="button (\w+)" href="/account/orders[^"]*">([^<]+)', page)
    }


@pytest.mark.process
def test_a_spreadsheet_that_is_none_is_refused_in_words(browser: Client) -> None:
    upload = send(browser, b"PK no spreadsheet", "orders.xlsx")
    text = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "The file is not a spreadsheet that we can read." in text


@pytest.mark.parametrize(
    ("name", "size", "says"),
    [
        ("orders.exe", "5", "must be CSV or XLSX"),
        ("", "5", "Choose a file."),
        ("a\x00.csv", "5", "Choose a file."),
        ("orders.csv", "0", "The file is empty."),
        ("orders.csv", "-1", "The file is empty."),
        ("orders.csv", str(arrival.MAX_BYTES + 1), "at most. Send it in parts"),
    ],
)
def test_what_cannot_be_taken_is_said_before_it_is_sent(browser: Client, name: str, size: str, says: str) -> None:
    answer = browser.post(PAGE, {"name": name, "size": size})
    assert answer.status_code == 422
    assert says in answer.json()["error"]
    assert not Upload.objects.exists()


def test_of_a_long_name_the_end_is_kept(browser: Client) -> None:
    """Composed, this letter is two characters."""
    assert browser.post(PAGE, {"name": "\u0958" * 251 + ".csv", "size": 5}).status_code == 200
    assert Upload.objects.get().name == "\u093c" + "\u0915\u093c" * 125 + ".csv"


def test_few_files_are_under_way_at_a_time(browser: Client) -> None:
    for number in range(arrival.MAX_OPEN):
        announce(browser, b"a\n1\n", f"{number}.csv")
    answer = browser.post(PAGE, {"name": "a.csv", "size": 5})
    assert (answer.status_code, answer.json()["error"]) == (
        422,
        "Other files are under way. Wait for them, or stop one.",
    )


def test_rows_without_a_number_are_orders_of_their_own_and_many_of_one_are_refused(browser: Client) -> None:
    rows = [row(""), row(""), *(row("A1") for _ in range(2500))]
    upload = take_in(browser, send(browser, csv_of(rows)))
    assert upload.counts == {"imported": 2, "refused": 3}
    assert (RefusedRow.objects.count(), upload.rows_done) == (2500, 2502)
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert '<td data-label="Why" class="all"><div>An order has at most 100 lines.</div></td>' in page


def test_a_file_of_long_rows_is_not_held_in_memory(browser: Client) -> None:
    """A spreadsheet of some kilobytes may say a text of the longest in each of its cells."""
    rows = [[f"SKU-{number}", *["x" * 125_000] * 8] for number in range(36)]
    header = ["SKU", "Name", *"abcdefg"]
    upload = send(browser, csv_of(rows, header), "products.csv", "/account/products/upload")
    answer = browser.post(f"/account/uploads/{upload.id}", {"sku": "0", "name": "1", "script": "2"})
    assert answer.status_code == 302
    tracemalloc.start()
    work.go_on()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    upload.refresh_from_db()
    assert (upload.counts, RefusedRow.objects.count()) == ({"refused": 36}, 36)
    assert most < 32 << 20
    assert max(account_pages.BATCH, account_pages.SHOWN_REFUSED) * MAX_ROW < 64 << 20


def test_an_order_of_more_text_than_is_held_ends_its_file(browser: Client) -> None:
    rows = [row("A1"), *(row("A2", product="x" * 125_000) for _ in range(40))]
    upload = take_in(browser, send(browser, csv_of(rows)))
    assert (upload.status, upload.counts) == (Status.FAILED, {})
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "The file has too much text in row 36." in page


# --- It arrives, and goes on where it was ----------------------------------------------------------------------------


def test_pieces_come_in_any_order_and_twice(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "PIECE_BYTES", 64)
    data = csv_of([row("A1"), row("A2")])
    upload = announce(browser, data)
    count = arrival.piece_count(upload)
    for number in [*range(count - 1, 0, -1), 1]:
        assert send_piece(browser, upload, number, data).json() == {"whole": False}
    assert send_piece(browser, upload, count, data).status_code == 422
    assert send_piece(browser, upload, 0, data[1:40]).status_code == 422
    assert send_piece(browser, upload, 0, data).json() == {"whole": True}
    assert send_piece(browser, upload, 0, data).json() == {"whole": True}
    work.go_on()
    assert take_in(browser, Upload.objects.get()).counts == {"imported": 2, "refused": 0}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("committed", [True, False])
def test_what_was_killed_goes_on_behind_the_last_batch(
    browser: Client, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """Rows without a number too; and what was said of numbers before is still known."""
    monkeypatch.setattr(OrderRows, "batch", 10)
    rows = [row("first"), *(row("") for _ in range(30)), row("A2"), row("first"), row("A3", phone="1")]
    upload = send(browser, csv_of(rows))
    whole, batches = work._take_batch, []

    def killed(*args: Any) -> None:
        batches.append(1)
        if committed:
            whole(*args)
        if len(batches) == 2:
            raise Killed
        if not committed:
            whole(*args)

    monkeypatch.setattr(work, "_take_batch", killed)
    with pytest.raises(Killed):
        take_in(browser, upload)
    assert 0 < Order.objects.count() < 30
    monkeypatch.setattr(work, "_take_batch", whole)
    assert work.go_on() == 0, "somebody may still be at it"
    Upload.objects.update(claimed_until=Now() - timedelta(seconds=1))

    assert work.go_on() == 1

    upload.refresh_from_db()
    assert (upload.status, upload.counts) == (Status.DONE, {"imported": 32, "refused": 2})
    assert Order.objects.count() == OrderItem.objects.count() == StatusChange.objects.count() == 32
    assert list(RefusedRow.objects.order_by("line").values_list("line", flat=True)) == [34, 35]


def test_who_has_lost_their_claim_writes_nothing(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrderRows, "batch", 10)
    upload = send(browser, csv_of(row("") for _ in range(30)))
    whole = OrderRows.take

    def late(self: OrderRows, entries: Any) -> Any:
        taken = whole(self, entries)
        if Order.objects.count() == 20:
            Upload.objects.update(claim=uuid4())  # it was paused, and another has begun
        return taken

    monkeypatch.setattr(OrderRows, "take", late)
    take_in(browser, upload)
    upload.refresh_from_db()
    assert (upload.status, Order.objects.count(), upload.rows_done) == (Status.RUNNING, 20, 20)


@pytest.mark.parametrize("claim", [None, uuid4()])
def test_a_clock_that_is_set_back_by_hours_holds_no_file_up_for_as_long(browser: Client, claim: UUID | None) -> None:
    upload = send(browser, csv_of([row()]))
    browser.post(f"/account/uploads/{upload.id}", chosen(browser, upload))
    Upload.objects.update(claim=claim, claimed_until=Now() + timedelta(hours=1))

    assert work.go_on() == 1

    assert Upload.objects.get().status == Status.DONE


def test_a_file_that_nobody_gets_on_with_is_given_up(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = send(browser, csv_of([row()]))
    monkeypatch.setattr(OrderRows, "take", lambda self, entries: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        take_in(browser, upload)
    Upload.objects.update(claimed_until=None, tries=work.MOST_TRIES)
    work.go_on()
    assert Upload.objects.get().status == Status.FAILED
    assert "We could not continue with this file." in browser.get(f"/account/uploads/{upload.id}").content.decode()


def test_a_file_whose_rows_are_gone_is_not_done(browser: Client) -> None:
    upload = send(browser, csv_of([row("A1"), row("A2")]))
    form = chosen(browser, upload)
    Block.objects.all().delete()
    browser.post(f"/account/uploads/{upload.id}", form)
    work.go_on()
    upload.refresh_from_db()
    assert (upload.status, upload.rows_done) == (Status.FAILED, 0)


def test_a_long_file_takes_turns_with_others(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrderRows, "batch", 5)
    monkeypatch.setattr(work, "SECONDS", 0.0)
    first, second = (send(browser, csv_of(row("", name=name) for _ in range(12))) for name in ("Amine", "Nadia"))
    seen: list[Any] = []
    whole = work._work_at
    monkeypatch.setattr(work, "_work_at", lambda upload: seen.append(upload.id) or whole(upload))
    Upload.objects.update(status=Status.RUNNING, mapping={name: place for place, name in enumerate(HEADINGS)})
    work.go_on()
    assert seen[:4] in ([first.id, second.id] * 2, [second.id, first.id] * 2)
    assert Order.objects.count() == 24


@pytest.mark.parametrize("seconds", [20.0, 0.0])
def test_a_file_comes_to_the_same_however_many_turns_it_takes(
    browser: Client, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The number of a row that was never tried is free for a later one."""
    monkeypatch.setattr(OrderRows, "batch", 2)
    monkeypatch.setattr(work, "SECONDS", seconds)
    rows = [[*row("A1"), "surplus"], *(row(number) for number in ("A2", "A3", "A4", "A1"))]
    upload = take_in(browser, send(browser, csv_of(rows)))
    assert (upload.status, upload.counts) == (Status.DONE, {"imported": 4, "refused": 1})


def test_an_upload_can_be_stopped(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrderRows, "batch", 10)
    upload = send(browser, csv_of(row("") for _ in range(30)))
    assert "Stop this upload?" in browser.get(f"/account/uploads/{upload.id}/stop").content.decode()
    whole = work._take_batch

    def stopped(*args: Any) -> None:
        whole(*args)
        browser.post(f"/account/uploads/{upload.id}/stop")

    monkeypatch.setattr(work, "_take_batch", stopped)
    upload = take_in(browser, upload)
    assert (upload.status, upload.counts["imported"], Order.objects.count()) == (Status.STOPPED, 10, 10)
    assert Block.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_nobody_sees_a_file_stopped_before_it_is_forgotten(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed in between has not stopped it; and a customer who is erased then is not left in its rows."""
    upload = send(browser, csv_of([row()]))
    forget, seen = work.forget_file, []

    def looked_at(id_: UUID) -> None:
        seen.append(Background(lambda: Upload.objects.get(id=id_).status).result())
        forget(id_)

    monkeypatch.setattr(work, "forget_file", looked_at)
    browser.post(f"/account/uploads/{upload.id}/stop")
    upload.refresh_from_db()
    assert (seen, upload.status, Block.objects.count()) == ([Status.MATCHING], Status.STOPPED, 0)


@pytest.mark.parametrize("mode", ["live", "test"])
@pytest.mark.parametrize("closed", ["account", "holder"])
def test_the_file_of_an_account_that_is_closed_is_stopped(
    browser: Client, alice: Account, twin: Account, monkeypatch: pytest.MonkeyPatch, closed: str, mode: str
) -> None:
    monkeypatch.setattr(OrderRows, "batch", 10)
    browser.post("/account/mode", {"to": mode})
    upload, waiting = (send(browser, csv_of([row("", name=name)] * 30)) for name in ("Amine", "Nadia"))
    browser.post(f"/account/uploads/{waiting.id}", chosen(browser, waiting))
    Upload.objects.filter(id=waiting.id).update(claimed_until=Now() + timedelta(minutes=1))
    whole = work._take_batch

    def closing(*args: Any) -> None:
        whole(*args)
        merchants.deactivate(alice.id) if closed == "account" else alice.holder.deactivate()

    monkeypatch.setattr(work, "_take_batch", closing)
    upload = take_in(browser, upload)
    Upload.objects.filter(id=waiting.id).update(claimed_until=None)
    work.go_on()
    waiting.refresh_from_db()
    assert (upload.status, upload.rows_done, Order.objects.count()) == (Status.STOPPED, 10, 10)
    assert (waiting.status, waiting.rows_done, Block.objects.count()) == (Status.STOPPED, 0, 0)


def test_the_very_same_file_is_recognised_and_known_numbers_are_left(browser: Client) -> None:
    data = csv_of([row("A1"), row("A2")])
    first = take_in(browser, send(browser, data))
    second = send(browser, data)
    page = browser.get(f"/account/uploads/{second.id}").content.decode()
    assert "You have sent the very same file before" in page
    assert str(first.id) in page
    assert take_in(browser, second).counts == {"already_there": 2, "refused": 0}


def test_a_file_that_a_colleague_sends_at_once_is_asked_about_once(browser: Client, alice: Account) -> None:
    data = csv_of([row(""), row("")])
    colleague = browser_of(Membership.objects.create(account=alice, user=UserFactory(), role="manager").user)
    first = send(colleague, data)
    form = chosen(colleague, first)
    second = send(browser, data)
    assert "You have sent the very same file before" in browser.get(f"/account/uploads/{second.id}").content.decode()
    take_in(browser, second)

    answer = colleague.post(f"/account/uploads/{first.id}", form)
    page = answer.content.decode()
    assert (answer.status_code, Order.objects.count()) == (422, 2)
    assert "press the button again if you want these rows anyway" in page
    (seen,) = re.findall(r'name="seen" value="(.+?)"', page)
    assert seen == str(second.id)

    assert colleague.post(f"/account/uploads/{first.id}", form | {"seen": seen}).status_code == 302
    work.go_on()
    assert Order.objects.count() == 4


def test_a_file_of_which_nothing_came_is_not_asked_about(browser: Client) -> None:
    data = csv_of([row()])
    stopped = send(browser, data)
    browser.post(f"/account/uploads/{stopped.id}/stop")
    assert browser.get(f"/account/uploads/{send(browser, data).id}").context["same"] is None
    Upload.objects.filter(id=stopped.id).update(rows_done=1)
    assert browser.get(f"/account/uploads/{Upload.objects.latest('id').id}").context["same"] == stopped


SENT_AGAIN = "The file was sent again: the newer one takes its place."


def test_a_try_that_is_sent_again_before_it_has_arrived_ends(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "PIECE_BYTES", 64)
    data = csv_of([row("A1"), row("A2")])
    for _ in range(arrival.MAX_OPEN + 1):  # over a line that breaks
        upload = announce(browser, data)
        send_piece(browser, upload, 0, data)
    other = announce(browser, data, "other.csv")
    statuses = dict(Upload.objects.order_by("id").values_list("id", "status"))
    assert list(statuses.values()) == [*[Status.STOPPED] * arrival.MAX_OPEN, Status.ARRIVING, Status.ARRIVING]
    assert Piece.objects.get().upload == upload

    first = next(iter(statuses))
    assert send_piece(browser, Upload.objects.get(id=first), 1, data).json() == {"whole": True}
    assert SENT_AGAIN in browser.get(f"/account/uploads/{first}").content.decode()
    assert Upload.objects.get(id=other.id).status == Status.ARRIVING


@pytest.mark.parametrize("earlier", [Status.READING, Status.MATCHING])
def test_of_a_file_that_is_sent_twice_the_later_one_is_matched(browser: Client, earlier: str) -> None:
    data, theirs = csv_of([row("A1")]), csv_of([row("B1")])
    first, second = (announce(browser, data, name) for name in ("orders.csv", "orders (1).csv"))
    other = send(browser, theirs)
    if earlier == Status.MATCHING:
        send_piece(browser, first, 0, data)
        work.go_on()
    send_piece(browser, second, 0, data)
    work.go_on()
    if earlier == Status.READING:
        send_piece(browser, first, 0, data)
        work.go_on()

    shown = browser.get(f"/account/uploads/{first.id}").content.decode()
    assert SENT_AGAIN in shown
    assert (take_in(browser, second).counts, Order.objects.count()) == ({"imported": 1, "refused": 0}, 1)
    assert browser.get(f"/account/uploads/{other.id}").context["upload"].status == Status.MATCHING
    assert set(Block.objects.values_list("upload", flat=True)) == {other.id}


@pytest.mark.parametrize("is_colleague", [False, True])
def test_a_file_that_is_taken_in_ends_when_the_later_one_is(
    browser: Client, alice: Account, monkeypatch: pytest.MonkeyPatch, is_colleague: bool
) -> None:
    """And not before: who only looks at the columns of the later one loses nothing."""
    monkeypatch.setattr(OrderRows, "batch", 10)
    again = Client()
    again.force_login(
        Membership.objects.create(account=alice, user=UserFactory(), role="manager").user
        if is_colleague
        else alice.holder
    )
    data = csv_of(row(f"A{number}") for number in range(40))
    first, later = send(browser, data), []
    whole = work._take_batch

    def sent_again(upload: Upload, *args: Any) -> None:
        whole(upload, *args)
        if upload.id == first.id and upload.position <= 21:
            if not later:
                later.append(send(again, data, "again.csv"))
            else:
                form = {"seen": str(first.id)} | chosen(again, later[0])
                assert again.post(f"/account/uploads/{later[0].id}", form).status_code == 302

    monkeypatch.setattr(work, "_take_batch", sent_again)
    first = take_in(browser, first)
    (second,) = Upload.objects.exclude(id=first.id)

    assert (second.status, Order.objects.count()) == (Status.DONE, 40)
    if is_colleague:
        assert (first.status, first.rows_done, first.problem) == (Status.DONE, 40, "")
    else:
        assert (first.status, first.rows_done, first.problem) == (Status.STOPPED, 20, SENT_AGAIN)
        assert second.counts == {"already_there": 20, "imported": 20, "refused": 0}


# --- Whose it is, and for how long -----------------------------------------------------------------------------------


def test_in_test_mode_a_file_becomes_test_orders(browser: Client, alice: Account, twin: Account) -> None:
    browser.post("/account/mode", {"to": "test"})
    upload = take_in(browser, send(browser, csv_of([row()])))
    assert upload.account == twin
    assert Order.objects.get().call_state == CallState.TEST
    browser.post("/account/mode", {"to": "live"})
    assert browser.get(f"/account/uploads/{upload.id}").status_code == 404


def test_a_page_costs_the_same_however_large_the_file_is(browser: Client) -> None:
    counts = []
    for rows in (2, 400):
        upload = send(browser, csv_of(row(number, phone="1") for number in range(rows)))
        take_in(browser, upload)
        for path in (PAGE, f"/account/uploads/{upload.id}", f"/account/uploads/{upload.id}/progress"):
            with CaptureQueriesContext(connection) as queries:
                assert browser.get(path).status_code == 200
            counts.append(len(queries))
    assert counts[:3] == counts[3:]


def test_refused_rows_can_be_discarded(browser: Client) -> None:
    upload = take_in(browser, send(browser, csv_of([row("A1", phone="1"), row("A2")])))
    page, discard = f"/account/uploads/{upload.id}", f"/account/uploads/{upload.id}/discard"
    assert f'href="{discard}"' in browser.get(page).content.decode()
    assert "1 row of a file was refused" in browser.get("/account/").content.decode()
    assert "Discard the refused rows?" in browser.get(discard).content.decode()
    assert RefusedRow.objects.count() == 1
    answer = browser.post(discard, follow=True).content.decode()
    assert "The refused rows are discarded." in answer
    assert f'href="{discard}"' not in answer
    assert "refused" not in browser.get("/account/").content.decode()
    assert (RefusedRow.objects.count(), Order.objects.count()) == (0, 1)
    assert browser.post(discard, follow=True).redirect_chain == [(page, 302)]
    assert SecurityEntry.objects.filter(action="rows_discarded", target_id=upload.id).count() == 1


def test_files_and_refused_rows_are_forgotten(browser: Client) -> None:
    done = take_in(browser, send(browser, csv_of([row("A1", phone="1")])))
    waiting = send(browser, csv_of([row("A2")]))
    arriving = announce(browser, csv_of([row("A3")] * 9000))
    send_piece(browser, arriving, 0, csv_of([row("A3")] * 9000))

    def forget(days: int) -> None:
        ago = Now() - timedelta(days=days)
        Upload.objects.update(created_at=ago)
        Upload.objects.exclude(finished_at=None).update(finished_at=ago)
        assert {k for counts in SWEEPS["uploads"](time.time(), dry_run=True) for k in counts}  # type: ignore[arg-type]
        list(SWEEPS["uploads"](time.time(), dry_run=False))  # type: ignore[arg-type]

    forget(1)
    assert (Piece.objects.count(), Block.objects.count(), RefusedRow.objects.count()) == (1, 1, 1)
    forget(3)
    assert (Piece.objects.count(), Block.objects.count(), RefusedRow.objects.count()) == (0, 0, 1)
    assert set(Upload.objects.filter(id__in=[waiting.id, arriving.id]).values_list("status", flat=True)) == {"stopped"}
    forget(31)
    assert (Upload.objects.count(), RefusedRow.objects.count()) == (3, 0)
    assert downloaded(browser, f"/account/uploads/{done.id}/refused.csv").count(b"\n") == 1
    forget(401)
    assert Upload.objects.count() == 0


def test_nobody_matches_a_file_whose_rows_are_being_forgotten(browser: Client) -> None:
    upload = send(browser, csv_of([row("A1"), row("A2")]))
    form = chosen(browser, upload)
    Upload.objects.update(created_at=Now() - timedelta(days=3))
    for counts in SWEEPS["uploads"](time.time(), dry_run=False):  # type: ignore[arg-type]
        if "upload_blocks" in counts:  # here a sweep may end, and another go on a minute later
            browser.post(f"/account/uploads/{upload.id}", form)
    work.go_on()
    upload.refresh_from_db()
    assert (upload.status, Block.objects.count()) == (Status.STOPPED, 0)


def test_a_sku_with_nul_or_an_order_of_anothers_is_no_matter(browser: Client, charlie: Account) -> None:
    make_order(charlie, external_id="A1")
    upload = take_in(browser, send(browser, csv_of([row("A1", name="a\0b"), row("A2")]).replace(b"\0", b"\x01")))
    assert upload.counts == {"imported": 1, "refused": 1}
