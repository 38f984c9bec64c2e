"""The desk, and the screen for the call to one customer. Each view that changes something makes one call of a rule."""

from uuid import UUID

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.translation import gettext as _

from agents.console import show
from agents.desk import claims, customer, decisions, overview, planning, telling
from agents.desk.decisions import CancelReason
from agents.desk.forms import EditForm, OutcomeForm, SeenField
from agents.models import Claim
from codservice.accounts.models import User
from codservice.errors import Invalid, Refused
from orders import regions
from orders.models import CallNote, Order, Status

POLLED_EVERY = 4  # seconds between two looks at what has changed under an agent's hands
KEPT_EVERY = 60  # seconds between two signs of life at the most
_WATCHED = {"lease": int(claims.LEASE.total_seconds()), "polled_every": POLLED_EVERY, "kept_every": KEPT_EVERY}
MOST_PLACES = 12


# --- The desk ----------------------------------------------------------------------------------------------------


def desk_page(request: HttpRequest) -> HttpResponse:
    counters = overview.counters(request.user)
    held = list(overview.held(request.user))
    return show(
        request,
        "agents/desk.html",
        title=_("Desk"),
        counters=counters,
        most=overview.COUNTED_TO - 1,
        mine=[claim for claim in held if claim.agent_id == request.user.pk],
        others=[claim for claim in held if claim.agent_id != request.user.pk],
        promises=list(overview.promises(request.user)),
        next_due=None if counters["due"] else overview.next_due(request.user),
        now=timezone.now(),
    )


def next_customer(request: HttpRequest) -> HttpResponse:
    return _to_next(request)


def take(request: HttpRequest, order_id: UUID) -> HttpResponse:
    try:
        return redirect("admin:call", claims.take(order_id, agent=request.user))
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("admin:orders_order_change", order_id)


def _to_next(request: HttpRequest) -> HttpResponse:
    claim_id = claims.next_customer(request.user)
    if claim_id is None:
        due_at = overview.next_due(request.user)
        said = _("Nobody is due, and no call is planned.")
        if due_at is not None:
            when = formats.date_format(timezone.localtime(due_at), "j M Y, H:i")
            said = _("Nobody is due now. The next call is due on %(when)s.") % {"when": when}
        messages.info(request, said, extra_tags="nobody")
        return redirect("admin:desk")
    return redirect("admin:call", claim_id)


# --- The call screen ---------------------------------------------------------------------------------------------


def call_screen(
    request: HttpRequest, claim_id: UUID, *, form: OutcomeForm | None = None, refused: list[str] | None = None
) -> HttpResponse:
    """Everything about the customer. `form` is one that was sent and needs another look, `refused` says why."""
    status = 409 if refused else 422 if form else 200
    found = customer.read(claim_id, agent=request.user)
    if found is None or not found.pending:
        return _gone(request, claim_id, form, [] if found is None else refused or [], status)
    first = found.pending[0].order
    return show(
        request,
        "agents/call.html",
        title=first.customer_name,
        customer=found,
        first=first,
        chosen=_chosen(request, form, found),
        form=form or OutcomeForm(agent=request.user),
        sent=form.data.get("outcome", "") if form else "",
        presets=planning.presets(timezone.now()),
        refused=refused or [],
        whatsapp=first.phone_e164.removeprefix("+") if first.phone_e164[4:5] in "567" else "",
        counted=[(each.label, found.history[each], each) for each in Status if each in found.history],
        status=status,
        **_WATCHED,
    )


def outcome(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    form = OutcomeForm(request.POST, agent=request.user)
    if not form.is_valid():
        return call_screen(request, claim_id, form=form)
    try:
        _write(claim_id, form, request.user)
    except Refused as refused:
        return call_screen(request, claim_id, form=form, refused=_why_refused(claim_id, form, refused, request.user))
    # The tag tells the page whose draft of a note is no longer needed.
    messages.success(request, _what_was_done(form), extra_tags=f"done-{next(iter(form.seen_versions))}")
    return redirect("admin:desk") if form.cleaned_data["pause"] else _to_next(request)


def state(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """What has become of the orders that the page shows, `?seen=<order id>:<version>` for each. Renews no lease.

    `held`: are they the agent's still, for `lease` more seconds; `changed`: the ids of those that are no longer as they
    were seen; `says`: what has happened, in sentences.
    """
    try:
        seen = SeenField(required=False).clean(request.GET.getlist("seen"))
    except ValidationError:
        seen = {}
    left = claims.time_left(claim_id, agent=request.user)
    now = customer.versions(claim_id, agent=request.user)
    if left is None or now is None:
        says = [telling.why_gone(claim_id, request.user, seen)]
        return JsonResponse({"held": False, "lease": 0, "changed": [], "says": says})
    changes = telling.changes(seen, now)
    says = [sentence for _order_id, sentence in changes]
    if now.keys() - seen.keys():
        says.append(_("This customer has another order that is not on this page yet."))
    changed = [order_id for order_id, _sentence in changes]
    return JsonResponse({"held": True, "lease": int(left.total_seconds()), "changed": changed, "says": says})


def keep(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """The agent is at work."""
    is_held = claims.keep(claim_id, agent=request.user) is not None
    return JsonResponse({"held": is_held, "lease": _WATCHED["lease"] if is_held else 0})


def edit(request: HttpRequest, claim_id: UUID, order_id: UUID) -> HttpResponse:
    held = claims.held(claim_id, agent=request.user).values("phone_e164")
    orders = Order.objects.filter(id=order_id, status=Status.PENDING, phone_e164__in=held).select_related("account")
    order = orders.first()
    if order is None:
        return redirect("admin:call", claim_id)  # which says why
    form = EditForm(request.POST or None, order=order, items=order.items.order_by("position"))
    if form.is_valid():
        seen = form.cleaned_data["version"]
        try:
            decisions.edit(claim_id, order_id, form.changes(), agent=request.user, seen_version=seen)
        except Invalid as invalid:
            form.add_error(None, [sentence for sentences in invalid.errors.values() for sentence in sentences])
        except Refused as refused:
            messages.error(request, refused.message)
            return redirect("admin:call", claim_id)
        else:
            messages.success(request, _("The changes are saved."))
            return redirect(reverse("admin:call", args=[claim_id]) + f"?order={order_id}")
    claims.keep(claim_id, agent=request.user)
    context = {"title": _("Edit the order"), "claim_id": claim_id, "order": order, "form": form, **_WATCHED}
    return show(request, "agents/edit.html", status=422 if form.is_bound else 200, **context)


def places(request: HttpRequest) -> HttpResponse:
    """Wilayas by what was typed, `?q=`; with `wilaya`, in any spelling, the communes of it."""
    typed, around = request.GET.get("q", "")[:100], request.GET.get("wilaya")
    if around is None:
        found = regions.typeahead.wilayas(typed, MOST_PLACES)
    else:
        try:
            found = regions.typeahead.communes(typed, regions.find_wilaya(around[:100]).code, MOST_PLACES)
        except regions.NotFound:
            found = []
    return JsonResponse({"places": [{"name": place.name, "name_ar": place.name_ar} for place in found]})


def _write(claim_id: UUID, form: OutcomeForm, agent: User) -> None:
    match form.cleaned_data["outcome"]:
        case form.CONFIRM:
            decisions.confirm(claim_id, form.decision(), agent=agent)
        case form.CANCEL:
            why, details = CancelReason(form.cleaned_data["why"]), form.cleaned_data["details"]
            decisions.cancel(claim_id, form.decision(), why, details=details, agent=agent)
        case _:
            decisions.note_call(claim_id, form.call(), seen=form.seen_versions, to=form.cleaned_data["to"])


def _gone(request: HttpRequest, claim_id: UUID, form: OutcomeForm | None, says: list[str], status: int) -> HttpResponse:
    """The customer is not the agent's, or has nothing left to decide: why, and the note that was typed."""
    seen = form.seen_versions if form else {}
    mine = Claim.objects.filter(id=claim_id, agent=request.user)
    pending = Order.objects.filter(status=Status.PENDING, phone_e164__in=mine.values("phone_e164"))
    again = pending.order_by("id").values_list("id", flat=True).first()
    if not says:
        is_held = again is None and mine.live().exists()
        says = [_("Nothing is left to decide.") if is_held else telling.why_gone(claim_id, request.user, seen)]
    context = {
        "title": _("This customer is not yours now"),
        "says": says,
        "is_refused": form is not None,
        "note": form.data.get("note", "") if form else "",
        "again": again,
    }
    return show(request, "agents/call_gone.html", status=status, **context)


def _chosen(request: HttpRequest, form: OutcomeForm | None, found: customer.Customer) -> str:
    """The id of the order that is chosen at first: the one that was, where it still waits."""
    wanted = form.data.get("order") if form else request.GET.get("order")
    ids = [str(entry.order.id) for entry in found.pending]
    return wanted if wanted in ids else ids[0]


def _why_refused(claim_id: UUID, form: OutcomeForm, refused: Refused, agent: User) -> list[str]:
    now = customer.versions(claim_id, agent=agent)
    changed = [] if now is None else [sentence for _id, sentence in telling.changes(form.seen_versions, now)]
    return [*(changed or [refused.message]), _("Nothing was written now.")]


def _what_was_done(form: OutcomeForm) -> str:
    data = form.cleaned_data
    name = Order.objects.values_list("customer_name", flat=True).get(id=data["order"])
    if data["outcome"] == form.CONFIRM:
        return _("The order of %(name)s is confirmed.") % {"name": name}
    if data["outcome"] == form.CANCEL:
        return _("The order of %(name)s is canceled.") % {"name": name}
    if data["outcome"] in form.CALLBACKS:
        when = formats.date_format(timezone.localtime(data["at"]), "j M, H:i")
        return _("You call %(name)s back on %(when)s.") % {"name": name, "when": when}
    label = CallNote.Outcome(data["outcome"]).label
    return _("“%(outcome)s” is noted for %(name)s.") % {"outcome": label, "name": name}
