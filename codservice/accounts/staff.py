"""People who work here: how they are made, and what they sign in with."""

import secrets

from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.db import transaction

from codservice.accounts.models import User

AGENTS, SUPERVISORS = "Agents", "Supervisors"  # the groups that a migration makes


def make(username: str, *, group: str, password: str | None = None, **names: str) -> tuple[User, str]:
    """A new person of the call center and their password, made here unless it is given: to be told now or never.

    Raises ValidationError for a username or a password that cannot be used.
    """
    user = User(username=username.strip(), is_staff=True, **names)
    user.full_clean(exclude=["password"])
    if password is None:
        password = make_password()
    else:
        validate_password(password, user)
    user.set_password(password)
    with transaction.atomic():
        user.save()
        user.groups.add(Group.objects.get(name=group))
    return user, password


def make_password() -> str:
    """One that nobody guesses, to be changed by who gets it."""
    return secrets.token_urlsafe(12)
