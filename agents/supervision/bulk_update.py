"""Orders by their numbers or ids that become shipped, delivered or returned at once, after a preview."""

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.console import show
from agents.desk.forms import read_seen
from agents.supervision import for_supervisors, moved, stays
from codservice import values
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from codservice.errors import Refused
from codservice.form_fields import Form
from orders import lifecycle, shipments
from orders.models import Order, Status, numbers_meant
from orders.order_files.columns import without_marks
from orders.shipments import Shipment

MOST = 200  # orders by one click; the command update_shipments has no limit
MOST_FOUND = 400  # orders in a preview: many shops may have the same numbers
# What separates names in a line. Blanks split a line only if two of its words are found, because a number may contain
# one: 17 is no order's name in a “C 17” that nobody has.
_SIGNS, _BLANKS = re.compile(r"[\t,;،؛]"), re.compile(r"\s+")
TARGETS = [(status.value, status.label) for status in shipments.STATUSES]


class ChooseForm(Form):
    """The orders to move, and the new status."""

    to = forms.ChoiceField(label=gettext_lazy("Change status to"), choices=TARGETS)
    named = forms.CharField(
        label=gettext_lazy("Orders"),
        required=False,
        max_length=MOST * 80,
        widget=forms.Textarea(attrs={"rows": 8, "dir": "auto", "aria-describedby": "named-help named-error"}),
    )


@for_supervisors
def page(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _ask(request, ChooseForm())
    form = ChooseForm(request.POST)
    if not form.is_valid():
        return _ask(request, form)
    if "again" in request.POST:
        return _ask(request, ChooseForm(initial=form.cleaned_data))
    to = Status(form.cleaned_data["to"])
    if "make" in request.POST:
        return _make(request, to)
    names = _named(form.cleaned_data["named"])
    if not names:
        form.add_error("named", _("Enter at least one order, or choose some in the list."))
    if len(names) > MOST:
        form.add_error("named", _("Enter at most %(most)d orders at once.") % {"most": MOST})
    if form.errors:
        return _ask(request, form)
    found = find(names)
    orders = sorted({*chain.from_iterable(found.values())}, key=attrgetter("id"))
    if len(orders) > MOST_FOUND:
        text = _("Several shops have these numbers: more than %(most)d orders. Enter fewer at once, or our ids.")
        form.add_error("named", text % {"most": MOST_FOUND})
        return _ask(request, form)
    return _preview(request, to, found, orders)


def _ask(request: HttpRequest, form: ChooseForm) -> HttpResponse:
    status = 422 if form.errors else 200
    context = {"title": _("Bulk update"), "form": form, "most": MOST}
    return show(request, "agents/supervision/bulk_update.html", status=status, **context)


def _preview(request: HttpRequest, to: Status, found: dict[str, list[Order]], orders: list[Order]) -> HttpResponse:
    sure = {hits[0].id for hits in found.values() if len(hits) == 1}
    movable: list[tuple[Order, bool]] = []  # and whether it is preselected: if a name means it alone
    refused: list[tuple[Order, str]] = []  # and why
    for order, why in zip(orders, _would(orders, to, Actor.of_staff(request.user)), strict=True):
        if why:
            refused.append((order, why))
        else:
            movable.append((order, order.id in sure))
    return show(
        request,
        "agents/supervision/bulk_update_preview.html",
        title=_("Change orders to “%(status)s”") % {"status": to.label},
        to=to,
        named="\n".join(found),
        movable=movable,
        refused=refused,
        missing=_missing(found),
    )


def _named(text: str) -> list[str]:
    """The orders' names: one a line, or several with commas, semicolons or blanks, unless the whole line is a name."""
    names = _distinct(text.split("\n"))
    for sign in (_SIGNS, _BLANKS):
        longer = [name for name in names if sign.search(name)]
        if not longer or len(names) > MOST:
            continue
        parts = {name: sign.split(name) for name in _missing(find(longer))}
        if sign is _BLANKS:
            words = _distinct(chain.from_iterable(parts.values()))
            found = find(words) if len(words) <= MOST else {}
            parts = {name: words for name, words in parts.items() if sum(map(bool, map(found.get, words))) > 1}
        names = _distinct(part for name in names for part in parts.get(name, [name]))
    return names


def _distinct(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(map(str.strip, names)) if name]


def find(names: list[str]) -> dict[str, list[Order]]:
    """For each name the orders that it may mean, of every shop; none for a name that matches none.

    A name is an id or one of the `numbers_meant`. If it has marks around it, they are left out where no order's number
    has them too. With more than MOST_FOUND orders, some are left out.
    """
    meant = {name: _meant(without_marks(name)) for name in names}
    keys = set[str | UUID](names).union(*meant.values())
    ids = [key for key in keys if isinstance(key, UUID)]
    # By account, because that is how the shops' numbers are indexed.
    shops = Account.objects.filter(live=None).values("pk")
    by_number = Order.live.filter(account__in=shops, external_id__in=keys.difference(ids))
    rows = Order.live.filter(id__in=ids).values("pk").union(by_number.values("pk")[: MOST_FOUND + 1])
    orders: dict[str | UUID | None, list[Order]] = defaultdict(list)
    for order in Order.live.filter(pk__in=rows).select_related("account"):
        orders[order.external_id].append(order)
        orders[order.id].append(order)
    with_marks = {name: orders[name] for name, said in meant.items() if name not in said}
    return {
        name: with_marks.get(name) or [*{order.id: order for key in said for order in orders[key]}.values()]
        for name, said in meant.items()
    }


def _meant(name: str) -> set[str | UUID]:
    id_ = values.uuid_or_none(name)
    return {*numbers_meant(name), *([id_] if id_ else [])}


def _missing(found: dict[str, list[Order]]) -> list[str]:
    return [name for name, orders in found.items() if not orders]


def _would(orders: list[Order], to: Status, actor: Actor) -> list[str]:
    """For each order why the move would be refused, or an empty string. Makes the moves and rolls them back."""
    with transaction.atomic():
        moving = [Shipment(to, order.id, seen_version=order.version) for order in orders]
        outcomes = shipments.record(moving, actor=actor)
        transaction.set_rollback(True)
    return [_why_not(order, outcome) for order, outcome in zip(orders, outcomes, strict=True)]


def _why_not(order: Order, outcome: bool | Refused) -> str:
    if isinstance(outcome, Refused):
        return outcome.message
    return "" if outcome else _("It is already “%(status)s”.") % {"status": order.get_status_display()}


def _make(request: HttpRequest, to: Status) -> HttpResponse:
    seen = read_seen(request.POST.getlist("seen"))
    chosen = [Shipment(to, order_id, seen_version=version) for order_id, version in seen.items()]
    if not chosen:
        messages.warning(request, _("No order was chosen. Nothing was changed."))
        return redirect("admin:moves")
    outcomes = shipments.record(chosen[:MOST], actor=Actor.of_staff(request.user))
    count = outcomes.count(True)
    if count:
        messages.success(request, moved(count, to.label))
    if left := len(outcomes) - count:
        messages.warning(request, stays(left, lifecycle.Changed().message))
    if beyond := len(chosen[MOST:]):
        messages.warning(request, stays(beyond, _("More than %(most)d at once.") % {"most": MOST}))
    return redirect("admin:moves")
