"""Files of orders, by the API's rules: what their columns are called, and how their rows become bodies of an import."""

import contextlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q
from django.utils.translation import gettext_lazy as _

from codservice import values
from codservice.errors import Invalid
from codservice.files.headings import Column, key
from codservice.files.intake import FAILED, MAX_TEXT, Entry, Errors, Intake, Taken, has_failed, text_in
from codservice.files.tables import Row, UnreadableTable, is_of_report
from inventory.models import Product
from inventory.product_files import sku_of
from orders import fees, importing, phones, regions, serializers
from orders.models import MAX_QUANTITY, DeliveryType, Order, OrderEdit
from orders.serializers import SENT, SENT_OF_LINE

Catalog = dict[str | UUID, Product]  # by SKU and by id
Fees = dict[tuple[str, str], Decimal]  # by wilaya and delivery type

MAX_ROWS = 1000  # that are held as one order; of the lines that it may have there are too many already
_INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_ITEM_PATH = re.compile(r"items\.(\d+)\.(.+)", re.ASCII)
_SHORTENED = re.compile(r"\d([.,]\d+)?E\+\d+", re.ASCII | re.IGNORECASE)  # as spreadsheets show a long number
_REST_AND_NAME = (
    ("prenom", "nom"), ("prenom", "nom client"), ("prenom client", "nom client"),
    ("prenom destinataire", "nom destinataire"), ("nom famille", "prenom"), ("last name", "first name"),
    ("family name", "first name"), ("lastname", "firstname"), ("familyname", "firstname"),
    ("last name billing", "first name billing"), ("nom facturation", "prenom facturation"),
    ("nom famille facturation", "prenom facturation"), ("لقب", "اسم"),
)  # fmt: skip

COLUMNS = (
    Column(
        "external_id",
        _("Order number"),
        ("order id", "order no", "n commande", "no commande", "num commande", "id commande", "ref commande",
         "reference commande", "commande n", "رقم الطلب", "رقم الطلبية"),
        beside=(("name", "lineitem name"), ("id", "form id")),  # Shopify's `#1001`, a lead of Facebook's
        vague=("code commande", "commande", "order", "الطلبية", "facture", "n facture", "invoice", "invoice no",
               "invoice number", "رقم الفاتورة", "n bl"),
    ),
    Column(
        "customer_name",
        _("Name"),
        ("customer", "customer name", "full name", "client", "nom client", "nom complet", "nom prenom",
         "nom et prenom", "nom et prenoms", "prenom nom", "prenom et nom", "destinataire", "nom destinataire",
         "nom et prenom destinataire", "shipping name", "first name billing", "last name billing",
         "الاسم الكامل", "الاسم واللقب", "الاسم و اللقب", "اسم الزبون", "اسم العميل", "الزبون",
         "اسم ولقب الزبون", "اسم و لقب الزبون", "اسم المستلم", "الاسم بالكامل"),
        beside=tuple((name, rest) for rest, name in _REST_AND_NAME),
        vague=("prenom facturation", "nom facturation", "nom famille facturation", "acheteur", "prenom", "first name",
               "firstname"),
    ),
    Column(
        "customer_name_2",
        _("Rest of the name"),
        beside=_REST_AND_NAME,
        rest_of="customer_name",
    ),
    Column(
        "customer_phone",
        _("Phone"),
        ("phone number", "phone 1", "phone1", "mobile", "mobile 1", "tel", "tel 1", "tel1", "telephone 1", "telephone1",
         "telephone client", "tel client", "n tel", "n telephone", "num tel", "num telephone", "numero tel",
         "numero telephone", "portable", "telephone portable", "tel portable", "telephone mobile", "tel mobile", "gsm",
         "shipping phone", "phone billing", "contact phone",
         "رقم الهاتف", "هاتف الزبون", "رقم هاتف الزبون", "الهاتف 1"),
        vague=("telephone facturation", "numero", "num", "الرقم"),  # the latter may be the order's number as well
        fits=phones.e164_or_none,
    ),
    Column(
        "customer_phone_2",
        _("Second phone"),
        ("phone 2", "phone2", "mobile 2", "tel 2", "tel2", "tel 02", "telephone 2", "telephone2", "n tel 2",
         "n telephone 2", "num tel 2", "numero tel 2", "numero telephone 2", "deuxieme numero", "2eme numero",
         "autre telephone",
         "autre tel", "deuxieme telephone", "deuxieme tel", "2eme telephone", "2eme tel", "telephone secondaire",
         "tel secondaire", "telephone b", "tel b", "الهاتف 2", "رقم الهاتف 2", "رقم الهاتف الثاني", "الرقم الثاني"),
    ),
    Column(
        "customer_wilaya",
        _("Wilaya"),
        ("wilaya livraison", "wilaya client", "nom wilaya", "willaya", "shipping province name", "state code billing",
         "to wilaya name", "ولاية التوصيل"),
        vague=("wilaya commune", "wilaya et commune", "commune wilaya", "commune et wilaya",
               "الولاية البلدية", "الولاية والبلدية", "الولاية و البلدية", "البلدية والولاية", "البلدية و الولاية",
               "code etat facturation", "etat facturation", "code wilaya", "n wilaya", "province", "state"),
        constant="",
    ),
    Column(
        "customer_commune",
        _("Commune"),
        ("commune livraison", "nom commune", "municipality", "baladia", "baladiya", "shipping city", "city billing",
         "to commune name"),
        vague=("ville facturation", "ville", "city", "المدينة"),
    ),
    Column(
        "customer_address",
        _("Address"),
        ("shipping address", "delivery address", "street address", "adresse client", "adresse livraison",
         "adresse complete", "adresse exacte", "adr", "shipping street", "address 1 2 billing",
         "عنوان التوصيل", "العنوان الكامل"),
        vague=("adresse 1 2 facturation", "adresse 1 facturation", "adresse facturation"),
        constant="",
    ),
    Column("delivery_type", _("Delivery type"), ("mode livraison", "type livraison", "طريقة التوصيل")),
    Column("stop_desk", _("Stop desk (yes or no)"), ("stopdesk", "is stopdesk", "is stop desk", "ستوب ديسك")),
    Column(
        "product_name",
        _("Product"),
        ("item name", "lineitem name", "nom article", "nom produit", "produits", "produit commande",
         "produits commandes", "products", "designation", "designation produit", "designation article",
         "product list", "اسم المنتج", "المنتوج", "اسم المنتوج", "المنتجات", "السلعة", "اسم السلعة"),
        vague=("nom element", "article", "item", "libelle", "description"),
        constant="",
        help=_("One of your SKUs, or a name."),
    ),
    Column(
        "sku",
        _("SKU"),
        ("stock code", "product code", "reference produit", "code article", "code produit", "lineitem sku",
         "ugs", "رمز المنتج"),
        vague=("reference", "ref", "المرجع", "code"),
    ),
    Column(
        "quantity",
        _("Quantity"),
        ("qty", "qte", "qt", "qtt", "qnt", "quantites", "quantite commandee", "qte commandee", "lineitem quantity",
         "quantity refund"),
        vague=("quantite remboursement",
               "nombre", "العدد", "nombre pieces", "nb pieces", "nbr pieces", "nbre pieces", "عدد القطع", "nb",
               "nbr", "nbre", "pieces", "pcs"),
        constant="1",
    ),
    Column(
        "unit_price",
        _("Price"),
        ("prix unitaire", "prix unit", "prix u", "pu", "p u", "pu ttc", "prix vente", "prix produit",
         "prix article", "lineitem price", "item cost", "سعر الوحدة", "سعر المنتج", "سعر المنتوج", "الثمن"),
        vague=("cout article", "pu ht"),
        constant="",
    ),
    Column("attributes", _("Attributes")),
    Column("size", _("Size"), ("taille", "tailles", "pointure", "المقاس", "القياس")),
    Column("colour", _("Colour"), ("color", "couleur", "couleurs", "اللون")),
    Column("product_id", _("Product id")),
    Column(
        "shipping_fee",
        _("Shipping fee"),
        ("order shipping amount", "delivery fee", "frais port", "frais expedition", "frais transport",
         "prix livraison", "tarif livraison", "cout livraison", "سعر التوصيل", "ثمن التوصيل", "مصاريف التوصيل"),
        vague=("montant livraison", "livraison", "shipping", "delivery", "التوصيل"),
        constant="",
        help=_("Left empty: your shipping fees by wilaya, unless the file says what is to pay."),
    ),
    Column(
        "total_amount",
        _("To pay on delivery"),
        ("to pay at the door", "order total amount", "cod", "montant a payer", "a payer", "total a payer",
         "net a payer", "a encaisser", "montant a encaisser", "total a encaisser"),
        vague=("montant total commande",
               "total ttc", "total", "montant total", "المبلغ الإجمالي", "المجموع", "الإجمالي", "total commande",
               "montant commande", "prix total", "total price", "السعر الإجمالي", "montant", "amount", "المبلغ",
               "montant colis"),
    ),
    Column(
        "notes",
        _("Notes for the agent"),
        ("note", "customer note", "comment", "comments", "remarque", "remarques", "observation", "observations",
         "commentaire", "commentaires", "note client", "instruction", "instructions",
         "ملاحظة", "ملاحظات"),
    ),
    Column(
        "source",
        _("Source"),
        ("where it came from", "origin", "origine", "d'ou elle vient", "canal", "channel", "المصدر", "مصدرها"),
        beside=(("platform", "form id"),),
    ),
)  # fmt: skip

_NAMES = [column.name for column in COLUMNS]
# How people write where a parcel goes.
_DELIVERIES = {
    key(word): kind.value
    for kind, words in {
        DeliveryType.HOME: (
            "home", "home delivery", "to the door", "domicile", "a domicile", "maison",
            "livraison à domicile", "livraison domicile",
            "المنزل", "إلى المنزل", "للمنزل", "إلى الباب", "توصيل إلى المنزل", "توصيل للمنزل", "توصيل منزلي",
        ),
        DeliveryType.DESK: (
            "desk", "stop desk", "stopdesk", "stop-desk", "bureau", "agence", "point relais", "point de retrait",
            "au bureau", "livraison au bureau", "livraison stop desk", "livraison en stop desk",
            "المكتب", "مكتب الاستلام", "إلى المكتب", "للمكتب", "توصيل إلى المكتب", "توصيل للمكتب", "ستوب ديسك",
        ),
    }.items()
    for word in words
}  # fmt: skip
_PHONES = ("customer_phone", "customer_phone_2")
# What stands before a number in lists of Facebook's leads, and where somebody kept its zero from a spreadsheet.
_BEFORE_PHONE = re.compile(r"(?:p:|')\s*(?=[+\d])", re.IGNORECASE)
_BETWEEN_PHONES = (
    re.compile(r"[/,،;|\n]|\s(?:[-–—]|ou|et|or|and|و|أو)\s", re.IGNORECASE),
    re.compile(r"[-–—\s]+"),  # which else stand within one
)
_PHONE_AS_AMOUNT = re.compile(r"([0-9]{8,12})[.,]00?", re.ASCII)  # as programs write a column of numbers
_AMOUNTS = ("total_amount", "shipping_fee", "unit_price")
_DETAILS = {"size": "taille", "colour": "couleur"}  # columns of their own, by what shops call these attributes
_PRODUCT = ("product_name", "sku", "product_id")
_NAME = ("customer_name", "customer_name_2")  # two columns of a file; an order has one
_OF_ORDER = (*SENT, "customer_name_2", "stop_desk")
WHOSE = ("external_id", *_NAME, "customer_phone")  # of these a row below the first of an order says none
_NO_NUMBER = (
    "Is a long number that a spreadsheet has shortened: format the column as text, and write the numbers again."
)
_NO_PHONE = (
    "Is a number that a spreadsheet has shortened, and its last digits are lost: format the column as text, and write "
    "the numbers again."
)
_EACH = "Write the order's number in each of its rows: in a file of refused rows nothing else holds them together."
_BEHIND = "May be a line of the order above: write that order's number here then, and otherwise one of its own."
_NOBODYS = "May be a line of the order above: write that order's number here then, and otherwise who the customer is."
_FEWER = (
    "The order of this number is there already with fewer lines than the file has: correct it, or write another number."
)
_LEFT_OUT = "The order of this number is there already without this row: correct it, or write another number."
_TOTAL = "Is a total of rows above, and no order."
_TOTAL_OR_LINE = (
    "One of the order's rows may be a total or a product: leave it out, or, where it is a product, write the order's "
    "number in each of the rows."
)
# What people write at the foot of a list, beside its sums.
_TOTALS = {
    key(words)
    for words in (
        "total", "totals", "grand total", "subtotal", "sub total", "sum",
        "totaux", "total général", "sous total", "montant total", "total à payer", "total TTC", "total HT", "total DA",
        "somme", "المجموع", "المجموع الكلي", "المجموع العام", "الإجمالي", "الإجمالي الكلي", "المبلغ الإجمالي",
    )
}  # fmt: skip
_TAXES = {key(words) for words in ("TVA", "TVA 19 %", "TVA 9 %")}  # and between these


class OrderRows(Intake):
    """A row is one line of an order; rows that follow each other with the same order number are one order.

    A row below them that says a line and not whose is theirs too: of merged cells only the first has the text. In a
    report that is not certain, for rows that were between others are missing: there each has its order's number, and
    one without is refused together with the order above. So is, in any file, one whose number cannot be used and may be
    the order's before it was mended, and one that says a line with another number and no customer. An empty row ends
    them, and so does a total at the foot of a list, which is refused. One that may be a product is refused together
    with the order above: it says a quantity and a price, which are not the sums of the order's or the file's lines
    above, or lines stand below it. What an order's first row says of the customer holds for its other rows, and none
    may say otherwise. Orders whose number is in the account already are left as they are; rows that were never of such
    an order are refused: those of a report that say no customer, and those of a number when they are more than its
    order has lines and nobody has changed these.

    A total that is left out is the sum of the lines and the shipping fee, and the price of an order's only line what
    the total leaves for each of its pieces. A SKU of the catalog is its product; of any other product it is the name,
    where that is left out. Wilaya and commune, and two phones, may stand in one cell, and the name in two. Size and
    colour are attributes.
    """

    columns = COLUMNS
    required = (
        ("customer_name",),
        ("customer_phone",),
        ("customer_wilaya",),
        ("customer_address",),
        _PRODUCT,
        ("quantity",),
        ("unit_price", "sku", "product_id", "total_amount"),
    )
    # Of orders and not of rows, which may be several times as many.
    counted: Mapping[str, Any] = {"imported": _("Orders imported"), "already_there": _("Orders already there")}
    refused = _("Orders refused")
    batch = 500  # rows: some tenths of a second

    def entries(self, rows: Iterator[Row]) -> Iterator[Entry]:
        entry: list[Row] = []
        number = ""  # that the order began with, if with any
        first: Mapping[str, str] = {}  # cells of its first row
        is_open = False  # whether a row below may be of it without its number
        of_file, of_order, text = _Sums(), _Sums(), 0
        for row, below in itertools.pairwise(itertools.chain(rows, [Row(0, {}, [])])):
            cells, named, is_total = row.cells, _number(row), _is_total(row.cells)
            are_sums = is_total and (of_file.are(cells) or of_order.are(cells))
            if named and named == number:
                goes_on = True
            elif not is_open or row.is_apart:
                goes_on = False
            elif is_total:
                is_line = _is_priced(cells) and not are_sums
                has_line = not below.is_apart and _goes_on(below.cells) and self._is_line(below.cells)
                goes_on = is_line or has_line or _number(below) == number != ""
            else:
                goes_on = _is_left_behind(cells, first) if named else _goes_on(cells)
            if not goes_on:
                of_order = _Sums()
            if not are_sums:
                of_file.add(cells)
                of_order.add(cells)
            if entry and (not goes_on or len(entry) == MAX_ROWS):
                yield entry
                entry, text = [], 0
            if not goes_on:
                number, first, is_open = named, cells, any(map(cells.get, WHOSE)) and not is_total
            entry.append(row)
            text += text_in(row)
            if text > MAX_TEXT:
                raise UnreadableTable(f"The file has too much text in row {row.line}.")
        if entry:
            yield entry

    def _is_line(self, cells: dict[str, str]) -> bool:
        """Whether a row below a total is a line and no other row of a foot, in a file without quantities too."""
        is_of_foot = _is_total(cells) or key(cells.get("product_name", "")) in _TAXES
        return _is_counted(_with(self.constants, cells)) and not is_of_foot

    def name_of(self, entry: Entry) -> str | None:
        cells = entry[0].cells
        return serializers.external_id(cells) if cells.get("external_id") else None

    def take(self, entries: Sequence[Entry]) -> Taken:
        counts: Counter[str] = Counter()
        refused: list[tuple[Entry, Errors]] = []
        sent: list[tuple[Entry, dict[str, Any]]] = []
        catalog, own_fees = self._catalog(entries), self._fees()
        for entry in entries:
            first = self.first_line(entry)
            if errors := _doubts(entry):
                refused.append((entry, errors))
            elif first != entry[0].line:
                refused.append((entry, {"external_id": [_apart(first)]}))
            else:
                sent.append((entry, _body(entry, catalog, self.constants, own_fees)))
        outcomes = importing.import_orders(
            self.account_id, [body for _entry, body in sent], actor=self.actor, skip_known=True
        )
        line_counts = self._line_counts(
            [
                outcome.order_id
                for (entry, _body), outcome in zip(sent, outcomes, strict=True)
                if isinstance(outcome, importing.DuplicateExternalId) and len(entry) > 1
            ]
        )
        for (entry, body), outcome in zip(sent, outcomes, strict=True):
            if isinstance(outcome, importing.DuplicateExternalId):
                if is_of_report(cells := entry[0].cells) and not _says_customer(cells):
                    refused.append((entry, {"external_id": [_LEFT_OUT]}))
                elif len(entry) > line_counts.get(outcome.order_id, len(entry)):
                    refused.append((entry, {"external_id": [_FEWER]}))
                else:
                    counts["already_there"] += 1
            elif isinstance(outcome, Invalid):
                refused.append((entry, _errors(outcome, body, entry[0].cells)))
            else:
                counts["imported"] += 1
        return Taken(counts, [_to_report(entry, errors) for entry, errors in refused])

    @classmethod
    def understood(cls, account_id: UUID, constants: Mapping[str, str]) -> Mapping[str, str]:
        """A product that is one of the catalog's SKUs is that one, and any other a name."""
        sku = sku_of({"sku": constants.get("product_name", "")})
        if not (sku and Product.objects.filter(account_id=account_id, sku=sku).exists()):
            return constants
        return {"sku": sku} | {name: text for name, text in constants.items() if name != "product_name"}

    @classmethod
    def wrong_constants(cls, constants: Mapping[str, str]) -> Errors:
        errors = serializers.read_order(_body([Row(0, {}, [])], {}, constants, {}))[1]
        columns = {path.rpartition(".")[2]: said for path, said in errors.items()}
        return {name: said for name, said in columns.items() if name in constants}

    def row_of(self, path: str) -> tuple[int, str]:
        item = _ITEM_PATH.fullmatch(path)
        return (int(item[1]), item[2]) if item else (0, path)

    def _line_counts(self, ids: Sequence[UUID | None]) -> dict[UUID | None, int]:
        """With how many lines these orders were imported, where nobody has changed them; no statement for no order."""
        if not ids:
            return {}
        orders = Order.objects.filter(account_id=self.account_id, id__in=ids)
        changed = OrderEdit.objects.filter(order=OuterRef("id"), field__startswith="items.")
        return dict(orders.filter(~Exists(changed)).annotate(lines=Count("items")).values_list("id", "lines"))

    def _catalog(self, entries: Sequence[Entry]) -> Catalog:
        """The account's products that rows name by their SKUs, or by id without a price; no statement for none."""
        cells = [_with(self.constants, row.cells) for entry in entries for row in entry]
        skus = {sku_of(each) for each in cells} - {""}
        ids = {values.uuid_or_none(each.get("product_id")) for each in cells if not each.get("unit_price")} - {None}
        if not (skus or ids):
            return {}
        found = Product.objects.filter(Q(sku__in=skus) | Q(id__in=ids), account_id=self.account_id)
        return {name: each for each in found.only("id", "sku", "price") for name in (each.sku, each.id)}

    def _fees(self) -> Fees:
        """What deliveries cost where an order says neither its fee nor its total."""
        return {}


class UploadedOrderRows(OrderRows):
    """Of a file that a merchant uploads: an order that says neither its fee nor its total has the account's fee for
    where it goes, as one that is written by hand."""

    def _fees(self) -> Fees:
        return fees.by_place(self.account_id)


def _errors(refusal: Invalid, body: dict[str, Any], first: Mapping[str, str]) -> Errors:
    """What is wrong, by columns that the row has, but for a total or a price that is only missing because what it is
    made of is wrong."""
    follows = ""
    if "total_amount" not in body and any(path.startswith("items.") for path in refusal.errors):
        follows = "total_amount"
    elif _lacks_price(body) and refusal.errors.keys() & {"total_amount", "shipping_fee", "items.0.quantity"}:
        follows = "items.0.unit_price"
    shortened = {name: [_NO_PHONE] for name in _PHONES if _SHORTENED.fullmatch(body.get(name, ""))}
    errors = {path: said for path, said in refusal.errors.items() if path != follows} | shortened
    if "delivery_type" in errors and not first.get("delivery_type"):
        del errors["delivery_type"]
        errors["stop_desk"] = [values.YES_OR_NO]
    return errors


def _apart(first: int) -> str:
    return f"Line {first} has the same external_id, with other orders between. An order's rows must follow each other."


def _goes_on(cells: Mapping[str, str]) -> bool:
    """Whether a row says a line of the order above."""
    return not any(map(cells.get, WHOSE)) and any(map(cells.get, (*SENT_OF_LINE, "sku", *_DETAILS)))


def _is_left_behind(cells: Mapping[str, str], first: Mapping[str, str]) -> bool:
    """Whether a row with another number may be of the order above all the same.

    It can be no order of its own: its number cannot be used, perhaps since that order's was mended in the first row
    alone, and it says no other customer; or it says a line and no customer.
    """
    if not _can_be_used(cells):
        return all(_is_same(name, cells, first) for name in WHOSE[1:] if cells.get(name))
    return _says_customer(first) and not _says_customer(cells) and _says_product(cells)


def _can_be_used(cells: Mapping[str, str]) -> bool:
    """Whether a row's number may be that of an order."""
    number = cells["external_id"]
    return not (has_failed(number) or _SHORTENED.fullmatch(number) or serializers.external_id(cells) is None)


def _says_customer(cells: Mapping[str, str]) -> bool:
    return any(map(cells.get, WHOSE[1:]))


def _says_product(cells: Mapping[str, str]) -> bool:
    return any(map(cells.get, _PRODUCT))


def _is_counted(cells: Mapping[str, str]) -> bool:
    """Whether a row says how many of which product, as a line does, and `TVA` at the foot of a list does not."""
    return _says_product(cells) and bool(cells.get("quantity"))


def _is_priced(cells: Mapping[str, str]) -> bool:
    """Whether a row says besides what one of them costs, or which of the catalog it is: all that a line needs."""
    names = [cell for name in ("unit_price", "product_id", "sku") if (cell := cells.get(name))]
    return _is_counted(cells) and any(key(cell) not in _TOTALS for cell in names)


class _Sums:
    """Of lines of a file."""

    def __init__(self) -> None:
        self.lines, self.quantities, self.prices, self.amounts = 0, Decimal(), Decimal(), Decimal()

    def add(self, cells: Mapping[str, str]) -> None:
        with contextlib.suppress(ValueError):
            quantity, price = _figures(cells)
            self.lines, self.quantities = self.lines + 1, self.quantities + quantity
            self.prices, self.amounts = self.prices + price, self.amounts + price * quantity

    def are(self, cells: Mapping[str, str]) -> bool:
        """Whether a row's quantity and price are these. In a report, which lacks rows, they are of none."""
        try:
            quantity, price = _figures(cells)
        except ValueError:
            return False
        is_sum = self.lines > 0 and quantity == self.quantities and price in (self.prices, self.amounts)
        return is_sum and not is_of_report(cells)


def _figures(cells: Mapping[str, str]) -> tuple[Decimal, Decimal]:
    """A row's quantity and price. Raises ValueError."""
    return _figure(cells.get("quantity", "")), _figure(cells.get("unit_price", ""))


def _figure(cell: str) -> Decimal:
    if len(cell) < 16 and cell.replace(".", "", 1).isdecimal():  # as most are: the other way takes 20 times as long
        return Decimal(cell)
    return values.amount(values.plain_amount(cell))


def _is_total(cells: Mapping[str, str]) -> bool:
    """Whether a row says the sums of a list and not whose they are: the word may stand in any of its cells."""
    whose = [cell for name in WHOSE if (cell := cells.get(name))]
    if len(whose) > 1 or not all(key(cell) in _TOTALS for cell in whose):
        return False
    return any(key(cell) in _TOTALS for cell in cells.values() if cell)


def _doubts(entry: Entry) -> Errors:
    """Why these rows may not be one order."""
    first, below = entry[0].cells, entry[1:]
    if _is_total(first):
        return {"": [_TOTAL]}
    if any(_is_total(row.cells) for row in below):
        return {"external_id": [_TOTAL_OR_LINE]}
    if failed := [
        f"items.{index}.{name}"
        for index, row in enumerate(entry)
        for name in _NAMES
        if has_failed(row.cells.get(name, ""))
    ]:
        return {path: [FAILED] for path in failed}
    if _SHORTENED.fullmatch(first.get("external_id", "")):
        return {"external_id": [_NO_NUMBER]}
    if any(is_of_report(row.cells) and not row.cells.get("external_id") for row in below):
        return {"external_id": [_EACH]}
    if left_behind := {
        f"items.{index}.external_id": _behind(row.cells)
        for index, row in enumerate(below, start=1)
        if _number(row) not in ("", _number(entry[0]))
    }:
        return left_behind
    return {
        f"items.{index}.{name}": [f"Line {entry[0].line} of the same order says otherwise."]
        for index, row in enumerate(below, start=1)
        for name in _OF_ORDER
        if row.cells.get(name) and not _is_same(name, row.cells, first)
    }


def _behind(cells: Mapping[str, str]) -> list[str]:
    """What is wrong with a row that is left behind."""
    if _can_be_used(cells):
        return [_NOBODYS]
    if _SHORTENED.fullmatch(cells["external_id"]):
        return [_NO_NUMBER, _BEHIND]
    return [*serializers.read_order({"external_id": cells["external_id"]})[1]["external_id"], _BEHIND]


def _to_report(entry: Entry, errors: Errors) -> tuple[Entry, Errors]:
    """A refused order, such that each of its rows has the number in the report, or is blamed for it."""
    number, below = _number(entry[0]), range(1, len(entry))
    if below and not number:
        errors = {"external_id": [_EACH]} | errors
    if said := errors.get("external_id"):
        return entry, errors | {f"items.{index}.external_id": said for index in below}
    for index in below:
        if not _number(entry[index]):
            entry[index].cells["external_id"] = number
    return entry, errors


def _number(row: Row) -> str:
    return row.cells.get("external_id", "")


def _is_same(name: str, cells: Mapping[str, str], others: Mapping[str, str]) -> bool:
    said, before = cells[name], others.get(name, "")
    return said == before or _plain(name, said) == _plain(name, before)


def _plain(name: str, text: str) -> Any:
    """The same however it is written."""
    with contextlib.suppress(ValueError):
        if name in _AMOUNTS:
            return values.amount(values.plain_amount(text))
        if name in _PHONES:
            return phones.to_e164(text)
    return " ".join(text.casefold().split())


def _body(entry: Entry, catalog: Catalog, constants: Mapping[str, str], own_fees: Fees) -> dict[str, Any]:
    """The order as the API takes it."""
    first = _with(constants, entry[0].cells)
    body: dict[str, Any] = {name: first[name] for name in SENT if first.get(name)}
    if name := " ".join(filter(None, map(first.get, _NAME))):
        body["customer_name"] = name
    if not first.get("customer_commune") and (places := regions.find_both(first.get("customer_wilaya", ""))):
        body["customer_wilaya"], body["customer_commune"] = (place.name for place in places)
    if kind := _delivery_type(first):
        body["delivery_type"] = kind
    for name in _PHONES:
        if marked := _BEFORE_PHONE.match(body.get(name, "")):
            body[name] = body[name][marked.end() :]
        if number := _PHONE_AS_AMOUNT.fullmatch(body.get(name, "")):
            body[name] = number[1]
    for between in _BETWEEN_PHONES:
        two = [phone.strip() for phone in between.split(body.get("customer_phone", ""))]
        if len(two) == 2 and "customer_phone_2" not in body and all(map(phones.e164_or_none, two)):
            body |= dict(zip(_PHONES, two, strict=True))
    body["items"] = [_item(row.cells, constants, catalog) for row in entry]
    _write_amounts_plainly(body)
    if own_fees and body.keys().isdisjoint(("shipping_fee", "total_amount")):
        where = serializers.wilaya_code(body) or "", body.get("delivery_type", DeliveryType.HOME.value)
        if where in own_fees:  # else it is not clear where it goes, or that has no fee
            body["shipping_fee"] = own_fees[where]
    if _lacks_price(body):
        if (price := _price(body)) is not None:
            body["items"][0]["unit_price"] = price
    elif "total_amount" not in body and (total := _total(body, catalog)) is not None:
        body["total_amount"] = total
    return body


def _with(constants: Mapping[str, str], cells: dict[str, str]) -> dict[str, str]:
    return {**constants, **{name: cell for name, cell in cells.items() if cell}} if constants else cells


def _delivery_type(cells: Mapping[str, str]) -> str:
    """As the API calls it; what it does not know as it is, and nothing where the row says nothing."""
    said = cells.get("delivery_type", "")
    if not said and (said := cells.get("stop_desk", "")):
        with contextlib.suppress(ValueError):
            return DeliveryType.DESK.value if values.yes_or_no(said) else DeliveryType.HOME.value
    return _DELIVERIES.get(key(said), said) if said else ""


def _item(said: dict[str, str], constants: Mapping[str, str], catalog: Catalog) -> dict[str, Any]:
    cells = _with(constants, said)
    item: dict[str, Any] = {name: cells[name] for name in SENT_OF_LINE if cells.get(name)}
    _write_amounts_plainly(item)
    if _INTEGER.fullmatch(quantity := values.plain_integer(item.get("quantity", ""))):
        item["quantity"] = int(quantity)
    if "attributes" in item:
        with contextlib.suppress(ValueError, RecursionError):  # a text is refused with the field's own sentence
            item["attributes"] = json.loads(item["attributes"])
    details = {word: cell for name, word in _DETAILS.items() if (cell := cells.get(name))}
    if details and isinstance(attributes := item.get("attributes", {}), dict):
        item["attributes"] = details | attributes
    if (sku := cells.get("sku")) and "product_id" not in item:
        if product := catalog.get(sku_of(cells)):
            item["product_id"] = str(product.id)
        else:
            item.setdefault("product_name", sku)
    if "product_id" in item and not said.get("product_name"):
        item.pop("product_name", None)  # the name of all rows, where the catalog has the row's own
    return item


def _write_amounts_plainly(body: dict[str, Any]) -> None:
    for name in _AMOUNTS:
        if name in body:
            body[name] = values.plain_amount(body[name])


def _lacks_price(body: dict[str, Any]) -> bool:
    """Whether the order's only line has no price, and the order a total that may say it."""
    first, *others = body["items"]
    return "total_amount" in body and not (others or "unit_price" in first or "product_id" in first)


def _price(body: dict[str, Any]) -> Decimal | None:
    """What the total leaves for each piece; None where that is no amount, or one of them cannot be read."""
    try:
        paid = values.amount(body["total_amount"]) - values.amount(body.get("shipping_fee", "0"))
        return values.amount(paid / values.integer(body["items"][0]["quantity"], 1, MAX_QUANTITY))
    except (KeyError, ValueError):
        return None


def _total(body: dict[str, Any], catalog: Catalog) -> Decimal | None:
    """The sum of the lines and the shipping fee; None while one of them cannot be read, which is said of it."""
    total = Decimal()
    try:
        for item in body["items"]:
            price = item["unit_price"] if "unit_price" in item else catalog[values.uuid(item["product_id"])].price
            total += values.amount(price) * values.integer(item["quantity"], 1, MAX_QUANTITY)
        return total + values.amount(body.get("shipping_fee", "0"))
    except (KeyError, ValueError):
        return None
