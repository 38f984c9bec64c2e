"""The current claims. All who look at orders can see them; supervisors can release customers."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import formats, timezone
from django.utils.translation import gettext as _

from agents.console import show
from agents.desk import claims
from agents.models import Claim
from agents.supervision import needs
from codservice import values
from codservice.bidi import unturned
from orders.models import CallState, Order, Status

MOST = 200  # claims on the page; there are one or two for each agent


@needs("orders.view_order")
def page(request: HttpRequest) -> HttpResponse:
    may_release = request.user.has_perm("orders.supervise_order")
    if request.method == "POST":
        if not may_release:
            raise PermissionDenied
        return _release(request)
    held = Claim.objects.unexpired().with_customers(Order.live.all())
    return show(
        request,
        "agents/supervision/claims.html",
        title=_("Who is calling whom"),
        claims=held.order_by("claimed_at")[:MOST],
        may_release=may_release,
    )


def _release(request: HttpRequest) -> HttpResponse:
    claim_id = values.uuid_or_none(request.POST.get("claim"))
    phone = claims.release(claim_id) if claim_id else None
    if phone:
        messages.success(request, _who_is_next(phone))
    else:
        messages.info(request, _("This customer was no longer being called."))
    return redirect("admin:claims")


def _who_is_next(phone_e164: str) -> str:
    """A sentence: who gets the released customer."""
    waiting = Order.live.filter(status=Status.PENDING, phone_e164=phone_e164).exclude(call_state=CallState.REVIEW)
    first = waiting.select_related("callback_agent").order_by("call_due_at").first()
    if first is None or first.callback_agent is None:
        return _("The customer is released and can go to the next agent who presses Next order.")
    text = _(
        "The customer is released. %(name)s has the call planned for %(when)s; others get the customer once it is 15 "
        "minutes overdue."
    )
    when = formats.date_format(timezone.localtime(first.call_due_at), _("j N, H:i"))
    return text % {"name": unturned(first.callback_agent.display_name), "when": when}
