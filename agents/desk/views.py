"""The desk, the call screen, its edit form and `places`.

A view calls one rule; after an outcome it also goes on to the next customer.
"""

import logging
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import db
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.console import show
from agents.desk import claims, customer, decisions, hours, notices, overview, planning, shown
from agents.desk.edit_form import EditForm, with_choice
from agents.desk.forms import OutcomeForm, read_seen
from agents.models import Claim
from codservice import days, values
from codservice.accounts.models import User
from codservice.accounts.sessions import by_itself
from codservice.bidi import unturned
from codservice.errors import Refused
from codservice.i18n_tags import listed
from orders import regions
from orders.cancel_reasons import CancelReason
from orders.models import CallNote, Order, Status

POLLED_EVERY = 4  # seconds between two checks for changes on an open call
KEPT_EVERY = 60  # seconds at least between two renewals of the lease, by an agent at work
_WATCHED = {"lease": int(claims.LEASE.total_seconds()), "polled_every": POLLED_EVERY, "kept_every": KEPT_EVERY}
LOOKED_EVERY = 10  # seconds between two updates of the desk
MOST_PLACES = 12
logger = logging.getLogger(__name__)


# --- The desk ----------------------------------------------------------------------------------------------------


def desk_page(request: HttpRequest) -> HttpResponse:
    return show(request, "agents/desk.html", title=_("Desk"), looked_every=LOOKED_EVERY, **_desk(request.user))


@by_itself
def desk_now(request: HttpRequest) -> HttpResponse:
    """The part of the desk that changes by itself; its page puts it in place of the old one."""
    return show(request, "agents/desk_now.html", **_desk(request.user))


def _desk(agent: User) -> dict[str, Any]:
    counters, held = overview.counters(agent), list(overview.who_calls_whom(agent))
    return {
        "counters": counters,
        "counted_to": overview.COUNTED_TO,
        "today": overview.today(agent),
        "mine": [claim for claim in held if claim.agent_id == agent.pk],
        "others": [claim for claim in held if claim.agent_id != agent.pk],
        "promises": overview.promises(agent),
        "next_call": None if counters["due"] else _next_call(agent),
        "now": timezone.now(),
    }


def take(request: HttpRequest, order_id: UUID, back: str = "") -> HttpResponse:
    """Take the order's customer and go to the call. If refused, go `back` to a page, or to the order's own."""
    try:
        claim_id = claims.take(order_id, agent=request.user)
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect(back) if back else redirect("admin:orders_order_change", order_id)
    notices.warn_of_assignment(request, request.user, [order_id])
    return redirect("admin:call", claim_id)


def next_customer(request: HttpRequest, decided_in: UUID | None = None, order_id: UUID | None = None) -> HttpResponse:
    """Go to the next customer, or to this order while the agent still holds the claim `decided_in`."""
    claim_id = claims.next_customer(request.user, decided_in)
    if claim_id == decided_in and order_id:
        return _to_order(claim_id, order_id)
    if claim_id is None:
        messages.info(request, str(_next_call(request.user)), extra_tags="nobody")
        return redirect("admin:desk")
    return redirect("admin:call", claim_id)


def _next_call(agent: User) -> overview.NextCall | str:
    """What to tell an agent for whom nobody is due."""
    return overview.next_call(agent) or _("No calls are due or planned.")


def _to_order(claim_id: UUID, order_id: UUID, *, pause: bool = False) -> HttpResponse:
    """Go to the call with this order chosen, if it is still pending, and with `pause` ticked if asked for."""
    address = _call_with(claim_id, order_id)
    return redirect(f"{address}&pause=on" if pause else address)


def _call_with(claim_id: UUID, order_id: UUID) -> str:
    return reverse("admin:call", args=[claim_id]) + f"?order={order_id}"


# --- The call screen ---------------------------------------------------------------------------------------------


def call_screen(
    request: HttpRequest,
    claim_id: UUID,
    *,
    form: OutcomeForm | None = None,
    refused: Refused | None = None,
    asks: UUID | None = None,
) -> HttpResponse:
    """Everything about the customer. `form` is one that wrote nothing, perhaps as a rule `refused` it. `asks` is an
    order that the screen asks to confirm despite its duplicates, unless something has changed since the form's screen.

    A customer whose page cannot be rendered goes to a supervisor, so that the agent is not stuck with them.
    """
    try:
        return _screen(request, claim_id, form, refused, asks).render()
    except db.Error:  # the database is away or busy, which is not the order's fault
        raise
    except Exception:
        logger.exception("the page of claim %s cannot be shown", claim_id)
        decisions.set_aside(claim_id, agent=request.user)
        messages.error(request, _("This customer cannot be shown and is waiting for a supervisor. Press Next order."))
        return redirect("admin:desk")


def _screen(
    request: HttpRequest, claim_id: UUID, form: OutcomeForm | None, refused: Refused | None, asks: UUID | None
) -> TemplateResponse:
    found = customer.read(claim_id, agent=request.user)
    changes = _changes(form, found, request.user) if form and found else []
    says = changes or ([refused.message] if found and refused else [])
    if says:
        says = [*says, _("Nothing was saved.")]
    status = 409 if says or refused else 422 if form else 200
    if found is None or not found.pending:
        return _gone(request, claim_id, form, says, status)
    first, shown_at = found.pending[0].order, found.shown_at.isoformat()
    seen = shown.as_sent(found.versions)
    at_hand = _chosen(request, form, found)
    sent = form.data.get("outcome", "").partition(":")[0] if form else ""
    is_about_others = bool(form) and _is_about_others(form, sent, at_hand, has_changed=bool(changes))
    for entry in found.pending:
        if str(entry.order.id) != at_hand:
            entry.shorten()
    windows = hours.by_account([entry.order.id for entry in found.pending]).values()
    return show(
        request,
        "agents/call.html",
        title=first.customer_name,
        customer=found,
        first=first,
        chosen=at_hand,
        form=form or OutcomeForm(claim_id=claim_id, agent=request.user, pause="pause" in request.GET),
        sent="" if is_about_others else sent,
        is_about_others=is_about_others,
        seen=seen,
        shown_at=shown_at,
        seal=shown.seal(claim_id, shown_at, seen),
        draft=shown.draft_name(first.phone_e164, request.user),
        settled=shown.SETTLED_MS,
        reasons={name: reasons.choices for name, reasons in OutcomeForm.REASONS.items()},
        presets=planning.presets(found.shown_at, hours.in_common(windows, found.shown_at)),
        today=days.today(),
        tomorrow=days.today() + timedelta(days=1),
        is_closed=not any(planning.may_call(found.shown_at, of_merchant) for of_merchant in windows),
        refused=says,
        asks=None if says else asks,
        whatsapp=first.phone_e164.removeprefix("+") if first.phone_e164[4:5] in "567" else "",
        status=status,
        **_WATCHED,
    )


def outcome(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    form = OutcomeForm(_sent(request), claim_id=claim_id, agent=request.user)
    if not form.is_valid():
        return call_screen(request, claim_id, form=form)
    order_id = form.cleaned_data["order"]
    if form.may_need_asking and customer.duplicates([order_id])[order_id]:
        return call_screen(request, claim_id, form=form, asks=order_id)
    try:
        _write(form)
    except Refused as refused:
        return call_screen(request, claim_id, form=form, refused=refused)
    order = Order.live.select_related("account").get(id=order_id)
    # The tag tells the page whose draft note is no longer needed.
    draft = shown.draft_name(order.phone_e164, request.user)
    said = format_html("{} {}", _what_was_done(form, unturned(order.customer_name)), _link(order))
    messages.success(request, said, extra_tags=f"done-{draft}")
    if form.cleaned_data["to"] and form.cleaned_data["outcome"] == CallNote.Outcome.HANDED_OVER:
        notices.warn_of_assignment(request, form.cleaned_data["to"], form.seen_versions)
    if not form.cleaned_data["pause"]:
        return next_customer(request, claim_id, form.next_order)
    if claims.held(claim_id, agent=request.user).exists():  # orders are left, so the call goes on
        return _to_order(claim_id, form.next_order or order_id, pause=True)
    return redirect("admin:desk")


def _sent(request: HttpRequest) -> QueryDict:
    """The form. The Duplicate button of an order's card cancels that order, whichever is chosen."""
    sent = request.POST.copy()
    if order_id := sent.get("duplicate"):
        sent["order"], sent["outcome"] = order_id, f"{OutcomeForm.CANCEL}:{CancelReason.DUPLICATE}"
        sent["flagged"] = order_id
    return sent


@by_itself
def state(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """What has become of the orders on the page, `?seen=<order id>:<version>` for each. Renews no lease.

    `held`: whether the agent still holds them, for `lease` more seconds. `changed`: the ids of those that are not as
    they were seen. `says`: sentences about what happened. `token`: the CSRF token, which changes with each sign-in.
    """
    seen = read_seen(request.GET.getlist("seen"))
    glance = customer.glance(claim_id, agent=request.user)
    if glance is None:
        says = [notices.why_gone(claim_id, request.user, seen)]
        return JsonResponse({"held": False, "lease": 0, "changed": [], "says": says, "token": get_token(request)})
    changes = notices.changes(seen, glance, request.user)
    says = [*changes.values()]
    if glance.versions.keys() - seen.keys():
        says.append(_("This customer has another order that is not on this page yet."))
    lease, token = int(glance.left.total_seconds()), get_token(request)
    return JsonResponse({"held": True, "lease": lease, "changed": [*changes], "says": says, "token": token})


def keep(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Renew the lease while the agent is at work."""
    is_held = claims.renew(claim_id, agent=request.user) is not None
    return JsonResponse({"held": is_held, "lease": _WATCHED["lease"] if is_held else 0})


def edit(request: HttpRequest, claim_id: UUID, order_id: UUID) -> HttpResponse:
    """The edit form. Its buttons for finding and choosing products and proposing the fee save nothing."""
    held = claims.renew_or_read(claim_id, agent=request.user)
    order = Order.live.filter(id=order_id).select_related("account").first()
    if held is None or order is None:
        return _to_order(claim_id, order_id)  # the call screen says why
    is_theirs = order.status == Status.PENDING and order.phone_e164 == held.phone
    if request.method == "GET" and not is_theirs:  # a form that is sent comes back with what was written
        messages.error(request, notices.what_happened(order_id, request.user))
        return _to_order(claim_id, order_id)
    about: dict[str, Any] = {
        "order": order,
        "items": list(order.items.order_by("position")),
        "agent": request.user,
    }
    if {"search", "choose", "propose"} & request.POST.keys():
        said = request.POST.dict()
        form = EditForm(**about, written=with_choice(said) if "choose" in said else said)
        if "propose" in said:
            form.take_fee()
        return _edit_page(request, claim_id, form)
    form = EditForm(request.POST or None, **about)
    if not form.is_valid():
        return _edit_page(request, claim_id, form)
    if form.needs_fee:
        form = EditForm(**about, written=request.POST.dict())
        form.take_fee()
        messages.warning(request, _("Nothing has been saved yet. Check the merchant's fee for this delivery."))
        return _edit_page(request, claim_id, form)
    screen = decisions.Screen(claim_id, request.user, {order_id: form.cleaned_data["version"]})
    try:
        decisions.edit(screen, order_id, form.changes())
    except decisions.NotHeld as refused:
        messages.error(request, refused.message)
        return _to_order(claim_id, order_id)
    except Refused as refused:  # what was written stays on the page, to be corrected or copied
        form.blame(refused)
        return _edit_page(request, claim_id, form)
    messages.success(request, _("The changes are saved."))
    return _to_order(claim_id, order_id)


def _edit_page(request: HttpRequest, claim_id: UUID, form: EditForm) -> HttpResponse:
    seen = request.POST.getlist("seen")
    if not seen:  # the customer's other orders are no news: the call screen shows them
        glance = customer.glance(claim_id, agent=request.user)
        seen = shown.as_sent({**(glance.versions if glance else {}), form.order.id: form["version"].value()})
    context = {"title": _("Edit the order"), "claim_id": claim_id, "order": form.order, "form": form, "seen": seen}
    context |= _WATCHED
    return show(request, "agents/edit.html", status=422 if form.is_bound else 200, **context)


def places(request: HttpRequest) -> HttpResponse:
    """Wilayas that match `?q=`; with `wilaya`, in any spelling, its communes."""
    typed, around = values.looked_for(request.GET.get("q", "")), request.GET.get("wilaya")
    if around is None:
        found = regions.typeahead.wilayas(typed, MOST_PLACES)
    else:
        try:
            found = regions.typeahead.communes(typed, regions.find_wilaya(around[:100]).code, MOST_PLACES)
        except regions.NotFound:
            found = []
    return JsonResponse(
        {"places": [{"code": place.code, "name": place.name, "name_ar": place.name_ar} for place in found]}
    )


def _write(form: OutcomeForm) -> None:
    screen, data = form.screen, form.cleaned_data
    said: dict[str, Any] = {"note": data["note"], "note_id": form.press_id}
    match data["outcome"]:
        case form.CONFIRM:
            decisions.confirm(screen, data["order"], **said)
        case form.CONFIRM_ALL:
            decisions.confirm_all(screen, **said)
        case form.CANCEL:
            why, details = CancelReason(data["why"]), data["details"]
            decisions.cancel(screen, data["order"], why, details=details, is_flagged=form.is_flagged, **said)
        case _:
            decisions.note_call(screen, form.call(), to=data["to"])


def _gone(
    request: HttpRequest, claim_id: UUID, form: OutcomeForm | None, says: list[str], status: int
) -> TemplateResponse:
    """Why the customer is not the agent's or has nothing left to decide, with what was typed and links to the orders
    that the page had. An order's phone number may have changed meanwhile: its customer can be taken under the new one.
    """
    seen = form.seen_versions if form else {}
    asked = seen or [values.uuid_or_none(request.GET.get("order"))]
    had = Order.live.filter(id__in=asked).select_related("account").order_by("id")
    mine = Claim.objects.filter(id=claim_id, agent=request.user)
    pending = Order.live.filter(status=Status.PENDING, phone_e164__in=mine.values("phone_e164"))
    again = pending.order_by("id").values_list("id", flat=True).first()
    is_elsewhere = again is None and mine.exists()
    moved = next((order for order in had if is_elsewhere and order.status == Status.PENDING), None)
    other = _other_caller(moved, request.user) if moved else None
    is_refused = form is not None and not says  # otherwise `says` tells that nothing was written
    if not says:
        if again is None and mine.unexpired().exists():
            says = [_("The order's phone number has changed.") if moved else _("Nothing is left to decide.")]
        else:
            says = [notices.why_gone(claim_id, request.user, [order.id for order in had])]
    if other:
        says = [*says, notices.calls_now(other)]
    context = {
        "title": _("This customer is not yours now"),
        "says": says,
        "is_refused": is_refused,
        "claim_id": claim_id,
        "address": _call_with(claim_id, had[0].id) if form and had else "",
        "note": form.written if form else "",
        "noted": notices.noted_in(claim_id, request.user, [order.id for order in had]),
        "drafts": shown.draft_prefix(request.user),
        "again": moved.id if moved and not other else again,
        "links": [] if again else [_link(order) for order in had],
    }
    return show(request, "agents/call_gone.html", status=status, **context)


def _other_caller(order: Order, agent: User) -> Claim | None:
    """The claim of somebody else who is calling the order's customer."""
    claim = claims.on_customer(order.phone_e164)
    return claim if claim and claim.agent_id != agent.pk else None


def _chosen(request: HttpRequest, form: OutcomeForm | None, found: customer.Customer) -> str:
    """The id of the order to choose at first: the one chosen before if it is still pending, or the first."""
    wanted = form.data.get("order") if form else request.GET.get("order")
    ids = [str(entry.order.id) for entry in found.pending]
    return wanted if wanted in ids else ids[0]


def _changes(form: OutcomeForm, found: customer.Customer, reader: User) -> list[str]:
    """What has changed since the form's screen. It is told whatever else the form lacks: the screen that comes back
    seals the new versions as seen.
    """
    says = [*notices.changes(form.seen_versions, found, reader).values()]
    if form.seen_versions and found.versions.keys() - form.seen_versions.keys():
        says.append(_("This customer has another order, which is on this page now."))
    return says


def _is_about_others(form: OutcomeForm, sent: str, at_hand: str, *, has_changed: bool) -> bool:
    """Whether what was pressed would be about other orders than before if it were pressed again."""
    if sent in (form.CONFIRM, form.CANCEL):
        return not form.seen_versions or form.data.get("order") != at_hand
    return sent == form.CONFIRM_ALL and (not form.seen_versions or has_changed)


def _link(order: Order) -> SafeString:
    named = unturned(listed(filter(None, [order.external_id, order.account.name])))
    address = reverse("admin:orders_order_change", args=[order.id])
    return format_html('<a href="{}">{}</a>', address, _("See the order: %(order)s") % {"order": named})


def _what_was_done(form: OutcomeForm, name: str) -> str:
    data = form.cleaned_data
    if data["outcome"] == form.CONFIRM:
        return _("The order of %(name)s is confirmed.") % {"name": name}
    if data["outcome"] == form.CONFIRM_ALL:
        count = len(data["seen"])
        text = ngettext(
            "%(count)d order of %(name)s is confirmed.", "%(count)d orders of %(name)s are confirmed.", count
        )
        return text % {"count": count, "name": name}
    if data["outcome"] == form.CANCEL:
        return _("The order of %(name)s is canceled.") % {"name": name}
    if data["outcome"] in form.CALLBACKS:
        when = formats.date_format(timezone.localtime(data["at"]), _("j N, H:i"))
        return _("You will call %(name)s back on %(when)s.") % {"name": name, "when": when}
    if data["to"]:
        return _("Handed to %(to)s: %(name)s.") % {"to": unturned(data["to"].display_name), "name": name}
    label = CallNote.Outcome(data["outcome"]).label
    return _("“%(outcome)s” is noted for %(name)s.") % {"outcome": label, "name": name}
