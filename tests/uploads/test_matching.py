"""Which column of an uploaded file is which of ours, as proposed and as people choose."""

import re
import time

import pytest
from django.test import Client
from django.utils.translation import override

from codservice.accounts.models import Account
from codservice.files.headings import by_cells, meant
from codservice.uploads.models import Upload
from orders import export
from orders.models import Order
from orders.order_files.columns import COLUMNS
from tests.harness.client import browser_of
from tests.uploads.files import (
    ECOTRACK,
    HEADER,
    HEADINGS,
    chosen,
    csv_of,
    row,
    send,
    take_in,
)

Status = Upload.Status


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


@pytest.mark.parametrize("language", ["en", "fr", "ar-dz"])
def test_the_headings_of_our_list_of_orders_are_known(language: str) -> None:
    """But for what only we say of an order, and the codes of places that have a name beside them."""
    unread = {"status", "cancel_reason", "wilaya_code", "commune_code"}
    read = {"order_id": "our_id", "items": "product_name", "wilaya": "customer_wilaya", "commune": "customer_commune"}
    with override(language):
        found = meant([str(label) for label in export.COLUMNS.values()], COLUMNS)
    assert dict(zip(export.COLUMNS, found, strict=True)) == {
        name: "" if name in unread or name.endswith("_at") else read.get(name, name) for name in export.COLUMNS
    }


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Prix (DA)", "unit_price"),
        ("Prix (en DA)", "unit_price"),
        ("Total DA", "total_amount"),
        ("Total en dinars", "total_amount"),
        ("السعر بالدينار", "unit_price"),
        ("Montant total [DZD]", "total_amount"),
        ("السعر (د.ج)", "unit_price"),
        ("المبلغ الإجمالي دج", "total_amount"),
        ("Commune / Ville", "customer_commune"),
        ("الولاية (Wilaya)", "customer_wilaya"),
        ("Téléphone - الهاتف", "customer_phone"),
        # Hints to who fills the file in say nothing.
        ("Quantité (obligatoire)", "quantity"),
        ("Taille (optionnel)", "size"),
        ("Téléphone 2 (facultatif)", "customer_phone_2"),
        ("Notes [optional]", "notes"),
        ("الاسم (إجباري)", "customer_name"),
        ("البلدية (اختياري)", "customer_commune"),
        ("Montant du colis (DA) (obligatoire)", "total_amount"),
        ("Stop-desk (oui/non)", "stop_desk"),
        ("StopDesk (1/0)", "stop_desk"),
        ("Type (domicile/stopdesk)", "delivery_type"),
        ("Type de livraison (stop desk / domicile)", "delivery_type"),
        ("Stop Desk/Domicile", "delivery_type"),
        ("Home / Desk", "delivery_type"),
        ("Tél1/Tél2", "customer_phone"),
        ("(obligatoire)", ""),
        # A yes or no tells neither a fee nor a stock.
        ("Livraison (oui/non)", ""),
        # A heading whose parts mean different things matches nothing.
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
        ("Mobile Number", "customer_phone"),
        ("Phone No.", "customer_phone"),
        ("Contact number", "customer_phone"),
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
        ("external_id", ["Code commande", "Commande n°", "N° BL", "N° cmd", "Réf. cmd", "CMD", "Bon de commande"]),
        (
            "external_id",
            ["N° cde", "N°CDE", "No cde", "Num cde", "Numéro de cde", "Réf. cde", "ID cde", "Cde", "Code cde"],
        ),
        ("customer_name", ["Nom et prénom du client", "Client(e)", "smiya", "السمية", "الاسم الثلاثي"]),
        ("customer_name", ["Acheteur", "Nom du destinataire", "Nom et prénoms", "اسم و لقب الزبون", "اسم المستلم"]),
        (
            "customer_phone",
            ["Num. téléphone", "N° de tél", "Tél client", "GSM", "Tél. portable", "رقم هاتف الزبون", "الهاتف النقال"],
        ),
        (
            "customer_phone_2",
            ["Tel2", "Phone2", "2ème téléphone", "Autre tél", "Tél secondaire", "N° Tél 2", "رقم الهاتف الثاني"],
        ),
        ("customer_wilaya", ["N° wilaya", "Willaya", "Wilaya du client", "ولاية الزبون", "اسم الولاية", "رقم الولاية"]),
        ("customer_wilaya", ["Wilaya de destination"]),
        ("customer_commune", ["Commune de destination"]),
        ("customer_commune", ["Commune de livraison", "Baladiya", "Nom commune", "بلدية التوصيل", "اسم البلدية"]),
        ("customer_address", ["Adresse exacte", "Adr.", "عنوان الزبون"]),
        ("product_name", ["Produits", "Produit commandé", "Désignation de l'article", "المنتوج", "اسم السلعة"]),
        ("product_name", ["Article commandé", "sel3a"]),
        ("colour", ["Coloris"]),
        ("quantity", ["Nb", "Nbre", "Nb de pièces", "Pièces", "Pcs", "Qt", "Qté commandée", "عدد القطع"]),
        ("unit_price", ["P.U.", "P.U. (DA)", "Prix unit.", "Prix de vente", "Prix du produit", "سعر المنتج", "السومة"]),
        ("shipping_fee", ["Coût de livraison", "Frais d'expédition", "Frais de transport", "تكلفة التوصيل"]),
        ("shipping_fee", ["Frais", "Frais de liv.", "Livr.", "tawsil", "الشحن", "مصاريف الشحن"]),
        ("total_amount", ["Net à payer", "Total TTC", "Montant à payer (DA)", "Total commande", "المبلغ الكلي"]),
        ("total_amount", ["Total général", "المجموع الكلي"]),
        # Of Maystro, ZR Express and YouCan.
        ("external_id", ["external_order_id", "id_Externe"]),
        ("customer_phone", ["MobileA"]),
        ("customer_phone_2", ["MobileB"]),
        ("customer_wilaya", ["IDWilaya", "Region"]),
        ("customer_address", ["destination_text", "First line"]),
        ("product_name", ["TProduit"]),
        ("notes", ["note_to_driver"]),
        ("total_amount", ["Montant COD", "Montant à recouvrer", "COD amount", "Prix colis (DA)"]),
        ("customer_phone", ["Téléphone du destinataire", "Tél. destinataire", "هاتف العميل", "رقم هاتف المستلم"]),
        ("customer_wilaya", ["Wilaya du destinataire", "ولاية الشحن", "ولاية العميل"]),
        ("customer_commune", ["Commune du destinataire", "بلدية الشحن", "مدينة الشحن"]),
        ("customer_address", ["Adresse du destinataire", "عنوان الشحن", "عنوان العميل", "عنوان المستلم"]),
        ("product_name", ["عنوان المنتج", "Articles", "Items"]),
        ("notes", ["ملاحظة العميل", "ملاحظة الزبون"]),
        ("notes", ["Note client", "Instructions", "Obs.", "ملاحضات"]),
    ],
)
def test_how_shops_shorten_their_headings_is_known(name: str, headings: list[str]) -> None:
    assert [heading for heading in headings if meant([heading], COLUMNS) != [name]] == []


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        # The clearest word says what is to be paid, wherever it stands.
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
        ("مدينة الشحن,بلدية الشحن", {"customer_commune": "بلدية الشحن"}),
        ("Articles,Produit", {"product_name": "Produit"}),
        ("State,Wilaya", {"customer_wilaya": "Wilaya"}),
        ("Description,Produit", {"product_name": "Produit"}),
        ("Article,Désignation", {"product_name": "Désignation"}),
        ("Commande,Numéro de commande", {"external_id": "Numéro de commande"}),
        ("Facture,N° commande", {"external_id": "N° commande"}),
        ("CMD,N° cmd", {"external_id": "N° cmd"}),
        ("Cde,N° cde", {"external_id": "N° cde"}),
        ("Frais,Livraison", {"shipping_fee": "Livraison"}),
        ("Montant COD,Prix colis", {"total_amount": "Montant COD"}),
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
        ("customer_name,Nom,Prénom", {"customer_name": "customer_name", "customer_name_2": None}),
        ("Customer name,Nom,Prénom", {"customer_name": "Customer name", "customer_name_2": None}),
        ("Full name,First name,Last name", {"customer_name": "First name", "customer_name_2": "Last name"}),
        # So are WooCommerce's in French, and a column of two things beside a plain one.
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


def test_what_a_missing_number_leads_to_is_said(browser: Client) -> None:
    upload = send(browser, csv_of([row()], ["N°", *HEADER[1:]]))
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert 'aria-describedby="id_external_id_helptext"' in page
    assert "Without a number, an order that is sent again is imported a second time." in page


def test_a_cell_that_is_shown_in_part_ends_in_dots(browser: Client) -> None:
    """Who sees half a word believes that no more of it arrived."""
    upload = send(browser, csv_of([row(wilaya="x", address="y" * 60), row("A2", wilaya="x", address="z" * 300)]))
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert f"<bdi>{'y' * 60}</bdi>" in page
    assert f"<bdi>{'z' * 59}…</bdi>" in page
    take_in(browser, upload)
    shown = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert re.findall(r"<bdi>z+(.)</bdi>", shown) == ["…"]


@pytest.mark.parametrize("sign", ["بَ", "e\u0301"])
def test_so_does_a_cell_with_marks_over_its_letters(browser: Client, sign: str) -> None:
    upload = send(browser, csv_of([row(wilaya="x", address=sign * 100)]))
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert f"<bdi>{(sign * 100)[:59]}…</bdi>" in page


def test_a_column_beside_sku_that_may_be_the_model_does_not_replace_the_catalogs_name() -> None:
    for heading in ("Modèle", "الموديل"):
        assert meant(["SKU", heading], COLUMNS) == ["sku", ""]


def unread(page: str) -> tuple[list[str], bool]:
    """The columns that the page says are not imported, and whether it says so."""
    found = re.findall(r'<li data-place="\d+"( hidden)?><bdi>([^<]*)', page)
    return [title for is_read, title in found if not is_read], '<div class="field" id="unread">' in page


@pytest.mark.parametrize("heading", ["line", "refused"])
def test_a_column_with_one_heading_of_a_report_is_none_that_is_read(browser: Client, heading: str) -> None:
    upload = send(browser, csv_of([["2", *row()]], [heading, *HEADER]))
    page = f"/account/uploads/{upload.id}"
    assert unread(browser.get(page).content.decode()) == ([heading], True)
    assert browser.post(page, chosen(browser, upload) | {"source": "0"}).status_code == 422  # a report has it not


def test_columns_that_nothing_is_read_from_are_named(browser: Client) -> None:
    upload = send(browser, csv_of([[*row(), "5 %", "", "x"]], [*HEADER, "Remise <b>", "", "Qté"]))
    page = f"/account/uploads/{upload.id}"
    assert unread(browser.get(page).content.decode()) == (["Remise &lt;b&gt;", "Qté"], True)
    matched = {name: str(place) for place, name in enumerate(HEADINGS)} | {"quantity": "10", "customer_name": ""}
    refused = browser.post(page, matched)  # as chosen, and the form asks for the name
    assert unread(refused.content.decode()) == (["Nom du client", "Qté", "Remise &lt;b&gt;"], True)
    known = send(browser, csv_of([row("A2")]))
    assert unread(browser.get(f"/account/uploads/{known.id}").content.decode()) == ([], False)
    report = send(browser, csv_of([["2", "Telephone", *row("A3")]], ["line", "refused", *HEADER]))
    assert unread(browser.get(f"/account/uploads/{report.id}").content.decode()) == ([], False)


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
          "Order Shipping Amount", "Order Total Amount", "Customer Note", None]),
        (WOOCOMMERCE_IN_FRENCH,
         ["Numéro de commande", "Prénom (Facturation)", "Nom de famille (Facturation)", "Téléphone (Facturation)",
          "Code de l’état (Facturation)", "Ville (Facturation)", "Adresse 1 & 2 (Facturation)", "Nom de l’élément",
          "UGS", "Quantité (- Remboursement)", "Coût de l’article", "Montant de la livraison",
          "Montant total de la commande", "Note du client", None]),
        (SHOPIFY,
         ["Name", "Shipping Name", None, "Shipping Phone", "Shipping Province Name", "Shipping City", "Shipping Street",
          "Lineitem name", "Lineitem sku", "Lineitem quantity", "Lineitem price", "Shipping", "Total", "Notes",
          "Billing Phone"]),
    ],
    ids=["WooCommerce", "WooCommerce in French", "Shopify"],
)  # fmt: skip
def test_the_columns_of_shops_are_known(header: str, expected: list[str]) -> None:
    names = ["external_id", "customer_name", "customer_name_2", *HEADINGS[2:4], "customer_commune", "customer_address",
             "product_name", "sku", "quantity", "unit_price", "shipping_fee", "total_amount", "notes",
             "customer_phone_2"]  # fmt: skip
    found = dict(zip(meant(header.split(","), COLUMNS), header.split(","), strict=True))
    wanted = {name: title for name, title in zip(names, expected, strict=True) if title}
    assert {name: title for name, title in found.items() if name} == wanted


YALIDINE = (
    "order_id,from_wilaya_name,firstname,familyname,contact_phone,address,to_commune_name,to_wilaya_name,product_list,"
    "price,do_insurance,declared_value,length,width,height,weight,freeshipping,is_stopdesk,stopdesk_id,has_exchange"
)


ECOTRACK_BEFORE = (
    "reference commande,nom et prenom du client \r\n(obligatoire),telephone \r\n(obligatoire),telephone 2,"
    "adresse de livraison\r\n (obligatoire),commune de livraison,montant du colis \r\n(obligatoire),"
    "code wilaya \r\n(obligatoire),produit,remarque,poids\r\n( en kg ),"
    "PICK UP\r\n( si oui mettez OUI sinon laissez vide ),STOP DESK\r\n( si oui mettez OUI sinon laissez vide ),"
    "Code de station ( obligatoire si stopdesk = OUI )"
)


ZR_API = (
    "Tracking,TypeLivraison,TypeColis,Confrimee,Client,MobileA,MobileB,Adresse,IDWilaya,Commune,Total,Note,TProduit,"
    "id_Externe,Source"
)


ZR = "Tracking,Nom client,Téléphone A,Téléphone B,Adresse,Wilaya,Commune,Total,Note"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (YALIDINE,
         {"external_id": "order_id", "customer_name": "firstname", "customer_name_2": "familyname",
          "customer_phone": "contact_phone", "customer_address": "address", "customer_commune": "to_commune_name",
          "customer_wilaya": "to_wilaya_name", "product_name": "product_list", "unit_price": "price",
          "stop_desk": "is_stopdesk", "free_shipping": "freeshipping"}),
        (ECOTRACK,
         {"external_id": "reference commande", "customer_name": "nom et prenom du destinataire*",
          "customer_phone": "telephone*", "customer_phone_2": "telephone 2", "customer_wilaya": "wilaya de livraison",
          "customer_commune": "commune de livraison*", "customer_address": "adresse de livraison*",
          "product_name": "produit*", "total_amount": "montant du colis*", "notes": "remarque",
          "stop_desk": "STOP DESK\n( si oui mettez OUI sinon laissez vide )"}),
        (ECOTRACK_BEFORE,
         {"external_id": "reference commande", "customer_name": "nom et prenom du client \r\n(obligatoire)",
          "customer_phone": "telephone \r\n(obligatoire)", "customer_phone_2": "telephone 2",
          "customer_address": "adresse de livraison\r\n (obligatoire)", "customer_commune": "commune de livraison",
          "total_amount": "montant du colis \r\n(obligatoire)", "customer_wilaya": "code wilaya \r\n(obligatoire)",
          "product_name": "produit", "notes": "remarque",
          "stop_desk": "STOP DESK\r\n( si oui mettez OUI sinon laissez vide )"}),
        (ZR,
         {"customer_name": "Nom client", "customer_phone": "Téléphone A", "customer_phone_2": "Téléphone B",
          "customer_address": "Adresse", "customer_wilaya": "Wilaya", "customer_commune": "Commune",
          "total_amount": "Total", "notes": "Note"}),
        (ZR_API,
         {"external_id": "id_Externe", "customer_name": "Client", "customer_phone": "MobileA",
          "customer_phone_2": "MobileB", "customer_address": "Adresse", "customer_wilaya": "IDWilaya",
          "customer_commune": "Commune", "stop_desk": "TypeLivraison", "product_name": "TProduit",
          "total_amount": "Total", "notes": "Note", "source": "Source"}),
    ],
    ids=["Yalidine", "EcoTrack", "EcoTrack before", "ZR", "ZR's API"],
)  # fmt: skip
def test_the_columns_of_lists_for_couriers_are_known(header: str, expected: dict[str, str]) -> None:
    found = dict(zip(meant(header.split(","), COLUMNS), header.split(","), strict=True))
    assert {name: title for name, title in found.items() if name} == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Nom,Prénom,Tél", "customer_name,customer_name_2,customer_phone"),
        ("Prénom,Nom", "customer_name_2,customer_name"),
        ("Prénom (facultatif),Nom (obligatoire)", "customer_name_2,customer_name"),
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


def test_a_file_may_have_as_many_columns_as_shops_exports(browser: Client) -> None:
    upload = send(browser, csv_of([[*row(), *[""] * 111]], [*HEADER, *(f"Other {number}" for number in range(111))]))
    assert take_in(browser, upload).counts == {"imported": 1, "refused": 0}


def test_columns_that_are_empty_to_the_right_do_not_count(browser: Client) -> None:
    upload = send(browser, csv_of([[*row(), *[""] * 200]], [*HEADER, *[""] * 200]))
    assert take_in(browser, upload).counts == {"imported": 1, "refused": 0}


def test_how_columns_were_matched_is_remembered_for_the_same_headings(
    browser: Client, alice: Account, charlie: Account
) -> None:
    header = ["a", "b", "c", "d", "e", "f", "g", "h"]
    upload = send(browser, csv_of([row()], header))
    assert chosen(browser, upload) == {"customer_phone": "2", "quantity_constant": "1"}
    answer = browser.post(f"/account/uploads/{upload.id}", {"customer_name": "1"})
    assert answer.status_code == 422
    assert answer.content.decode().count("Choose the column.") == 1
    page = answer.content.decode()
    assert page.count("Choose the column, or enter a value for all rows.") == 3
    assert "Choose one of Product, SKU, Product id, or enter a value for all rows." in page
    assert "Choose one of Price, SKU, Product id, To pay on delivery, or enter a value for all rows." in page
    take_in(browser, upload, **{name: str(place) for place, name in enumerate(HEADINGS)})
    assert Order.objects.get().customer_name == "Amine"

    turned = [cells[::-1] for cells in [header, row("A2", name="Nadia")]]
    upload = send(browser, csv_of([turned[1]], turned[0]))
    assert chosen(browser, upload)["customer_name"] == "6"
    take_in(browser, upload)
    assert Order.objects.get(external_id="A2").customer_name == "Nadia"

    theirs = browser_of(charlie.holder)
    found = chosen(theirs, send(theirs, csv_of([row()], header)))
    assert found == {"customer_phone": "2", "quantity_constant": "1"}


def test_what_was_corrected_is_remembered_where_columns_have_come_or_gone(browser: Client) -> None:
    header = [*HEADER[:-1], "Prix", "Montant", "Statut"]
    upload = send(browser, csv_of([[*row("A1")[:-1], "900", "1800", "neuf"]], header))
    assert chosen(browser, upload)["total_amount"] == "8"
    take_in(browser, upload, unit_price="8", total_amount="", notes="9")

    more = ["Remarque", *header, "Total à payer", "Date"]
    found = chosen(browser, send(browser, csv_of([["", *row("A2")[:-1], "900", "1800", "x", "1800", ""]], more)))
    assert (found["unit_price"], found["notes"], found["total_amount"]) == ("9", "0", "11"), (
        "what is clearer is proposed"
    )
    less = [*header[:-1], "Remarque"]
    found = chosen(browser, send(browser, csv_of([[*row("A3")[:-1], "900", "1800", ""]], less)))
    assert (found["unit_price"], found["notes"]) == ("7", "9"), "of a file that lacks what was chosen nothing is known"
    less = header[1:]
    found = chosen(browser, send(browser, csv_of([[*row("A4")[1:-1], "900", "1800", ""]], less)))
    assert "external_id" not in found


def test_what_a_file_made_do_with_gives_way_to_a_column_that_says_it(browser: Client) -> None:
    """`Montant` was the price where no other column had it. Beside `Prix unitaire` it is the total again."""
    header = [*HEADER[:2], "Tél 2", *HEADER[3:-1], "Montant"]
    upload = send(browser, csv_of([row("A1", quantity="1", price="900")], header))
    assert chosen(browser, upload)["total_amount"] == "7"
    take_in(browser, upload, customer_phone="2", customer_phone_2="", unit_price="7", total_amount="")

    more = [*header[:2], "Téléphone", *header[2:-1], "Prix unitaire", "Montant"]
    cells = row("A2", price="900")
    found = chosen(browser, send(browser, csv_of([[*cells[:2], "0661112233", *cells[2:], "1800"]], more)))
    assert (found["customer_phone"], found["customer_phone_2"]) == ("2", "3")
    assert (found["unit_price"], found["total_amount"]) == ("8", "9")

    more = ["WhatsApp", *header, "Date"]
    found = chosen(browser, send(browser, csv_of([["0661112233", *row("A3", price="900"), ""]], more)))
    assert (found["customer_phone"], found["unit_price"]) == ("3", "8"), "cells alone say less than people do"


def test_what_all_rows_have_is_proposed_for_the_same_headings_alone(browser: Client) -> None:
    """Another advertisement's form asks for something else, and sells something else."""
    header = HEADER[:-3]
    said = {"product_name_constant": "Robe", "unit_price_constant": "2500"}
    take_in(browser, send(browser, csv_of([row("A1")[:-3]], header)), **said)
    assert chosen(browser, send(browser, csv_of([row("A2")[:-3]], header))).items() >= said.items()
    other = send(browser, csv_of([[*row("A3")[:-3], "M"]], [*header, "Quelle taille ?"]))
    assert not chosen(browser, other).keys() & said.keys()


@pytest.mark.parametrize(
    ("header", "cells", "phone"),
    [
        ("Numéro,Nom,Joindre", ["101", "Amine", "0550 12 34 56"], "Joindre"),
        ("Numéro,Nom,", ["101", "Amine", "550123456"], ""),
        ("الرقم,Nom", ["101", "Amine"], None),
        ("Numéro,Nom", ["0550 12 34 56", "Amine"], "Numéro"),
        ("الرقم,Nom", ["٠٥٥٠١٢٣٤٥٦", "Amine"], "الرقم"),
        ("Numéro,Nom", ["", "Amine"], "Numéro"),
        ("Tél,Numéro", ["x", "0550 12 34 56"], "Tél"),
        # Eight digits may be a landline, a date or many another number.
        ("Date,Nom,Joindre", ["2026-11-27", "Amine", "0550 12 34 56"], "Joindre"),
        ("Jour,Nom,Suivi", ["27/11/2026", "Amine", "10000234"], None),
        ("Suivi,Numéro", ["10000234", "101"], None),
        ("Num / الرقم,Nom,Joindre", ["101", "Amine", "0550 12 34 56"], "Joindre"),
        # Nobody knows whose number is whose.
        ("Tél livreur,Nom,Joindre", ["0770 12 34 56", "Amine", "0550 12 34 56"], None),
        ("Numéro,Tél livreur,Joindre", ["101", "0770 12 34 56", "0550 12 34 56"], None),
        ("Tél livreur,Nom,Numéro", ["0770 12 34 56", "Amine", "0550 12 34 56"], "Numéro"),
        # The ways phone numbers are written in cells.
        ("Numéro,Nom", ["0550123456 / 0661112233", "Amine"], "Numéro"),
        ("Numéro,Nom", ["'0550 12 34 56", "Amine"], "Numéro"),
        ("Numéro,Nom", ["p:+213550123456", "Amine"], "Numéro"),
        ("Numéro,Nom", ["550123456.0", "Amine"], "Numéro"),
        ("Numéro,Nom", ["0550 12 34 56-0661 11 22 33", "Amine"], "Numéro"),
    ],
)
def test_cells_say_whether_a_column_holds_phones_where_its_heading_does_not(
    browser: Client, header: str, cells: list[str], phone: str | None
) -> None:
    upload = send(browser, csv_of([cells, ["", *cells[1:-1], ""]], header.split(",")))
    place = chosen(browser, upload).get("customer_phone")
    assert (upload.titles[int(place)] if place else None) == phone


@pytest.mark.parametrize(
    ("header", "rows", "delivery", "fee"),
    [
        ("Livraison", ["Domicile", "Stop desk", ""], "Livraison", None),
        ("Delivery", ["home", "Stop-Desk"], "Delivery", None),
        ("التوصيل", ["للمنزل", "للمكتب"], "التوصيل", None),
        ("Livraison,Frais", ["Domicile,400", "À domicile,500", "Bureau,300"], "Livraison", "Frais"),
        ("Livraison,Frais de livraison", ["Domicile,400", "Bureau,300"], "Livraison", "Frais de livraison"),
        ("Livraison,Type de livraison", ["Domicile,Bureau"], "Type de livraison", "Livraison"),
        ("Livraison,Stop desk", ["400,Domicile", "300,Stop desk"], None, "Livraison"),
        ("Frais de livraison", ["Domicile"], None, "Frais de livraison"),
        ("Livraison", ["400", "600"], None, "Livraison"),
        ("Livraison", ["Domicile", "600"], None, "Livraison"),
        ("Livraison", ["Yalidine"], None, "Livraison"),
        ("Livraison", [""], None, "Livraison"),
    ],
)
def test_cells_say_whether_a_column_about_delivery_holds_its_type_or_its_fee(
    browser: Client, header: str, rows: list[str], delivery: str | None, fee: str | None
) -> None:
    cells = [[*row(f"A{number}"), *said.split(",")] for number, said in enumerate(rows)]
    upload = send(browser, csv_of(cells, [*HEADER, *header.split(",")]))
    found = chosen(browser, upload)
    places = {name: upload.titles[int(found[name])] for name in ("delivery_type", "shipping_fee") if name in found}
    assert (places.get("delivery_type"), places.get("shipping_fee")) == (delivery, fee)
    if delivery == "Livraison" and fee is None:
        assert take_in(browser, upload).counts["refused"] == 0


@pytest.mark.parametrize(
    ("header", "cells", "expected"),
    [
        # EcoTrack asks for the wilaya's number, and not for its name.
        ("code wilaya*,wilaya de livraison", ["16", ""], {"customer_wilaya": "code wilaya*"}),
        ("code wilaya*,wilaya de livraison", ["16", "Alger"], {"customer_wilaya": "wilaya de livraison"}),
        ("code wilaya*,wilaya de livraison", ["", ""], {"customer_wilaya": "wilaya de livraison"}),
        ("Note,Remarque", ["", "Après 17 h"], {"notes": "Remarque"}),
        ("Nom,Prénom", ["", "Amine"], {"customer_name": "Nom", "customer_name_2": "Prénom"}),
        # It may be a courier's name.
        ("Frais de livraison,Livraison", ["", "Yalidine"], {"shipping_fee": "Frais de livraison"}),
        ("Frais de livraison,Livraison", ["", "Domicile"], {"delivery_type": "Livraison"}),
        ("Tél,Numéro", ["", "101"], {"customer_phone": None}),
    ],
)  # fmt: skip
def test_an_empty_column_gives_way_to_one_that_says_it_less_clearly(
    header: str, cells: list[str], expected: dict[str, str | None]
) -> None:
    titles = header.split(",")
    matched = {name: place for place, name in enumerate(meant(titles, COLUMNS)) if name}
    found = by_cells(matched, titles, [cells, [""] * len(titles)], COLUMNS)
    assert {name: titles[found[name]] if name in found else None for name in expected} == expected


def test_desks_for_sale_are_no_delivery_type(browser: Client) -> None:
    header = [*HEADER[:5], "Article", *HEADER[6:]]
    upload = send(browser, csv_of([row("A1", product="Bureau")], header))
    found = chosen(browser, upload)
    assert upload.titles[int(found["product_name"])] == "Article"
    assert "delivery_type" not in found


def test_a_fee_that_comes_beside_a_known_delivery_type_is_proposed(browser: Client) -> None:
    take_in(browser, send(browser, csv_of([[*row("A1"), "Domicile"]], [*HEADER, "Livraison"])))
    upload = send(browser, csv_of([[*row("A2"), "Bureau", "400"]], [*HEADER, "Livraison", "Frais"]))
    found = chosen(browser, upload)
    assert [upload.titles[int(found[name])] for name in ("delivery_type", "shipping_fee")] == ["Livraison", "Frais"]


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


def test_of_columns_with_one_heading_the_same_is_meant_again(browser: Client) -> None:
    header = [*HEADER[:-1], "Prix", "Prix"]
    upload = send(browser, csv_of([[*row("A1"), "1900"]], header))
    take_in(browser, upload, unit_price="8")
    assert chosen(browser, send(browser, csv_of([[*row("A2"), "1900"]], header)))["unit_price"] == "8"


def page_of(browser: Client, upload: Upload) -> str:
    return browser.get(f"/account/uploads/{upload.id}").content.decode()


def test_a_file_without_headings_is_warned_of_before_its_first_row_is_lost(browser: Client) -> None:
    warning = "We know none of these headings."
    assert warning in page_of(browser, send(browser, csv_of([row("A2"), row("A3")], row("A1"))))
    assert warning not in page_of(browser, send(browser, csv_of([row("A2"), row("A3")])))
    assert warning not in page_of(browser, send(browser, csv_of([row()], ["x", *HEADER[1:3], *"abcde"])))


def test_headings_that_somebody_has_matched_are_not_warned_of_again(browser: Client) -> None:
    places = {name: str(place) for place, name in enumerate(HEADINGS)}
    take_in(browser, send(browser, csv_of([row("A1")], "abcdefgh")), **places)
    assert "We know none of these headings." not in page_of(browser, send(browser, csv_of([row("A2")], "abcdefgh")))


@pytest.mark.parametrize(
    ("further", "rows", "count"),
    [
        ("Frais,Total", [("3", "4 500 DA", "400", "4 900 DA"), ("2", "1000", "400", "1400")], 2),
        ("Frais,Total", [("1", "4500", "400", "4900"), ("2", "4500", "400", "9400"), ("3", "4500", "400", "0")], 0),
        ("Frais,Total", [("2", "2500", "400", "3900")], 0),  # a discount of 1500
        ("Frais,Total", [("2", "2500", "inclus", "2500"), ("x", "2500", "400", "2900"), ("2", "", "400", "2900")], 1),
        ("Total", [("3", "4500", "4900")], 1),
        ("Total", [("2", "4500", "4900"), ("2", "2500", "4000")], 1),
        ("Total", [("2", "4500", "4400")], 0),
        ("Frais", [("2", "4500", "400")], 0),
    ],
)
def test_prices_that_may_be_of_all_pieces_of_a_line_are_warned_of(
    browser: Client, further: str, rows: list[tuple[str, ...]], count: int
) -> None:
    file = csv_of(
        [[*row(f"A{number}")[:6], *cells] for number, cells in enumerate(rows)], [*HEADER, *further.split(",")]
    )
    warned = re.findall(r"in (\d+) of the first orders", page_of(browser, send(browser, file)))
    assert warned == [str(count)] * bool(count)


def test_prices_of_all_pieces_of_a_line_can_be_left_out(browser: Client, alice: Account) -> None:
    upload = send(browser, csv_of([[*row(quantity="3", price="4500"), "400", "4900"]], [*HEADER, "Frais", "Total"]))
    page = f"/account/uploads/{upload.id}"
    wrong = chosen(browser, upload) | {"customer_phone": ""}
    assert "of the first orders" in browser.post(page, wrong).content.decode()
    assert "of the first orders" not in browser.post(page, wrong | {"unit_price": ""}).content.decode()

    take_in(browser, upload, unit_price="")
    order = Order.objects.get(account=alice)
    assert (order.total_amount, order.items.get().unit_price) == (4900, 1500)
