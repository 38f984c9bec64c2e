"""People who work here: how they are made, and what they sign in with."""

import secrets
from typing import Any

from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from codservice.accounts import security_log
from codservice.accounts.models import User
from codservice.accounts.security_log import Action

AGENTS, SUPERVISORS = "Agents", "Supervisors"  # the groups that a migration makes
NAMES = ("first_name", "last_name")


def make(
    username: str, *, group: str | None = None, password: str | None = None, **fields: Any
) -> tuple[User, str | None]:
    """A new person of the call center, or without a `group` another, and their password as `give_password` has it.

    Raises ValidationError for a username or a password that cannot be used.
    """
    user = User(username=username.strip(), is_staff=True, **fields)
    user.full_clean(exclude=["password"])
    # As Django's form of an operator's new person has it: who looks for one of two such names finds the other.
    if User.objects.filter(username__iexact=user.username).exists():
        raise ValidationError({"username": user.unique_error_message(User, ("username",))})
    if password is not None:
        validate_password(password, user)
    made = give_password(user, password)
    try:
        with transaction.atomic():
            user.save()
            security_log.note_person(Action.PERSON_MADE, user)
            if group is not None:
                user.groups.add(Group.objects.get(name=group))
    except IntegrityError:
        user.validate_unique()  # somebody else has made them since we looked
        raise
    return user, made


def give_password(user: User, password: str | None) -> str | None:
    """This password, which has been checked; without one a one-time password, which is to be told now or never."""
    if password is None:
        return give_one_time_password(user)
    user.set_password(password)
    return None


def give_one_time_password(user: User) -> str:
    """A password that nobody guesses, and that the person must change at their first login. `user` is not saved yet."""
    password = secrets.token_urlsafe(12)
    user.set_password(password)
    user.has_one_time_password = True
    return password
