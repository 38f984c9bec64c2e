"""The account's home at /account/: what needs the merchant, today's figures, and those of a period, also as files.

Names of products and sources, and reasons, were written by others: they are only shown, and nothing is looked up by
them.
"""

import itertools
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from django import forms
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from codservice import charts, days
from codservice.accounts.account_page import account_page
from codservice.accounts.models import Account
from codservice.charts import Bar
from codservice.files.downloads import table_answer
from codservice.form_fields import PeriodForm
from codservice.i18n_tags import counted, part_of, percent
from inventory.models import Product
from orders import daily, needs
from orders.daily import WAITS, Dimension, Figures, Summary
from orders.templatetags.orders import part_name

MOST_DAYS = 366
MOST_ROWS = 31  # in a table of the page; the file has them all
FEWEST_FOR_A_RATE = 30  # a rate of fewer cases means nothing yet

DIVISIONS = {
    "day": gettext_lazy("By day"),
    "wilaya": gettext_lazy("By wilaya"),
    "product": gettext_lazy("By product"),
    "source": gettext_lazy("By source"),
}
FILES = (*DIVISIONS, "reason", "wait")
HAPPENED = {
    "new": gettext_lazy("New"),
    "confirmed": gettext_lazy("Confirmed"),
    "canceled": gettext_lazy("Canceled"),
    "shipped": gettext_lazy("Shipped"),
    "delivered": gettext_lazy("Delivered"),
    "returned": gettext_lazy("Returned"),
}


class HomeForm(PeriodForm):
    """A period, and what it is divided by; by day unless chosen."""

    most_days = MOST_DAYS
    by = forms.TypedChoiceField(choices=[(name, name) for name in FILES], required=False, empty_value="day")


# --- The page --------------------------------------------------------------------------------------------------------


@never_cache
def landing(request: HttpRequest) -> HttpResponse:
    """The page at `/account/`: home, but staff who hold no account are sent to the console."""
    if request.user.is_authenticated and request.user.is_staff and not Account.objects.filter(holder=request.user):
        return redirect("admin:index")
    return _home(request)


@account_page()
@require_safe
def _home(request: HttpRequest, account: Account) -> HttpResponse:
    """The home page; until the first order has arrived, the quick start."""
    outlook = daily.outlook(account.id)
    if not outlook.has_orders:
        return redirect("quick-start")
    if outlook.is_behind:
        response = render(request, "orders/counting.html", status=503)
        response.headers["Retry-After"] = "60"  # beat goes on every minute
        return response
    form = chosen = HomeForm(request.GET)
    if not form.is_valid():
        chosen = HomeForm({})
        chosen.is_valid()
    today = days.today()
    first, last, by = (chosen.cleaned_data[name] for name in ("first", "last", "by"))
    by = by if by in DIVISIONS else "day"
    dimensions = {Dimension.REASON, Dimension.WAIT} | (set() if by == "day" else {Dimension(by)})
    summary = daily.read(account.id, first, last, today=today, by=dimensions)
    rows = _rows(summary, by, account)
    return render(
        request,
        "orders/home.html",
        {
            "form": form,
            "needs": needs.of_account(account, today, with_keys=request.seat.may_see_keys),  # type: ignore[attr-defined]
            "first": first,
            "last": last,
            "tiles_today": _tiles(summary.today, summary.waiting),
            "tiles": _tiles(summary.total),
            "by": by,
            "divisions": [(name, label, name == by) for name, label in DIVISIONS.items()],
            "charts": _charts(rows, by, first, last),
            "table": [(name, row, _rates(row)) for name, row in _shown(rows, by)],
            "total": summary.total,
            "total_rates": _rates(summary.total),
            "left_out": max(len(rows) - MOST_ROWS, 0),
            "reasons": _shares([(name, row.canceled_count) for name, row in _rows(summary, "reason", account)]),
            "waits": _waits(summary),
        },
        status=422 if form.errors else 200,
    )


def _rows(summary: Summary, by: str, account: Account) -> list[tuple[str, Figures]]:
    """The parts of the period with their names for people.

    Days are in order of time. Other parts are sorted by `daily.most_first`, with all others in one row at the end.
    """
    if by == "day":
        return [(formats.date_format(date.fromisoformat(row.key), "j N Y"), row) for row in summary.days]
    dimensions = [Dimension(by), *([Dimension.NAME] if by == "product" else [])]
    products = _product_names(account, [row.key for row in summary.parts[Dimension.PRODUCT]]) if by == "product" else {}
    rows = [
        (products.get(row.key, row.key) if dimension == Dimension.PRODUCT else part_name(by, row.key), row)
        for dimension in dimensions
        for row in summary.parts[dimension]
    ]
    rows.sort(key=lambda named_row: daily.most_first(named_row[1]))
    others = [summary.others[dimension] for dimension in dimensions if dimension in summary.others]
    return [*rows, (_("All others"), daily.together(others))] if others else rows


def _product_names(account: Account, ids: Sequence[str]) -> dict[str, str]:
    products = Product.objects.filter(account=account, id__in=ids)
    return {str(id_): name for id_, name in products.values_list("id", "name")}


def _shown(rows: list[tuple[str, Figures]], by: str) -> list[tuple[str, Figures]]:
    """The rows for the table; of days, the last ones, newest first."""
    return rows[: -MOST_ROWS - 1 : -1] if by == "day" else rows[:MOST_ROWS]


def _time(minutes: int) -> str:
    if minutes < 60:
        return _("%(count)d min") % {"count": minutes}
    return _("%(count)d h") % {"count": minutes // 60}


class Tile(NamedTuple):
    status: str
    label: str
    count: int
    amount: Decimal


def _tiles(row: Figures, waiting: tuple[int, Decimal] | None = None) -> list[Tile]:
    """A tile for each thing that happens to orders, and for the orders that wait now."""
    tiles = [
        Tile(name, str(label), getattr(row, f"{name}_count"), getattr(row, f"{name}_amount"))
        for name, label in HAPPENED.items()
    ]
    if waiting:
        tiles.insert(1, Tile("pending_confirmation", _("Waiting now"), *waiting))
    return tiles


# rate → (part, whole)
_RATES = {
    "confirmation_rate": ("confirmed_count", "decided_count"),
    "delivery_rate": ("delivered_count", "ended_count"),
    "return_rate": ("returned_count", "ended_count"),
}


def _rates(row: Figures) -> dict[str, str]:
    return {name: _rate(getattr(row, part), getattr(row, whole)) for name, (part, whole) in _RATES.items()}


def _rate(part: int, whole: int) -> str:
    """A percentage, or the two numbers if the cases are few."""
    if not whole:
        return "–"
    if whole < FEWEST_FOR_A_RATE:
        return part_of(part, whole)
    return percent(part / whole)


def _charts(rows: list[tuple[str, Figures]], by: str, first: date, last: date) -> dict[str, Any]:
    """The charts of decisions (confirmed and refused) and of parcels (delivered and returned)."""
    if by == "day":
        by_day = {row.key: row for _text, row in rows}
        shown = [
            (f"{day:%d/%m}", by_day.get(day.isoformat(), Figures()), dict.fromkeys(_RATES, ""))
            for day in days.between(first, last)
        ]
    else:
        shown = [(name, row, _rates(row)) for name, row in rows[: charts.MOST_ROWS]]
    decided = [
        Bar(name, [row.confirmed_count, row.refused_count], said["confirmation_rate"]) for name, row, said in shown
    ]
    ended = [Bar(name, [row.delivered_count, row.returned_count], said["delivery_rate"]) for name, row, said in shown]
    draw: Any = charts.days if by == "day" else charts.rows
    return {"decided": draw(decided), "ended": draw(ended)}


class Share(NamedTuple):
    """A part of a whole: of the canceled orders by reason, or of the first calls by span."""

    name: str
    count: int
    text: str  # how much that is of the whole


def _shares(rows: list[tuple[str, int]]) -> dict[str, Any]:
    """The first rows as shares of them all, for a table and a chart."""
    whole = sum(count for _name, count in rows)
    shares = [Share(name, count, _rate(count, whole)) for name, count in rows[:MOST_ROWS]]
    is_rate = whole >= FEWEST_FOR_A_RATE  # otherwise the text already begins with the count
    bars = [
        Bar(share.name, [share.count], f"{counted(share.count)} · {share.text}" if is_rate else share.text)
        for share in shares
    ]
    left_out = max(len(rows) - MOST_ROWS, 0)
    return {"table": shares, "whole": whole, "left_out": left_out, "bars": charts.rows(bars)}


def _waits(summary: Summary) -> dict[str, Any]:
    """The shares of spans, and the time `within` which half of the first calls were made."""
    counts = {row.key: row.first_call_count for row in summary.parts[Dimension.WAIT]}
    times = [_time(minutes) for minutes in WAITS]
    rows = [(name, counts.get(str(number), 0)) for number, name in enumerate(charts.spans(times))]
    reached = [*itertools.accumulate(count for _name, count in rows)]
    middle = next(number for number, count in enumerate(reached) if count >= reached[-1] / 2)
    return _shares(rows) | {"within": [*times, ""][middle] if reached[-1] else ""}


# --- Files -----------------------------------------------------------------------------------------------------------


@account_page()
@require_safe
def as_csv(request: HttpRequest, account: Account) -> HttpResponseBase:
    """All rows of one of the page's tables as CSV. A rate of few cases is empty; its counts are in the same row."""
    form = HomeForm(request.GET)
    if not form.is_valid() or daily.outlook(account.id).is_behind:
        return _home(request)
    first, last, by = (form.cleaned_data[name] for name in ("first", "last", "by"))
    dimensions = set() if by == "day" else {Dimension(by)}
    summary = daily.read(account.id, first, last, today=days.today(), by=dimensions)
    header, *lines = _lines(by, summary, account)
    return table_answer(request, f"orders-{by}-{first}-{last}.csv", header, lines)


def _lines(by: str, summary: Summary, account: Account) -> Iterator[list[Any]]:
    """The lines of the file, the header first."""
    rows = _rows(summary, by, account)
    if by == "reason":
        yield [_("Why orders were canceled"), *map(_heading, ("canceled_count", "canceled_amount"))]
        for name, row in rows:
            yield [name, row.canceled_count, row.canceled_amount]
    elif by == "wait":
        yield [_("From (minutes)"), _("To (minutes)"), _("Orders")]
        bounds = [None, *WAITS, None]
        for row in sorted(summary.parts[Dimension.WAIT], key=lambda row: int(row.key)):
            number = int(row.key)
            yield [*bounds[number : number + 2], row.first_call_count]
    else:
        columns = [name for name in daily.COLUMNS if name not in ("first_call_count", "unit_count")]
        rates = _("Confirmation rate"), _("Delivery rate"), _("Return rate")
        yield [str(DIVISIONS[by]), *([_("Quantity")] if by == "product" else []), *map(_heading, columns), *rates]
        for name, row in rows:
            named = [row.key if by == "day" else name, *([row.unit_count] if by == "product" else [])]
            yield [*named, *(getattr(row, column) for column in columns), *_plain_rates(row)]


def _heading(column: str) -> str:
    """What the page calls this column of figures; of amounts, with the currency."""
    name, _part, kind = column.rpartition("_")
    label = _("Canceled before confirmation") if name == "refused" else str(HAPPENED[name])
    return f"{label} ({_('DA')})" if kind == "amount" else label


def _plain_rates(row: Figures) -> list[float | None]:
    pairs = [(getattr(row, part), getattr(row, whole)) for part, whole in _RATES.values()]
    return [round(part / whole, 4) if whole >= FEWEST_FOR_A_RATE else None for part, whole in pairs]


urlpatterns = [
    path("", landing, name="account"),
    path("figures.csv", as_csv, name="account-figures-csv"),
]
