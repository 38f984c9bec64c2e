"""Bulk actions on orders of the list: those that were chosen, or all that the filter finds.

A preview shows what can be done and what stays as it is, and changes nothing. The address holds the choice, so that
pressing the button reads the orders again by the same filter and leaves alone what came or changed since.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from datetime import datetime
from itertools import chain, islice
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import get_language, gettext_lazy, ngettext
from django.utils.translation import gettext as _

from agents.console import show
from agents.desk import claims, telling
from agents.desk.forms import ReasonForm, WorkerField
from agents.supervision import deeds, for_supervisors, moved, moves, requeued, seen_at, stays
from codservice import values
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import User
from codservice.bidi import unturned
from codservice.files.downloads import table_answer
from codservice.form_fields import Form
from codservice.i18n_tags import counted
from orders import export, lifecycle, shipments
from orders.cancel_reasons import CancelReason
from orders.models import CallState, Order, Status

MOST = 2000  # orders by one press, as a request has a minute
MOST_ASSIGNED = 200  # a day's work of one agent
STEP = 500  # orders changed in one transaction
CANCEL, ASSIGN, REQUEUE, EXPORT = "cancel", "assign", "requeue", "export"
WAITING = {CANCEL, ASSIGN}  # actions that leave customers alone while somebody is calling them (`deeds`)


class Row(NamedTuple):
    """An order as the list shows it now."""

    id: UUID
    status: str
    call_state: str
    version: int
    phone_e164: str
    created_at: datetime
    updated_at: datetime
    now: datetime


class AssignForm(Form):
    to = WorkerField(label=gettext_lazy("To whom?"), empty_label=gettext_lazy("Choose somebody"))


FORMS: dict[str, type[forms.Form]] = {ASSIGN: AssignForm, CANCEL: ReasonForm}  # actions that ask for something


# --- What can be done --------------------------------------------------------------------------------------------


def labels() -> dict[str, str]:
    """The actions and their names, in the order in which they are offered."""
    return {
        ASSIGN: _("Assign to an agent"),
        REQUEUE: _("Put back in the queue"),
        **{status: _("Change to “%(status)s”") % {"status": label} for status, label in moves.TARGETS},
        CANCEL: _("Cancel the orders"),
        EXPORT: _("Download as CSV"),
    }


def offered(status: str, call: str = "", *, is_held: bool = False) -> dict[str, str]:
    """The actions that can succeed on orders with this status (empty: any) and `call` state (empty: any).

    Only pending orders wait for a call, and only their customers can be held.
    """
    statuses = {Status(status)} if status else set(Status)
    if call or is_held:
        statuses &= {Status.PENDING}
    states = [call] if call else CallState.values
    return {
        name: label
        for name, label in labels().items()
        if any(can(name, each, state) for each in statuses for state in states)
    }


def can(deed: str, status: str, call_state: str) -> bool:
    """Whether a supervisor can do this to such an order."""
    if deed == EXPORT:
        return True
    if deed == CANCEL:
        return "cancel" in Order.moves_at(status, Role.SUPERVISOR)
    if deed == ASSIGN:
        return status == Status.PENDING
    if deed == REQUEUE:
        return status == Status.PENDING and call_state == CallState.REVIEW
    return shipments.leads(Status(status), Status(deed), Role.SUPERVISOR)


# --- The page ----------------------------------------------------------------------------------------------------


@for_supervisors
def page(request: HttpRequest) -> HttpResponseBase:
    deed, query = request.GET.get("deed", ""), _filter(request)
    if deed not in labels():
        return redirect(_list(query))
    orders = _chosen(request, query)
    rows = _rows(orders)
    if not rows:
        said = _("Choose at least one order.") if request.method == "GET" else _("None of these orders can be changed.")
        messages.warning(request, said)
        return redirect(_list(query))
    is_more = len(rows) > MOST
    if deed == EXPORT:
        return _too_many(request, query) if is_more else _download(request, rows)
    if is_more:
        rows = list(islice(chain.from_iterable(map(_rows, _able(orders, deed))), MOST + 1))
    form = FORMS.get(deed, Form)(request.POST or None)
    if request.method == "POST" and (seen := seen_at(request)) and form.is_valid():
        rows = [row for row in rows[:MOST] if row.created_at <= seen]
        _do(request, deed, rows, seen, form.cleaned_data)
        return redirect(_list(query))
    return _show(request, deed, rows, form, is_more=is_more, back=_list(query))


def _too_many(request: HttpRequest, query: QueryDict) -> HttpResponse:
    """Refuse a file of more than MOST orders: nobody would miss the rest, and asking again gives the same orders."""
    text = _("A file can have at most %(most)s orders, and the filter finds more. Choose fewer days or one merchant.")
    messages.warning(request, text % {"most": counted(MOST)})
    return redirect(_list(query))


def _filter(request: HttpRequest) -> QueryDict:
    """The part of the query string that is the list's own."""
    query = request.GET.copy()
    for name in ("deed", "chosen", "every", "p"):
        query.pop(name, None)
    return query


def _list(query: QueryDict) -> str:
    address = reverse("admin:orders_order_changelist")
    return f"{address}?{query.urlencode()}" if query else address


def _chosen(request: HttpRequest, query: QueryDict) -> QuerySet[Order]:
    if "every" in request.GET:
        asked = copy(request)
        asked.GET = query  # type: ignore[assignment]
        try:
            return admin.site.get_model_admin(Order).get_changelist_instance(asked).queryset
        except IncorrectLookupParameters:
            return Order.live.none()
    ids = [id_ for text in request.GET.getlist("chosen")[:MOST] if (id_ := values.uuid_or_none(text))]
    return Order.live.filter(id__in=ids).order_by("id")


def _able(orders: QuerySet[Order], deed: str) -> list[QuerySet[Order]]:
    """The orders that the action can succeed on, so that whoever comes back for the rest gets others.

    For assigning, orders that nobody has promised to call come first.
    """
    pairs = [(status, state) for status in Status for state in CallState if can(deed, status, state)]
    statuses, states = map(set, zip(*pairs, strict=True))
    able = orders.filter(status__in=statuses, call_state__in=states)
    promised = Q(call_state=CallState.CALLBACK)
    return [able.exclude(promised), able.filter(promised)] if deed == ASSIGN else [able]


def _rows(orders: QuerySet[Order]) -> list[Row]:
    """The first MOST orders, and one more if there are more."""
    return [Row(*row) for row in orders.annotate(now=Now()).values_list(*Row._fields)[: MOST + 1]]


def _called(rows: Iterable[Row]) -> set[UUID]:
    """The pending orders whose customer somebody is calling now."""
    phones = {row.id: row.phone_e164 for row in rows if row.status == Status.PENDING}
    callers = claims.callers(phones.values())
    return {id_ for id_, phone in phones.items() if phone in callers}


def _show(
    request: HttpRequest, deed: str, rows: list[Row], form: forms.Form, *, is_more: bool, back: str
) -> HttpResponse:
    """The preview. When more than MOST were found (`is_more`), `rows` has only those that the action can succeed on."""
    is_rest, rows = len(rows) > MOST, rows[:MOST]
    able = [row for row in rows if can(deed, row.status, row.call_state)]
    called = _called(able) if deed in WAITING else set()
    able = [row for row in able if row.id not in called]
    left = Counter(row.status for row in rows) - Counter(row.status for row in able)
    counts = Counter(row.status for row in able)
    return show(
        request,
        "agents/supervision/bulk.html",
        title=labels()[deed],
        form=form,
        button=labels()[deed],
        is_danger=deed == CANCEL,
        able=len(able),
        called=stays(len(called), _("Somebody is calling this customer.")) if called else "",
        by_status=[(status, counts[status], left[status]) for status in Status if counts[status] or left[status]],
        most=MOST if is_more else 0,
        is_rest=is_rest,
        at_once=MOST_ASSIGNED if deed == ASSIGN and len(able) > MOST_ASSIGNED else 0,
        seen_at=rows[0].now.isoformat() if rows else "",
        back=back,
        status=422 if form.errors else 200,
    )


# --- Carrying it out ---------------------------------------------------------------------------------------------


def _do(request: HttpRequest, deed: str, rows: list[Row], seen_at: datetime, data: dict[str, Any]) -> None:
    """Change what can be changed, STEP orders in a transaction, and tell how many and why others stay as they are."""
    left = Counter[str]()
    able = []
    for row in rows:
        if row.updated_at > seen_at:
            left[lifecycle.Changed().message] += 1
        elif not can(deed, row.status, row.call_state):
            left[_why_not(deed, row)] += 1
        else:
            able.append(row)
    done, supervisor = list[UUID](), request.user
    if deed == ASSIGN:
        called = _called(able)
        # Last what would be left alone, and before it promised calls, so that a second press does not take the same.
        able.sort(key=lambda row: (row.id in called, row.call_state == CallState.CALLBACK))
        left[_("More than %(most)d at once.") % {"most": MOST_ASSIGNED}] += len(able[MOST_ASSIGNED:])
        able = able[:MOST_ASSIGNED]
    for start in range(0, len(able), STEP):
        step = able[start : start + STEP]
        for row, why in zip(step, _step(deed, step, seen_at, supervisor, data), strict=True):
            if why:
                left[why] += 1
            else:
                done.append(row.id)
    if done:
        messages.success(request, _done(deed, len(done), data))
        if deed == ASSIGN:
            telling.of_rules(request, data["to"], done)
    if not done and not +left:  # the filter finds none of the orders that were seen
        messages.warning(request, _("None of these orders can be changed."))
    for why, count in (+left).most_common():
        messages.warning(request, stays(count, why))


def _step(deed: str, rows: list[Row], seen_at: datetime, supervisor: User, data: dict[str, Any]) -> Iterator[str]:
    """Process the orders in one transaction. For each, give why it stays as it is, or an empty string."""
    ids = [row.id for row in rows]
    if deed == CANCEL:
        seen, why = {row.id: row.version for row in rows}, CancelReason(data["why"])
        refused = deeds.cancel_many(seen, why, details=data["details"], seen_at=seen_at, supervisor=supervisor)
    elif deed == ASSIGN:
        refused = deeds.assign(ids, to=data["to"], seen_at=seen_at, supervisor=supervisor)
    elif deed == REQUEUE:
        refused = deeds.requeue(ids, seen_at=seen_at, supervisor=supervisor)
    else:
        to = Status(deed)
        moving = [shipments.Shipment(to, row.id, seen_version=row.version) for row in rows]
        return (moves.why_not_moved(each, to) for each in shipments.record(moving, actor=Actor.of_staff(supervisor)))
    return (refused[id_].message if id_ in refused else "" for id_ in ids)


def _why_not(deed: str, row: Row) -> str:
    if deed == REQUEUE and row.status == Status.PENDING:
        return _("Agents have this order in their queue.")
    return lifecycle.cannot_be_done(row.status)


def _done(deed: str, count: int, data: dict[str, Any]) -> str:
    if deed == ASSIGN:
        text = ngettext("%(count)d order is assigned to %(name)s.", "%(count)d orders are assigned to %(name)s.", count)
        return text % {"count": count, "name": unturned(data["to"].display_name)}
    if deed == REQUEUE:
        return requeued(count)
    return moved(count, (Status.CANCELED if deed == CANCEL else Status(deed)).label)


# --- The file ----------------------------------------------------------------------------------------------------


def _download(request: HttpRequest, rows: list[Row]) -> HttpResponseBase:
    """The orders as a CSV file, oldest first: the same columns as on the account's pages, after the merchant's name."""
    header = [_("Merchant"), *map(str, export.COLUMNS.values())]
    return table_answer(request, "orders.csv", header, _lines([row.id for row in rows], get_language() or "en"))


def _lines(ids: list[UUID], language: str) -> Iterator[list[Any]]:
    for batch in export.batches(Order.live.filter(pk__in=ids), shown=True):
        theirs = Order.live.filter(pk__in=[row[0] for row in batch]).values_list("pk", "account__name")
        merchants = {str(id_): name for id_, name in theirs}
        for row in export.in_words(batch, language):
            yield [merchants.get(row[0], ""), *row]
