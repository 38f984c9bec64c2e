"""The bulk actions: what each is called and asks for, which orders it can succeed on, and what it does to them.

A supervisor looks at a preview and then presses the button. `bulk` is the page.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents.desk import notices
from agents.desk.forms import ReasonForm
from agents.desk.workers import WorkerField
from agents.supervision import bulk_changes, moved, requeued
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import User
from codservice.bidi import unturned
from codservice.errors import Refused
from codservice.form_fields import Form
from orders import lifecycle, shipments
from orders.cancel_reasons import CancelReason
from orders.models import CallState, Order, Status

MOST = 2000  # orders by one press, as a request has a minute


class Row(NamedTuple):
    """An order as the list shows it now, and its `bulk_changes.CHANGES`."""

    id: UUID
    status: str
    call_state: str
    version: int
    phone_e164: str
    changes: int


class Press(NamedTuple):
    """Who pressed the button, and what the form said."""

    supervisor: User
    data: dict[str, Any]


class BulkAction:
    """An action on many orders. This class has what most of them share."""

    name: str  # in the page's address
    form: type[forms.Form] = Form  # what it asks for
    most = MOST  # orders by one press
    is_danger = False
    spares_called = False  # whether it leaves customers alone while somebody is calling them (`bulk_changes`)
    taken_last: frozenset[str] = frozenset()  # the call states of orders that it takes only after all others

    @property
    def label(self) -> str | Promise:
        raise NotImplementedError

    def can(self, status: str, call_state: str) -> bool:
        """Whether a supervisor can do this to such an order."""
        raise NotImplementedError

    def why_not(self, row: Row) -> str:
        """Why it cannot be done to this order."""
        return lifecycle.cannot_be_done(row.status)

    def carry_out(self, rows: Sequence[Row], press: Press) -> Mapping[UUID, Refused]:
        """Do it to these orders in one transaction. Returns why some stay as they are."""
        raise NotImplementedError

    def said(self, count: int, press: Press) -> str:
        """A sentence: it was done to so many orders."""
        raise NotImplementedError

    def tell(self, request: HttpRequest, order_ids: Sequence[UUID], press: Press) -> None:
        """Tell the supervisor about the orders to which it was done."""
        messages.success(request, self.said(len(order_ids), press))


class AssignForm(Form):
    to = WorkerField(label=gettext_lazy("To whom?"), empty_label=gettext_lazy("Choose somebody"))


class Assign(BulkAction):
    name, label = "assign", gettext_lazy("Assign to an agent")
    form = AssignForm
    most = 200  # a day's work of one agent
    spares_called = True
    taken_last = frozenset({CallState.CALLBACK})  # somebody has promised to call these

    def can(self, status: str, call_state: str) -> bool:
        return status == Status.PENDING

    def carry_out(self, rows: Sequence[Row], press: Press) -> dict[UUID, Refused]:
        return bulk_changes.assign(_seen(rows), to=press.data["to"], supervisor=press.supervisor)

    def said(self, count: int, press: Press) -> str:
        text = ngettext("%(count)d order is assigned to %(name)s.", "%(count)d orders are assigned to %(name)s.", count)
        return text % {"count": count, "name": unturned(press.data["to"].display_name)}

    def tell(self, request: HttpRequest, order_ids: Sequence[UUID], press: Press) -> None:
        super().tell(request, order_ids, press)
        notices.warn_of_assignment(request, press.data["to"], order_ids)


class Requeue(BulkAction):
    name, label = "requeue", gettext_lazy("Put back in the queue")
    spares_called = True

    def can(self, status: str, call_state: str) -> bool:
        return status == Status.PENDING and call_state == CallState.REVIEW

    def why_not(self, row: Row) -> str:
        if row.status == Status.PENDING:
            return _("Agents have this order in their queue.")
        return super().why_not(row)

    def carry_out(self, rows: Sequence[Row], press: Press) -> dict[UUID, Refused]:
        return bulk_changes.requeue(_seen(rows), supervisor=press.supervisor)

    def said(self, count: int, press: Press) -> str:
        return requeued(count)


class Move(BulkAction):
    """Move orders to a status that couriers report."""

    def __init__(self, to: Status) -> None:
        self.to, self.name = to, to.value

    @property
    def label(self) -> str:
        return _("Change to “%(status)s”") % {"status": self.to.label}

    def can(self, status: str, call_state: str) -> bool:
        return shipments.leads(Status(status), self.to, Role.SUPERVISOR)

    def carry_out(self, rows: Sequence[Row], press: Press) -> dict[UUID, Refused]:
        moving = [shipments.Shipment(self.to, row.id, seen_version=row.version) for row in rows]
        outcomes = shipments.record(moving, actor=Actor.of_staff(press.supervisor))
        return {row.id: each for row, each in zip(rows, outcomes, strict=True) if isinstance(each, Refused)}

    def said(self, count: int, press: Press) -> str:
        return moved(count, self.to.label)


class Cancel(BulkAction):
    name, label = "cancel", gettext_lazy("Cancel the orders")
    form = ReasonForm
    is_danger = True
    spares_called = True

    def can(self, status: str, call_state: str) -> bool:
        return "cancel" in Order.moves_at(status, Role.SUPERVISOR)

    def carry_out(self, rows: Sequence[Row], press: Press) -> dict[UUID, Refused]:
        reason = CancelReason(press.data["why"]).kept_as(press.data["details"])
        return bulk_changes.cancel_many(_seen(rows), reason, supervisor=press.supervisor)

    def said(self, count: int, press: Press) -> str:
        return moved(count, Status.CANCELED.label)


def _seen(rows: Sequence[Row]) -> dict[UUID, int]:
    return {row.id: row.changes for row in rows}


# By name, in the order in which they are offered.
ACTIONS: dict[str, BulkAction] = {
    action.name: action for action in (Assign(), Requeue(), *map(Move, shipments.STATUSES), Cancel())
}
