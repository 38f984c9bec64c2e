"""Browsers in which a person has shown or chosen their password, so that strangers guessing at the name cannot lock
them out there.

A cookie of each person marks them, like OWASP's “device cookies”. It grants nothing: the attempts in its browser only
do not count among those from anywhere (`forms.NAME_RATE`). It depends on the password's hash: when people write another
one themselves (a new password, codes turned on or off), their browser gets a new cookie.

Colleagues may share a browser, which knows MOST of them. A cookie has some 150 bytes, so that all of them leave room
in the 8 KiB of cookies that a proxy may take (nginx; the service itself takes 48 KiB of headers).
"""

import re
from contextlib import suppress

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from codservice.accounts.models import User

COOKIE = f"{settings.COOKIE_PREFIX}known-"  # and the person's id
_NAME = re.compile(f"{COOKIE}[0-9a-f]{{32}}")
_AGE = 90 * 24 * 60 * 60  # seconds
MOST = 30  # people that a browser knows


def remember(request: HttpRequest, response: HttpResponse, user: User) -> None:
    """Mark the browser that gets this answer, in which the person has shown or chosen their password.

    If it knows MOST others already, it forgets the first of them: browsers send their oldest cookies first.
    """
    name = _name(user)
    others = [each for each in request.COOKIES if _NAME.fullmatch(each) and each != name]
    for each in others[: -(MOST - 1)]:
        response.delete_cookie(each, samesite="Lax")
    value = signing.dumps(user.pk.hex, salt=_salt(user.get_session_auth_hash()))
    response.set_cookie(name, value, max_age=_AGE, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax")


def knows(request: HttpRequest, user: User) -> bool:
    """Whether this person has shown or chosen their present password in this browser lately."""
    value = request.COOKIES.get(_name(user), "")
    # Like the signature, the hash of the password depends on SECRET_KEY, which may have been changed since.
    for password_hash in (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()):
        with suppress(signing.BadSignature):
            return signing.loads(value, salt=_salt(password_hash), max_age=_AGE) == user.pk.hex
    return False


def _name(user: User) -> str:
    return f"{COOKIE}{user.pk.hex}"


def _salt(password_hash: str) -> str:
    """A salt that changes with the password."""
    return f"codservice.accounts.known_browsers {password_hash}"
