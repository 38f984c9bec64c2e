"""Where the pages of those who work on orders are, and the door in front of them."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.desk import views
from codservice.accounts.account_page import sign_in_first


def urls(site: AdminSite) -> list[URLPattern]:
    def page(route: str, view: Callable[..., HttpResponse], name: str, *, method: Any = require_safe) -> URLPattern:
        return path(f"desk/{route}", method(_for_workers(site, view)), name=name)

    edit = require_http_methods(["GET", "POST"])
    return [
        page("", views.desk_page, "desk"),
        page("now/", views.desk_now, "desk_now"),
        page("next/", views.next_customer, "desk_next", method=require_POST),
        page("take/<uuid:order_id>/", views.take, "desk_take", method=require_POST),
        page("<uuid:claim_id>/", views.call_screen, "call"),
        page("<uuid:claim_id>/outcome/", views.outcome, "call_outcome", method=require_POST),
        page("<uuid:claim_id>/state/", views.state, "call_state"),
        page("<uuid:claim_id>/keep/", views.keep, "call_keep", method=require_POST),
        page("<uuid:claim_id>/edit/<uuid:order_id>/", views.edit, "call_edit", method=edit),
        path("regions/", require_safe(_for_workers(site, views.places)), name="regions"),
    ]


def _for_workers(site: AdminSite, view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """A view for who may work on orders. Who must sign in first comes back to the page, and to no address of a form."""
    inner = site.admin_view(view)

    @wraps(view)
    def at_door(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not site.has_permission(request):
            claim_id = kwargs.get("claim_id")
            back = reverse("admin:call", args=[claim_id]) if claim_id else reverse("admin:desk")
            return sign_in_first(request, door="admin:login", home=back)
        if not request.user.has_perm("orders.work_order"):
            raise PermissionDenied
        return inner(request, **kwargs)

    return at_door
