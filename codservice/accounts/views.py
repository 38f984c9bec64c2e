import itertools
import logging
from typing import Any
from uuid import UUID

from celery.exceptions import OperationalError
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.core.exceptions import NON_FIELD_ERRORS
from django.db.models import Case, F, Q, When
from django.db.models.functions import Least, Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe
from django.views.generic import FormView, TemplateView

from codservice.accounts import known_browsers, sessions, team
from codservice.accounts.account_page import MODE, account_page, confirmation, shown, sign_in_first, switch
from codservice.accounts.forms import (
    MOST_LINKS,
    ApiKeyForm,
    LoginForm,
    NewPasswordForm,
    PasswordChangeForm,
    PasswordForgottenForm,
    TooManyTries,
)
from codservice.accounts.key_format import LIVE, TEST
from codservice.accounts.models import Account, ApiKey, NameTaken, PersonChanged, TooManyKeys, User
from codservice.accounts.security_log import Action, Outcome
from codservice.accounts.tasks import LINK_HOURS
from codservice.accounts.team import Right
from codservice.bidi import unturned
from codservice.form_fields import Form
from codservice.long_lists import NewestFirst

logger = logging.getLogger(__name__)
MOST_KEYS = 100  # on the page; 20 of them may work


@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """Redirect everyone to where they belong."""
    if not request.user.is_authenticated:
        return redirect("login")
    return redirect("admin:index" if request.user.is_staff else "account")


class Login(auth_views.LoginView):
    template_name = "accounts/login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def get_redirect_url(self) -> str:
        wanted: str = super().get_redirect_url()
        return "" if wanted == self.request.path else wanted  # Django would crash for people who are signed in

    def form_valid(self, form: LoginForm) -> HttpResponse:
        response = super().form_valid(form)
        known_browsers.remember(self.request, response, self.request.user)
        return response

    def form_invalid(self, form: LoginForm) -> HttpResponse:
        context = self.get_context_data(form=form, needs_code=form.has_error(NON_FIELD_ERRORS, "codes"))
        return locked_or(self.render_to_response(context), form)


@never_cache
def csrf_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form without a valid token: it comes from elsewhere, or is older than a login in another tab.

    A second login form is redirected, since its sender is signed in already. Whoever wrote on a page of ours gets it
    back, to send with a press of their own, in the mode, live or test, in which it was written.
    """
    is_old = reason.endswith("incorrect.")  # Django's words for a token from a page of ours
    if is_old and request.resolver_match.view_name in ("login", "admin:login") and request.user.is_authenticated:
        name = unturned(request.user.display_name)
        messages.info(request, _("You are already signed in, as %(name)s.") % {"name": name})
        login = Login()
        login.setup(request)
        return redirect(login.get_redirect_url() or request.get_full_path())
    fields = _written(request) if is_old and request.user.is_authenticated else []
    if seat := team.seat_of(request.user):
        live, mode = seat.account, dict(fields).get(MODE)
        request.account = shown(request, live)  # type: ignore[attr-defined]  # its mode, for the template
        # A sign-in starts in the live account, where what was written in test mode would be refused and lost.
        if mode == TEST and hasattr(live, "twin"):
            switch(request, live.twin)
        elif mode == LIVE:
            switch(request, live)
    return render(request, "403_csrf.html", {"fields": fields}, status=403)


def _written(request: HttpRequest) -> list[tuple[str, str]]:
    """The fields of a form from a page of ours, by its `Origin`; otherwise one press would send a stranger's form.

    Empty if any field must not or cannot be put on a page: a password, a file.
    """
    # Behind a proxy that changes the host, ours is a trusted origin. A `*.shop.example` may be anybody's.
    ours = {f"{request.scheme}://{request.get_host()}", *settings.CSRF_TRUSTED_ORIGINS}
    is_ours = request.headers.get("Origin") in ours
    if not is_ours or request.FILES or any("password" in name for name in request.POST):
        return []
    return [(name, value) for name, values in request.POST.lists() for value in values if name != "csrfmiddlewaretoken"]


def locked_or(response: HttpResponse, form: forms.Form) -> HttpResponse:
    """The page with this form, as it is or, when it was refused for too many attempts, with 429 and `Retry-After`."""
    for error in itertools.chain(*form.errors.as_data().values()):
        if isinstance(error, TooManyTries):
            response.status_code = 429
            response.headers["Retry-After"] = str(error.wait)
    return response


# --- Passwords -------------------------------------------------------------------------------------------------------


class _NewPassword:
    """A new password for a person. Their other sessions end, because each holds a hash of the old one."""

    said: str | Promise

    def form_valid(self, form: PasswordChangeForm | NewPasswordForm) -> HttpResponse:
        try:
            response = super().form_valid(form)
        except PersonChanged as refused:
            form.add_error("new_password1", refused.message)
            return self.form_invalid(form)
        messages.success(self.request, self.said)
        sessions.end(form.user, but=self.request.session.session_key)  # this one may be theirs, and is being answered
        known_browsers.remember(self.request, response, form.user)
        return response


@method_decorator(never_cache, name="dispatch")
class PasswordChange(_NewPassword, auth_views.PasswordChangeView):
    """The page on which signed-in people change their password."""

    template_name = "accounts/password.html"
    form_class = PasswordChangeForm
    success_url = reverse_lazy("password")
    said = gettext_lazy("Your password is changed. You are signed out everywhere else.")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return sign_in_first(request, door="login", home=request.path)
        return super().dispatch(request, *args, **kwargs)

    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"request": self.request}

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        if self.request.user.has_one_time_password:
            self.success_url = reverse("account")  # they were on their way in
        return super().form_valid(form)

    def form_invalid(self, form: PasswordChangeForm) -> HttpResponse:
        return locked_or(super().form_invalid(form), form)


@method_decorator(never_cache, name="dispatch")
class PasswordForgotten(FormView):
    """Asks for a password link by mail. Wording, work and status never reveal whether the address is known."""

    template_name = "accounts/password_forgotten.html"
    form_class = PasswordForgottenForm
    success_url = reverse_lazy("password-link-sent")

    def form_valid(self, form: PasswordForgottenForm) -> HttpResponse:
        try:
            form.send_link(self.request)
        except TooManyTries as error:
            form.add_error(None, error)
            return locked_or(self.form_invalid(form), form)
        except OperationalError as error:  # the broker is away
            logger.warning("a password link could not be mailed: %s", error)
            form.add_error(None, _("We cannot send mail just now. Try again in a few minutes."))
            return self.render_to_response(self.get_context_data(form=form), status=503)
        return super().form_valid(form)


class PasswordLinkSent(TemplateView):
    template_name = "accounts/password_link_sent.html"
    extra_context = {"hours": LINK_HOURS, "links": MOST_LINKS}


class PasswordNew(_NewPassword, auth_views.PasswordResetConfirmView):
    """The page that a mailed link leads to: a new password, or that the link has expired or was used."""

    template_name = "accounts/password_new.html"
    form_class = NewPasswordForm
    success_url = reverse_lazy("login")
    said = gettext_lazy("Your password is changed. Sign in with it.")


# --- API keys --------------------------------------------------------------------------------------------------------


@account_page(look=Right.WRITE, change=Right.OWN)
@sensitive_variables("key")
def api_keys(request: HttpRequest, account: Account) -> HttpResponse:
    """The account's keys. POST makes one and shows it in this answer only, among the keys of its mode.

    A second press does not make a second key beside a first that nobody has seen."""
    form, key, status = ApiKeyForm(request.POST or None, initial={"works": account.mode}), None, 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            data = form.cleaned_data
            try:
                row, key = ApiKey.issue(
                    account.live_account,
                    name=data["name"],
                    scopes=data["scopes"],
                    expires_at=form.expires_at,
                    is_test=form.is_test,
                    once=True,
                )
                account = row.account
                switch(request, account)
                form, status = ApiKeyForm(initial={"works": account.mode}), 201
            except TooManyKeys as refused:
                form.add_error(None, refused.message)
            except NameTaken as refused:
                form.add_error("name", refused.message)
    # Working keys by age, then the others, those that ended last first.
    over_at = Least("revoked_at", Case(When(expires_at__lte=Now(), then="expires_at")))
    keys = account.api_keys.annotate(over_at=over_at).order_by(F("over_at").desc(nulls_first=True), "-created_at")
    keys = list(keys.defer("digest")[: MOST_KEYS + 1])
    context: dict[str, Any] = {
        "form": form,
        "keys": keys[:MOST_KEYS],
        "has_more": len(keys) > MOST_KEYS,
        "new_key": key,
    }
    return render(request, "accounts/api_keys.html", context, status=status)


@account_page(look=Right.OWN)
def revoke_key(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """GET asks for confirmation, POST revokes the key."""
    key = get_object_or_404(ApiKey, id=id, account=account)
    if request.method != "POST":
        return confirmation(
            request,
            title=_("Revoke the key “%(name)s”?") % {"name": unturned(key.name)},
            text=_("Whatever uses it is refused within a second. It can never be used again."),
            button=_("Revoke the key"),
            back=reverse("api-keys"),
        )
    key.revoke()
    messages.success(
        request, _("“%(name)s” is revoked. It stops working within a second.") % {"name": unturned(key.name)}
    )
    return redirect("api-keys")


# --- Security --------------------------------------------------------------------------------------------------------


class LogForm(Form):
    """Asks whose actions to show: of somebody who is on the team of `live`, or was within the log's year.

    `names` are the display names of all these people, by id.
    """

    by = forms.ChoiceField(label=gettext_lazy("By whom"), required=False)

    def __init__(self, *args: Any, live: Account, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        on_team = Q(account=live) | Q(membership__account=live)
        gone = live.security_entries.filter(action__in=(Action.REMOVED, Action.LEFT)).values("target_id")
        people = User.objects.filter(on_team | Q(pk__in=gone))
        people = people.annotate(is_on_team=Case(When(on_team, then=True), default=False))
        choices, self.names = [("", _("Everybody"))], dict[UUID, str]()
        for each in people.order_by("-is_on_team", "first_name", "username"):
            name = self.names[each.pk] = each.display_name
            if not each.is_on_team:
                name = _("%(name)s (no longer on the team)") % {"name": unturned(name)}
            choices.append((str(each.pk), name))
        self.fields["by"].choices = choices


@account_page(look=Right.OWN)
@require_safe
def security(request: HttpRequest, account: Account) -> HttpResponse:
    """The account's security log: who signed in or tried to, and what its people did."""
    form, entries, status = LogForm(request.GET, live=account.live_account), account.security_entries.all(), 200
    if not form.is_valid():
        entries, status = entries.none(), 422
    elif by := form.cleaned_data["by"]:
        entries = entries.filter(Q(actor_id=by) | Q(target_id=by, outcome=Outcome.REFUSED))  # or a try to be them
    page = NewestFirst(entries, before=request.GET.get("before", ""))
    for entry in page.rows:
        entry.actor_name, entry.target_name = (form.names.get(id_, "") for id_ in (entry.actor_id, entry.target_id))
    return render(request, "accounts/security.html", {"page": page, "form": form}, status=status)
