"""One-time codes (RFC 6238) that whoever signs in, here or for a merchant, may ask for beside their password.

django-otp checks the codes: none is taken twice, and wrong ones make the next wait longer each time. Whoever turns them
on or off is signed out everywhere else, so that no session is older than the choice.
"""

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice.accounts import security_log
from codservice.accounts.models import User
from codservice.accounts.security_log import Action


def are_on(user: User) -> bool:
    return TOTPDevice.objects.filter(user=user, confirmed=True).exists()


def accept(user: User, code: str) -> bool:
    """Whether the code is right, is new, and comes late enough after wrong ones; then it is used up."""
    with transaction.atomic():
        device = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=True).first()
        return device is not None and device.verify_token(_digits(code))


def offered(user: User) -> TOTPDevice | None:
    """The secret that was made for this person and has not been confirmed by a code yet."""
    return TOTPDevice.objects.filter(user=user, confirmed=False).first()


def offer(user: User) -> TOTPDevice:
    """A new secret, for the person's app to learn; codes are asked for once `turn_on` has seen one."""
    with transaction.atomic():
        TOTPDevice.objects.filter(user=user, confirmed=False).delete()
        return TOTPDevice.objects.create(user=user, confirmed=False, name="")


def turn_on(user: User, code: str, password: str) -> bool:
    """Ask for codes from now on, if this one is right. `password` is the person's own, and stays. Raises AccountChanged
    when it is not theirs any more."""
    hashed = make_password(password)  # slow, on purpose: before anything is locked
    with transaction.atomic():
        device = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=False).first()
        if device is None or not device.verify_token(_digits(code)):
            return False
        security_log.note_person(Action.CODES_ON, user)
        TOTPDevice.objects.filter(user=user, confirmed=True).delete()
        device.confirmed = True
        device.save(update_fields=["confirmed"])
        user.replace_password(hashed)  # all sessions end: each holds a hash of the password's hash, whose salt is new
    return True


def turn_off(user: User, password: str) -> None:
    """`password` as in `turn_on`. Raises AccountChanged."""
    hashed = make_password(password)
    with transaction.atomic():
        forget(user)
        user.replace_password(hashed)  # likewise


def forget(user: User) -> None:
    """Turn codes off for somebody who has lost the app: they sign in by password alone again."""
    with transaction.atomic():
        TOTPDevice.objects.filter(user=user).delete()
        security_log.note_person(Action.CODES_OFF, user)


def _digits(code: str) -> str:
    """Apps show codes in groups."""
    return "".join(code.split())
