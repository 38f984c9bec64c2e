"""A person's own one-time codes, turned on with a code from their app and off with their password.

One page, in the console's layout for staff and in the account pages' for merchants' people."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import segno
from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice.accounts import known_browsers, one_time_codes, sessions
from codservice.accounts.account_page import account_page
from codservice.accounts.forms import CODE_WIDGET, OwnPassword, TooManyTries
from codservice.accounts.models import Account, PersonChanged, User
from codservice.accounts.team import Right
from codservice.accounts.views import locked_or
from codservice.form_fields import Form


class PasswordForm(OwnPassword, Form):
    password = forms.CharField(
        label=gettext_lazy("Your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "dir": "ltr"}),
    )

    @sensitive_variables()
    def clean_password(self) -> str:
        self.count_guess()
        if not self.request.user.check_password(self.cleaned_data["password"]):
            raise ValidationError(_("This is not your password."))
        return self.cleaned_data["password"]


class TurnOnForm(PasswordForm):
    code = forms.CharField(label=gettext_lazy("Code that the app shows"), widget=CODE_WIDGET, max_length=10)
    field_order = ("code", "password")


@dataclass(frozen=True)
class CodesPage:
    """The page. `here` is the name of its address, and `render(request, status=…, **context)` makes its answers."""

    here: str
    render: Callable[..., HttpResponse]

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            match request.POST.get("action") if request.method == "POST" else None:
                case "offer":
                    if not one_time_codes.are_on(request.user):
                        one_time_codes.offer(request.user)
                case "on":
                    return self._turn_on(request)
                case "off":
                    if one_time_codes.are_on(request.user):  # else turned off in another tab
                        return self._turn_off(request)
                case _look:
                    return self._page(request)
        except PersonChanged as refused:
            messages.error(request, refused.message)
        return redirect(self.here)

    def _page(self, request: HttpRequest, form: PasswordForm | None = None) -> HttpResponse:
        user: User = request.user
        is_on = one_time_codes.are_on(user)
        device = None if is_on else one_time_codes.offered(user)
        if form is None:
            form = (PasswordForm if is_on else TurnOnForm)(request=request)
        response = self.render(
            request,
            is_on=is_on,
            form=form,
            device=device,
            app=device and device.config_url,
            picture=device and segno.make(device.config_url, error="m").svg_data_uri(scale=5, light="#fff"),
            secret=device and _secret(device),
            status=422 if form.errors else 200,
        )
        return locked_or(response, form)

    @sensitive_variables()
    def _turn_on(self, request: HttpRequest) -> HttpResponse:
        form = TurnOnForm(request.POST, request=request)
        if not form.is_valid():
            return self._page(request, form)
        data, device = form.cleaned_data, one_time_codes.offered(request.user)
        if device and request.POST.get("device", str(device.pk)) != str(device.pk):
            form.add_error("code", _("A new secret has been created since you opened this page. Scan the one above."))
            return self._page(request, form)
        if device and (wait := one_time_codes.wait(request.user)):
            form.add_error("code", TooManyTries(wait))
            return self._page(request, form)
        if not one_time_codes.turn_on(request.user, data["code"], data["password"]):
            if one_time_codes.are_on(request.user):  # by the first of two presses, or in another tab
                return redirect(self.here)
            text = _("This code is wrong. Check that the phone's clock is right, and use the next one.")
            form.add_error("code", text)
            return self._page(request, form)
        return self._done(request, _("Codes are on. You are signed out everywhere else."))

    @sensitive_variables()
    def _turn_off(self, request: HttpRequest) -> HttpResponse:
        form = PasswordForm(request.POST, request=request)
        if not form.is_valid():
            return self._page(request, form)
        one_time_codes.turn_off(request.user, form.cleaned_data["password"])
        return self._done(request, _("Codes are off. You sign in with your password only."))

    def _done(self, request: HttpRequest, said: str) -> HttpResponse:
        """End the person's other sessions and show the message `said`."""
        update_session_auth_hash(request, request.user)
        sessions.end(request.user, but=request.session.session_key)
        messages.success(request, said)
        response = redirect(self.here)
        known_browsers.remember(request, response, request.user)
        return response


def _render(request: HttpRequest, *, status: int, **context: Any) -> HttpResponse:
    return render(request, "accounts/codes.html", context, status=status)


_of_merchants = CodesPage("codes", _render)


@account_page(change=Right.READ)
@sensitive_post_parameters()
def codes(request: HttpRequest, account: Account) -> HttpResponse:
    """The codes page of a merchant's person, whatever their role."""
    return _of_merchants(request)


def _secret(device: TOTPDevice) -> str:
    """The secret for people who cannot scan it: base32, in groups of four."""
    text = base64.b32encode(device.bin_key).decode().rstrip("=")
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))
