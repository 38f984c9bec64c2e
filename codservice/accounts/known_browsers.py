"""Browsers in which a person has shown or chosen their password, so that strangers guessing at the name cannot lock
them out there.

A cookie marks them, like OWASP's “device cookies”. It grants nothing: the attempts in its browser only do not count
among those from anywhere (`forms.NAME_RATE`). It depends on the password's hash: when people write another one
themselves (a new password, codes turned on or off), their browser gets a new cookie.
"""

from contextlib import suppress

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from codservice.accounts.models import User

COOKIE = f"{settings.COOKIE_PREFIX}known"
_AGE = 90 * 24 * 60 * 60  # seconds


def remember(response: HttpResponse, user: User) -> None:
    """Mark the browser that gets this answer, in which the person has shown or chosen their password."""
    value = signing.dumps(user.username, salt=_salt(user.get_session_auth_hash()))
    response.set_cookie(
        COOKIE, value, max_age=_AGE, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax"
    )


def knows(request: HttpRequest, user: User) -> bool:
    """Whether this person has shown or chosen their present password in this browser lately."""
    value = request.COOKIES.get(COOKIE, "")
    # Like the signature, the hash of the password depends on SECRET_KEY, which may have been changed since.
    for password_hash in (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()):
        with suppress(signing.BadSignature):
            return signing.loads(value, salt=_salt(password_hash), max_age=_AGE) == user.username
    return False


def _salt(password_hash: str) -> str:
    """A salt that changes with the password."""
    return f"codservice.accounts.known_browsers {password_hash}"
