from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from codservice.accounts.forms import ApiKeyForm, LoginForm
from codservice.accounts.models import Account, ApiKey


@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """Nobody stays here: everyone is sent where they belong."""
    if not request.user.is_authenticated:
        return redirect("login")
    return redirect("admin:index" if request.user.is_staff else "account")


class Login(LoginView):
    template_name = "accounts/login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def form_invalid(self, form: LoginForm) -> HttpResponse:
        return locked_or(super().form_invalid(form), form.wait)


def locked_or(response: HttpResponse, wait: int) -> HttpResponse:
    """The login page as it is, or with 429 while there were too many tries."""
    if wait:
        response.status_code = 429
        response.headers["Retry-After"] = str(wait)
    return response


def _account(request: HttpRequest) -> Account:
    """The account that the signed-in person holds; everything on these pages starts here."""
    account = Account.objects.filter(holder=request.user).first()
    if account is None:
        raise PermissionDenied
    return account


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("key")
def api_keys(request: HttpRequest) -> HttpResponse:
    """The account's keys; by POST a new one, shown in this answer and never again."""
    try:
        account = _account(request)
    except PermissionDenied:
        if request.user.is_staff:
            return redirect("admin:index")
        raise
    form, key, status = ApiKeyForm(request.POST or None), None, 200
    if request.method == "POST":
        if form.is_valid():
            _row, key = ApiKey.issue(
                account, name=form.cleaned_data["name"], scopes=form.cleaned_data["scopes"], expires_at=form.expires_at
            )
            form, status = ApiKeyForm(), 201
        else:
            status = 422
    keys = account.api_keys.order_by("-created_at").defer("digest")
    context: dict[str, Any] = {"account": account, "form": form, "keys": keys, "new_key": key}
    return render(request, "accounts/api_keys.html", context, status=status)


@never_cache
@login_required
@require_POST
def revoke_key(request: HttpRequest, id: UUID) -> HttpResponse:
    key = get_object_or_404(ApiKey, id=id, account=_account(request))
    key.revoke()
    messages.success(request, _("“%(name)s” is revoked. It stops working within a second.") % {"name": key.name})
    return redirect("account")
