"""The current claims. All who look at orders can see them; supervisors can release customers."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from agents.console import show
from agents.desk import claims
from agents.models import Claim
from agents.supervision import needs
from codservice import values
from orders.models import Order

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
    if claim_id is not None and claims.release(claim_id):
        messages.success(request, _("The customer is released and can go to the next agent who presses Next order."))
    else:
        messages.info(request, _("This customer was no longer being called."))
    return redirect("admin:claims")
