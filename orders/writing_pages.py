"""The account's pages on which a merchant writes down an order, or corrects one that is still pending."""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _

from codservice import values, wording
from codservice.accounts.account_page import account_page
from codservice.accounts.actor import Actor
from codservice.accounts.key_format import LIVE
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.accounts.team import Right
from codservice.errors import Invalid, Refused
from orders import amending, importing, lifecycle
from orders.account_pages import NO_ORDER, note_order
from orders.forms import LINES, MORE_LINES, CorrectionForm, OrderForm, written_anew
from orders.importing import DuplicateExternalId
from orders.models import ENDED, MAX_LINES, Order, OrderItem, Status


def _shown_lines(request: HttpRequest) -> int:
    return sum(f"line-{number}-product" in request.POST for number in range(MAX_LINES))


@account_page(look=Right.WRITE, gone=NO_ORDER)
def new(request: HttpRequest, account: Account) -> HttpResponse:
    """Show the form, or create the order from it, by the rules of the API.

    With `like`, the id of an order that has ended, the form begins with that order's values.
    """
    ended = Order.objects.filter(account=account, status__in=ENDED, anonymised_at=None)
    like = values.uuid_or_none(request.GET.get("like"))
    items = list(OrderItem.objects.filter(order__in=ended, order=like).order_by("position")) if like else []
    if request.method != "POST":
        if "like" not in request.GET:
            return _page(request, OrderForm(account=account))
        written = written_anew(get_object_or_404(ended, id=like), items)
        return _page(request, OrderForm(account=account, lines=min(len(items) + 1, MAX_LINES), written=written))
    if "more" in request.POST:
        return _page(request, _with_more_lines(request, partial(OrderForm, account=account)))
    form = OrderForm(request.POST, account=account, items=items, lines=max(_shown_lines(request), 1))
    if (body := form.body()) is None:
        return _page(request, form, status=422)
    id_ = form.cleaned_data["id"]
    try:
        with transaction.atomic():
            (made,) = importing.import_orders(account.id, [body], actor=Actor.of_merchant(request.user), ids=[id_])
            if not isinstance(made, Refused):
                note_order(Action.ORDER_WRITTEN, account, id_)
    except IntegrityError:
        return _sent_before(request, account, id_, body)
    if isinstance(made, DuplicateExternalId) and made.order_id == id_:  # the external id is checked before the id
        return _sent_before(request, account, id_, body)
    if isinstance(made, DuplicateExternalId) and made.order_id is None:
        form.add_error("external_id", _("The order that had this number is gone by now. Create yours again."))
    elif isinstance(made, Invalid):
        form.add_errors(made, in_words=wording.in_words)
    else:
        return _created(request, account, id_)
    return _page(request, form, status=422)


@account_page(look=Right.WRITE, gone=NO_ORDER)
def correct(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Show the same form with the order's values, or change the order. An agent who has the order open is told.

    If the order was decided since the page was opened, or has changed and is not yet as written (as it is after the
    first press of two), the form is refused but keeps what was written, to be copied into a new one.
    """
    order = get_object_or_404(Order.objects.select_related("account"), id=id, account=account)
    decided = "" if order.status == Status.PENDING else _("The order has been decided and can no longer be changed.")
    items = list(order.items.order_by("position"))
    if request.method != "POST":
        if decided:
            messages.error(request, decided)
            return redirect("account-order", id=id)
        lines = min(len(items) + 1, MAX_LINES)
        return _page(request, CorrectionForm(order=order, items=items, lines=lines), order)
    if "more" in request.POST and not decided:
        return _page(request, _with_more_lines(request, partial(CorrectionForm, order=order)), order)
    form = CorrectionForm(request.POST, order=order, items=items, lines=max(_shown_lines(request), LINES))
    if decided:
        form.add_error(None, decided)
    if (body := form.body()) is None:
        return _page(request, form, order, status=422)
    seen = body.pop("version")
    try:
        with transaction.atomic():
            now = lifecycle.lock_one(id, account.id).version
            corrected = amending.amend(account.id, id, body, actor=Actor.of_merchant(request.user))
            if corrected.version != now:
                if now != seen:
                    raise lifecycle.Changed
                note_order(Action.ORDER_CORRECTED, account, id)
    except Invalid as invalid:
        form.add_errors(invalid, in_words=wording.in_words)
        return _page(request, form, order, status=422)
    except Refused as refused:
        form.add_error(None, refused.message)
        return _page(request, form, order, status=refused.status)
    messages.success(request, _("The order is saved."))
    return redirect("account-order", id=id)


def _with_more_lines(request: HttpRequest, form_with: Callable[..., OrderForm]) -> OrderForm:
    """What was written, in a form with more lines.

    The first of these has the focus: keyboard users would otherwise have to reach it from the top of the page.
    """
    shown = _shown_lines(request)
    form = form_with(lines=min(shown + MORE_LINES, MAX_LINES), written=request.POST.dict())
    for line in form.lines[shown : shown + 1]:
        line.fields["product"].widget.attrs["autofocus"] = True
    return form


def _created(request: HttpRequest, account: Account, id_: UUID) -> HttpResponse:
    is_called = account.mode == LIVE
    said = _("The order is created. An agent will call the customer.") if is_called else _("The order is created.")
    messages.success(request, said)
    return redirect("account-order-new") if "another" in request.POST else redirect("account-order", id=id_)


def _sent_before(request: HttpRequest, account: Account, id_: UUID, body: dict[str, Any]) -> HttpResponse:
    """The form has made an order before: this one, or another one, as whoever went back to write this one must know."""
    order = get_object_or_404(Order, id=id_, account=account)
    if importing.has_made(order, body):
        return _created(request, account, id_)
    messages.info(request, _("This form has already created this order. What you sent now was not saved."))
    return redirect("account-order", id=id_)


def _page(request: HttpRequest, form: OrderForm, order: Order | None = None, status: int = 200) -> HttpResponse:
    context = {"form": form, "order": order, "most": MAX_LINES}
    return render(request, "orders/write.html", context, status=status)


urlpatterns = [
    path("orders/new", new, name="account-order-new"),
    path("orders/<uuid:id>/correct", correct, name="account-order-correct"),
]
