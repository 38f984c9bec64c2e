"""The figures' page: a period, one way to divide it, a chart of one figure beside the table of all; and as CSV."""

from datetime import date, timedelta
from io import StringIO
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents.console import show
from agents.supervision import charts, for_supervisors, performance
from agents.supervision.performance import DIMENSIONS, MOST_DAYS, Figures
from codservice import days
from codservice.accounts.models import Account, User
from codservice.files.tables import BOM, SafeWriter
from orders.templatetags.orders import wilaya

MOST_ROWS = 100  # on the page; the file has all


class Column(NamedTuple):
    """One figure: its heading, how it is counted, and how a value of it is written."""

    name: str
    title: Any
    help: Any
    kind: str  # count, percent, ratio or time


COLUMNS = [
    Column("calls", gettext_lazy("Calls"), gettext_lazy("Calls that were noted, answered or not."), "count"),
    Column("contact_rate", gettext_lazy("Contact rate"),
           gettext_lazy("Calls in which the customer spoke, of all calls."), "percent"),
    Column("decisions", gettext_lazy("Decisions"), gettext_lazy("Orders that agents confirmed or canceled."), "count"),
    Column("confirmation_rate", gettext_lazy("Confirmation rate"),
           gettext_lazy("Confirmed orders, of the decided ones."), "percent"),
    Column("calls_per_decision", gettext_lazy("Calls per decision"),
           gettext_lazy("All calls of the period, by its decisions."), "ratio"),
    Column("first_call", gettext_lazy("To the first call"),
           gettext_lazy("Half of the orders waited no longer from their import to their first call."), "time"),
    Column("decision", gettext_lazy("To the decision"),
           gettext_lazy("Half of the orders waited no longer from their import to their decision."), "time"),
    Column("kept_rate", gettext_lazy("Promises kept"),
           gettext_lazy("Promised calls that were made within 15 minutes of the promised time."), "percent"),
    Column("return_rate", gettext_lazy("Returns"),
           gettext_lazy("Parcels that came back, of those that arrived or came back; by the agent who confirmed them."),
           "percent"),
]  # fmt: skip
DIVISIONS = dict(
    zip(
        DIMENSIONS,
        (gettext_lazy("By day"), gettext_lazy("By agent"), gettext_lazy("By merchant"), gettext_lazy("By wilaya")),
        strict=True,
    )
)
# What the file has: names as in `Figures`, times in minutes.
CSV_COLUMNS = [
    "calls", "reached", "contact_rate", "confirmed", "canceled", "decisions", "confirmation_rate", "calls_per_decision",
    "first_call", "decision", "promises", "kept", "kept_rate", "delivered", "returned", "return_rate",
]  # fmt: skip


class PeriodForm(forms.Form):
    """Days from and to, both included. Without them: the last 7 days."""

    first = forms.DateField(label=gettext_lazy("From"), required=False)
    last = forms.DateField(label=gettext_lazy("To"), required=False)
    by = forms.ChoiceField(choices=DIVISIONS.items(), required=False)
    show = forms.ChoiceField(choices=[(column.name, column.title) for column in COLUMNS], required=False)

    def __init__(self, data: Any) -> None:
        super().__init__(data, label_suffix="")
        for name in ("first", "last"):
            self.fields[name].widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        today = days.today()
        last = data["last"] = data.get("last") or today
        first = data["first"] = data.get("first") or last - timedelta(days=6)
        data["by"], data["show"] = data.get("by") or "day", data.get("show") or "confirmation_rate"
        if first > last:
            raise ValidationError(_("The first day must not be later than the last."))
        if (last - first).days >= MOST_DAYS:
            raise ValidationError(_("Not more than %(days)d days at once.") % {"days": MOST_DAYS})
        if last.year > 2999 or first.year < 2000:
            raise ValidationError(_("There are no figures of such days."))
        return data


@for_supervisors
def page(request: HttpRequest) -> HttpResponse:
    form = PeriodForm(request.GET)
    if not form.is_valid():
        context = {"form": form, "presets": _presets(), "divisions": DIVISIONS}
        return show(request, "agents/supervision/figures.html", title=_("Figures"), status=422, **context)
    chosen = form.cleaned_data
    everything, rows = performance.read(chosen["first"], chosen["last"], chosen["by"])
    names = _names(rows, chosen["by"])
    column = next(column for column in COLUMNS if column.name == chosen["show"])
    return show(
        request,
        "agents/supervision/figures.html",
        title=_("Figures"),
        form=form,
        presets=_presets(),
        divisions=DIVISIONS,
        chosen=chosen,
        columns=COLUMNS,
        column=column,
        chart=_chart(column, rows, names, chosen),
        is_standing=chosen["by"] == "day",
        table=[(names[row.key], [_text(row, column) for column in COLUMNS]) for row in rows[:MOST_ROWS]],
        total=[_text(everything, column) for column in COLUMNS],
        left_out=max(len(rows) - MOST_ROWS, 0),
    )


@for_supervisors
def as_csv(request: HttpRequest) -> HttpResponse:
    """All rows of the page as a file: one line for each, the first for all together."""
    form = PeriodForm(request.GET)
    if not form.is_valid():
        return page(request)
    chosen = form.cleaned_data
    everything, rows = performance.read(chosen["first"], chosen["last"], chosen["by"])
    names = _names(rows, chosen["by"])
    file = StringIO()
    file.write(BOM)
    writer = SafeWriter(file)
    writer.write([chosen["by"], *(f"{n}_minutes" if n in ("first_call", "decision") else n for n in CSV_COLUMNS)])
    for name, row in [("all", everything), *((names[row.key], row) for row in rows)]:
        writer.write([name, *(_cell(getattr(row, column)) for column in CSV_COLUMNS)])
    response = HttpResponse(file.getvalue(), content_type="text/csv; charset=utf-8")
    name = f"figures-{chosen['by']}-{chosen['first']}-{chosen['last']}.csv"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _presets() -> list[tuple[str, date, date]]:
    today = days.today()
    return [
        (label, today - timedelta(days=count - 1), today)
        for count, label in ((1, _("Today")), (7, _("7 days")), (30, _("30 days")))
    ]


def _names(rows: list[Figures], by: str) -> dict[str, str]:
    """Key → what people call it."""
    keys = [row.key for row in rows]
    if by == "day":
        return {key: key for key in keys}
    if by == "wilaya":
        return {key: f"{key} {wilaya(key)}" for key in keys}
    if by == "agent":
        people = User.objects.in_bulk([UUID(key) for key in keys])
        return {key: people[UUID(key)].display_name if UUID(key) in people else "?" for key in keys}
    names = {str(id_): name for id_, name in Account.objects.filter(id__in=keys).values_list("id", "name")}
    return {key: names.get(key, "?") for key in keys}


def _chart(column: Column, rows: list[Figures], names: dict[str, str], chosen: dict[str, Any]) -> charts.Chart:
    if chosen["by"] != "day":
        return charts.lying([charts.Point(names[row.key], _value(row, column), _text(row, column)) for row in rows])
    by_day = {row.key: row for row in rows}
    points = []
    for number in range((chosen["last"] - chosen["first"]).days + 1):
        day = chosen["first"] + timedelta(days=number)
        row = by_day.get(day.isoformat(), Figures(day.isoformat()))
        points.append(charts.Point(f"{day:%d.%m}", _value(row, column), _text(row, column)))
    return charts.standing(points, unit={"percent": " %", "time": " min"}.get(column.kind, ""))


def _value(row: Figures, column: Column) -> float | None:
    """What the chart draws: percent, minutes, or the number itself."""
    value = getattr(row, column.name)
    match column.kind:
        case "percent":
            return None if value is None else value * 100
        case "time":
            return None if value is None else value / timedelta(minutes=1)
    return value


def _text(row: Figures, column: Column) -> str:
    value = getattr(row, column.name)
    if value is None:
        return "–"
    match column.kind:
        case "percent":
            return f"{formats.number_format(round(value * 100, 1), 1)} %"
        case "ratio":
            return formats.number_format(round(value, 2), 2)
        case "time":
            return _duration(value)
    return formats.number_format(value, use_l10n=True, force_grouping=True)


def _duration(value: timedelta) -> str:
    minutes = round(value / timedelta(minutes=1))
    if minutes < 60:
        return ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
    return _("%(hours)d h %(minutes)02d min") % {"hours": minutes // 60, "minutes": minutes % 60}


def _cell(value: Any) -> Any:
    if isinstance(value, timedelta):
        return round(value / timedelta(minutes=1), 1)
    return round(value, 4) if isinstance(value, float) else value
