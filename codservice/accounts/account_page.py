"""What the account's pages share: whom they are for, and how they ask before a change that cannot be undone."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from codservice.accounts.models import Account

View = Callable[Concatenate[HttpRequest, Account, ...], HttpResponse]


def account_page(view: View) -> Callable[..., HttpResponse]:
    """A page of the account that the signed-in person holds, which the view gets; all it shows must start there.

    Strangers are sent to the login, people who hold no account get 403. The holder of a closed account may look, and
    change nothing. No answer is kept by a browser or proxy.
    """

    @wraps(view)
    def of_holder(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        account = Account.objects.filter(holder=request.user).first()
        if account is None:
            raise PermissionDenied
        if not account.is_active and request.method == "POST":
            messages.error(request, _("This account is closed: nothing can be changed any more."))
            return redirect("account")
        request.account = account  # type: ignore[attr-defined]  # for the templates
        return view(request, account, *args, **kwargs)

    return never_cache(login_required(of_holder))


def confirmation(
    request: HttpRequest, *, title: str, text: str, button: str, back: str, fields: dict[str, Any] | None = None
) -> HttpResponse:
    """Asks before a change: the answer to a GET at the address whose POST makes it. Works without JavaScript.

    `back` is where “Keep it as it is” leads, `fields` goes with the POST.
    """
    context = {"title": title, "text": text, "button": button, "back": back, "fields": fields or {}}
    return render(request, "accounts/confirmation.html", context)
