"""Orders by their numbers or ids that become shipped, delivered or returned at once, after a preview."""

import re
from collections.abc import Iterable
from operator import attrgetter

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
from orders.models import Order, Status
from orders.order_files.columns import without_marks
from orders.shipments import Shipment

MOST = 200  # orders by one click; the command update_shipments has no limit
MOST_FOUND = 400  # orders in a preview: many shops may have the same numbers
# What separates names in a line. Blanks split a line only if all its words are found, because a number may contain one.
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
    orders, missing = find(names)
    if len(orders) > MOST_FOUND:
        text = _("Several shops have these numbers: more than %(most)d orders. Enter fewer at once, or our ids.")
        form.add_error("named", text % {"most": MOST_FOUND})
        return _ask(request, form)
    return _preview(request, to, names, orders, missing)


def _ask(request: HttpRequest, form: ChooseForm) -> HttpResponse:
    status = 422 if form.errors else 200
    context = {"title": _("Bulk update"), "form": form, "most": MOST}
    return show(request, "agents/supervision/bulk_update.html", status=status, **context)


def _preview(
    request: HttpRequest, to: Status, names: list[str], orders: list[Order], missing: list[str]
) -> HttpResponse:
    ids = {values.uuid_or_none(without_marks(name)) for name in names}
    numbers = [order.external_id for order in orders]
    movable: list[tuple[Order, bool]] = []  # and whether it is preselected: not when several shops have the number
    refused: list[tuple[Order, str]] = []  # and why
    for order, why in zip(orders, _would(orders, to, Actor.of_staff(request.user)), strict=True):
        if why:
            refused.append((order, why))
        else:
            movable.append((order, order.id in ids or numbers.count(order.external_id) == 1))
    return show(
        request,
        "agents/supervision/bulk_update_preview.html",
        title=_("Change orders to “%(status)s”") % {"status": to.label},
        to=to,
        named="\n".join(names),
        movable=movable,
        refused=refused,
        missing=missing,
    )


def _named(text: str) -> list[str]:
    """The orders' names: one a line, or several with commas, semicolons or blanks, unless the whole line is a name."""
    names = _distinct(text.split("\n"))
    for sign in (_SIGNS, _BLANKS):
        longer = [name for name in names if sign.search(name)]
        if not longer or len(names) > MOST:
            continue
        parts = {name: _distinct(sign.split(name)) for name in find(longer)[1]}
        if sign is _BLANKS:
            words = _distinct(word for each in parts.values() for word in each)
            unknown = set(find(words)[1] if len(words) <= MOST else words)
            parts = {name: words for name, words in parts.items() if unknown.isdisjoint(words)}
        names = _distinct(part for name in names for part in parts.get(name, [name]))
    return names


def _distinct(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(map(str.strip, names)) if name]


def find(names: list[str]) -> tuple[list[Order], list[str]]:
    """The orders with these ids or order numbers, of every shop that has the number, and the names that matched none.

    A shop's number may look like an id. One that matches none is looked for `without_marks` too. With more than
    MOST_FOUND orders, some are left out.
    """
    ids = {name: id_ for name in names if (id_ := values.uuid_or_none(name))}
    # By account, because that is how the shops' numbers are indexed.
    by_number = Order.live.filter(account__in=Account.objects.filter(live=None).values("pk"), external_id__in=names)
    by_id = Order.live.filter(id__in=ids.values())
    rows = by_id.values("pk").union(by_number.values("pk")[: MOST_FOUND + 1])
    orders = list(Order.live.filter(pk__in=rows).select_related("account").order_by("id"))
    found = {order.external_id for order in orders} | {order.id for order in orders}
    missing = [name for name in names if found.isdisjoint((name, ids.get(name, name)))]
    plain = {name: bare for name in missing if (bare := without_marks(name)) != name}
    if plain:
        others, unknown = find([*plain.values()])
        orders = sorted({order.id: order for order in [*orders, *others]}.values(), key=attrgetter("id"))
        missing = [name for name in missing if name not in plain or plain[name] in unknown]
    return orders, missing


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
