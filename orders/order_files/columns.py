"""The columns of a file of orders, what they are called, and what they are about."""

from collections.abc import Mapping
from itertools import product

from django.utils.translation import gettext_lazy as _

from codservice import values
from codservice.files.headings import Column
from orders.order_files import delivery_cells, phone_cells
from orders.serializers import SENT

_REST_AND_NAME = (
    ("prenom", "nom"), ("prenom", "nom client"), ("prenom client", "nom client"),
    ("prenom destinataire", "nom destinataire"), ("nom famille", "prenom"), ("last name", "first name"),
    ("family name", "first name"), ("lastname", "firstname"), ("familyname", "firstname"),
    ("last name billing", "first name billing"), ("nom facturation", "prenom facturation"),
    ("nom famille facturation", "prenom facturation"), ("لقب", "اسم"),
)  # fmt: skip
_DESK = ("stop desk", "stopdesk", "is stopdesk", "is stop desk", "ستوب ديسك")
_YES_OR_NO = ("oui non", "oui ou non", "yes no", "1 0", "0 1", "نعم لا", "نعم أو لا",
              "si oui mettez oui sinon laissez vide")  # fmt: skip
_DELIVERY = ("mode livraison", "type livraison", "طريقة التوصيل")
_HOME_OR_DESK = tuple(
    " ".join(words)
    for home, desk in product(("domicile", "home"), (*_DESK[:2], "bureau", "desk"))
    for words in ((home, desk), (desk, home))
)

COLUMNS = (
    Column(
        "external_id",
        _("Order number"),
        ("order id", "order no", "n commande", "no commande", "num commande", "id commande", "ref commande",
         "reference commande", "commande n", "n cmd", "num cmd", "numero cmd", "id cmd", "ref cmd", "n cde",
         "no cde", "num cde", "numero cde", "id cde", "ref cde", "external order id",
         "id externe", "رقم الطلب", "رقم الطلبية", "رقم الكوموند"),
        beside=(("name", "lineitem name"), ("id", "form id")),  # Shopify's `#1001`; a Facebook lead
        vague=("code commande", "commande", "order", "الطلبية", "facture", "n facture", "invoice", "invoice no",
               "invoice number", "رقم الفاتورة", "n bl", "cmd", "code cmd", "n bon", "bon commande", "cde", "code cde"),
        help=_("Without a number, an order that is sent again is imported a second time."),
    ),
    Column(
        "customer_name",
        _("Name"),
        ("customer", "customer name", "full name", "client", "nom client", "nom complet", "nom prenom",
         "nom et prenom", "nom et prenoms", "prenom nom", "prenom et nom", "destinataire", "nom destinataire",
         "nom et prenom destinataire", "nom et prenom client", "client e", "smiya",
         "shipping name", "first name billing", "last name billing",
         "الاسم الكامل", "الاسم واللقب", "الاسم و اللقب", "اسم الزبون", "اسم العميل", "الزبون",
         "اسم ولقب الزبون", "اسم و لقب الزبون", "اسم المستلم", "الاسم بالكامل",
         "الاسم الثلاثي", "السمية"),
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
        ("phone number", "phone no", "phone 1", "phone1", "mobile", "mobile 1", "mobile number", "mobile no",
         "mobile phone", "contact number", "telephone number", "tel", "tel 1", "tel1", "telephone 1", "telephone1",
         "telephone client", "tel client", "n tel", "n telephone", "num tel", "num telephone", "numero tel",
         "numero telephone", "portable", "telephone portable", "tel portable", "telephone mobile", "tel mobile", "gsm",
         "shipping phone", "phone billing", "contact phone", "mobilea", "tel1 tel2", "tel 1 tel 2", "tel 1 2",
         "telephone 1 telephone 2", "telephone 1 2",
         "telephone destinataire", "tel destinataire",
         "هاتف العميل", "رقم هاتف العميل", "هاتف المستلم", "رقم هاتف المستلم",
         "رقم الهاتف", "هاتف الزبون", "رقم هاتف الزبون", "الهاتف 1", "الهاتف النقال", "رقم الهاتف النقال"),
        vague=("telephone facturation", "numero", "num", "الرقم"),  # the last three may be an order number as well
        fits=phone_cells.has_mobile,
    ),
    Column(
        "customer_phone_2",
        _("Second phone"),
        ("phone 2", "phone2", "mobile 2", "tel 2", "tel2", "tel 02", "telephone 2", "telephone2", "n tel 2",
         "n telephone 2", "num tel 2", "numero tel 2", "numero telephone 2", "deuxieme numero", "2eme numero",
         "autre telephone",
         "autre tel", "deuxieme telephone", "deuxieme tel", "2eme telephone", "2eme tel", "telephone secondaire",
         "tel secondaire", "mobileb", "telephone b", "tel b",
         "الهاتف 2", "رقم الهاتف 2", "رقم الهاتف الثاني", "الرقم الثاني"),
        beside=(("billing phone", "shipping phone"), ("phone", "shipping phone")),  # Shopify's
    ),
    Column(
        "customer_wilaya",
        _("Wilaya"),
        ("wilaya livraison", "wilaya destination", "wilaya destinataire", "wilaya client", "nom wilaya", "willaya",
         "shipping province name", "state code billing",
         "to wilaya name",
         "ولاية التوصيل", "ولاية الشحن", "ولاية الزبون", "ولاية العميل", "ولاية المستلم", "اسم الولاية"),
        vague=("wilaya commune", "wilaya et commune", "commune wilaya", "commune et wilaya",
               "الولاية البلدية", "الولاية والبلدية", "الولاية و البلدية", "البلدية والولاية", "البلدية و الولاية",
               "code etat facturation", "etat facturation", "code wilaya", "n wilaya", "idwilaya", "id wilaya",
               "province", "state", "region",
               "رقم الولاية"),
        constant="",
    ),
    Column(
        "customer_commune",
        _("Commune"),
        ("commune livraison", "commune destination", "commune destinataire", "nom commune", "municipality",
         "baladia", "baladiya", "shipping city", "city billing",
         "to commune name",
         "بلدية التوصيل", "بلدية الشحن", "بلدية الزبون", "بلدية العميل", "بلدية المستلم", "اسم البلدية"),
        vague=("ville facturation", "ville", "city", "المدينة", "مدينة الشحن"),
    ),
    Column(
        "customer_address",
        _("Address"),
        ("shipping address", "delivery address", "street address", "adresse client", "adresse livraison",
         "adresse destinataire",
         "adresse complete", "adresse exacte", "adr", "shipping street", "address 1 2 billing", "destination text",
         "first line",
         "عنوان التوصيل", "عنوان الشحن", "العنوان الكامل", "عنوان الزبون", "عنوان العميل", "عنوان المستلم"),
        vague=("adresse 1 2 facturation", "adresse 1 facturation", "adresse facturation"),
        constant="",
    ),
    Column(
        "delivery_type",
        _("Delivery type"),
        (*_DELIVERY, *_HOME_OR_DESK, *map(" ".join, product(("type", *_DELIVERY, "livraison"), _HOME_OR_DESK))),
        fits=delivery_cells.kind_in,
        instead_of="shipping_fee",
    ),
    Column(
        "stop_desk",
        _("Stop desk (yes or no)"),
        (*_DESK, *map(" ".join, product(_DESK, _YES_OR_NO)), "typelivraison"),  # ZR's, which is 0 or 1
    ),
    Column(
        "product_name",
        _("Product"),
        ("item name", "lineitem name", "nom article", "nom produit", "produits", "produit commande",
         "produits commandes", "products", "designation", "designation produit", "designation article",
         "product list", "اسم المنتج", "عنوان المنتج", "المنتوج", "اسم المنتوج", "المنتجات", "السلعة", "اسم السلعة",
         "article commande", "articles commandes", "sel3a", "tproduit"),
        vague=("nom element", "article", "item", "libelle", "description", "articles", "items"),
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
         "prix article", "lineitem price", "item cost", "سعر الوحدة", "سعر المنتج", "سعر المنتوج", "الثمن", "السومة",
         "soma"),
        vague=("cout article", "pu ht"),
        constant="",
    ),
    Column("attributes", _("Attributes")),
    Column("size", _("Size"), ("taille", "tailles", "pointure", "المقاس", "القياس")),
    Column("colour", _("Colour"), ("color", "couleur", "couleurs", "coloris", "اللون")),
    Column("product_id", _("Product id")),
    Column(
        "shipping_fee",
        _("Shipping fee"),
        ("order shipping amount", "delivery fee", "frais port", "frais expedition", "frais transport",
         "prix livraison", "tarif livraison", "cout livraison", "سعر التوصيل", "ثمن التوصيل", "مصاريف التوصيل",
         "تكلفة التوصيل", "تكاليف التوصيل", "frais livr", "frais liv", "سعر الشحن", "ثمن الشحن", "رسوم الشحن",
         "مصاريف الشحن", "تكلفة الشحن"),
        vague=("montant livraison", "livraison", "shipping", "delivery", "التوصيل", "الشحن", "tawsil", "livr", "liv",
               "frais"),
        constant="",
        help=_("If you leave it out, your shipping fees by wilaya apply, unless the file gives the amount to pay."),
    ),
    Column("free_shipping", _("Free shipping (yes or no)"), ("freeshipping", "free shipping")),
    Column(
        "total_amount",
        _("To pay on delivery"),
        ("to pay at the door", "order total amount", "cod", "montant a payer", "a payer", "total a payer",
         "net a payer", "a encaisser", "montant a encaisser", "total a encaisser", "montant cod", "total cod",
         "cod amount", "a recouvrer", "montant a recouvrer", "total a recouvrer"),
        vague=("montant total commande",
               "total ttc", "total", "montant total", "المبلغ الإجمالي", "المجموع", "الإجمالي", "total commande",
               "montant commande", "prix total", "total price", "السعر الإجمالي", "المبلغ الكلي", "السعر الكلي",
               "montant", "amount", "المبلغ", "montant colis", "prix colis", "total general", "المجموع الكلي"),
    ),
    Column(
        "notes",
        _("Notes for the agent"),
        ("note", "customer note", "comment", "comments", "remarque", "remarques", "observation", "observations",
         "commentaire", "commentaires", "note client", "note to driver", "instruction", "instructions", "obs",
         "ملاحظة", "ملاحظات", "ملاحضة", "ملاحضات", "ملاحظة العميل", "ملاحظات العميل", "ملاحظة الزبون"),
    ),
    Column(
        "source",
        _("Source"),
        ("where it came from", "origin", "origine", "d'ou elle vient", "canal", "channel", "المصدر", "مصدرها"),
        beside=(("platform", "form id"),),
    ),
    Column(
        "our_id",
        _("Id"),
        vague=("id", "identifiant", "معرف"),  # of others it may be a number of theirs
        fits=values.uuid_or_none,
        help=_("As in the list of orders that you download: an order that has it is not imported again."),
    ),
)  # fmt: skip

PHONES = ("customer_phone", "customer_phone_2")
AMOUNTS = ("total_amount", "shipping_fee", "unit_price")
DETAILS = {"size": "taille", "colour": "couleur"}  # attributes with columns of their own, by what shops call them
PRODUCT = ("product_name", "sku", "product_id")
NAME = ("customer_name", "customer_name_2")  # two columns in a file, one field of an order
WORDS = {*NAME, "customer_wilaya", "customer_commune", "customer_address", "product_name"}  # where nobody means `???`
OF_ORDER = (*SENT, "customer_name_2", "stop_desk", "free_shipping")
# What people write where there is nothing, and the columns in which that is the same as an empty cell: none that an
# order needs, and none of numbers or amounts. `0` is no phone, but may be a size.
_MAY_BE_NOTHING = ("customer_phone_2", "customer_commune", "notes", "source", "attributes", *DETAILS)
_WORDS_OF_NOTHING = ("n/a", "néant", "neant", "aucun", "aucune", "rien", "none")
NOTHING = {
    **dict.fromkeys(("/", "//", "-", "--", "–", "—", "لا يوجد", "لا توجد"), _MAY_BE_NOTHING),
    **{each: _MAY_BE_NOTHING for word in _WORDS_OF_NOTHING for each in (word, word.capitalize(), word.upper())},
    "0": ("customer_phone_2",),
}
WHOSE = ("external_id", *NAME, "customer_phone")  # a row that continues an order may have none of these


def without_marks(number: str) -> str:
    """An order number without the invisible marks around it that spreadsheets add.

    The API stores marks as it is sent them. So this number is meant only if no order has it as it is written.
    """
    return number if number.isascii() else values.visible_part(number) or number


def without_nothing(cells: dict[str, str]) -> dict[str, str]:
    """A row's cells, without those of optional columns that only say that there is nothing."""
    if NOTHING.keys().isdisjoint(cells.values()):  # like most
        return cells
    return {name: cell for name, cell in cells.items() if name not in NOTHING.get(cell, ())}


def number_of(cells: Mapping[str, str]) -> str:
    """The row's order number `without_marks`; empty if it has none."""
    return without_marks(cells.get("external_id", ""))


def says_customer(cells: Mapping[str, str]) -> bool:
    return any(map(cells.get, WHOSE[1:]))


def says_product(cells: Mapping[str, str]) -> bool:
    return any(map(cells.get, PRODUCT))
