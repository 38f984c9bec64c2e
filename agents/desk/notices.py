"""What agents are told when an order or customer changed meanwhile. Times are in the console's zone."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest
from django.utils import formats, timezone
from django.utils.translation import gettext as _

from agents.desk import assignment
from agents.desk.customer import Customer, Glance
from agents.models import Claim
from codservice.accounts import actor
from codservice.accounts.models import User
from codservice.bidi import unturned
from codservice.errors import Refused
from orders.models import CallNote, Order, OrderEdit, Status, StatusChange


def refusal(refused: Refused, order_id: UUID, seen_version: int, user: User) -> tuple[int, str]:
    """Message level and text: who was faster, perhaps the reader's own first click, or else the refusal's own words."""
    if Order.live.filter(id=order_id, version=seen_version).exists():
        return messages.ERROR, refused.message
    level = messages.INFO if _last(StatusChange, [order_id])[order_id].user_id == user.pk else messages.ERROR
    return level, _("%(what)s Nothing was changed.") % {"what": what_happened(order_id, user)}


def warn_of_assignment(request: HttpRequest, agent: User, order_ids: Iterable[UUID]) -> None:
    """Tell a supervisor if they have given the agent orders of merchants whom the agent does not serve."""
    if request.user.has_perm("orders.supervise_order"):
        accounts = Order.live.filter(id__in=list(order_ids)).values_list("account_id", flat=True).distinct()
        if said := assignment.warning(agent, accounts):
            messages.warning(request, " ".join([said, _("It was done anyway, because you are a supervisor.")]))


def what_happened(order_id: UUID, reader: User) -> str:
    """The order's last change, as this person is told: “Already confirmed by Samira at 14:05.”"""
    return _told([order_id], reader)[order_id]


def _told(order_ids: Collection[UUID], reader: User, renumbered: Collection[UUID] = ()) -> dict[UUID, str]:
    moves, edits = _last(StatusChange, order_ids), _last(OrderEdit, order_ids)
    return {id_: _in_words(moves[id_], edits.get(id_), reader, id_ in renumbered) for id_ in order_ids}


def _in_words(move: StatusChange, edit: OrderEdit | None, reader: User, is_renumbered: bool) -> str:
    if move.to_status != Status.PENDING:
        return _("Already %(status)s by %(who)s at %(when)s.") % {
            "status": move.get_to_status_display().lower(),
            "who": unturned(actor.in_words(move.actor)),
            "when": _moment(move.at),
        }
    if is_renumbered:
        return _("The order's phone number has changed.")
    if edit is not None and edit.user_id == reader.pk:  # in another tab, or by a click whose answer was lost
        return _("You changed the order yourself at %(when)s.") % {"when": _moment(edit.at)}
    return _("The order has changed since you opened it.")


def _moment(at: datetime) -> str:
    at = timezone.localtime(at)
    time = formats.time_format(at, "H:i")
    if at.date() == timezone.localdate():
        return time
    return _("%(time)s on %(date)s") % {"time": time, "date": formats.date_format(at, "j F Y")}


def changes(seen: Mapping[UUID, int], held: Customer | Glance, reader: User) -> dict[UUID, str]:
    """The orders that have changed since they were `seen`, each with what happened."""
    changed = {id_: number for number, id_ in enumerate(seen, start=1) if held.versions.get(id_) != seen[id_]}
    if not changed:
        return {}
    phones = dict(Order.live.filter(id__in=list(changed)).values_list("id", "phone_e164"))
    renumbered = {id_ for id_, phone in phones.items() if phone != held.phone}
    told = _told(sorted(phones, key=changed.__getitem__), reader, renumbered)
    if len(seen) == 1:
        return told
    numbered = _("Order %(number)d: %(what)s")
    return {id_: numbered % {"number": changed[id_], "what": what} for id_, what in told.items()}


def why_gone(claim_id: UUID, agent: User, order_ids: Collection[UUID]) -> str:
    """Why the agent no longer holds the customer, who is known by their orders."""
    if Claim.objects.expired().filter(id=claim_id, agent=agent).exists():
        return _("You were inactive for ten minutes, so the customer was released.")
    if noted := noted_in(claim_id, agent, order_ids):
        if noted.order.status != Status.PENDING:
            return what_happened(noted.order_id, agent)
        said = {"outcome": noted.get_outcome_display(), "when": _moment(noted.created_at)}
        return _("You noted “%(outcome)s” at %(when)s.") % said
    orders = Order.live.filter(id__in=list(order_ids)[:1])
    claim = Claim.objects.unexpired().filter(phone_e164__in=orders.values("phone_e164")).select_related("agent").first()
    if claim is not None and claim.agent_id == agent.pk:
        return _("You are calling this customer on another page.")
    if claim is not None:
        return calls_now(claim)
    return _("The call was finished, or a supervisor released the customer.")


def calls_now(claim: Claim) -> str:
    return _("%(name)s is calling this customer now.") % {"name": unturned(claim.agent.display_name)}


def noted_in(claim_id: UUID, agent: User, order_ids: Collection[UUID]) -> CallNote | None:
    """The agent's last note since they had this claim, if each of these orders has one. Ids are in the order of time.

    Their call was then noted, perhaps by a click whose answer was lost.
    """
    theirs = CallNote.objects.filter(order__in=order_ids, agent=agent, id__gt=claim_id)
    noted = list(theirs.select_related("order").order_by("id"))
    return noted[-1] if noted and {note.order_id for note in noted} >= {*order_ids} else None


def _last(kind: type[Any], order_ids: Collection[UUID]) -> dict[UUID, Any]:
    """The last StatusChange or OrderEdit of each order that has any."""
    theirs = kind.objects.filter(order=OuterRef("pk")).order_by("-at", "-id").values("pk")
    last = Order.live.filter(id__in=order_ids).values_list(Subquery(theirs[:1]))
    return {row.order_id: row for row in kind.objects.filter(pk__in=last)}
