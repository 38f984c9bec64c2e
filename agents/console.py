"""The agents' console: Django's admin site behind our own sign-in."""

from collections.abc import Callable
from functools import partial, update_wrapper, wraps
from http import HTTPStatus
from typing import Any

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.admin.options import TO_FIELD_VAR
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from codservice.days import ALGIERS

# Django's addresses that no page of ours links to. The first crashes on an id that is not a UUID.
UNUSED = {"view_on_site", "autocomplete"}


class Console(AdminSite):
    """Shows Algeria's time. Agents land on the desk, operators on the index."""

    site_header = "codservice"
    site_title = _("codservice console")
    index_title = _("Console")
    site_url = None
    enable_nav_sidebar = False
    index_template = app_index_template = "operators/index.html"
    final_catch_all_view = False

    def admin_view(self, view: Callable[..., HttpResponse], cacheable: bool = False) -> Callable[..., HttpResponse]:
        # Imported here because this module is loaded before the models.
        from codservice.accounts.account_page import sign_in_first

        inner = super().admin_view(view)  # not `cacheable`, with which Django would let browsers store some pages

        def in_algiers(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if "" in (request.GET.get(TO_FIELD_VAR), request.POST.get(TO_FIELD_VAR)):
                raise BadRequest("a field without a name, which Django would look up")
            if request.method == "POST" and not self.has_permission(request):
                return sign_in_first(request, door="admin:login", home=reverse("admin:index"))
            with timezone.override(ALGIERS):
                response = inner(request, *args, **kwargs)
                # Rendered here; Django would do it after this block, in another time zone.
                return response.render() if hasattr(response, "render") else response

        return update_wrapper(in_algiers, inner)

    def get_urls(self) -> list[Any]:
        # Imported here because this module is loaded before the models.
        from agents import shortcuts
        from agents.desk import urls as desk
        from agents.supervision import urls as supervision

        codes = path("codes/", self.admin_view(self.codes), name="codes")
        keys = path("keys/", self.admin_view(shortcuts.switch), name="keys")
        djangos = [each for each in super().get_urls() if getattr(each, "name", "") not in UNUSED]
        return [*desk.urls(self), *supervision.urls(self), codes, keys, *djangos]

    @method_decorator([require_http_methods(["GET", "HEAD", "POST"]), sensitive_post_parameters()])
    def codes(self, request: HttpRequest) -> HttpResponse:
        """The account pages' view, in the console's layout."""
        from codservice.accounts.own_codes import CodesPage

        return CodesPage("admin:codes", _show_codes)(request)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:
        """Computed only when it is used: Django gives it to every page, but only the index shows it."""
        return SimpleLazyObject(partial(super().get_app_list, request, app_label))

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.user.has_perm("orders.work_order") and not request.user.is_superuser:
            return redirect("admin:desk")
        return super().index(request, extra_context)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # Imported here because this module is loaded before the models.
        from agents import shortcuts
        from agents.forms import ConsoleLoginForm
        from codservice.accounts import known_browsers
        from codservice.accounts.views import locked_or

        self.login_form, self.login_template = ConsoleLoginForm, "agents/login.html"
        response = super().login(request, extra_context)
        if request.method == "POST" and response.status_code == HTTPStatus.FOUND:
            known_browsers.remember(request, response, request.user)
            shortcuts.remember(request)
        form = getattr(response, "context_data", {}).get("form")
        return locked_or(response, form) if form else response

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The account pages' view, in the console's layout."""
        from codservice.accounts.views import PasswordChange

        return PasswordChange.as_view(
            template_name="agents/password_change.html",
            success_url=reverse("admin:password_change_done"),
            extra_context={**self.each_context(request), **(extra_context or {})},
        )(request)

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        from django.contrib.auth.views import LogoutView

        return LogoutView.as_view(next_page="admin:login")(request)


def for_workers(
    site: AdminSite, view: Callable[..., HttpResponse], *, home: Callable[..., str]
) -> Callable[..., HttpResponse]:
    """A view for people who may work on orders.

    Anyone who must sign in first is sent back to the page they were on. If there is none, they are sent to the path
    that `home` makes of the view's arguments.
    """
    # Imported here because this module is loaded before the models.
    from codservice.accounts.account_page import sign_in_first

    inner = site.admin_view(view)

    @wraps(view)
    def at_door(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not site.has_permission(request):
            return sign_in_first(request, door="admin:login", home=home(**kwargs))
        if not request.user.has_perm("orders.work_order"):
            raise PermissionDenied
        return inner(request, **kwargs)

    return at_door


def sent_from(page: Callable[..., str]) -> Callable[[Callable[..., HttpResponse]], Callable[..., HttpResponse]]:
    """Let a view take only POST, from the form on `page`: a function that makes a path of the view's arguments.

    The view answers a form that it refuses with that page, so its own address is then the browser's. Whoever opens the
    address again is sent to the page.
    """

    def decorator(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        taking = require_POST(view)

        @wraps(view)
        def at_address(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            return redirect(page(**kwargs)) if request.method in ("GET", "HEAD") else taking(request, **kwargs)

        return at_address

    return decorator


def show(request: HttpRequest, template: str, *, status: int = 200, **context: Any) -> TemplateResponse:
    """Render a page of the console."""
    return TemplateResponse(request, template, {**admin.site.each_context(request), **context}, status=status)


def _show_codes(request: HttpRequest, **context: Any) -> TemplateResponse:
    return show(request, "agents/codes.html", title=gettext("One-time codes"), **context)
