"""The account's page of its calling rules: when and how often its customers are called, within the bounds of the
settings, and what that means in words."""

from copy import copy
from datetime import time

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from agents.desk import hours
from agents.models import CallingRules
from agents.supervision import rules
from codservice.accounts.account_page import account_page
from codservice.accounts.models import Account

SHOWN = 7  # days


class MerchantsRulesForm(rules.HoursForm):
    """The supervisors' form, within the bounds that operators set. A value that is already beyond them may stay."""

    out_of_order = gettext_lazy("Calls must end after they begin.")  # the bounds leave no hours past midnight

    class Meta(rules.HoursForm.Meta):
        help_texts = {"keeps_holidays": ""}  # the text is about what supervisors may do

    def _clock(self, name: str) -> time:
        at: time = self.cleaned_data[name]
        is_new = name in self.changed_data and at != self.kept[name]  # changed_data has all hours if one differs
        if is_new and not settings.CALLING_EARLIEST <= at <= settings.CALLING_LATEST:
            said = _("Choose a time from %(first)s to %(last)s.")
            raise forms.ValidationError(said % {"first": f"{settings.CALLING_EARLIEST:%H:%M}",
                                                "last": f"{settings.CALLING_LATEST:%H:%M}"})  # fmt: skip
        return at

    def clean_opens_at(self) -> time:
        return self._clock("opens_at")

    def clean_closes_at(self) -> time:
        return self._clock("closes_at")

    def clean_retry_minutes(self) -> int:
        minutes: int = self.cleaned_data["retry_minutes"]
        if "retry_minutes" in self.changed_data and minutes < settings.CALLING_LEAST_MINUTES:
            said = _("Leave at least %(least)s minutes between two attempts.")
            raise forms.ValidationError(said % {"least": settings.CALLING_LEAST_MINUTES})
        return minutes

    def clean_most_attempts(self) -> int:
        tries: int = self.cleaned_data["most_attempts"]
        if "most_attempts" in self.changed_data and tries > settings.CALLING_MOST_TRIES:
            said = _("At most %(most)s attempts are allowed.")
            raise forms.ValidationError(said % {"most": settings.CALLING_MOST_TRIES})
        return tries


@account_page
@require_http_methods(["GET", "HEAD", "POST"])
def calling_rules(request: HttpRequest, account: Account) -> HttpResponse:
    """The live account's rules, in test mode too: calls of test orders are planned by them (`agents.test_mode`)."""
    account = account.live or account
    kept = CallingRules.of(account.id)
    sent = request.POST if request.method == "POST" else None
    form = MerchantsRulesForm(sent, instance=copy(kept))  # a copy: the page describes the rules that are in force
    if form.is_valid():
        rules.save(form, account)
        messages.success(request, _("Your calling rules are saved."))
        return redirect("account-calling")
    days_off = [name for day, name in rules.DAYS if day in kept.days_off]
    context = {"rules": kept, "days_off": days_off, "form": form, "windows": hours.of_account(account.id, SHOWN)}
    return render(request, "agents/calling.html", context, status=422 if form.errors else 200)


urlpatterns = [
    path("calling", calling_rules, name="account-calling"),
]
