"""The figures' page and its CSV: a period beside the one before it, divided in one way, with a chart of one figure and
a table of all, why orders were canceled, and the backlog. Counts of orders link to the list of these orders.

Names of lines and sources, and reasons, are written by others. The lists behind a figure find orders by these texts;
agents, merchants and products are looked up by id only.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents import ages
from agents.console import show
from agents.supervision import for_supervisors, performance
from agents.supervision.performance import Backlog, Summary
from agents.supervision.summing import Figures
from agents.templatetags.console_tags import duration
from codservice import charts, days
from codservice.accounts.models import Account, User
from codservice.files.downloads import table_answer
from codservice.form_fields import PeriodForm
from codservice.i18n_tags import counted, dinars, part_of, percent
from codservice.values import uuids_in
from inventory.models import Product
from orders.models import ENDED, Status
from orders.templatetags.orders import part_name

MOST_DAYS = 92
MOST_ROWS = 100  # on the page; the file has all rows
MOST_REASONS = 12


class Kind(NamedTuple):
    """How a figure's values are written, and what the chart draws of one, on a scale in `unit`."""

    written: Callable[[Any], str]
    drawn: Callable[[Any], float] = lambda value: value
    unit: str = ""


COUNT, AMOUNT = Kind(counted), Kind(dinars, float)
PERCENT = Kind(percent, lambda share: share * 100, " %")
RATIO = Kind(lambda ratio: formats.number_format(round(ratio, 2), 2))
TIME = Kind(duration, lambda time: time / timedelta(minutes=1), " min")


class Column(NamedTuple):
    """One figure: its heading, what it counts, and how it is read from a row: itself, or as a share of two others."""

    name: str
    title: Any
    help: Any
    kind: Kind
    part: str = ""
    whole: str = ""
    did: str = ""  # what happened to the orders that it links to

    def value(self, row: Figures) -> Any:
        """The figure of this row; None if there is nothing to count, such as no calls."""
        if not self.whole:
            return getattr(row, self.name)
        whole = getattr(row, self.whole)
        return getattr(row, self.part) / whole if whole else None

    def text(self, row: Figures) -> str:
        value = self.value(row)
        return "–" if value is None else self.kind.written(value)

    def counts(self, row: Figures) -> str:
        """For a percentage, the counts behind it."""
        if self.kind is not PERCENT or not (whole := getattr(row, self.whole)):
            return ""
        return part_of(getattr(row, self.part), whole)

    def bar(self, name: str, row: Figures, short: str = "") -> charts.Bar:
        value = self.value(row)
        drawn = 0 if value is None else self.kind.drawn(value)
        return charts.Bar(name, [drawn], " · ".join(filter(None, (self.text(row), self.counts(row)))), short=short)

    def short(self, row: Figures) -> str:
        """The text on a day's bar: the count or, for a percentage, its two counts."""
        if self.kind not in (PERCENT, COUNT) or not (whole := getattr(row, self.whole or self.name)):
            return ""
        return f"{counted(getattr(row, self.part))}/{counted(whole)}" if self.part else counted(whole)


COLUMNS = [
    Column("calls", gettext_lazy("Calls"), gettext_lazy("Calls that were noted, answered or not."), COUNT),
    Column("contact_rate", gettext_lazy("Contact rate"),
           gettext_lazy("Share of all calls in which the customer spoke."), PERCENT, "reached", "calls"),
    Column("decisions", gettext_lazy("Decisions"), gettext_lazy("Orders that agents confirmed or canceled."), COUNT,
           did="decided"),
    Column("confirmation_rate", gettext_lazy("Confirmation rate"),
           gettext_lazy("Share of the decided orders that were confirmed."), PERCENT, "confirmed", "decisions",
           "confirmed"),
    Column("confirmed_amount", gettext_lazy("Confirmed, in DA"),
           gettext_lazy("Total amount of the confirmed orders. By product, only that product's lines."), AMOUNT),
    Column("calls_per_decision", gettext_lazy("Calls per decision"),
           gettext_lazy("All calls of the period, divided by its decisions."), RATIO, "calls", "decisions"),
    Column("first_call", gettext_lazy("To the first call"),
           gettext_lazy("Half of the orders got their first call within this time of their import."), TIME),
    Column("decision", gettext_lazy("To the decision"),
           gettext_lazy("Half of the orders were decided within this time of their import."), TIME),
    Column("kept_rate", gettext_lazy("Promises kept"),
           gettext_lazy("Promised calls that were made within 15 minutes of the promised time."), PERCENT, "kept",
           "promises"),
    Column("return_rate", gettext_lazy("Returns"),
           gettext_lazy("Share of delivered and returned parcels that came back. By agent, of the parcels "
           "that the agent confirmed."),
           PERCENT, "returned", "ended", "returned"),
    Column("delivered_amount", gettext_lazy("Delivered, in DA"),
           gettext_lazy("Total amount of the delivered parcels. By product, only that product's lines."), AMOUNT),
]  # fmt: skip
DIVISIONS = {
    "day": gettext_lazy("By day"),
    "agent": gettext_lazy("By agent"),
    "merchant": gettext_lazy("By merchant"),
    "wilaya": gettext_lazy("By wilaya"),
    "product": gettext_lazy("By product"),
    "source": gettext_lazy("By source"),
    "hour": gettext_lazy("By hour"),
}
_BY_NAME = {column.name: column for column in COLUMNS}
# The file's columns: figures of the page or of a row, times in minutes. Those that are no figure of the page by their
# own name have a heading here, or are orders or amounts of a status.
CSV_COLUMNS = [
    "calls", "reached", "contact_rate", "confirmed", "canceled", "decisions", "confirmation_rate", "calls_per_decision",
    "first_call", "decision", "promises", "kept", "kept_rate", "delivered", "returned", "return_rate",
    "confirmed_amount", "canceled_amount", "delivered_amount", "returned_amount",
]  # fmt: skip
CSV_HEADINGS = {
    "reached": gettext_lazy("Answered"),
    "first_call": gettext_lazy("To the first call (minutes)"),
    "decision": gettext_lazy("To the decision (minutes)"),
    "promises": gettext_lazy("Promised calls"),
    "kept": gettext_lazy("Promised calls made in time"),
    "return_rate": gettext_lazy("Return rate"),
}


class FiguresForm(PeriodForm):
    """The period, how to divide it, and the figure that the chart shows."""

    most_days = MOST_DAYS
    lengths = {1: gettext_lazy("Today")} | PeriodForm.lengths
    by = forms.TypedChoiceField(
        label=gettext_lazy("Broken down"), choices=DIVISIONS.items(), required=False, empty_value="day"
    )
    show = forms.TypedChoiceField(
        label=gettext_lazy("Figures"),
        choices=[(column.name, column.title) for column in COLUMNS],
        required=False,
        empty_value="confirmation_rate",
    )


@for_supervisors
def page(request: HttpRequest) -> HttpResponse:
    form = FiguresForm(request.GET)
    if not form.is_valid():
        context = {"form": form, "divisions": DIVISIONS}
        return show(request, "agents/supervision/figures.html", title=_("Figures"), status=422, **context)
    chosen = form.cleaned_data
    summary = performance.read(chosen["first"], chosen["last"], chosen["by"])
    backlog = performance.backlog(by_merchant=chosen["by"] == "merchant")
    rows = summary.rows[:MOST_ROWS]
    names = _names([row.key for row in rows], chosen["by"])
    column = _BY_NAME[chosen["show"]]
    return show(
        request,
        "agents/supervision/figures.html",
        title=_("Figures"),
        form=form,
        divisions=DIVISIONS,
        chosen=chosen,
        columns=COLUMNS,
        column=column,
        tiles=_tiles(summary, chosen),
        chart=_day_chart(column, rows, chosen) if chosen["by"] == "day" else None,
        rows=charts.rows([column.bar(names[row.key].text, row) for row in rows]) if chosen["by"] != "day" else [],
        table=[
            (
                names[row.key].text,
                _day_address(row, chosen),
                _cells(row, _orders_address(chosen, **names[row.key].query)),
            )
            for row in rows
        ],
        total=_cells(summary.total, _orders_address(chosen)),
        before=_cells(summary.before),
        before_first=performance.first_day_before(chosen["first"], chosen["last"]),
        before_last=chosen["first"] - timedelta(days=1),
        left_out=len(summary.rows) - len(rows) + (summary.others is not None),
        reasons=_reason_chart(summary, chosen),
        backlog=_backlog_chart(backlog),
        waiting=_waiting_chart(backlog),
    )


@for_supervisors
def as_csv(request: HttpRequest) -> HttpResponseBase:
    """All rows of the page as a CSV file, with the page's words as headings. The first line is the total."""
    form = FiguresForm(request.GET)
    if not form.is_valid():
        return page(request)
    chosen = form.cleaned_data
    summary = performance.read(chosen["first"], chosen["last"], chosen["by"])
    names = _names([row.key for row in summary.rows], chosen["by"])
    # Days are in ISO format, for spreadsheets.
    texts = [row.key if chosen["by"] == "day" else names[row.key].text for row in summary.rows]
    named = [(_("All"), summary.total), *zip(texts, summary.rows, strict=True)]
    if summary.others:
        named.append((_("All others"), summary.others))
    header = [DIVISIONS[chosen["by"]], *map(_csv_heading, CSV_COLUMNS)]
    lines = [[name, *(_csv_value(row, column) for column in CSV_COLUMNS)] for name, row in named]
    return table_answer(request, f"figures-{chosen['by']}-{chosen['first']}-{chosen['last']}.csv", header, lines)


class Name(NamedTuple):
    """A row's name, and the query that finds its orders in the list."""

    text: str
    query: dict[str, str]


def _names(keys: Sequence[str], by: str) -> dict[str, Name]:
    """The names of rows by their keys, read by one statement for agents, merchants or products."""
    match by:
        case "day":
            written = {key: formats.date_format(date.fromisoformat(key), "j N Y") for key in keys}
            return {key: Name(text, {"did_first": key, "did_last": key}) for key, text in written.items()}
        case "wilaya" | "source":
            return {key: Name(part_name(by, key), {by: key}) for key in keys}
        case "hour":
            return {key: Name(f"{key}:00", {"hour": key}) for key in keys}
        case "product":
            products = Product.objects.filter(id__in=uuids_in(keys)).values_list("id", "name", "account__name")
            found = {str(id_): Name(f"{name} · {shop}", {"product": str(id_)}) for id_, name, shop in products}
            lines = ((key, key.removeprefix(performance.NAMED)) for key in keys)
            return {key: found.get(key) or Name(name, {"line": name}) for key, name in lines}
        case "agent":
            people = User.objects.in_bulk([UUID(key) for key in keys])
            named = [(str(id_), each.display_name, each.username) for id_, each in people.items()]
            return _told_apart(keys, "agent", named)
    shops = Account.objects.filter(id__in=keys).values_list("id", "name", "holder__email")
    return _told_apart(keys, "shop", [(str(id_), name, mail) for id_, name, mail in shops])


def _told_apart(keys: Sequence[str], by: str, named: Sequence[tuple[str, str, str]]) -> dict[str, Name]:
    """The names of the keys, from key, name and what is told besides of those that share a name."""
    names = {key: Name("?", {by: key}) for key in keys}
    times = Counter(name.casefold() for _key, name, _besides in named)
    for key, name, besides in named:
        is_shared = times[name.casefold()] > 1
        names[key] = Name(f"{name} ({besides})" if is_shared else name, {by: key})
    return names


def _orders_address(chosen: dict[str, Any], **query: str) -> str:
    """The address of the list of orders to which something happened in the period; what happened is to be appended."""
    asked = urlencode({"status": "all", "did_first": chosen["first"], "did_last": chosen["last"], **query})
    return f"{reverse('admin:orders_order_changelist')}?{asked}&did="


class Cell(NamedTuple):
    text: str
    counts: str  # for a percentage, the counts behind it
    link: str


def _day_address(row: Figures, chosen: dict[str, Any]) -> str:
    """For an agent's row of a single day, the address of the agent's day; otherwise empty."""
    if chosen["by"] != "agent" or chosen["first"] != chosen["last"]:
        return ""
    return f"{reverse('admin:person_day', args=[row.key])}?day={chosen['last']}"


def _cells(row: Figures, orders: str = "") -> list[Cell]:
    """A row of the table. With `orders`, from `_orders_address`, each count of orders links to them."""
    cells = []
    for column in COLUMNS:
        count = getattr(row, column.part or column.name)
        link = f"{orders}{column.did}" if orders and column.did and count else ""
        cells.append(Cell(column.text(row), column.counts(row), link))
    return cells


class Tile(NamedTuple):
    status: str
    title: str
    count: str
    amount: str
    before: str
    link: str


def _tiles(summary: Summary, chosen: dict[str, Any]) -> list[Tile]:
    """The outcomes of calls, in orders and dinars, beside those of the period before."""
    total, before, orders = summary.total, summary.before, _orders_address(chosen)
    return [
        Tile(
            status,
            status.label,
            counted(getattr(total, status)),
            dinars(getattr(total, f"{status}_amount")),
            counted(getattr(before, status)),
            f"{orders}{status}" if getattr(total, status) else "",
        )
        for status in (Status.CONFIRMED, *ENDED)
    ]


def _reason_chart(summary: Summary, chosen: dict[str, Any]) -> list[charts.Row]:
    whole = summary.total.canceled  # each order has one reason, which may be empty
    return charts.rows(
        [
            charts.Bar(
                part_name("reason", row.key),
                [row.canceled],
                f"{counted(row.canceled)} · {percent(row.canceled / whole)} · {dinars(row.canceled_amount)} {_('DA')}",
                f"{_orders_address(chosen, reason=row.key)}canceled",
            )
            for row in summary.reasons[:MOST_REASONS]
            if row.canceled
        ]
    )


def _backlog_chart(backlog: Backlog) -> list[charts.Row]:
    address = reverse("admin:orders_order_changelist")
    return charts.rows(
        [
            charts.Bar(
                name,
                [count],
                f"{counted(count)} · {dinars(amount)} {_('DA')}",
                f"{address}?{urlencode({'status': Status.PENDING, 'age': number})}" if count else "",
            )
            for number, (name, (count, amount)) in enumerate(zip(ages.names(), backlog.by_age, strict=True))
        ]
    )


def _waiting_chart(backlog: Backlog) -> list[charts.Row]:
    """The merchants whose orders wait, those with the most late ones first."""
    found = backlog.by_merchant[: charts.MOST_ROWS]
    # Of all that wait, to tell apart whoever shares a name with one that is not shown.
    names = _names([shop for shop, _late, _whole in backlog.by_merchant], "merchant")
    address = f"{reverse('admin:orders_order_changelist')}?status={Status.PENDING}&merchant="
    return charts.rows(
        [charts.Bar(names[shop].text, [late], part_of(late, whole), f"{address}{shop}") for shop, late, whole in found]
    )


def _day_chart(column: Column, rows: list[Figures], chosen: dict[str, Any]) -> charts.Days:
    by_day = {row.key: row for row in rows}
    bars = []
    for day in days.between(chosen["first"], chosen["last"]):
        row = by_day.get(day.isoformat(), Figures(day.isoformat()))
        bars.append(column.bar(f"{day:%d/%m}", row, column.short(row)))
    return charts.days(bars, unit=column.kind.unit)


def _csv_heading(name: str) -> str:
    happened = name.removesuffix("_amount")
    if happened not in Status.values:
        return str(CSV_HEADINGS.get(name) or _BY_NAME[name].title)
    label = str(Status(happened).label)
    return label if happened == name else f"{label} ({_('DA')})"


def _csv_value(row: Figures, name: str) -> Any:
    value = _BY_NAME[name].value(row) if name in _BY_NAME else getattr(row, name)
    if isinstance(value, timedelta):
        return round(value / timedelta(minutes=1), 1)
    return round(value, 4) if isinstance(value, float) else value
