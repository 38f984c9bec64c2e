"""Browsers in which somebody has signed in before: strangers who guess at a name do not keep its owner out there.

A cookie says so, as OWASP's "device cookies" do. It opens nothing: it only sets apart the tries of its browser from
those of all others, and a new password makes it worthless.
"""

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from codservice.accounts.models import User

COOKIE = f"{settings.COOKIE_PREFIX}known"
_AGE = 90 * 24 * 60 * 60  # seconds


def remember(response: HttpResponse, user: User) -> None:
    """The person has shown their password in the browser that gets this answer."""
    value = signing.dumps(user.username, salt=_salt(user))
    response.set_cookie(
        COOKIE, value, max_age=_AGE, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax"
    )


def knows(request: HttpRequest, username: str) -> bool:
    """Whether this person has signed in here lately, with the password that they have now."""
    value = request.COOKIES.get(COOKIE)
    user = value and User.objects.filter(username=username).first()
    if not user:
        return False
    try:
        return signing.loads(value, salt=_salt(user), max_age=_AGE) == username
    except signing.BadSignature:
        return False


def _salt(user: User) -> str:
    """Changes with the password."""
    return f"codservice.accounts.known_browsers {user.get_session_auth_hash()}"
