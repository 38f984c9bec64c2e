"""Couriers' files: what their columns and statuses are called, and how a row is read as a shipment."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from codservice import values
from codservice.errors import Errors, Invalid, read_all
from codservice.files.headings import Column, words
from codservice.files.intake import Entry, Intake, Taken, altered, failure
from orders import importing, shipments
from orders.models import Status
from orders.order_files.columns import COLUMNS as ORDER_COLUMNS
from orders.order_files.columns import without_marks

_NUMBER = next(column for column in ORDER_COLUMNS if column.name == "external_id")
COLUMNS = (
    Column("order_id", _("Order")),
    _NUMBER._replace(vague=("reference", "ref", "reference client", "id externe", "المرجع", *_NUMBER.vague)),
    Column(
        "status",
        _("Status"),
        ("last status", "dernier statut", "statut colis", "statut livraison", "etat colis", "etat livraison",
         "حالة الطرد", "حالة الطلب", "حالة الطلبية", "حالة التوصيل"),
        vague=("etat", "situation"),
    ),
    Column(
        "reason",
        _("Reason"),
        ("motif retour", "raison retour", "motif echec", "سبب الإرجاع"),
        vague=("motif", "raison", "cause"),
    ),
)  # fmt: skip
# What couriers in Algeria write, whatever the case and accents, by the status that the order then has at least. These
# are the words of Yalidine, EcoTrack, Procolis, ZR Express, Noest and Maystro, whose systems most couriers use, and of
# people. A parcel after a failed attempt, or on its way back, is shipped. If the courier may not have the parcel yet,
# a confirmed order stays as it is; if the courier has canceled it, a canceled order does.
WORDS = {
    Status.CONFIRMED: (
        "pas encore expédié", "à vérifier", "prêt à expédier", "prête à expédier", "en traitement - prêt à expédié",
        "en préparation", "en préparation stock", "prête à préparer", "pas encore ramassé", "en ramassage",
        "en passation", "en attente", "débloqué", "créé", "demande de ramassage", "ramassage demandé", "en cours",
        "en traitement", "en attente de transit", "assigné", "commande reçue", "appel de confirmation",
        "commande confirmée", "commande enregistrée et validée", "uploadé sur le système", "validé",
    ),
    Status.SHIPPED: (
        "shipped", "in transit", "expédié", "expédiée", "envoyé", "envoyée", "en transit", "ramassé", "ramassée",
        "colis ramassé", "transfert", "dispatch", "dispatcher", "vers hub", "en hub", "centre", "en localisation",
        "vers wilaya", "reçu à wilaya", "au bureau", "confirmé au bureau", "confirmée au bureau", "réception validée",
        "reception validé", "enlevé par le livreur", "récupérée par le prestataire",
        "réceptionnée par le centre de tri", "dispatchée au livreur", "en transit pour expédition",
        "prêt pour livreur", "en livraison", "en livraison (1528)", "sorti en livraison", "sortie en livraison",
        "sortir en livraison", "en cours de livraison", "en attente du client", "SD - en attente du client",
        "tentative de livraison", "tentative échouée", "tentative de livraison échouée", "nouvelle tentative demandée",
        "nouvelle tentative demandée par le vendeur", "échec livraison", "en alerte", "alerté", "alerte résolue",
        "suspendu", "reporté", "SD - reporté", "a relancé",
        "appel sans réponse 1", "appel sans réponse 2", "appel sans réponse 3",
        "SD - appel sans réponse 1", "SD - appel sans réponse 2", "SD - appel sans réponse 3",
        "retour vers centre", "retourné au centre", "retour transfert", "retour groupé", "retour à retirer",
        "retour non retiré", "retour vers vendeur", "retour chez livreur", "retour transit entrepôt",
        "retour en traitement", "retour livreur", "retour de dispatche", "retour navette", "retour initié",
        "retour initié par le centre de tri", "retour demandé par le partenaire", "retour en transit",
        "en transit pour retour", "prêt à retourner", "retour sous-traitant", "attente récupération fournisseur",
        "retour transmis vers entrepôt", "retour transmis au partenaire", "transmission du retour annulée",
        "transmission du retour au partenaire annulée", "retour remis en livraison", "retour à l'expéditeur",
        "تم الشحن", "مشحون", "مشحونة", "تم الإرسال", "في الطريق", "قيد التوصيل",
    ),
    Status.DELIVERED: (
        "delivered", "livré", "livrée", "colis livré", "colis livrée", "commande livrée", "livrée [ encaisser ]",
        "livrée [ recouvert ]", "livré non encaissé", "encaissé", "encaissé non payé", "commande encaissée",
        "recouvert", "paiements prêts", "paiement effectué", "payé et archivé", "montant transmis au partenaire",
        "montant reçu par le partenaire",
        "تم التوصيل", "تم التسليم", "مسلم", "مسلمة",
    ),
    Status.RETURNED: (
        "returned", "retour", "retourné", "retournée", "retourné au vendeur", "retourné à l'expéditeur",
        "retour reçu", "retour reçu par le partenaire", "retour validé par le partenaire",
        "retour réceptionné par le vendeur", "retour archivé", "retour stock", "retour client",
        "récupéré par fournisseur", "récupéré par le magasin", "pris par le magasin", "réinjecté dans stock",
        "تم الإرجاع", "مرجع", "مرجعة", "مرتجع", "مرتجعة",
    ),
    Status.CANCELED: (
        "canceled", "cancelled", "annulé", "annulée", "colis annulé", "annulé par le client", "annuler par le client",
        "SD - annuler par le client", "SD - annuler 3x", "ملغى", "ملغاة", "تم الإلغاء",
    ),
}  # fmt: skip
# What they write about a parcel that somebody must look into: it does not tell where the order is.
UNDECIDED = (
    "bloqué", "colis bloqué", "abandonné", "colis abandonné", "échange", "échange échoué", "perdu", "colis perdu",
    "disparu", "cassé", "endommagé", "non reçu", "rupture de stock", "en rupture de stock", "demande de suppression",
)  # fmt: skip
_ARTICLES = {"le", "la", "les", "l"}
_DOUBTS = "?؟¿"
_ADORN = "✅✓✔☑√📦📮🚚🚛🛵🏍🏠🏡🏢🏬🏪💰💵💸🎉👍👌🏻🏼🏽🏾🏿🟢"  # these leave a word's meaning as it is
_NO_STATUS = "Must be shipped, delivered or returned, or a courier's word for it, such as expédié, livré or retourné."
_UNDECIDED = (
    "The courier does not say where it is. Ask them, and enter what became of it, such as expédié, livré or retourné."
)
_CANCELED = (
    "The courier has canceled it, which does not cancel the order. Cancel the order, or enter what became of "
    "it, such as expédié, livré or retourné."
)
_WITHOUT_ACCOUNT = {
    "order_id": "Must be an order's id, a UUID, or with --account the shop's own number.",
    "external_id": "It names an order only within an account. Say which with --account.",
}


class ShipmentRows(Intake):
    """Rows that say where a courier has an order; without an account, orders of any account.

    A row names the order by its id or, within an account, by the shop's own number, in whichever column: couriers call
    either a reference.
    """

    columns = COLUMNS
    account_id: UUID | None
    counted: Mapping[str, Any] = {"moved": "Moved", "already": "Were there already"}
    batch = 500  # orders that are locked at once, for some tenths of a second

    def take(self, entries: Sequence[Entry]) -> Taken:
        read: list[tuple[Entry, shipments.Shipment]] = []
        refused: list[tuple[Entry, Errors]] = []
        for entry in entries:
            (row,) = entry
            try:
                read.append((entry, read_shipment(row.cells, in_account=self.account_id is not None)))
            except Invalid as error:
                refused.append((entry, error.errors))
        outcomes = shipments.record(
            self._meant([shipment for _, shipment in read]),
            actor=self.actor,
            account_id=self.account_id,
        )
        counts: Counter[str] = Counter()
        for (entry, shipment), outcome in zip(read, outcomes, strict=True):
            if isinstance(outcome, bool):
                counts["moved" if outcome else "already"] += 1
            elif isinstance(outcome, shipments.UnknownOrder):
                named_by = _named_by(entry[0].cells)
                said = altered(without_marks(entry[0].cells[named_by]))
                refused.append((entry, {named_by: [said or outcome.message]}))
            else:
                is_canceled = shipment.status == Status.CANCELED
                refused.append((entry, {"status": [_CANCELED if is_canceled else outcome.message]}))
        return Taken(counts, refused)

    def _meant(self, read: Sequence[shipments.Shipment]) -> Sequence[shipments.Shipment]:
        """The same, but by the number without the marks around it where no order has it with them.

        No statement if no number has any.
        """
        plain = {number: bare for each in read if (bare := without_marks(number := each.external_id or "")) != number}
        if not plain or self.account_id is None:
            return read
        for number in importing.orders_with(self.account_id, {*plain}):
            del plain[number or ""]
        return [replace(each, external_id=plain.get(each.external_id or "", each.external_id)) for each in read]


def read_shipment(cells: Mapping[str, str], *, in_account: bool) -> shipments.Shipment:
    """Read a row as a shipment; the shop's own number names an order only within an account. Raises Invalid."""
    named_by = _named_by(cells)
    if failed := {name: [said] for name in (named_by, "status", "reason") if (said := failure(cells.get(name, "")))}:
        raise Invalid(failed)
    (order_id, external_id), status, reason = read_all(
        lambda: _read_number(named_by, cells.get(named_by, ""), in_account=in_account),
        lambda: _read_status(cells.get("status", "")),
        lambda: _read_reason(cells.get("reason", "")),
    )
    return shipments.Shipment(status, order_id, external_id, reason)


def _read_number(named_by: str, number: str, *, in_account: bool) -> tuple[UUID | None, str | None]:
    """The id and the shop's own number that the order may have."""
    if not number:
        raise Invalid({"order_id": ["Enter the order's id here, or the shop's own number under external_id."]})
    order_id = values.uuid_or_none(values.visible_part(number))
    if in_account:
        try:
            return order_id, values.text(number, max_length=64)
        except ValueError:
            raise Invalid({named_by: ["No order can have it."]}) from None
    if order_id is None:
        raise Invalid({named_by: [_WITHOUT_ACCOUNT[named_by]]})
    return order_id, None


def _read_status(said: str) -> Status:
    word = _plain(said)
    status = None if _is_doubted(said) else _STATUSES.get(word)
    if status is None:
        raise Invalid({"status": [_UNDECIDED if word in map(_plain, UNDECIDED) else _NO_STATUS]})
    return status


def _read_reason(said: str) -> str:
    try:
        return values.text(said, max_length=500, free=True, may_be_blank=True)
    except ValueError as error:
        raise Invalid({"reason": [str(error)]}) from None


def _plain(word: str) -> str:
    """`word` without case, accents and articles. It keeps `à` and `de`: `à livré` is still to be delivered."""
    return " ".join(each for each in words(word) if each not in _ARTICLES)


def _is_doubted(word: str) -> bool:
    """Whether a sign such as `?`, `❌` or `🚫` beside a word casts doubt on it.

    Any sign does that is not known as mere adornment: `⏳ Livré` is not delivered yet.
    """
    # Sign by sign, since sorting a long word's marks takes quadratic time.
    signs = chain.from_iterable(unicodedata.normalize("NFKD", sign) for sign in word)
    return any(sign in _DOUBTS or (unicodedata.category(sign)[0] == "S" and sign not in _ADORN) for sign in signs)


def _named_by(cells: Mapping[str, str]) -> str:
    """The column that names the order."""
    return "order_id" if cells.get("order_id") or not cells.get("external_id") else "external_id"


_STATUSES = {_plain(word): status for status, said in WORDS.items() for word in said}
