"""The filters of the console's list of orders: its status tabs, and two forms.

One form holds what people choose. Another finds the orders behind a figure: those to which something happened, as
`supervision.summing` counts it."""

import re
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import CharField, Exists, Func, OuterRef, Q, QuerySet
from django.db.models.functions import ExtractHour
from django.http import HttpRequest
from django.utils import formats
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from agents import ages
from agents.desk.workers import workers
from agents.models import Claim
from codservice import days
from codservice.accounts.models import Account, User
from codservice.bidi import unturned
from codservice.form_fields import DayField, Form, FreeText, LongSelect, WrittenText
from codservice.long_lists import IsOneOf
from codservice.values import looked_for, uuid_or_none
from inventory.models import Product
from orders import cancel_reasons
from orders.models import ENDED, CallState, Order, OrderItem, Status, StatusChange
from orders.templatetags.orders import part_name, wilaya_choices

ALL = "all"
ANYBODY = "anybody"
_WHOLE_NAME = re.compile(r'"(.+)"|“(.+)”|«(.+)»')  # French has a space within its marks


def shown_status(request: HttpRequest) -> str:
    """The status that is looked at, or ALL. By default it is what waits for a call; a search looks at every status."""
    return request.GET.get("status") or (ALL if looked_for(request.GET.get("q", "")) else Status.PENDING)


class FilterForm(Form):
    OF_PENDING = frozenset({"call", "holder", "promised"})  # these find only orders that are pending confirmation
    merchant = WrittenText(
        label=gettext_lazy("Merchant"), required=False, max_length=Account._meta.get_field("name").max_length + 4
    )
    wilaya = forms.ChoiceField(label=gettext_lazy("Wilaya"), required=False, widget=LongSelect)
    first = DayField(label=pgettext_lazy("date", "From"), required=False)
    last = DayField(label=pgettext_lazy("date", "To"), required=False)
    call = forms.ChoiceField(
        label=gettext_lazy("Waits for"),
        required=False,
        choices=[("", gettext_lazy("Anything"))]
        + [(state.value, state.label) for state in CallState if state != CallState.TEST],
    )
    age = forms.TypedChoiceField(label=gettext_lazy("Age"), required=False, coerce=int)
    holder = forms.ChoiceField(label=gettext_lazy("Is being called by"), required=False, widget=LongSelect)
    promised = forms.ChoiceField(label=gettext_lazy("Promised by"), required=False, widget=LongSelect)

    def __init__(self, data: Any) -> None:
        super().__init__(data, auto_id="filter-%s")
        if asked := uuid_or_none(data.get("merchant", "")):  # a link's, as others may have the same name
            name = Account.objects.filter(live=None, pk=asked).values_list("name", flat=True).first()
            self.fields["merchant"].help_text = unturned(name or "")
        self.fields["wilaya"].choices = wilaya_choices(_("All"))
        self.fields["age"].choices = [("", _("All")), *enumerate(ages.names())]
        people = [(str(id_), name) for id_, name in workers()]
        self.fields["holder"].choices = [("", _("All")), (ANYBODY, _("Anybody")), *people]
        if asked := uuid_or_none(data.get("promised", "")):  # also of people who have left
            left = User.objects.filter(pk=asked, is_staff=True, is_active=False)
            people += [(str(person.pk), person.display_name) for person in left]
        self.fields["promised"].choices = [("", _("All")), *people]

    def clean_last(self) -> Any:
        first, last = self.cleaned_data.get("first"), self.cleaned_data["last"]
        if first and last and last < first:
            raise ValidationError(_("The first day must not be later than the last."))
        return last

    def merchants(self) -> QuerySet[Account]:
        """The merchants whose names contain the text, or are what it has in quotation marks; or the one whose id it is.

        The form must be valid.
        """
        text = self.cleaned_data["merchant"]
        if id_ := uuid_or_none(text):
            return Account.objects.filter(live=None, pk=id_)
        if whole := _WHOLE_NAME.fullmatch(text):
            return Account.objects.filter(live=None, name__iexact=whole[whole.lastindex or 0].strip())
        return Account.objects.filter(live=None, name__icontains=text)

    @cached_property
    def found(self) -> list[UUID]:
        """The ids of `merchants()`.

        With the ids the database knows how many orders each merchant has. With a subquery by name it does not, and
        would sort all orders of the largest one."""
        return list(self.merchants().values_list("pk", flat=True))

    def is_by_time(self, sort: str, status: str) -> bool:
        """Whether to read the orders by time rather than by id, which sorts the same. The form must be valid.

        Yes for one merchant, who has indexes by time, and for a range of days in which reading by id would not begin.
        """
        first, last = self.cleaned_data["first"], self.cleaned_data["last"]
        if self.cleaned_data["merchant"] and len(self.found) == 1:
            return True
        if not (first and last) or status == Status.PENDING:  # pending orders are recent and few
            return False
        return sort == SortFilter.OLDEST or days.today() - last > last - first

    def narrow(self, orders: QuerySet[Order]) -> QuerySet[Order]:
        """The orders that the form asks for; none when it is invalid."""
        if not self.is_valid():
            return orders.none()
        data = self.cleaned_data
        if data["merchant"]:
            ids = self.found  # for one id an equality, which keeps the order of its indexes
            orders = orders.filter(Q(account=ids[0]) if len(ids) == 1 else Q(IsOneOf("account_id", ids)))
        if data["wilaya"]:
            orders = orders.filter(wilaya_code=data["wilaya"])
        if data["first"]:
            orders = orders.filter(created_at__gte=days.start_of(data["first"]))
        if data["last"]:
            orders = orders.filter(created_at__lt=days.end_of(data["last"]))
        if data["age"] != "":
            orders = orders.filter(ages.between(data["age"]))
        if data["call"]:
            orders = orders.filter(status=Status.PENDING, call_state=data["call"])
        if data["holder"]:
            held = Claim.objects.unexpired()
            if data["holder"] != ANYBODY:
                held = held.filter(agent=data["holder"])
            orders = orders.filter(status=Status.PENDING, phone_e164__in=held.values("phone_e164"))
        if data["promised"]:
            theirs = {"call_state": CallState.CALLBACK, "callback_agent": data["promised"]}
            orders = orders.filter(status=Status.PENDING, **theirs)
        return orders


class _Filter(admin.ListFilter):
    """A filter of Django's list that takes its parameters into `values`. The template shows it, without a title."""

    title = "-"
    parameter_names: tuple[str, ...] = ()

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self.values = {name: params.pop(name)[-1] for name in self.parameter_names if name in params}

    def has_output(self) -> bool:
        """Whether the list has this filter among those that it shows."""
        return True

    def expected_parameters(self) -> list[str]:
        return list(self.parameter_names)

    def choices(self, changelist: Any) -> list[dict[str, Any]]:
        return []

    def queryset(self, request: HttpRequest, orders: QuerySet[Order]) -> QuerySet[Order]:
        return orders


class StatusFilter(_Filter):
    """The status tabs."""

    parameter_names = ("status",)

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        super().__init__(request, *args)
        self.status = shown_status(request)

    def queryset(self, request: HttpRequest, orders: QuerySet[Order]) -> QuerySet[Order]:
        """An unknown status finds nothing."""
        return orders if self.status == ALL else orders.filter(status=self.status)


class FormFilter(_Filter):
    """FilterForm as a filter of the list. The template shows the form."""

    parameter_names = tuple(FilterForm.base_fields)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.form = FilterForm(self.values)
        self.used = {name for name, value in self.values.items() if value.strip()}

    def queryset(self, request: HttpRequest, orders: QuerySet[Order]) -> QuerySet[Order]:
        return self.form.narrow(orders) if self.used else orders


class SortFilter(_Filter):
    """How the list is sorted. Only sorts that an index gives are offered: by age always, and by the next call among
    orders that wait for the same thing.
    """

    parameter_names = ("sort",)
    OLDEST, NEWEST, NEXT_CALL = "oldest", "newest", "next"
    ORDERINGS = {OLDEST: ("id",), NEWEST: ("-id",), NEXT_CALL: ("call_due_at", "id")}  # ids are ordered by time
    BY_TIME = {OLDEST: ("created_at", "id"), NEWEST: ("-created_at", "-id")}

    @classmethod
    def chosen(cls, request: HttpRequest) -> str:
        """The chosen sort; by default oldest first for what waits for a call, and newest first otherwise."""
        sort = request.GET.get("sort")
        if sort in cls.offered(request):
            return sort
        return cls.OLDEST if shown_status(request) == Status.PENDING else cls.NEWEST

    @classmethod
    def offered(cls, request: HttpRequest) -> dict[str, Any]:
        """The sorts on offer: name → label."""
        sorts = {cls.OLDEST: gettext_lazy("Oldest first"), cls.NEWEST: gettext_lazy("Newest first")}
        if request.GET.get("call") in CallState.values:
            sorts[cls.NEXT_CALL] = gettext_lazy("Next call first")
        return sorts

    def has_output(self) -> bool:
        return False


_WHY = Func("reason", template=cancel_reasons.counted_as("%(expressions)s"), output_field=CharField())


class HappenedForm(forms.Form):
    """What happened to the orders, in which period, and which part of a figure they belong to.

    An empty `source` or `reason` asks for orders without one; leaving it out asks for all.
    """

    did = forms.ChoiceField(
        choices=[
            ("decided", gettext_lazy("Decided")),
            *((status.value, status.label) for status in (Status.CONFIRMED, *ENDED)),
        ]
    )
    did_first = DayField()
    did_last = DayField()
    agent = forms.ModelChoiceField(User.objects.filter(is_staff=True), required=False)
    shop = forms.ModelChoiceField(Account.objects.filter(live=None), required=False)
    product = forms.ModelChoiceField(Product.objects.filter(account__live=None), required=False)
    line = FreeText(required=False, max_length=255)
    source = FreeText(required=False, max_length=64)
    reason = forms.CharField(required=False, strip=False, max_length=500)  # `counted_as` keeps some spaces at its end
    hour = forms.TypedChoiceField(choices=[(f"{n:02}", f"{n:02}:00") for n in range(24)], coerce=int, required=False)

    def narrow(self, orders: QuerySet[Order]) -> QuerySet[Order]:
        if not self.is_valid():
            return orders.none()
        data = self.cleaned_data
        changes = StatusChange.objects.filter(
            at__gte=days.start_of(data["did_first"]), at__lt=days.end_of(data["did_last"])
        )
        if data["did"] in (Status.DELIVERED, Status.RETURNED):
            changes = changes.filter(to_status=data["did"])
            if data["agent"]:
                orders = orders.filter(
                    Exists(StatusChange.objects.filter(
                        order=OuterRef("pk"), to_status=Status.CONFIRMED, user=data["agent"]
                    ))
                )  # fmt: skip
        else:
            to = [Status.CONFIRMED, Status.CANCELED] if data["did"] == "decided" else [data["did"]]
            changes = changes.filter(from_status=Status.PENDING, to_status__in=to, user__is_staff=True)
            if data["agent"]:
                changes = changes.filter(user=data["agent"])
        if "reason" in self.data:
            changes = changes.alias(why=_WHY).filter(why=data["reason"])
        if data["hour"] != "":
            changes = changes.alias(hour=ExtractHour("at", tzinfo=days.ALGIERS)).filter(hour=data["hour"])
        lines = OrderItem.objects.filter(order=OuterRef("pk"))
        if data["shop"]:  # an account's changes have an index by time
            orders, changes = orders.filter(account=data["shop"]), changes.filter(account=data["shop"])
        if data["product"]:
            changes = changes.filter(account=data["product"].account_id)
            orders = orders.filter(Exists(lines.filter(product=data["product"])))
        orders = orders.filter(pk__in=changes.values("order_id"))
        if "source" in self.data:
            orders = orders.filter(source=data["source"] or None)
        if data["line"]:
            orders = orders.filter(Exists(lines.filter(product=None, product_name=data["line"])))
        return orders

    def said(self) -> list[Any]:
        """What the form asks for, in words."""
        data = self.cleaned_data
        first, last = (formats.date_format(data[name], "j N Y") for name in ("did_first", "did_last"))
        return [
            dict(self.fields["did"].choices)[data["did"]],
            first if first == last else f"{first} – {last}",
            *filter(None, (data["agent"] and data["agent"].display_name, data["shop"] and data["shop"].name)),
            *filter(None, (data["product"] and data["product"].name, data["line"])),
            *(part_name(name, data[name]) for name in ("source", "reason") if name in self.data),
            *([f"{data['hour']:02}:00"] if data["hour"] != "" else []),
        ]


class HappenedFilter(_Filter):
    """HappenedForm as a filter of the list. The template says what was asked for."""

    parameter_names = tuple(HappenedForm.base_fields)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.happened = HappenedForm(self.values)

    def has_output(self) -> bool:
        return bool(self.values)

    def queryset(self, request: HttpRequest, orders: QuerySet[Order]) -> QuerySet[Order]:
        return self.happened.narrow(orders) if self.values else orders

    @property
    def said(self) -> list[Any]:
        return self.happened.said() if self.happened.is_valid() else []
