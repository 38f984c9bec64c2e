"""The account's page of shipping fees: what a delivery to each wilaya costs, to the door and to a stop desk."""

from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext as _

from codservice.accounts import security_log
from codservice.accounts.account_page import account_page
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.concurrent_edits import SinceShown
from codservice.form_fields import AmountField
from codservice.i18n_tags import written_amount
from orders import fees, regions
from orders.models import DeliveryType
from orders.templatetags.orders import wilaya


class FeesForm(SinceShown):
    """An amount for each wilaya and delivery type; an empty one is no fee."""

    def __init__(self, data: Any, *, account: Account) -> None:
        kept = fees.by_place(account.id)
        initial = {_name(code, kind): written_amount(amount) for (code, kind), amount in kept.items()}
        super().__init__(data, initial=initial)
        self.wilayas = [(place.code, wilaya(place.code)) for place in regions.WILAYAS]
        colon = _(":")
        for code, name in self.wilayas:
            for kind, label in DeliveryType.choices:
                field = AmountField(label=f"{code} {name}{colon} {label}", max_length=20, required=False)
                field.widget.attrs["aria-label"] = field.label
                self.fields[_name(code, kind)] = field

    @property
    def rows(self) -> list[tuple[str, str, list[tuple[Any, forms.BoundField]]]]:
        """Code and name of each wilaya, and its fields with the labels of their delivery types."""
        return [
            (code, name, [(label, self[_name(code, kind)]) for kind, label in DeliveryType.choices])
            for code, name in self.wilayas
        ]

    def changed_fees(self) -> list[fees.Fee]:
        """The changed fees, by wilaya; None removes a fee."""
        changed: dict[str, fees.Fee] = {}
        for name in self.changed_data:
            kind, _dash, code = name.partition("-")
            changed.setdefault(code, {"wilaya_code": code})[kind] = self.cleaned_data[name]
        return list(changed.values())


def _name(code: str, kind: str) -> str:
    return f"{kind}-{code}"


@account_page()
def shipping_fees(request: HttpRequest, account: Account) -> HttpResponse:
    form = FeesForm(request.POST if request.method == "POST" else None, account=account)
    if form.is_valid():
        if changed := form.changed_fees():
            with transaction.atomic():
                fees.set_fees(account.id, changed)
                wilayas = ", ".join(fee["wilaya_code"] for fee in changed)
                security_log.note(Action.FEES, target=wilayas, account_id=account.id)
        messages.success(request, _("The fees are saved."))
        return redirect("account-fees")
    context = {"form": form, "kinds": DeliveryType.labels}
    return render(request, "orders/fees.html", context, status=422 if form.errors else 200)


urlpatterns = [
    path("fees", shipping_fees, name="account-fees"),
]
