"""The account's quick start in test mode: programs, ready to run, that import and confirm a first order.

It also shows what has arrived so far, of orders and webhooks, so it is in the room that may see both.
"""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from codservice import postgresql
from codservice.accounts.account_page import account_page, switch
from codservice.accounts.key_format import TEST
from codservice.accounts.models import Account, ApiKey, TooManyKeys
from codservice.accounts.sessions import by_itself
from orders.models import Order
from webhooks.models import Webhook

PLACEHOLDER = "YOUR_API_KEY"
# The programs' languages: a name, and the command that runs the saved file; curl's lines are pasted into a terminal.
LANGUAGES = {
    "curl": ("curl", ""),
    "python": ("Python", "python3 order.py"),
    "php": ("PHP", "php order.php"),
    "javascript": ("JavaScript", "node order.js"),
}
# How many of each webhook's newest deliveries are searched for an acknowledged one.
LOOKED_THROUGH = 1000


@account_page()
@sensitive_variables("key", "lines")
def quick_start(request: HttpRequest, account: Account) -> HttpResponse:
    """The quick start. POST makes a new test key, which is in this answer's programs and never shown again."""
    key, live = "", account.live_account
    if request.method == "POST":
        try:
            row, key = ApiKey.issue(live, name=_("Quick start"), is_test=True)
        except TooManyKeys as refused:
            messages.error(request, refused.message)
            switch(request, live.twin)
            return redirect("api-keys")
        account = row.account
        switch(request, account)
    context = {
        "key": key,
        "is_test": account.mode == TEST,
        "has_twin": hasattr(live, "twin"),
        "has_keys": bool(key) or account.api_keys.filter(ApiKey.WORKS).exists(),
        "lines": lines(request.build_absolute_uri("/").rstrip("/"), key or PLACEHOLDER),
        "placeholder": PLACEHOLDER,
        "webhooks": list(Webhook.of(account.id).only("id", "url", "is_active").order_by("created_at", "id")),
        "progress": progress_of(account),
    }
    return render(request, "orders/quick_start.html", context, status=201 if key else 200)


def lines(url: str, key: str) -> list[dict[str, str]]:
    """A program for each language that imports a test order and confirms it, ready to run."""
    return [
        {
            "language": language,
            "name": name,
            "command": command,
            "file": command.rpartition(" ")[2],
            "program": render_to_string(f"orders/lines/{language}.txt", {"url": url, "key": key}),
        }
        for language, (name, command) in LANGUAGES.items()
    ]


# Reads each webhook's log by its index, newest first; an account has at most twenty webhooks.
_ACKNOWLEDGED = """
SELECT d.id, d.finished_at FROM webhooks_webhook w CROSS JOIN LATERAL (
    SELECT id, status, finished_at FROM webhooks_delivery
    WHERE webhook_id = w.id ORDER BY created_at DESC, id DESC LIMIT %s) AS d
WHERE w.account_id = %s AND w.deleted_at IS NULL AND d.status = 'delivered' ORDER BY d.finished_at LIMIT 1
"""


def progress_of(account: Account) -> dict[str, Any]:
    """The first `order`, and the first acknowledged `delivery` among each webhook's newest; None if there is none."""
    found = postgresql.row(_ACKNOWLEDGED, [LOOKED_THROUGH, account.id])
    return {
        "order": Order.objects.filter(account=account).order_by("created_at", "id").only("id", "created_at").first(),
        "delivery": found and {"id": found[0], "finished_at": found[1]},
    }


@account_page()
@by_itself
@require_safe
def progress(request: HttpRequest, account: Account) -> HttpResponse:
    """The part of the page that says what has arrived; the page asks for it again and again.

    409 to a page that shows another account than the session by now: the other mode's, or another merchant's.
    """
    if request.GET.get("of", str(account.id)) != str(account.id):
        return HttpResponse(status=409)
    return render(request, "orders/progress.html", {"progress": progress_of(account)})


urlpatterns = [
    path("quick-start", quick_start, name="quick-start"),
    path("quick-start/progress", progress, name="quick-start-progress"),
]
