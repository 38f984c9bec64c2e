"""The page of bulk actions on orders of the list: those that were chosen, or all that the filter finds.

A preview shows what can be done and what stays as it is, and changes nothing. Its form holds the orders that it counted
and how they were, so that pressing the button leaves alone what came or changed since. Those that one press takes are
the first of them: sent twice, the form does not go on to the next ones.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from itertools import chain, islice
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from agents.console import show
from agents.desk.forms import OLD_PAGE, read_seen
from agents.desk.shown import as_sent
from agents.supervision import bulk_changes, for_supervisors, stays
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
    if name == EXPORT:
        return _download(request, query)
    if name not in ACTIONS:
        return redirect(_list(query))
    action = ACTIONS[name]
    form = action.form(request.POST or None)
    seen = read_seen(request.POST.get("seen", "").split()[:MOST])
    if seen and form.is_valid():
        _carry_out(request, action, seen, Press(request.user, form.cleaned_data))
        return redirect(_list(query))
    # A form that comes back is still about the orders of its preview.
    orders = Order.live.filter(id__in=list(seen)) if seen else _chosen(request, query)
    rows = _rows(orders)
    if not rows:
        return _refused(request, query, _("Choose at least one order."))
    if request.method == "POST" and not seen:
        messages.warning(request, OLD_PAGE)
        return redirect(request.get_full_path())  # or reloading would send the same form again
    is_more = len(rows) > MOST
    if is_more:
        rows = list(islice(chain.from_iterable(map(_rows, _able(orders, action))), MOST + 1))
    return _show(request, action, rows, form, seen, is_more=is_more, back=_list(query))


def _refused(request: HttpRequest, query: QueryDict, why: str) -> HttpResponse:
    messages.warning(request, why)
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
    found = orders.annotate(changes=bulk_changes.CHANGES).values_list(*Row._fields)
    return [Row(*row) for row in found[: MOST + 1]]


def _why_not(row: Row, action: BulkAction, seen: Mapping[UUID, int]) -> str:
    """Why the order stays as it is: it was `seen` otherwise, or is not one for this action. Empty if neither."""
    if seen.get(row.id, row.changes) != row.changes:
        return lifecycle.Changed().message
    return "" if action.can(row.status, row.call_state) else action.why_not(row)


def _able_now(rows: list[Row], action: BulkAction) -> tuple[list[Row], set[UUID]]:
    """Of orders that the action can be done to, those it takes, in the order of its presses, and those that it spares
    because somebody is calling now.
    """
    called = bulk_changes.called_now(rows) if action.spares_called else set()
    free = [row for row in rows if row.id not in called]
    return sorted(free, key=lambda row: row.call_state in action.taken_last), called


def _show(
    request: HttpRequest,
    action: BulkAction,
    rows: list[Row],
    form: forms.Form,
    seen: Mapping[UUID, int],
    *,
    is_more: bool,
    back: str,
) -> HttpResponse:
    """The preview. When more than MOST were found (`is_more`), `rows` has only those that the action can succeed on.

    `seen` has what the form that comes back was about; those that were changed since stay as they are. Empty at first.
    The form also keeps what the list has besides (`cut`): a rest that can be changed, or orders that nobody counted.
    """
    cut = ("rest" if len(rows) > MOST else "uncounted") if is_more else request.POST.get("cut", "")
    rows = rows[:MOST]
    stay = {row.id: why for row in rows if (why := _why_not(row, action, seen))}
    able, called = _able_now([row for row in rows if row.id not in stay], action)
    stay |= dict.fromkeys(called, _("Somebody is calling this customer."))
    able_ids = {row.id for row in able}
    seen = seen or {row.id: row.changes for row in chain(able, rows)}
    seen = dict(sorted(seen.items(), key=lambda each: each[0] not in able_ids))  # what a press takes comes first
    left = Counter(row.status for row in rows) - Counter(row.status for row in able)
    counts = Counter(row.status for row in able)
    return show(
        request,
        "agents/supervision/bulk.html",
        title=action.label,
        form=form,
        is_danger=action.is_danger,
        able=len(able),
        why=[stays(count, why) for why, count in Counter(stay.values()).most_common()],
        by_status=[(status, counts[status], left[status]) for status in Status if counts[status] or left[status]],
        cut=cut,
        most=MOST,
        at_once=action.most if len(able) > action.most else 0,
        seen=" ".join(as_sent(seen)),
        back=back,
        status=422 if request.method == "POST" else 200,
    )


def _carry_out(request: HttpRequest, action: BulkAction, seen: Mapping[UUID, int], press: Press) -> None:
    """Change what can be changed of the orders of the preview, STEP in a transaction, and tell how many and why others
    stay as they are.
    """
    left = Counter[str]()
    able = list[Row]()
    rows = {row.id: row for row in _rows(Order.live.filter(id__in=list(seen)))}
    for place, row in enumerate(rows[id_] for id_ in seen if id_ in rows):
        if why := _why_not(row, action, seen):
            left[why] += 1
        elif place >= action.most:
            left[_("More than %(most)d at once.") % {"most": action.most}] += 1
        else:
            able.append(row)
    done = list[UUID]()
    for start in range(0, len(able), STEP):
        step = able[start : start + STEP]
        refused = action.carry_out(step, press)
        left.update(map(str, refused.values()))
        done += [row.id for row in step if row.id not in refused]
    if done:
        action.tell(request, done, press)
    elif not left:  # none of them is there any more
        messages.warning(request, _("None of these orders can be changed."))
    for why, count in left.most_common():
        messages.warning(request, stays(count, why))


def _download(request: HttpRequest, query: QueryDict) -> HttpResponseBase:
    """The orders as a CSV file, oldest first: the same columns as on the account's pages, after the merchant's name.

    More than MOST are refused: nobody would miss the rest, and asking again gives the same orders.
    """
    ids = list(_chosen(request, query).values_list("id", flat=True)[: MOST + 1])
    if not ids:
        return _refused(request, query, _("Choose at least one order."))
    if len(ids) > MOST:
        why = _(
            "A file can have at most %(most)s orders, and the filter finds more. Choose fewer days or one merchant."
        )
        return _refused(request, query, why % {"most": counted(MOST)})
    header = [_("Merchant"), *map(str, export.COLUMNS.values())]
    return table_answer(request, "orders.csv", header, _lines(ids, get_language() or "en"))


def _lines(ids: list[UUID], language: str) -> Iterator[list[Any]]:
    for batch in export.batches(Order.live.filter(pk__in=ids), export.DOWNLOADED, shown=True):
        theirs = Order.live.filter(pk__in=[row[0] for row in batch]).values_list("pk", "account__name")
        merchants = {str(id_): name for id_, name in theirs}
        for row in export.in_words(batch, language):
            yield [merchants.get(row[0], ""), *row]
