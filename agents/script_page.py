"""The account's page of call scripts: one text in each of two languages, shown as it reads with an order's words filled
in."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents.desk import scripts
from agents.models import CallingRules
from agents.supervision import rules
from codservice.accounts.account_page import account_page
from codservice.accounts.models import Account


@account_page
@require_http_methods(["GET", "HEAD", "POST"])
def script(request: HttpRequest, account: Account) -> HttpResponse:
    """The live account's texts, in test mode too. POST saves them; with `preview` it only shows how they read."""
    account = account.live or account
    kept = CallingRules.of(account.id)
    texts = {"fr": kept.script_fr, "ar": kept.script_ar}
    form = rules.ScriptForm(request.POST if request.method == "POST" else None, instance=kept)
    if form.is_valid():
        if "preview" not in request.POST:
            rules.save(form, account)
            messages.success(request, _("Agents will see it from the next call."))
            return redirect("account-script")
        texts = {"fr": form.cleaned_data["script_fr"], "ar": form.cleaned_data["script_ar"]}
    read = [
        (language, scripts.example(text, language=language, shop=account.name))
        for language, text in texts.items()
        if text
    ]
    return render(request, "agents/script.html", {"form": form, "read": read}, status=422 if form.errors else 200)


urlpatterns = [
    path("script", script, name="account-script"),
]
