"""Orders that agents could not decide: too many attempts, wrong number, handed over. A supervisor calls or requeues."""

from collections import Counter

from django.contrib import messages
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import JSONObject
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from agents.console import show
from agents.desk import assignment, claims, views
from agents.desk.forms import OLD_PAGE, read_seen
from agents.supervision import bulk_changes, for_supervisors, requeued, stays
from codservice import values
from codservice.long_lists import BoundedPaginator
from orders.models import CallNote, CallState, Order, OrderEdit, Status

PER_PAGE = 50


@for_supervisors
def page(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _take(request) if "take" in request.POST else _requeue(request)
    orders = BoundedPaginator(waiting(), PER_PAGE).get_page(request.GET.get("p"))
    for order in orders:
        order.why = _why(order)
    return show(
        request,
        "agents/supervision/review.html",
        title=_("For review"),
        orders=orders,
        outcomes=dict(CallNote.Outcome.choices),
        callers=claims.callers(order.phone_e164 for order in orders),
        nobodys=assignment.nobodys(),
    )


def waiting() -> QuerySet[Order]:
    """Orders in review, the longest waiting first, each with its `bulk_changes.CHANGES` and the notes for `_why`."""
    orders = Order.live.filter(status=Status.PENDING, call_state=CallState.REVIEW).select_related("account")
    # A skip leaves the customer's orders waiting for what they waited for before, so it explains nothing.
    last = _last_note(Q(outcome=CallNote.Outcome.SKIPPED))
    new = OrderEdit.objects.filter(order=OuterRef("order"), field="customer_phone", at__gt=OuterRef("created_at"))
    is_of_old_number = Q(Exists(new), outcome=CallNote.Outcome.WRONG_NUMBER)
    said = _last_note(Q(outcome__in=CallNote.NOTHING_NEW) | is_of_old_number)
    return orders.annotate(last_note=last, said_note=said, changes=bulk_changes.CHANGES).order_by("call_due_at", "id")


def _last_note(but: Q) -> Subquery:
    """The order's last note, except notes that match `but`."""
    notes = CallNote.objects.filter(order_id=OuterRef("pk")).exclude(but).order_by("-created_at", "-id")
    return Subquery(notes.values(json=JSONObject(outcome="outcome", note="note", agent="agent_name"))[:1])


def _why(order: Order) -> list[dict[str, str]]:
    """The notes that say why the order is in review, in sequence.

    That is the last one; if that call went unanswered, then also the earlier one that had put the order in review and
    still does.
    """
    last, said = order.last_note, order.said_note
    is_in_vain = last and last["outcome"] in CallNote.SILENT
    is_kept = said and said["outcome"] in (CallNote.Outcome.WRONG_NUMBER, CallNote.Outcome.HANDED_OVER)
    return [note for note in ([said, last] if is_in_vain and is_kept else [last]) if note]


def _take(request: HttpRequest) -> HttpResponse:
    order_id = values.uuid_or_none(request.POST["take"])
    return views.take(request, order_id, back="admin:review") if order_id else redirect("admin:review")


def _requeue(request: HttpRequest) -> HttpResponse:
    chosen = request.POST.getlist("order")[:PER_PAGE]
    seen = read_seen(chosen)
    if not seen:
        messages.warning(request, OLD_PAGE if chosen else _("Choose at least one order."))
        return redirect("admin:review")
    refused = bulk_changes.requeue(seen, supervisor=request.user)
    count = len(seen) - len(refused)
    if count:
        messages.success(request, requeued(count))
    for why, left in Counter(map(str, refused.values())).most_common():
        messages.warning(request, stays(left, why))
    return redirect("admin:review")
