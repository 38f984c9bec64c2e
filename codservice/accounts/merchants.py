"""Makes, changes, closes and reopens merchants' accounts for operators.

The console and the command `create_account` call this.
"""

from typing import Any
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from codservice import mails, values
from codservice.accounts import security_log, staff
from codservice.accounts.models import Account, User
from codservice.accounts.security_log import Action

MOST_REQUESTS = 1_000_000  # the highest limit of an account, by minute and API key
MAX_EMAIL = User._meta.get_field("username").max_length


def make(
    name: str, *, email: str, password: str | None = None, rate_limit: int | None = None
) -> tuple[Account, str | None]:
    """Make an account and its holder. Returns the account and the password that `staff.give_password` returns.

    Raises ValidationError with a `message_dict` by the names of these arguments. The caller has checked the rate limit,
    which is from 1 to MOST_REQUESTS.
    """
    email = email.strip().lower()
    holder = User(username=email, email=email)
    problems = _problems_of(email)
    try:
        name = values.text(name, max_length=Account._meta.get_field("name").max_length)
    except ValueError as error:
        problems["name"] = [str(error)]
    if password is not None:
        try:
            validate_password(password, User(username=email, email=email, first_name=name))
        except ValidationError as error:
            problems["password"] = error.messages
    if problems:
        raise ValidationError(problems)
    made = staff.give_password(holder, password)
    try:
        with transaction.atomic():
            if User.with_name(email).exists():
                raise IntegrityError
            holder.save()
            account = Account.objects.create(name=name, holder=holder, rate_limit=rate_limit)
            security_log.note_person(Action.PERSON_MADE, holder)
    except IntegrityError:
        taken = _("A user with the address %(email)s already exists.") % {"email": email}
        raise ValidationError({"email": [taken]}) from None
    return account, made


def _problems_of(email: str) -> dict[str, list[str]]:
    try:
        mails.validate_address(email)
    except ValidationError:
        return {"email": [_("%(email)s is not an e-mail address.") % {"email": email}]}
    if len(email) > MAX_EMAIL:
        return {"email": [_("An address can have at most %(most)d characters.") % {"most": MAX_EMAIL}]}
    return {}


def change(account_id: UUID, **changes: Any) -> None:
    """Change an account's `name`, which its twin shares, or its `rate_limit` in requests per minute.

    Others stay as they are. Raises Account.DoesNotExist.
    """
    with transaction.atomic():
        account = _lock(account_id)
        before = {name: getattr(account, name) for name, value in changes.items() if getattr(account, name) != value}
        if before:
            for name in before:
                setattr(account, name, changes[name])
            account.save(update_fields=before)
            Account.objects.filter(live=account).update(name=account.name)
        for name, value in before.items():
            target = f"{account.name}: {_noted(name, value)} → {_noted(name, changes[name])}"
            security_log.note_account(Action.ACCOUNT, account, target=target)


def _noted(name: str, value: Any) -> str:
    """A value as the security log writes it, independent of language."""
    if value is None:
        return "–"
    return f"{value}/min" if name == "rate_limit" else str(value)


def deactivate(account_id: UUID) -> None:
    """Close an account: its keys and its twin's stop working, its people can change nothing, workers stop its uploads.

    Existing orders are called and shipped as before. Closing it again changes nothing. Raises Account.DoesNotExist.
    """
    _turn(account_id, is_active=False)


def reactivate(account_id: UUID) -> None:
    """Reopen a closed account, with everything as before. Raises Account.DoesNotExist."""
    _turn(account_id, is_active=True)


def _turn(account_id: UUID, *, is_active: bool) -> None:
    with transaction.atomic():
        account = _lock(account_id)
        if account.is_active != is_active:
            account.is_active = is_active
            account.save(update_fields=["is_active"])
            security_log.note_account(Action.REACTIVATED if is_active else Action.DEACTIVATED, account)


def _lock(account_id: UUID) -> Account:
    return Account.objects.select_for_update(no_key=True).get(id=account_id, live=None)
