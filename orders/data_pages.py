"""The account's pages about personal data (law 18-07): export all of it, export or erase one customer's."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from codservice import days
from codservice.accounts import security_log
from codservice.accounts.account_page import account_page, confirmation
from codservice.accounts.actor import Actor
from codservice.accounts.key_format import TEST
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.accounts.team import Right
from codservice.errors import Refused
from codservice.files import account_export
from codservice.files.downloads import file_answer
from codservice.form_fields import Form
from codservice.long_lists import NewestFirst
from orders import customer_data, phones
from orders.forms import PhoneField

MOST = 100  # orders that are listed


class CustomerForm(Form):
    """The customer's phone number, cleaned to E.164."""

    phone = PhoneField(label=gettext_lazy("The customer's phone"), max_length=phones.MAX_LENGTH)

    def clean_phone(self) -> str:
        return phones.to_e164(self.cleaned_data["phone"])


@account_page(look=Right.OWN, takes_out=True)
@require_safe
def data(request: HttpRequest, account: Account) -> HttpResponse:
    """The exports on offer and past erasures; with a phone, that customer's orders too."""
    is_asked = bool(request.GET.get("phone", "").strip())
    form = CustomerForm(request.GET if is_asked else None)
    context: dict[str, Any] = {"form": form}
    context["page"] = NewestFirst(account.erasures.all(), before=request.GET.get("before", ""))
    if is_asked and form.is_valid():
        found = customer_data.of_customer(account, form.cleaned_data["phone"])
        context |= {
            "phone": form.cleaned_data["phone"],
            "count": (count := found.count()),
            "tests": _said_of_tests(account, count - found.filter(account=account).count()),
            "open_count": customer_data.still_open(found).count(),
            "orders": found.filter(account=account).order_by("-id")[:MOST],
        }
    return render(request, "orders/data.html", context, status=422 if form.errors else 200)


@account_page(look=Right.OWN, takes_out=True)
def export(request: HttpRequest, account: Account) -> HttpResponseBase:
    if request.method != "POST":  # `account_page` leads here when the mode was switched meanwhile
        return redirect("account-data")
    security_log.note_account(Action.EXPORTED, account)
    return file_answer(request, f"codservice-{days.today()}.zip", "application/zip", account_export.stream(account))


@account_page(look=Right.OWN, takes_out=True)
def export_customer(request: HttpRequest, account: Account) -> HttpResponseBase:
    if request.method != "POST":
        return redirect("account-data")
    form = CustomerForm(request.POST)
    if not form.is_valid():
        return _lost(request)
    security_log.note_account(Action.EXPORTED, account)
    phone = form.cleaned_data["phone"]
    return file_answer(
        request, f"customer-{days.today()}.json", "application/json", customer_data.export(account, phone)
    )


@account_page(look=Right.OWN)
def erase(request: HttpRequest, account: Account) -> HttpResponse:
    """Ask for confirmation on GET, erase on POST."""
    form = CustomerForm(request.POST if request.method == "POST" else request.GET)
    if not form.is_valid():
        return _lost(request)
    phone = form.cleaned_data["phone"]
    try:
        if request.method != "POST":
            return _question(request, account, phone, customer_data.to_erase(account, phone))
        erased = customer_data.erase(account, phone, actor=Actor.of_merchant(request.user))
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect(reverse("account-data", query={"phone": phone}))
    if count := sum(erased):
        said = ngettext(
            "The customer is erased from %(count)d order.", "The customer is erased from %(count)d orders.", count
        ) % {"count": count}
    else:
        said = _("What was still kept of this number is erased. No orders have it now.")
    messages.success(request, f"{said} {_said_of_tests(account, erased.test_orders)}".strip())
    return redirect("account-data")


def _said_of_tests(account: Account, count: int) -> str:
    """How many of the customer's orders are test orders, for a live account: only its twin's pages list them."""
    if not count or account.mode == TEST:
        return ""
    text = ngettext("%(count)d of them is a test order.", "%(count)d of them are test orders.", count)
    return text % {"count": count}


def _question(request: HttpRequest, account: Account, phone: str, found: customer_data.Erased) -> HttpResponse:
    if count := sum(found):
        again = _(
            "The shop's own order numbers are free again: if such an order is sent or uploaded once more, it is a new "
            "order, and the customer is called."
        )
        text = ngettext(
            "%(count)d order loses the customer's name, phones and address and every text about them, in all "
            "copies that we keep, including the names of products that are not in your list of products. Amounts "
            "and quantities stay in your figures. This cannot be undone.",
            "%(count)d orders lose the customer's name, phones and address and every text about them, in all "
            "copies that we keep, including the names of products that are not in your list of products. Amounts "
            "and quantities stay in your figures. This cannot be undone.",
            count,
        ) % {"count": count}
    else:
        again = ""
        text = _(
            "No orders have this number now. Orders that once had it forget it, with the texts of their edits until "
            "then, and refused rows of files that have it are deleted. This cannot be undone."
        )
    return confirmation(
        request,
        title=_("Erase this customer?"),
        text=" ".join(filter(None, (text, _said_of_tests(account, found.test_orders), again))),
        button=_("Erase the customer"),
        back=reverse("account-data", query={"phone": phone}),
        fields={"phone": phone},
    )


def _lost(request: HttpRequest) -> HttpResponse:
    messages.error(request, _("Enter an Algerian phone number, such as 0550 12 34 56."))
    return redirect("account-data")


urlpatterns = [
    path("data", data, name="account-data"),
    path("data/export", export, name="account-data-export"),
    path("data/customer", export_customer, name="account-data-customer"),
    path("data/erase", erase, name="account-data-erase"),
]
