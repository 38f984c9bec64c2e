"""The call center's people, as supervisors mind them: who may mind whom, and passwords given anew.

Supervisors mind agents; operators mind supervisors too. Nobody minds operators here, merchants, or anyone who has been
given more than the two groups give. So no way leads from here to more than a supervisor may do already.
"""

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext

from codservice.accounts import security_log, staff
from codservice.accounts.models import AccountChanged, User
from codservice.accounts.security_log import Action
from codservice.errors import Refused


class PasswordChanged(Refused):
    """Another password was given or chosen since: the one that was told on the phone would be void."""

    code, status = "password_changed", 409

    def __init__(self) -> None:
        text = gettext(
            "This person's password has changed since you opened the page, so nothing was done. A new "
            "password is shown only once: if nobody noted it, create another."
        )
        super().__init__(text)


def minded_by(user: User) -> QuerySet[User]:
    """The people whose accounts `user` may change: never their own."""
    groups = [staff.AGENTS, staff.SUPERVISORS] if user.is_superuser else [staff.AGENTS]
    people = User.objects.filter(is_staff=True, is_superuser=False, user_permissions=None).exclude(pk=user.pk)
    of_groups = people.alias(mine=Count("groups", filter=Q(groups__name__in=groups)), all=Count("groups"))
    return of_groups.filter(mine__gt=0, mine=F("all"))


def mark_of_password(user: User) -> str:
    """By which a page says what `replaces`; it tells nothing of the password."""
    return salted_hmac("agents.supervision.minding", user.password, algorithm="sha256").hexdigest()


def renew_password(user: User, *, replaces: str | None = None) -> str:
    """A one-time password, which ends all of the person's sessions; to be told now or never. Raises AccountChanged for
    somebody who is deactivated: it would let them in no more than another; and PasswordChanged unless it replaces the
    one with this mark, or whichever there is.
    """
    return _give_password(user, replaces, Action.RESET, was_active=True)


def reactivate(user: User, *, replaces: str | None = None) -> str:
    """The person may sign in again, with a one-time password. Raises AccountChanged when they may already: they have
    been told another one; and PasswordChanged as `renew_password` does.
    """
    return _give_password(user, replaces, Action.REACTIVATED, Action.RESET, was_active=False)


def _give_password(user: User, replaces: str | None, *actions: Action, was_active: bool) -> str:
    if replaces not in (None, mark_of_password(user)):
        raise PasswordChanged
    as_shown = User.objects.filter(pk=user.pk, is_active=was_active, password=user.password)
    password = staff.give_one_time_password(user)
    with transaction.atomic():
        if not as_shown.update(is_active=True, password=user.password, has_one_time_password=True):
            raise AccountChanged
        for action in actions:
            security_log.note_person(action, user)
    return password
