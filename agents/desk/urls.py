"""The addresses of the desk's pages, open only to people who work on orders."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib.admin import AdminSite
from django.http import HttpResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.console import for_workers, sent_from
from agents.desk import views


def urls(site: AdminSite) -> list[URLPattern]:
    def page(route: str, view: Callable[..., HttpResponse], name: str, *, method: Any = require_safe) -> URLPattern:
        return path(f"desk/{route}", method(for_workers(site, view, home=_home)), name=name)

    edit = require_http_methods(["GET", "POST"])
    return [
        page("", views.desk_page, "desk"),
        page("now/", views.desk_now, "desk_now"),
        page("next/", views.next_customer, "desk_next", method=require_POST),
        page("take/<uuid:order_id>/", views.take, "desk_take", method=require_POST),
        page("<uuid:claim_id>/", views.call_screen, "call"),
        page("<uuid:claim_id>/outcome/", views.outcome, "call_outcome", method=sent_from(_home)),
        page("<uuid:claim_id>/state/", views.state, "call_state"),
        page("<uuid:claim_id>/keep/", views.keep, "call_keep", method=require_POST),
        page("<uuid:claim_id>/edit/<uuid:order_id>/", views.edit, "call_edit", method=edit),
        path("regions/", require_safe(for_workers(site, views.places, home=_home)), name="regions"),
    ]


def _home(claim_id: UUID | None = None, **kwargs: Any) -> str:
    """The call if there is one, otherwise the desk."""
    return reverse("admin:call", args=[claim_id]) if claim_id else reverse("admin:desk")
