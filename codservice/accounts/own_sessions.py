"""Where a merchant's person is signed in, whatever their role. They can end each session, or all others at once."""

from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from codservice.accounts import security_log, sessions
from codservice.accounts.account_page import Gone, account_page
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.accounts.team import Right

MOST = 100  # on the page
OVER = Gone(gettext_lazy("This session has already ended."), "sessions", gettext_lazy("Your sessions"), False)


@account_page(change=Right.READ)
@require_safe
def own_sessions(request: HttpRequest, account: Account) -> HttpResponse:
    here = request.session.session_key
    shown = [(each, each.session_key == here) for each in sessions.of_person(request.user)[:MOST]]
    return render(request, "accounts/sessions.html", {"sessions": sorted(shown, key=lambda pair: not pair[1])})


@account_page(change=Right.READ, gone=OVER)
@require_POST
def end_session(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """End one of the person's other sessions; the current one ends by logging out."""
    others = sessions.of_person(request.user).exclude(session_key=request.session.session_key)
    get_object_or_404(others, pk=id)
    _end(request, only=id)
    return redirect("sessions")


@account_page(change=Right.READ)
@require_POST
def end_other_sessions(request: HttpRequest, account: Account) -> HttpResponse:
    _end(request, but=request.session.session_key)
    return redirect("sessions")


def _end(request: HttpRequest, *, only: UUID | None = None, but: str | None = None) -> None:
    with transaction.atomic():
        count = sessions.end(request.user, only=only, but=but)
        if count:
            security_log.note_person(Action.SESSIONS, request.user)
    text = ngettext("%(count)d session is ended.", "%(count)d sessions are ended.", count)
    messages.success(request, text % {"count": count})
