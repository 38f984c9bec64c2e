"""One-time codes (RFC 6238), which anybody who signs in may turn on in addition to their password.

django-otp checks the codes: none is accepted twice, and each wrong one doubles the wait, up to about an hour. A new
password does not end the wait: whoever reads the person's mail could set one after every few guesses. Turning codes on
or off signs the person out everywhere else, so that no session is older than that choice. If somebody else turns them
off, that is everywhere: the lost phone may be signed in.
"""

import math

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice.accounts import security_log, sessions
from codservice.accounts.models import User
from codservice.accounts.security_log import Action

# Wrong codes in a row that double the wait, from a second: 2 ** 12 s are 68 minutes. Without an end, whoever knows the
# password could shut the person out for years by one wrong code after each wait. With it, they guess some 21 times a
# day while the person does not sign in. If the person does so daily, which starts the waits anew, it is some 33 times a
# day, and would be 17 without an end. One guess in 333 333 is right.
_MOST_COUNTED = 13


def are_on(user: User) -> bool:
    return TOTPDevice.objects.filter(user=user, confirmed=True).exists()


def accept(user: User, code: str) -> bool:
    """Whether the code is right, unused and late enough after wrong ones. If so, it is used up."""
    with transaction.atomic():
        device = _first(TOTPDevice.objects.select_for_update().filter(user=user, confirmed=True))
        return device is not None and device.verify_token(_digits(code))


def wait(user: User) -> int:
    """After wrong codes, the number of seconds until another is checked; 0 if it is checked now."""
    device = _first(TOTPDevice.objects.filter(user=user).order_by("-confirmed", "pk"))
    _is_allowed, refused = device.verify_is_allowed() if device else (True, None)
    return math.ceil((refused["locked_until"] - timezone.now()).total_seconds()) if refused else 0


def offered(user: User) -> TOTPDevice | None:
    """The secret that was made for this person and is not yet confirmed by a code."""
    return TOTPDevice.objects.filter(user=user, confirmed=False).first()


def offer(user: User) -> TOTPDevice:
    """Make a new secret for the person's app. Codes are required once `turn_on` has seen one."""
    with transaction.atomic():
        TOTPDevice.objects.filter(user=user, confirmed=False).delete()
        return TOTPDevice.objects.create(user=user, confirmed=False, name="")


def turn_on(user: User, code: str, password: str) -> bool:
    """Require codes from now on, if this one is right. Returns whether it is. The password stays the same.

    Raises PersonChanged when `password` is no longer the person's."""
    hashed = make_password(password)  # deliberately slow, so before anything is locked
    with transaction.atomic():
        device = _first(TOTPDevice.objects.select_for_update().filter(user=user, confirmed=False))
        if device is None or not device.verify_token(_digits(code)):
            return False
        security_log.note_person(Action.CODES_ON, user)
        TOTPDevice.objects.filter(user=user).exclude(pk=device.pk).delete()  # also of an offer made twice at once
        device.confirmed = True
        device.save(update_fields=["confirmed"])
        user.replace_password(hashed)  # ends all sessions, which depend on the hash: it has a new salt
    return True


def turn_off(user: User, password: str) -> None:
    """Stop requiring codes. `password` as in `turn_on`. Raises PersonChanged."""
    hashed = make_password(password)
    with transaction.atomic():
        _delete(user)
        user.replace_password(hashed)  # ends all sessions


def forget(user: User) -> None:
    """Turn codes off, if they are on, for a person who has lost the app; they sign in with the password only.

    Ends all their sessions."""
    with transaction.atomic():
        if _delete(user):
            # Locked before their sessions, as by whoever deactivates them.
            User.objects.select_for_update(no_key=True).filter(pk=user.pk).first()
            sessions.end(user)


def _delete(user: User) -> bool:
    """Delete the secret that codes are checked with, and note it. Returns whether there was one."""
    were_on, _ = TOTPDevice.objects.filter(user=user, confirmed=True).delete()
    if were_on:
        security_log.note_person(Action.CODES_OFF, user)
    return bool(were_on)


def _first(devices: QuerySet[TOTPDevice]) -> TOTPDevice | None:
    """The first of these, which makes nobody wait for longer than after _MOST_COUNTED wrong codes."""
    if device := devices.first():
        device.throttling_failure_count = min(device.throttling_failure_count, _MOST_COUNTED)
    return device


def _digits(code: str) -> str:
    """The code without spaces; apps show codes in groups."""
    return "".join(code.split())
