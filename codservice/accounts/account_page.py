"""What the account's pages share: who may use them, and how they ask before a change that cannot be undone."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, NamedTuple
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise, SimpleLazyObject
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from codservice.accounts import team
from codservice.accounts.key_format import TEST
from codservice.accounts.models import Account
from codservice.accounts.team import Right
from codservice.bidi import unturned
from codservice.days import ALGIERS

MODE = "mode"  # the session's key for the mode, and the form field with the mode of the page it is on
# The pages of a password or codes. Their change ends the session, and the answer, with the next one, may be lost on its
# way: whoever then sends it again is signed out.
ENDS_SESSION = ("codes", "password", "password_change")
View = Callable[Concatenate[HttpRequest, Account, ...], HttpResponse]
Page = Callable[..., HttpResponse]


class Gone(NamedTuple):
    """What to say about a thing that is gone, when an old page or a second press asks for it."""

    said: str | Promise  # a heading: one sentence
    leads_to: str  # the name of the page that shows what exists now
    link: str | Promise
    is_of_mode: bool = True  # whether it may exist in the other mode, live or test
    why: str | Promise = ""


def account_page(
    *,
    look: Right = Right.READ,
    change: Right = Right.WRITE,
    takes_out: bool = False,
    gone: Gone | None = None,
) -> Callable[[View], Page]:
    """A page of an account. The view gets the account that the signed-in person works for, and must show nothing else.

    Viewing the page takes the right `look`, and any other method `change` as well. Other people get 403, and strangers
    are sent to the login. `change=READ` is for pages about the person alone, which change nothing of the account. Times
    are Algeria's. In test mode the view gets the account's twin.

    People of a closed account may look but change nothing; a page that `takes_out` data, or has buttons for it, still
    works for them. An object that is not found, or that somebody else deletes during the change, gives 404 with the
    words of `gone`. Methods other than GET, HEAD and POST get 405. No browser or proxy stores the answers.
    """

    def decorated(view: View) -> Page:
        answer = require_http_methods(["GET", "HEAD", "POST"])(view)

        @wraps(view)
        def of_team(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.is_authenticated:
                return sign_in_first(request, door="login", home=reverse("account"))
            seat = request.seat = team.seat_of(request.user)  # type: ignore[attr-defined]  # for the templates, as those below
            if seat is None:
                raise PermissionDenied
            needed = look if request.method in ("GET", "HEAD") else max(look, change)
            if seat.right < needed:
                text = _("Your role does not allow this. Ask the account's holder, %(name)s.")
                raise PermissionDenied(text % {"name": unturned(seat.account.holder.display_name)})
            live = seat.account
            is_frozen = seat.is_closed and max(look, change) > Right.READ and not takes_out
            request.is_frozen = is_frozen  # type: ignore[attr-defined]
            request.is_read_only = seat.right < max(look, change)  # type: ignore[attr-defined]
            if is_frozen and request.method == "POST":
                messages.error(request, _("This account is closed and can no longer be changed."))
                return redirect("account")
            account = shown(request, live)
            if request.method == "POST" and request.POST.get(MODE, account.mode) != account.mode:
                messages.error(
                    request, _("Test mode was switched on or off in another page. Nothing was changed here.")
                )
                return redirect(request.path)
            request.account = account  # type: ignore[attr-defined]
            try:
                with timezone.override(ALGIERS):
                    return answer(request, account, *args, **kwargs)
            except (Http404, ObjectDoesNotExist) as missing:
                if request.method != "POST" and not isinstance(missing, Http404):
                    raise
                if gone is None:
                    raise Http404 from missing
                return render(request, "accounts/gone.html", gone._asdict(), status=404)

        return never_cache(of_team)

    return decorated


def sign_in_first(request: HttpRequest, *, door: str, home: str) -> HttpResponse:
    """Redirect to the login, which leads back to this address if there is a page to show at it.

    If there is none, as at an address that only takes a form, it leads to the path `home`. Whoever sent a form is told
    that nothing was saved, or that it may have been.
    """
    is_look = request.method in ("GET", "HEAD")
    # Scripts handle the redirect themselves. They accept anything, while a form accepts a page, over https and http
    # alike.
    is_scripts = "text/html" not in request.headers.get("Accept", "text/html")
    if not is_look and not is_scripts:
        said = _("You had been signed out, so nothing was saved. Sign in and try again.")
        if request.resolver_match.url_name in ENDS_SESSION:
            said = _(
                "You are signed out. If you had just changed your password or your codes, that may have been done: "
                "sign in with what you chose, otherwise as before."
            )
        messages.warning(request, said)
    is_shown = is_look or _sent_from(request) == request.path
    return redirect_to_login(request.get_full_path() if is_shown else home, reverse(door))


def _sent_from(request: HttpRequest) -> str:
    """The path of the page that the browser names as referrer, or an empty string."""
    try:
        return urlsplit(request.META.get("HTTP_REFERER", "")).path
    except ValueError:  # not a valid address
        return ""


def seat(request: HttpRequest) -> dict[str, Any]:
    """A context processor: `seat`, the viewer's place at a merchant's account, looked up only when a template uses it.

    Staff have one only on the pages of an account."""
    if hasattr(request, "seat"):
        return {"seat": request.seat}
    return {"seat": SimpleLazyObject(lambda: None if request.user.is_staff else team.seat_of(request.user))}


def shown(request: HttpRequest, live: Account) -> Account:
    """The account that this session's pages show: this one or, in test mode, its twin."""
    is_test = request.session.get(MODE) == TEST and hasattr(live, "twin")
    return live.twin if is_test else live


def switch(request: HttpRequest, account: Account) -> None:
    """Make the pages of this session show this account: the person's own, or its twin."""
    request.session[MODE] = account.mode
    request.account = account  # type: ignore[attr-defined]


@account_page(change=Right.READ)
@require_POST
def change_mode(request: HttpRequest, account: Account) -> HttpResponse:
    """Turn test mode on or off. Without a twin, whoever may write makes it, and others are told why it stays off."""
    live = account.live_account
    if request.POST.get("to") != TEST:
        switch(request, live)
    elif hasattr(live, "twin"):
        switch(request, live.twin)
    elif request.seat.may_write:  # type: ignore[attr-defined]
        switch(request, live.ensure_twin())
    elif live.is_closed:
        messages.error(
            request, _("You are still in the live account. It has no test mode, and a closed account gets none.")
        )
    else:
        messages.error(
            request,
            _(
                "You are still in the live account. It has no test mode yet, and your role is read only: ask a manager "
                "or the holder to choose “Test mode” once."
            ),
        )
    return redirect("account")


def confirmation(
    request: HttpRequest, *, title: str, text: str, button: str, back: str, fields: Mapping[str, str] | None = None
) -> HttpResponse:
    """Ask before a change. This answers the GET of the address whose POST makes the change, and needs no JavaScript.

    `back` is where “Keep it as it is” leads; `fields` are sent along with the POST.
    """
    context = {"title": title, "text": text, "button": button, "back": back, "fields": [*(fields or {}).items()]}
    return render(request, "accounts/confirmation.html", context)
