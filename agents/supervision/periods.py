"""Seasons with other calling hours, and days opened or closed by hand, of one merchant or of all."""

from collections.abc import Iterable
from datetime import date, time
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents import public_holidays
from agents.console import show
from agents.models import CallingPeriod
from agents.supervision import for_supervisors
from agents.supervision.rules import CLOCKS, HoursInOrder, called_merchants
from codservice import days, postgresql, values
from codservice.accounts import security_log
from codservice.accounts.security_log import Action
from codservice.form_fields import DayField, Form, LongSelect, WrittenText

MOST = 200  # periods; merchants to choose from are not limited
MOST_BEFORE = 10  # of the periods that go before one
LONGEST = 366  # days, the last one included
LONGEST_CLOSED = 14  # days in one entry: with days off around them still fewer than `hours.AHEAD`
_NEEDED = {"opens_at", "closes_at"}
# What a closed period has as its hours: their columns cannot be null, and must open before they close.
_UNUSED = {"opens_at": time.min, "closes_at": time(0, 1), "break_from": None, "break_until": None}
_ENTERING = 0x686F757273  # the advisory lock of whoever enters a period


class CallingPeriodForm(Form, HoursInOrder):
    account = forms.ModelChoiceField(
        called_merchants().order_by("name"),
        label=gettext_lazy("Merchant"),
        required=False,
        empty_label=gettext_lazy("All merchants"),
        widget=LongSelect,
    )

    class Meta:
        model = CallingPeriod
        fields = ("account", "name", "first_day", "last_day", *CallingPeriod.HOURS, "is_opening", "is_closed")
        labels = {
            "name": gettext_lazy("Reason"),
            "is_opening": gettext_lazy("Also on days off and holidays"),
            "is_closed": gettext_lazy("Closed: nobody is called"),
        }
        help_texts = {
            "name": gettext_lazy("For example, Ramadan, Eid, or why a day off is worked."),
            "last_day": gettext_lazy("For a single day, choose the same day twice."),
        }
        widgets = CLOCKS
        field_classes = {"name": WrittenText, "first_day": DayField, "last_day": DayField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _NEEDED:  # unless the days are closed, which a browser cannot know
            self.fields[name].required = False

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("is_closed"):
            if any(self.cleaned_data.get(name) is not None for name in CallingPeriod.HOURS):
                self.add_error("is_closed", _("Closed days have no hours. Empty the times, or do not choose this."))
            self.cleaned_data |= _UNUSED
        for name in _NEEDED - self.errors.keys():
            if self.cleaned_data.get(name) is None:
                self.add_error(name, self.fields[name].error_messages["required"])
        data = super().clean()
        first, last = data.get("first_day"), data.get("last_day")
        if first and last and last < first:
            self.add_error("last_day", _("The last day must not be before the first day."))
        elif last and last < days.today():
            self.add_error("last_day", _("These days are in the past."))
        elif first and last and (last - first).days >= LONGEST:
            self.add_error("last_day", _("A season can last at most a year. For longer, change the rules."))
        elif data.get("is_closed") and first and last and (last - first).days >= LONGEST_CLOSED:
            self.add_error("last_day", _("Days can be closed for two weeks at most."))
        if data.get("is_closed") and data.get("is_opening"):
            self.add_error("is_opening", _("A day is either closed or worked. Choose one."))
        return data


@for_supervisors
def page(request: HttpRequest) -> HttpResponse:
    if "end" in request.POST:
        ended = _end(values.uuid_or_none(request.POST["end"]))
        messages.success(
            request, _("Ended: these hours no longer apply.") if ended else _("These hours had already ended.")
        )
        return redirect("admin:periods")
    form = CallingPeriodForm(request.POST if request.method == "POST" else None, initial={"first_day": days.today()})
    if form.is_valid():
        if period := _enter(form):
            _tell(request, period)
        else:
            messages.info(request, _("These hours are already in the list. Nothing was changed."))
        return redirect("admin:periods")
    ahead = list(_ahead().order_by("first_day", "id")[:MOST])
    return show(
        request,
        "agents/supervision/periods.html",
        title=_("Seasons, opened and closed days"),
        form=form,
        periods=[(period, _before(period, ahead)) for period in ahead],
        most=MOST,
        holidays=[(day, public_holidays.in_words(name)) for day, name in public_holidays.ahead(days.today()).items()],
        status=422 if form.errors else 200,
    )


def _enter(form: CallingPeriodForm) -> CallingPeriod | None:
    """The new period; None when it is in the list already, as by the first press of two, which may be under way still.

    One at a time, therefore.
    """
    with transaction.atomic():
        postgresql.execute("SELECT pg_advisory_xact_lock(%s)", [_ENTERING])
        if CallingPeriod.objects.filter(**form.cleaned_data).exists():
            return None
        period: CallingPeriod = form.save()
        _note("+", period)
    return period


def _end(period_id: UUID | None) -> bool:
    """End the period. Returns whether it existed."""
    with transaction.atomic():
        period = CallingPeriod.objects.select_for_update().filter(id=period_id).first()
        if period:
            _note("-", period)
            period.delete()
    return period is not None


def _note(sign: str, period: CallingPeriod) -> None:
    """Write to the security log, as a change of rules. Merchants read about their own periods, operators about all."""
    target = f"{sign}{period.name} ({period.first_day} – {period.last_day})"
    security_log.note(Action.RULES, target=target, target_id=period.id, account_id=period.account_id)


class Before(NamedTuple):
    """A period that goes before another one, and on which days."""

    period: CallingPeriod
    first_day: date
    last_day: date


def _ahead() -> QuerySet[CallingPeriod]:
    return CallingPeriod.objects.filter(last_day__gte=days.today()).select_related("account")


def _before(period: CallingPeriod, others: Iterable[CallingPeriod]) -> list[Before]:
    """The other periods that go before this one, by the rule of `hours.WINDOWS`, on days that are not over."""
    found, today = [], days.today()
    for other in others:
        first, last = max(period.first_day, other.first_day, today), min(period.last_day, other.last_day)
        is_for_same = None in (period.account, other.account) or period.account == other.account
        if first <= last and is_for_same and _rank(other) > _rank(period):
            found.append(Before(other, first, last))
    return found[:MOST_BEFORE]


def _rank(period: CallingPeriod) -> tuple[bool, bool, UUID]:
    return period.is_opening or period.is_closed, period.account is not None, period.id


def _tell(request: HttpRequest, period: CallingPeriod) -> None:
    """Tell whether the hours of the new period apply, and from when on."""
    if _before(period, _ahead()):
        messages.warning(request, _("Saved. On some of these days, other hours take precedence: see the list."))
    elif period.is_closed:
        messages.success(request, _("Saved. Nobody is called on these days."))
    elif period.first_day > days.today():
        said = _("These hours apply from %(day)s on.")
        messages.success(request, said % {"day": formats.date_format(period.first_day, "j F Y")})
    else:
        messages.success(request, _("These hours apply now."))
