"""Whose access a supervisor manages, and the changes of it: other names, new passwords, no one-time codes, no way in.

Supervisors manage agents; operators manage supervisors too. Nobody here manages operators, merchants, or people with
more rights than the two groups give. A password that they gave before somebody got more rights works until its owner
has chosen their own.
"""

from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from codservice.accounts import one_time_codes, security_log, staff
from codservice.accounts.models import PersonChanged, User, unknown_password
from codservice.accounts.security_log import Action
from codservice.errors import Refused


class PasswordChanged(Refused):
    """The password has changed since: the one that somebody was told on the phone would stop working."""

    code, status = "password_changed", 409
    message = _(
        "This person's password has changed since you opened the page, so nothing was done. A new "
        "password is shown only once: if nobody noted it, create another."
    )


def managed_by(user: User) -> QuerySet[User]:
    """The people whose accounts `user` may change; never their own."""
    groups = [staff.AGENTS, staff.SUPERVISORS] if user.is_superuser else [staff.AGENTS]
    people = User.objects.filter(is_staff=True, is_superuser=False, user_permissions=None).exclude(pk=user.pk)
    of_groups = people.alias(mine=Count("groups", filter=Q(groups__name__in=groups)), all=Count("groups"))
    return of_groups.filter(mine__gt=0, mine=F("all"))


def mark_of_password(user: User) -> str:
    """A hash by which a page says which password it `replaces`; it reveals nothing about the password."""
    return salted_hmac("agents.supervision.access", user.password, algorithm="sha256").hexdigest()


def give_password(user: User, *, by: User, replaces: str | None, reactivates: bool = False) -> str:
    """Set a one-time password, which ends the person's sessions, and return it; it cannot be shown again. With
    `reactivates`, it also lets a deactivated person sign in again.

    Raises PasswordChanged if `replaces` is not the mark of the present password; None replaces any. Raises
    PersonChanged for somebody who is deactivated, whom a new password would not let in, for somebody who was
    reactivated already, since they have been told another one, and for somebody whom `by` does not manage any more.
    """
    if replaces not in (None, mark_of_password(user)):
        raise PasswordChanged
    as_shown = {"is_active": not reactivates, "password": user.password}
    password = staff.give_one_time_password(user)  # deliberately slow, so before anything is locked
    with transaction.atomic():
        _check_managed(user, by, **as_shown)
        User.objects.filter(pk=user.pk).update(is_active=True, password=user.password, has_one_time_password=True)
        if reactivates:
            security_log.note_person(Action.REACTIVATED, user)
        security_log.note_person(Action.RESET, user)
    return password


def rename(user: User, *, by: User, **names: str) -> None:
    """Give the person these of `staff.NAMES`. Histories keep what they were called before.

    Raises PersonChanged for somebody whom `by` does not manage any more, or who is called otherwise by now.
    """
    with transaction.atomic():
        _check_managed(user, by, **{name: getattr(user, name) for name in names})
        User.objects.filter(pk=user.pk).update(**names)
        staff.note_changes(user, vars(user), names)


def deactivate(user: User, *, by: User) -> None:
    """`User.deactivate`. Raises PersonChanged for somebody whom `by` does not manage any more."""
    password = unknown_password()  # deliberately slow, so before anything is locked
    with transaction.atomic():
        _check_managed(user, by)
        user.deactivate(password)


def forget_codes(user: User, *, by: User) -> None:
    """`one_time_codes.forget`. Raises PersonChanged for somebody whom `by` does not manage any more."""
    with transaction.atomic():
        one_time_codes.forget(user)  # first, because whoever turns their own codes off locks them before the person
        _check_managed(user, by)


def _check_managed(user: User, by: User, **as_shown: Any) -> None:
    """Raise PersonChanged unless `by` still manages this person, who is still `as_shown`.

    Locks them: nobody gives them more rights until the caller's transaction ends.
    """
    User.objects.select_for_update(no_key=True).filter(pk=user.pk).first()
    if not managed_by(by).filter(pk=user.pk, **as_shown).exists():
        raise PersonChanged
