"""Rows of a courier's file: which order, and where the courier says that it is."""

import re
import unicodedata

from codservice import values
from codservice.errors import Invalid
from orders.lifecycle import Shipment
from orders.models import Status
from orders.serializers import external_id

COLUMNS = ("order_id", "external_id", "status", "reason")
# What couriers in Algeria write, in any case and accents. A failed try, or a parcel on its way back, is none of these.
WORDS = {
    Status.SHIPPED: ("shipped", "expédié", "expédiée", "envoyé", "envoyée", "en livraison", "sorti en livraison",
                     "en transit", "in transit", "تم الشحن", "مشحون", "تم الإرسال", "في الطريق"),
    Status.DELIVERED: ("delivered", "livré", "livrée", "تم التوصيل", "تم التسليم", "مسلم"),
    Status.RETURNED: ("returned", "retour", "retourné", "retournée", "retourné au vendeur", "retourné à l'expéditeur",
                      "تم الإرجاع", "مرجع", "مرتجع"),
}  # fmt: skip

_BETWEEN_WORDS = re.compile(r"[\s_’'.-]+")


def read_shipment(cells: dict[str, str], *, in_account: bool) -> Shipment:
    """The row as a shipment; an `external_id` names an order only within an account. Raises Invalid."""
    errors: dict[str, list[str]] = {}
    shipment = Shipment(Status.SHIPPED)
    if cells.get("order_id"):
        try:
            shipment.order_id = values.uuid(cells["order_id"])
        except ValueError:
            errors["order_id"] = ["Must be an order's id, a UUID."]
    elif not cells.get("external_id"):
        errors["order_id"] = ["Write the order's id here, or the shop's own number under external_id."]
    elif not in_account:
        errors["external_id"] = ["It names an order only within an account: say which with --account."]
    else:
        shipment.external_id = external_id(cells)
        if shipment.external_id is None:
            errors["external_id"] = ["No order can have it."]
    status = _STATUSES.get(_plain(cells.get("status", "")))
    if status is None:
        known = ", ".join(f"{status} ({', '.join(words[1:])})" for status, words in WORDS.items())
        errors["status"] = [f"Must be one of {known}."]
    else:
        shipment.status = status
    try:
        shipment.reason = values.text(cells.get("reason", ""), max_length=500, free=True, may_be_blank=True)
    except ValueError as error:
        errors["reason"] = [str(error)]
    if errors:
        raise Invalid(errors)
    return shipment


def _plain(word: str) -> str:
    letters = (letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
    return _BETWEEN_WORDS.sub(" ", "".join(letters).casefold()).strip()


_STATUSES = {_plain(word): status for status, words in WORDS.items() for word in words}
