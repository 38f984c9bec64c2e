"""The agents' console: Django's admin site, with our doors."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from codservice.days import ALGIERS


class Console(AdminSite):
    """Its clock is Algeria's; agents land on the desk, operators on the index of all there is."""

    site_header = "codservice"
    site_title = _("codservice console")
    index_title = _("Console")
    site_url = None
    enable_nav_sidebar = False
    final_catch_all_view = False

    def admin_view(self, view: Callable[..., HttpResponse], cacheable: bool = False) -> Callable[..., HttpResponse]:
        inner = super().admin_view(view, cacheable)

        def in_algiers(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            with timezone.override(ALGIERS):
                response = inner(request, *args, **kwargs)
                # Django would render it after this block, by another clock.
                return response.render() if hasattr(response, "render") else response

        return update_wrapper(in_algiers, inner)

    def get_urls(self) -> list[Any]:
        # Imported here: this module is loaded before the models are.
        from agents import own_codes
        from agents.desk import urls as desk
        from agents.supervision import urls as supervision

        codes = path("codes/", self.admin_view(own_codes.page), name="codes")
        return [*desk.urls(self), *supervision.urls(self), codes, *super().get_urls()]

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.user.has_perm("orders.work_order") and not request.user.is_superuser:
            return redirect("admin:desk")
        return super().index(request, extra_context)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # Imported here, as Django's own site does: this module is loaded before the models are.
        from agents.forms import ConsoleLoginForm
        from codservice.accounts.views import locked_or

        self.login_form, self.login_template = ConsoleLoginForm, "agents/login.html"
        response = super().login(request, extra_context)
        form = getattr(response, "context_data", {}).get("form")
        return locked_or(response, form.wait if form else 0)

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        from django.contrib.auth.views import LogoutView

        return LogoutView.as_view(next_page="admin:login")(request)


def show(request: HttpRequest, template: str, *, status: int = 200, **context: Any) -> HttpResponse:
    """A page of the console."""
    return TemplateResponse(request, template, {**admin.site.each_context(request), **context}, status=status)
