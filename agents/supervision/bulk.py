"""The page of bulk actions on orders of the list: those that were chosen, or all that the filter finds.

A preview shows what can be done and what stays as it is, and changes nothing. The address holds the choice, so that
pressing the button reads the orders again by the same filter and leaves alone what came or changed since. A preview of
more than one press takes says with which order it begins: sent twice, the form does not go on to the next ones.
"""

from collections import Counter
from collections.abc import Iterator
from copy import copy
from datetime import datetime
from itertools import chain, islice
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from agents.console import show
from agents.supervision import bulk_changes, for_supervisors, seen_at, stays
from agents.supervision.bulk_actions import ACTIONS, MOST, BulkAction, Press, Row
from codservice import values
from codservice.files.downloads import table_answer
from codservice.i18n_tags import counted
from orders import export, lifecycle
from orders.models import CallState, Order, Status

STEP = 500  # orders changed in one transaction
EXPORT = "export"  # offered beside the actions; it changes nothing


def offered(status: str, call: str, *, is_held: bool) -> dict[str, Any]:
    """The names and labels of the actions that can succeed on orders with this status and `call` state.

    Empty means any. Only pending orders wait for a call, and only their customers can be held.
    """
    statuses = {Status(status)} if status else set(Status)
    if call or is_held:
        statuses &= {Status.PENDING}
    if not statuses:
        return {}
    states = [call] if call else CallState.values
    able = {
        name: action.label
        for name, action in ACTIONS.items()
        if any(action.can(each, state) for each in statuses for state in states)
    }
    return able | {EXPORT: _("Download as CSV")}


@for_supervisors
def page(request: HttpRequest) -> HttpResponseBase:
    name, query = request.GET.get("action", ""), _filter(request)
    if name != EXPORT and name not in ACTIONS:
        return redirect(_list(query))
    orders = _chosen(request, query)
    rows = _rows(orders)
    if not rows:
        said = _("Choose at least one order.") if request.method == "GET" else _("None of these orders can be changed.")
        messages.warning(request, said)
        return redirect(_list(query))
    is_more = len(rows) > MOST
    if name == EXPORT:
        return _too_many(request, query) if is_more else _download(request, rows)
    action = ACTIONS[name]
    if is_more:
        rows = list(islice(chain.from_iterable(map(_rows, _able(orders, action))), MOST + 1))
    form = action.form(request.POST or None)
    if request.method == "POST" and (seen := seen_at(request)) and form.is_valid():
        rows = [row for row in rows[:MOST] if row.created_at <= seen]
        if (first := request.POST.get("first")) and first != _first(_unchanged(rows, seen), action):
            messages.warning(request, _("The orders have changed since you looked. Check them again."))
            return redirect(request.get_full_path())
        _carry_out(request, action, rows, Press(request.user, seen, form.cleaned_data))
        return redirect(_list(query))
    return _show(request, action, rows, form, is_more=is_more, back=_list(query))


def _too_many(request: HttpRequest, query: QueryDict) -> HttpResponse:
    """Refuse a file of more than MOST orders: nobody would miss the rest, and asking again gives the same orders."""
    text = _("A file can have at most %(most)s orders, and the filter finds more. Choose fewer days or one merchant.")
    messages.warning(request, text % {"most": counted(MOST)})
    return redirect(_list(query))


def _filter(request: HttpRequest) -> QueryDict:
    """The part of the query string that is the list's own."""
    query = request.GET.copy()
    for name in ("action", "chosen", "every", "p"):
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
    return Order.live.filter(id__in=values.uuids_in(request.GET.getlist("chosen")[:MOST])).order_by("id")


def _able(orders: QuerySet[Order], action: BulkAction) -> list[QuerySet[Order]]:
    """The orders that the action can succeed on, so that whoever comes back for the rest gets others."""
    pairs = [(status, state) for status in Status for state in CallState if action.can(status, state)]
    statuses, states = map(set, zip(*pairs, strict=True))
    able = orders.filter(status__in=statuses)
    early, late = states - action.taken_last, states & action.taken_last
    return [able.filter(call_state__in=each) for each in (early, late) if each]


def _rows(orders: QuerySet[Order]) -> list[Row]:
    """The first MOST orders, and one more if there are more."""
    return [Row(*row) for row in orders.annotate(now=Now()).values_list(*Row._fields)[: MOST + 1]]


def _able_now(rows: list[Row], action: BulkAction) -> tuple[list[Row], set[UUID]]:
    """The orders that the action can be done to, and which others it spares because somebody is calling now."""
    able = [row for row in rows if action.can(row.status, row.call_state)]
    called = bulk_changes.called_now(able) if action.spares_called else set()
    return [row for row in able if row.id not in called], called


def _first(rows: list[Row], action: BulkAction) -> str:
    """The id of the order with which a press begins; empty without any."""
    able, _called = _able_now(rows, action)
    return str(action.in_order(able)[0].id) if able else ""


def _unchanged(rows: list[Row], seen: datetime) -> list[Row]:
    """Those that are sure to be as the preview showed them; a press may leave the others, and find them again."""
    noted = bulk_changes.noted_since(seen, rows)
    return [row for row in rows if row.updated_at <= seen and row.id not in noted]


def _show(
    request: HttpRequest, action: BulkAction, rows: list[Row], form: forms.Form, *, is_more: bool, back: str
) -> HttpResponse:
    """The preview. When more than MOST were found (`is_more`), `rows` has only those that the action can succeed on."""
    is_rest, rows = len(rows) > MOST, rows[:MOST]
    able, called = _able_now(rows, action)
    left = Counter(row.status for row in rows) - Counter(row.status for row in able)
    counts = Counter(row.status for row in able)
    return show(
        request,
        "agents/supervision/bulk.html",
        title=action.label,
        form=form,
        button=action.label,
        is_danger=action.is_danger,
        able=len(able),
        called=stays(len(called), _("Somebody is calling this customer.")) if called else "",
        by_status=[(status, counts[status], left[status]) for status in Status if counts[status] or left[status]],
        most=MOST if is_more else 0,
        is_rest=is_rest,
        at_once=action.most if len(able) > action.most else 0,
        first=_first(rows, action) if is_rest or len(able) > action.most else "",
        seen_at=rows[0].now.isoformat() if rows else "",
        back=back,
        status=422 if form.errors else 200,
    )


def _carry_out(request: HttpRequest, action: BulkAction, rows: list[Row], press: Press) -> None:
    """Change what can be changed, STEP orders in a transaction, and tell how many and why others stay as they are."""
    left = Counter[str]()
    able = list[Row]()
    for row in rows:
        if row.updated_at > press.seen_at:
            left[lifecycle.Changed().message] += 1
        elif not action.can(row.status, row.call_state):
            left[action.why_not(row)] += 1
        else:
            able.append(row)
    able = action.in_order(able)
    left[_("More than %(most)d at once.") % {"most": action.most}] += len(able[action.most :])
    able = able[: action.most]
    done = list[UUID]()
    for start in range(0, len(able), STEP):
        step = able[start : start + STEP]
        refused = action.carry_out(step, press)
        left.update(map(str, refused.values()))
        done += [row.id for row in step if row.id not in refused]
    left = +left  # without reasons that no order has
    if done:
        action.tell(request, done, press)
    elif not left:  # the filter finds none of the orders that were seen
        messages.warning(request, _("None of these orders can be changed."))
    for why, count in left.most_common():
        messages.warning(request, stays(count, why))


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
