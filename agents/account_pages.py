"""The account's pages about calls.

One has its calling rules: when and how often its customers are called, within the bounds of the settings, and what that
means in words. The other has its call scripts, in two languages, as they read with an order's words filled in.
"""

from copy import copy
from math import inf
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.desk import hours, scripts
from agents.models import CallingRules
from agents.supervision import rules
from codservice.accounts.account_page import account_page
from codservice.accounts.models import Account

SHOWN = 6  # days after today


class MerchantsRulesForm(rules.HoursForm):
    """The supervisors' form, within the bounds that operators set. A value that is already beyond them may stay."""

    out_of_order = gettext_lazy("Calls must end after they begin.")  # the bounds leave no hours past midnight

    class Meta(rules.HoursForm.Meta):
        help_texts = {"keeps_holidays": ""}  # the text is about what supervisors may do

    def clean(self) -> dict[str, Any]:
        first, last, least = settings.CALLING_EARLIEST, settings.CALLING_LATEST, settings.CALLING_LEAST_MINUTES
        clock = _("Choose a time from %(first)s to %(last)s.") % {"first": f"{first:%H:%M}", "last": f"{last:%H:%M}"}
        wait = _("Leave at least %(least)s minutes between two attempts.") % {"least": least}
        tries = _("At most %(most)s attempts are allowed.") % {"most": settings.CALLING_MOST_TRIES}
        for name, at_least, at_most, said in (
            ("opens_at", first, last, clock),
            ("closes_at", first, last, clock),
            ("retry_minutes", least, inf, wait),
            ("most_attempts", 0, settings.CALLING_MOST_TRIES, tries),
        ):
            value = self.cleaned_data.get(name, self.kept[name])
            is_new = name in self.changed_data and value != self.kept[name]  # changed_data has all hours if one differs
            if is_new and not at_least <= value <= at_most:
                self.add_error(name, said)
        return super().clean()


@account_page()
def calling_rules(request: HttpRequest, account: Account) -> HttpResponse:
    """The live account's rules, in test mode too: calls of test orders are planned by them (`agents.test_mode`)."""
    account = account.live_account
    kept = CallingRules.of(account.id)
    sent = request.POST if request.method == "POST" else None
    form = MerchantsRulesForm(sent, instance=copy(kept))  # a copy: the page describes the rules that are in force
    if form.is_valid():
        rules.save(form, account)
        messages.success(request, _("Your calling rules are saved."))
        return redirect("account-calling")
    context = {"rules": kept, "form": form, "windows": hours.of_account(account.id, SHOWN)}
    return render(request, "agents/calling.html", context, status=422 if form.errors else 200)


@account_page()
def script(request: HttpRequest, account: Account) -> HttpResponse:
    """The live account's texts, in test mode too. POST saves them; with `preview` it only shows how they read."""
    account = account.live_account
    kept = CallingRules.of(account.id)
    texts = {"fr": kept.script_fr, "ar": kept.script_ar}
    form = rules.ScriptForm(request.POST if request.method == "POST" else None, instance=kept)
    if form.is_valid():
        if "preview" not in request.POST:
            rules.save(form, account)
            messages.success(request, _("Agents will see it from the next call."))
            rules.warn_of_placeholders(request, form)
            return redirect("account-script")
        rules.warn_of_placeholders(request, form)
        texts = {"fr": form.cleaned_data["script_fr"], "ar": form.cleaned_data["script_ar"]}
    read = [
        (language, scripts.example(text, language=language, shop=account.name))
        for language, text in texts.items()
        if text
    ]
    return render(request, "agents/script.html", {"form": form, "read": read}, status=422 if form.errors else 200)


urlpatterns = [
    path("calling", calling_rules, name="account-calling"),
    path("script", script, name="account-script"),
]
