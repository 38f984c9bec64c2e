"""The account's pages about orders, at /account/orders: find, read and cancel them. Agents work in the console."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from codservice import values, wording
from codservice.accounts import security_log
from codservice.accounts.account_page import Gone, account_page
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.accounts.team import Right
from codservice.api.fields import read_body
from codservice.errors import Invalid, Refused
from codservice.files.downloads import table_answer
from codservice.form_fields import AskedDay, Form
from codservice.long_lists import NewestFirst
from codservice.searches import batch_by_batch, searching
from codservice.uploads import account_pages as uploads
from orders import counts, editing, export, lifecycle
from orders.filters import OrderFilter
from orders.models import ENDED, CallNote, CallState, Order, Status, StatusChange
from orders.serializers import OrderCancel
from orders.templatetags.orders import Edited, edits_in_words
from webhooks.models import Delivery, Event

DAYS = ("created_from", "created_to", "updated_from", "updated_to")  # filters that are days
AT_ONCE = 100  # calls, and changed fields, that an order's page shows at once; there may be many more
NO_ORDER = Gone(
    gettext_lazy("There is no such order in your account."),
    "account-orders",
    gettext_lazy("Orders"),
    why=gettext_lazy("Test orders are shown only in test mode, and deleted after 30 days."),
)


class SearchForm(Form):
    """The list's filters as form fields. OrderFilter reads what was chosen, as it reads the API's parameters."""

    q = forms.CharField(
        label=gettext_lazy("Name, address, order number"),
        widget=forms.TextInput(attrs={"type": "search", "dir": "auto"}),
        required=False,
    )
    phone = forms.CharField(
        label=gettext_lazy("Phone"),
        widget=forms.TextInput(attrs={"type": "tel", "dir": "ltr", "placeholder": "0550 12 34 56"}),
        required=False,
    )
    created_from = AskedDay(label=gettext_lazy("Received from"))
    created_to = AskedDay(label=gettext_lazy("Received until"))
    updated_from = AskedDay(label=gettext_lazy("Last change from"))
    updated_to = AskedDay(label=gettext_lazy("Last change until"))
    status = forms.CharField(widget=forms.HiddenInput, required=False)

    def days(self) -> list[forms.BoundField]:
        """What most searches leave alone: the page shows them when they are asked for, or used."""
        return [self[name] for name in DAYS]


@account_page()
@require_safe
def orders(request: HttpRequest, account: Account) -> HttpResponse:
    """The account's orders, newest first."""
    form, status = SearchForm(request.GET), 200
    given = OrderFilter.chosen(request.GET)
    mine = Order.objects.filter(account=account)
    before = request.GET.get("before", "")
    try:
        with searching(account.id, given):
            page = NewestFirst(OrderFilter(given, mine, account_id=account.id).read(is_by_hand=True), before=before)
    except Refused as error:
        form.is_valid()
        form.add_errors(error, by="q", in_words=wording.in_words)
        page, status = NewestFirst(mine.none()), error.status
    context = {
        "form": form,
        "page": page,
        "tabs": _tabs(account, request.GET.get("status", "")),
        "given": given,
        "is_searched": bool(given.keys() - {"status"}),
        "is_by_day": not given.keys().isdisjoint(DAYS),
    }
    return render(request, "orders/orders.html", context, status=status)


@account_page()
@require_safe
def download(request: HttpRequest, account: Account, form: str) -> HttpResponseBase:
    """All orders that match the list's filters, oldest first, as CSV or XLSX; uses constant memory."""
    given = OrderFilter.chosen(request.GET)
    around = batch_by_batch(account.id, given)
    try:
        mine = Order.objects.filter(account=account)
        with around():
            chosen = OrderFilter(given, mine, account_id=account.id).read(is_by_hand=True)
        found = export.batches(chosen, export.DOWNLOADED, shown=True, around=around)
        first = next(found, [])
    except Refused:  # the list shows the refusal in words
        return redirect(f"{reverse('account-orders')}?{request.GET.urlencode()}")
    language = get_language() or "en"  # the page's; another language may be active while a long file is streamed
    batches = (export.in_words(batch, language) for batch in chain([first], found))
    if form == "xlsx":
        batches = map(export.with_national_phones, batches)
    rows = chain.from_iterable(batches)
    return table_answer(request, f"orders.{form}", [str(label) for label in export.COLUMNS.values()], rows)


def _tabs(account: Account, chosen: str) -> list[dict[str, Any]]:
    """The tabs above the list, one for all orders and one for each status, with their counts."""
    found = counts.by_status(account=account)
    tabs = [{"status": "", "label": _("All"), "count": sum(found.values())}]
    tabs += [{"status": status.value, "label": status.label, "count": found.get(status, 0)} for status in Status]
    return [tab | {"is_chosen": tab["status"] == chosen} for tab in tabs]


# --- One order -------------------------------------------------------------------------------------------------------


@dataclass
class Entry:
    """Something that happened to an order: a `change` of its status, a `call`, or what was `edited` at one time."""

    at: datetime
    change: StatusChange | None = None
    call: CallNote | None = None
    edited: Edited | None = None
    deliveries: list[Delivery] = field(default_factory=list)


def timeline(order: Order, *, skip: int = 0) -> tuple[list[Entry], str]:
    """What happened to the order, newest first, and the `skip` that shows older entries, empty if there are none.

    Lists all moves, and up to AT_ONCE each of calls and changed fields after the first `skip`. Always four statements.
    """
    some = slice(skip, skip + AT_ONCE + 1)
    changes = list(order.status_changes.order_by("-at", "-id"))  # shipped and delivered may have the same time
    told = _deliveries(order, [change.at for change in changes])
    entries = [
        Entry(change.at, change=change, deliveries=told[change.at, _TOLD[Status(change.to_status)]])
        for change in changes
    ]
    calls = list(order.call_notes.order_by("-created_at", "-id")[some])
    entries += [Entry(call.created_at, call=call) for call in calls[:AT_ONCE]]
    edits = list(order.edits.order_by("-at", "-id")[some])
    entries += [Entry(edited.at, edited=edited) for edited in edits_in_words(edits[:AT_ONCE])]
    older = str(skip + AT_ONCE) if max(len(calls), len(edits)) > AT_ONCE else ""
    return sorted(entries, key=lambda entry: entry.at, reverse=True), older


_TOLD = {Status.PENDING: Event.Kind.ORDER_CREATED} | {move.to: move.event for move in Order.MOVES.values()}


def _deliveries(order: Order, times: list[datetime]) -> dict[tuple[datetime, str], list[Delivery]]:
    """The deliveries of events about the order's moves, by time and kind of the move.

    An event has the time of its move to the microsecond, and the log's index finds a webhook's deliveries by time.
    Hundreds of orders of one file or batch may share that microsecond, so the database also filters by the order's id
    in the body.
    """
    found: dict[tuple[datetime, str], list[Delivery]] = defaultdict(list)
    deliveries = Delivery.objects.filter(
        webhook__account_id=order.account_id, created_at__in=times, event__body__contains=str(order.id)
    )
    for delivery in deliveries.with_webhook().select_related("event").order_by("id"):
        if json.loads(delivery.event.body).get("data", {}).get("id") == str(order.id):
            found[delivery.created_at, delivery.event.kind].append(delivery)
    return found


@account_page(gone=NO_ORDER)
@require_safe
def order(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    shown = get_object_or_404(Order, id=id, account=account)
    entries, older = timeline(shown, skip=values.digits_or_none(request.GET.get("before", "")) or 0)
    items = list(shown.items.order_by("position"))
    context = {
        "order": shown,
        "items": items,
        "discount": editing.discount(shown, items),
        "timeline": entries,
        "older": older,
        "is_planned": shown.call_state in (CallState.RETRY, CallState.CALLBACK) and shown.call_due_at > timezone.now(),
        "may_cancel": "cancel" in Order.moves_at(shown.status, Role.MERCHANT),
        "may_repeat": shown.status in ENDED and shown.anonymised_at is None,
    }
    return render(request, "orders/order.html", context)


@account_page(look=Right.WRITE, gone=NO_ORDER)
def cancel(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Ask for confirmation on GET and cancel on POST. Both say why an order can no longer be canceled.

    If the order has changed since it was shown, ask again about the order as it is now, keeping the written reason.
    """
    shown, actor = get_object_or_404(Order, id=id, account=account), Actor.of_merchant(request.user)
    reason = request.POST.get("reason", "")
    try:
        if request.method != "POST":
            lifecycle.allowed_move(shown, "cancel", actor)
            return render(request, "orders/cancel.html", {"order": shown})
        with transaction.atomic():
            lifecycle.cancel(
                id,
                account_id=account.id,
                actor=actor,
                reason=read_body(OrderCancel, {"reason": reason})["reason"],
                seen_version=values.digits_or_none(request.POST.get("version", "")) or 0,
            )
            note_order(Action.ORDER_CANCELED, account, id)
    except Invalid as error:
        said = [wording.in_words(sentence) for sentence in error.errors["reason"]]
        context = {"order": shown, "errors": said, "reason": reason}
        return render(request, "orders/cancel.html", context, status=422)
    except lifecycle.Changed as changed:
        context = {"order": shown, "changed": changed.message, "reason": reason}
        return render(request, "orders/cancel.html", context, status=changed.status)
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, _("The order is canceled."))
    return redirect("account-order", id=id)


def note_order(action: Action, account: Account, id: UUID) -> None:
    """Note an action in the security log by the order's id alone: customers are erased, the log is not."""
    security_log.note(action, target=str(id), target_id=id, account_id=account.id)


urlpatterns = [
    path("orders", orders, name="account-orders"),
    path("orders/upload", uploads.new, {"kind": "orders"}, name="account-orders-upload"),
    path("orders/upload/example.xlsx", uploads.example, {"kind": "orders"}, name="account-orders-example"),
    path("orders/download.csv", download, {"form": "csv"}, name="account-orders-csv"),
    path("orders/download.xlsx", download, {"form": "xlsx"}, name="account-orders-xlsx"),
    path("orders/<uuid:id>", order, name="account-order"),
    path("orders/<uuid:id>/cancel", cancel, name="account-order-cancel"),
]
