"""How people write delivery types in the cells of a file of orders."""

from itertools import product

from codservice.files.headings import key
from orders.models import DeliveryType

_WORDS = {
    DeliveryType.HOME: (
        "home", "home delivery", "to the door", "domicile", "a domicile", "maison", "à la maison",
        "المنزل", "إلى المنزل", "للمنزل", "منزلي", "باب المنزل", "إلى باب المنزل", "لباب المنزل", "إلى الباب",
        "البيت", "إلى البيت", "للبيت", "الدار", "للدار", "باب الدار", "لباب الدار",
    ),
    DeliveryType.DESK: (
        "desk", "stop desk", "stopdesk", "stop-desk", "bureau", "agence", "relais", "point relais", "point de retrait",
        "au bureau", "en bureau", "au stop desk", "en stop desk", "au stopdesk", "en stopdesk", "en agence",
        "au point relais", "en point relais", "en relais",
        "المكتب", "مكتب الاستلام", "إلى المكتب", "للمكتب", "من المكتب", "في المكتب", "ستوب ديسك", "نقطة الاستلام",
    ),
}  # fmt: skip
_BEFORE = {  # what may stand before each of these words
    DeliveryType.HOME: ("", "livraison", "توصيل"),
    DeliveryType.DESK: ("", "livraison", "retrait", "توصيل", "استلام"),
}
_KINDS = {
    key(f"{before} {word}"): kind.value
    for kind, words in _WORDS.items()
    for before, word in product(_BEFORE[kind], words)
}


def kind_in(cell: str) -> str:
    """The delivery type as the API calls it; empty if the cell says none that is known."""
    return _KINDS.get(key(cell), "")
