"""Believable customers and carts for demonstrations and measurements; the same seed gives the same ones."""

from decimal import Decimal
from random import Random
from typing import Any

from orders import regions
from orders.fees import Fee
from orders.models import DeliveryType

MEN = [
    "Mohamed", "Ahmed", "Amine", "Yacine", "Karim", "Sofiane", "Walid", "Bilal", "Abdelkader", "Rachid", "Nassim",
    "Samir", "Hichem", "Omar",
]  # fmt: skip
WOMEN = [
    "Fatima", "Amina", "Yasmine", "Khadija", "Meriem", "Nadia", "Sarah", "Lynda", "Imane", "Asma", "Houria", "Chaima",
    "Sabrina", "Zohra",
]  # fmt: skip
ARABIC = ["محمد أمين", "فاطمة الزهراء", "عبد القادر", "خديجة", "ياسين", "مريم", "سارة", "إسلام"]
FAMILIES = [
    "Benali", "Bouzid", "Haddad", "Mansouri", "Belkacem", "Cherif", "Hamidi", "Saadi", "Boudiaf", "Meziane",
    "Khelifi", "Brahimi", "Zerrouki", "Ait-Ahmed", "Lounis", "Rahmani", "Toumi", "Guerroudj", "Slimani", "Ouali",
]  # fmt: skip
STREETS = [
    "Cité 200 logements, bât. {n}",
    "{n} rue Didouche Mourad",
    "Lotissement El Feth n° {n}",
    "Hai Essalem, villa {n}",
    "{n} rue Larbi Ben M'hidi",
    "حي السلام، رقم {n}",
    "Près de la mosquée, porte {n}",
]
CATALOG = [
    ("ROB-01", "Robe kabyle", "4200.00"),
    ("ROB-02", "Karakou", "9800.00"),
    ("KAF-01", "Kaftan brodé", "7500.00"),
    ("BUR-01", "Burnous", "6500.00"),
    ("FOU-01", "Foulard en soie", "900.00"),
    ("SAC-01", "Sac à main", "3400.00"),
    ("MON-01", "Montre homme", "5200.00"),
    ("ECO-01", "Écouteurs sans fil", "2900.00"),
    ("CHG-01", "Chargeur rapide", "1200.00"),
    ("MIX-01", "Mixeur 600 W", "6800.00"),
    ("CAF-01", "Cafetière", "4900.00"),
    ("PAR-01", "Parfum 100 ml", "2500.00"),
]
NOTES = ["", "", "", "", "Appeler après 17 h", "Cadeau, ne pas ouvrir", "Appeler avant de venir", "رجاء الاتصال مساء"]
SIZES = ["S", "M", "L", "XL"]
SOUTH = {"01", "08", "11", "30", "33", "37", "39", "47", "49", "50", "52", "53", "54", "55", "56", "57", "58"}
SOURCES = {"facebook": 40, "instagram": 20, "woocommerce": 20, "tiktok": 12, "": 8}


def customer(chance: Random) -> dict[str, Any]:
    """The `customer_…` fields of an import: somebody in some commune, written as people write."""
    wilaya = chance.choice(regions.WILAYAS)
    commune = chance.choice(regions.communes_of(wilaya.code))
    if chance.random() < 0.15:
        name = chance.choice(ARABIC)
    else:
        name = f"{chance.choice(MEN + WOMEN)} {chance.choice(FAMILIES)}"
    return {
        "customer_name": name,
        "customer_phone": _phone(chance),
        "customer_address": chance.choice(STREETS).format(n=chance.randrange(1, 200)),
        "customer_wilaya": chance.choice([wilaya.code, wilaya.name, wilaya.name_ar, str(int(wilaya.code))]),
        "customer_commune": chance.choice([commune.code, commune.name, commune.name, commune.name_ar]),
    }


def order(chance: Random, number: str) -> dict[str, Any]:
    """The body of an import, with one to three lines from CATALOG."""
    items: list[dict[str, Any]] = []
    for _, name, price in chance.sample(CATALOG, chance.choice([1, 1, 1, 2, 3])):
        item: dict[str, Any] = {"product_name": name, "quantity": chance.choice([1, 1, 1, 2]), "unit_price": price}
        if chance.random() < 0.4:
            item["attributes"] = {"taille": chance.choice(SIZES)}
        items.append(item)
    people = customer(chance)
    kind = chance.choice([DeliveryType.HOME, DeliveryType.HOME, DeliveryType.DESK])
    shipping = shipping_fee(regions.find_wilaya(people["customer_wilaya"]).code, kind)
    total = sum((Decimal(item["unit_price"]) * item["quantity"] for item in items), shipping)
    return {
        **people,
        **({"customer_phone_2": _phone(chance)} if chance.random() < 0.2 else {}),
        "delivery_type": kind.value,
        "source": chance.choices(list(SOURCES), weights=list(SOURCES.values()))[0],
        "total_amount": str(total),
        "shipping_fee": str(shipping),
        "notes": chance.choice(NOTES),
        "external_id": number,
        "items": items,
    }


def shipping_fee(wilaya_code: str, delivery_type: DeliveryType) -> Decimal:
    """What couriers charge from Algiers: more to the south, less to a stop desk."""
    home = 400 if wilaya_code == "16" else 1200 if wilaya_code in SOUTH else 700
    return Decimal(home if delivery_type == DeliveryType.HOME else home // 200 * 100 + 100)


def fees() -> list[Fee]:
    """The shipping fees of all wilayas."""
    return [
        Fee(wilaya_code=wilaya.code, **{kind.value: shipping_fee(wilaya.code, kind) for kind in DeliveryType})
        for wilaya in regions.WILAYAS
    ]


def _phone(chance: Random) -> str:
    digits = f"{chance.choice('567')}{chance.randrange(5 * 10**7, 8 * 10**7):08d}"
    pairs = " ".join(digits[1:][start : start + 2] for start in range(0, 8, 2))
    return chance.choice([f"0{digits}", f"0{digits[0]}{pairs}", f"+213{digits}", f"00213{digits}"])
