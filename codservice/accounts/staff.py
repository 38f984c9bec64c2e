"""Staff: how they are created, and their passwords."""

import secrets
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from codservice.accounts import security_log
from codservice.accounts.models import User
from codservice.accounts.security_log import Action

AGENTS, SUPERVISORS = "Agents", "Supervisors"  # groups created by a migration
NAMES = ("first_name", "last_name")


def make(
    username: str, *, group: str | None = None, password: str | None = None, **fields: Any
) -> tuple[User, str | None]:
    """Create a person of the call center, or without a `group` another member of staff. Also returns the password that
    `give_password` returns.

    Raises ValidationError for a username or a password that cannot be used.
    """
    user = User(username=username.strip(), is_staff=True, **fields)
    user.full_clean(exclude=["password"])
    # As in the operators' form for new people: names that differ only by case would be mistaken for each other.
    if User.with_name(user.username).exists():
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
        user.validate_unique()  # somebody made the same person since we looked
        raise
    return user, made


def give_password(user: User, password: str | None) -> str | None:
    """Set this validated password. Without one, set and return a one-time password, which cannot be shown again."""
    if password is None:
        return give_one_time_password(user)
    user.set_password(password)
    return None


def give_one_time_password(user: User) -> str:
    """Set and return an unguessable password, to be changed at the first login. Does not save `user`."""
    password = secrets.token_urlsafe(12)
    user.set_password(password)
    user.has_one_time_password = True
    return password


def note_changes(user: User, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Note in the security log what each field of `after` was, and what it is: once what is the same of several."""
    changes = [(before[name], value) for name, value in after.items() if value != before[name]]
    for said in dict.fromkeys(f"{former or '–'} → {value or '–'}" for former, value in changes):
        security_log.note_person(Action.PERSON, user, target=f"{user.username}: {said}")
