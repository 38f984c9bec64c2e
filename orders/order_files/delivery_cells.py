"""How people write delivery types in the cells of a file of orders."""

from codservice.files.headings import key
from orders.models import DeliveryType

_KINDS = {
    key(word): kind.value
    for kind, words in {
        DeliveryType.HOME: (
            "home", "home delivery", "to the door", "domicile", "a domicile", "maison",
            "livraison à domicile", "livraison domicile",
            "المنزل", "إلى المنزل", "للمنزل", "إلى الباب", "توصيل إلى المنزل", "توصيل للمنزل", "توصيل منزلي",
            "البيت", "إلى البيت", "للبيت", "توصيل إلى البيت", "توصيل للبيت",
        ),
        DeliveryType.DESK: (
            "desk", "stop desk", "stopdesk", "stop-desk", "bureau", "agence", "point relais", "point de retrait",
            "au bureau", "livraison au bureau", "livraison stop desk", "livraison en stop desk",
            "المكتب", "مكتب الاستلام", "إلى المكتب", "للمكتب", "توصيل إلى المكتب", "توصيل للمكتب", "ستوب ديسك",
            "نقطة الاستلام",
        ),
    }.items()
    for word in words
}  # fmt: skip


def kind_in(cell: str) -> str:
    """The delivery type as the API calls it; empty if the cell says none that is known."""
    return _KINDS.get(key(cell), "")
