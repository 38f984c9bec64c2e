"""The filters of the console's list of orders, beside its tabs of statuses: one form for all."""

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from agents.models import Claim
from codservice import days
from codservice.accounts.models import Account, User
from orders import regions
from orders.models import CallState, Order, Status
from orders.templatetags.orders import wilaya

ANYBODY = "anybody"


class FilterForm(forms.Form):
    merchant = forms.CharField(label=gettext_lazy("Merchant"), required=False, max_length=100)
    wilaya = forms.ChoiceField(label=gettext_lazy("Wilaya"), required=False)
    first = forms.DateField(label=pgettext_lazy("date", "From"), required=False)
    last = forms.DateField(label=pgettext_lazy("date", "To"), required=False)
    call = forms.ChoiceField(
        label=gettext_lazy("Waits for"), required=False, choices=[("", gettext_lazy("Anything")), *CallState.choices]
    )
    holder = forms.ChoiceField(label=gettext_lazy("Is being called by"), required=False)

    def __init__(self, data: Any) -> None:
        super().__init__(data, label_suffix="", auto_id="filter-%s")
        self.fields["merchant"].widget.attrs |= {"dir": "auto", "autocomplete": "off"}
        for name in ("first", "last"):
            self.fields[name].widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
        places = [(place.code, f"{place.code} {wilaya(place.code)}") for place in regions.WILAYAS]
        self.fields["wilaya"].choices = [("", _("All")), *places]
        callers = User.objects.filter(is_active=True, groups__permissions__codename="work_order").distinct()
        people = [(str(user.pk), user.display_name) for user in callers.order_by("first_name", "username")]
        self.fields["holder"].choices = [("", _("All")), (ANYBODY, _("Anybody")), *people]

    def clean_merchant(self) -> str:
        """Part of the name."""
        return self.cleaned_data["merchant"].strip()

    def clean_last(self) -> Any:
        first, last = self.cleaned_data.get("first"), self.cleaned_data["last"]
        if first and last and last < first:
            raise ValidationError(_("The first day must not be later than the last."))
        return last

    def narrow(self, orders: QuerySet[Order]) -> QuerySet[Order]:
        """Those of `orders` that were asked for; none when what was asked for cannot be understood."""
        if not self.is_valid():
            return orders.none()
        data = self.cleaned_data
        if data["merchant"]:
            orders = orders.filter(account__in=Account.objects.filter(name__icontains=data["merchant"]).values("pk"))
        if data["wilaya"]:
            orders = orders.filter(wilaya_code=data["wilaya"])
        if data["first"]:
            orders = orders.filter(created_at__gte=days.start_of(data["first"]))
        if data["last"]:
            orders = orders.filter(created_at__lt=days.end_of(data["last"]))
        if data["call"]:
            orders = orders.filter(status=Status.PENDING, call_state=data["call"])
        if data["holder"]:
            held = Claim.objects.live()
            if data["holder"] != ANYBODY:
                held = held.filter(agent=data["holder"])
            orders = orders.filter(status=Status.PENDING, phone_e164__in=held.values("phone_e164"))
        return orders


class FormFilter(admin.ListFilter):
    """Brings FilterForm into Django's list; the template shows the form."""

    title = gettext_lazy("more")
    parameter_names = tuple(FilterForm.base_fields)

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        values = {name: params.pop(name)[-1] for name in self.parameter_names if name in params}
        self.form = FilterForm(values)
        self.is_used = any(value.strip() for value in values.values())

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str]:
        return list(self.parameter_names)

    def choices(self, changelist: Any) -> list[dict[str, Any]]:
        return []

    def queryset(self, request: HttpRequest, orders: QuerySet[Order]) -> QuerySet[Order]:
        return self.form.narrow(orders) if self.is_used else orders
