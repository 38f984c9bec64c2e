"""What supervisors do to many orders without a call.

Orders that were changed or noted since the supervisor looked are left alone: `seen` has their CHANGES at that time.
Each function is one transaction and returns why orders stay as they are. It locks the orders first, by primary key, and
then the person who is to call.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from agents.desk import claims, hours, planning
from codservice.accounts.actor import Actor
from codservice.accounts.models import PersonChanged, User
from codservice.errors import Refused
from orders import call_words, lifecycle
from orders.lifecycle import Call, CallPlan
from orders.models import CallNote, CallState, Order, Status

Outcome = CallNote.Outcome

_NOTES = CallNote.objects.filter(order=OuterRef("pk")).values("order").values(count=Count("*"))
# How often an order was changed or noted, as a call does not change its version. A time would not do: what is being
# written while a page is read has an earlier one.
CHANGES = F("version") + Coalesce(Subquery(_NOTES), 0)


def requeue(seen: Mapping[UUID, int], *, supervisor: User) -> dict[UUID, Refused]:
    """Put orders from review back into the queue, with all their attempts again. Returns why some stay as they are:
    HeldByAnother while somebody is calling the customer, or Changed.

    Those with a note since stay too: nobody has looked at why they are in review now.
    """
    with transaction.atomic():
        waiting = Order.live.filter(id__in=list(seen), status=Status.PENDING, call_state=CallState.REVIEW)
        orders = lifecycle.lock(waiting)
        refused: dict[UUID, Refused] = {id_: lifecycle.Changed() for id_ in seen.keys() - {each.id for each in orders}}
        refused |= _left_alone(orders, seen)
        free = [order for order in orders if order.id not in refused]
        plans = {order.id: CallPlan(CallState.RETRY, order.now, attempts=0) for order in free}
        lifecycle.add_call_notes(free, Call(supervisor, Outcome.NOTE, call_words.Noted.REQUEUED), plans)
    return refused


def assign(seen: Mapping[UUID, int], *, to: User, supervisor: User) -> dict[UUID, Refused]:
    """Make pending orders the agent's next calls. Returns why some stay as they are: HeldByAnother while somebody is
    calling the customer, Changed when the order is not as the supervisor saw it; all of them, as PersonChanged, when
    the agent has been deactivated.

    They are served like promised calls, and to others once the agent is 15 minutes late. A concurrent assignment to the
    same agent waits, and its calls come after these.
    """
    with transaction.atomic():
        orders = lifecycle.lock(Order.live.filter(id__in=list(seen), status=Status.PENDING))
        if not User.objects.select_for_update(no_key=True).get(pk=to.pk).is_active:
            return {id_: PersonChanged() for id_ in seen}
        refused: dict[UUID, Refused] = {id_: lifecycle.Changed() for id_ in seen.keys() - {each.id for each in orders}}
        refused |= _left_alone(orders, seen)
        free = [order for order in orders if order.id not in refused]
        customers = defaultdict[str, list[Order]](list)
        for order in free:
            customers[order.phone_e164].append(order)
        theirs = Order.live.filter(status=Status.PENDING, call_state=CallState.CALLBACK, callback_agent=to)
        others = theirs.exclude(phone_e164__in=list(customers)).values_list("phone_e164", "call_due_at").distinct()
        windows = hours.by_account([order.id for order in free])
        promised = [due_at for _phone, due_at in others]
        plans = planning.assigned(list(customers.values()), to, windows, promised=promised)
        note = call_words.assigned_to(to.display_name)
        lifecycle.add_call_notes(free, Call(supervisor, Outcome.HANDED_OVER, note), plans)
    return refused


def cancel_many(seen: Mapping[UUID, int], reason: str, *, supervisor: User) -> dict[UUID, Refused]:
    """Cancel orders as the supervisor saw them, without a call. Returns why some stay as they are: Changed;
    HeldByAnother while somebody is calling the customer; and what lifecycle.cancel_many says.
    """
    with transaction.atomic():
        orders = lifecycle.lock(Order.live.filter(id__in=list(seen)))
        refused = _left_alone(orders, seen)
        free = [order for order in orders if order.id not in refused]
        return refused | lifecycle.cancel_many(free, actor=Actor.of_staff(supervisor), reason=reason)


def called_now(orders: Iterable[Any]) -> set[UUID]:
    """The pending orders whose customer somebody is calling now, of orders or rows with their columns."""
    phones = {order.id: order.phone_e164 for order in orders if order.status == Status.PENDING}
    callers = claims.callers(phones.values())
    return {id_ for id_, phone in phones.items() if phone in callers}


def _changed(orders: Sequence[Order], seen: Mapping[UUID, int]) -> dict[UUID, Refused]:
    """The locked orders that are not as they were seen."""
    now = Order.live.filter(id__in=[order.id for order in orders]).values_list("id", CHANGES)
    return {id_: lifecycle.Changed() for id_, changes in now if changes != seen[id_]}


def _left_alone(orders: Sequence[Order], seen: Mapping[UUID, int]) -> dict[UUID, Refused]:
    """The locked orders that stay as they are: changed since, or while somebody is calling the customer."""
    called: dict[UUID, Refused] = {
        id_: claims.HeldByAnother(_("Somebody is calling this customer.")) for id_ in called_now(orders)
    }
    return called | _changed(orders, seen)
