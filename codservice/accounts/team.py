"""Who works for a merchant: the account's holder, and invited colleagues with a role.

An invitation is mailed as a link that works once, for a week, for the address it was mailed to. Mailed again it is the
same link, so that a mail that fails or comes late ends none. If the address already signs in, only the mail says so,
and whoever invites does not learn it. Keys and webhooks are the account's, and go on working when the colleague who
made them is gone.
"""

from datetime import timedelta
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from django.core import signing
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from codservice import values
from codservice.accounts import one_time_codes, security_log
from codservice.accounts.key_format import digest_of
from codservice.accounts.models import Account, Invitation, Membership, PersonChanged, User, unknown_password
from codservice.accounts.security_log import Action
from codservice.errors import Refused
from codservice.retention import old_rows

Role = Membership.Role
MOST_PEOPLE = 50  # colleagues and invitations of an account
WORKS_FOR = timedelta(days=7)  # how long a link works
forget_old = old_rows("accounts_invitation", "invitations", timedelta(days=30), at="expires_at")
_SIGNER = signing.Signer(salt="codservice.accounts.team")


# --- Seats and rights ------------------------------------------------------------------------------------------------


class Right(IntEnum):
    """What a page requires. Each right includes those before it.

    Only the holder has OWN. It is for what lets others in, such as keys, for exporting everything or deleting it for
    good, and for the log of what everybody did.
    """

    READ = 1
    WRITE = 2
    OWN = 3


RIGHTS = {Role.READER: Right.READ, Role.MANAGER: Right.WRITE}


class Seat(NamedTuple):
    """A person's place at a live account."""

    account: Account
    right: Right

    @property
    def may_write(self) -> bool:
        return self.right >= Right.WRITE and not self.is_closed

    @property
    def may_see_keys(self) -> bool:
        return self.right >= Right.WRITE

    @property
    def may_own(self) -> bool:
        return self.right >= Right.OWN

    @property
    def is_closed(self) -> bool:
        return self.account.is_closed


def seat_of(user: User) -> Seat | None:
    """The person's seat, with the account's twin; None for somebody who works for no merchant or is not signed in.

    One query for a holder, two for others.
    """
    if user.pk is None:
        return None
    if account := Account.objects.select_related("twin").filter(holder=user.pk).first():
        account.holder = user
        return Seat(account, Right.OWN)
    membership = Membership.objects.select_related("account__twin", "account__holder").filter(user=user.pk).first()
    return Seat(membership.account, RIGHTS.get(membership.role, Right.READ)) if membership else None


# --- Inviting --------------------------------------------------------------------------------------------------------


class AlreadyHere(Refused):
    code = "already_here"


class TooManyPeople(Refused):
    code = "too_many_people"


class LinkOver(Refused):
    code = "link_over"
    message = gettext_lazy("This link no longer works")


class AddressTaken(Refused):
    code = "address_taken"


def invite(account_id: UUID, *, email: str, role: str) -> Invitation:
    """Record the invitation. The caller sends the mail after the commit.

    Raises AlreadyHere for an address that is on the team or already invited, TooManyPeople beyond MOST_PEOPLE.
    """
    with transaction.atomic():
        account = Account.lock(account_id)
        people = User.objects.filter(Q(account=account) | Q(membership__account=account))
        if people.filter(email__iexact=email).exists():
            raise AlreadyHere(_("Somebody on your team already signs in with this address."))
        if account.invitations.filter(email=email).exists():
            raise AlreadyHere(_("This address is already invited. Send the invitation again above."))
        if account.memberships.count() + account.invitations.count() >= MOST_PEOPLE:
            text = _("A team can have at most %(most)d colleagues and invitations besides the holder.")
            raise TooManyPeople(text % {"most": MOST_PEOPLE})
        invitation = account.invitations.create(email=email, role=role, expires_at=Now() + WORKS_FOR)
        _note(Action.INVITED, invitation)
    return invitation


def invite_again(account_id: UUID, invitation_id: UUID) -> None:
    """Renew an invitation, which the caller mails after the commit. Raises Invitation.DoesNotExist."""
    with transaction.atomic():
        invitation = Invitation.objects.select_for_update().get(id=invitation_id, account_id=account_id)
        Invitation.objects.filter(id=invitation.id).update(sent_at=None, expires_at=Now() + WORKS_FOR)
        _note(Action.INVITED_AGAIN, invitation)


def withdraw(account_id: UUID, invitation_id: UUID) -> None:
    """Withdraw an invitation: its link stops working. Raises Invitation.DoesNotExist."""
    with transaction.atomic():
        invitation = Invitation.objects.select_for_update().get(id=invitation_id, account_id=account_id)
        invitation.delete()
        _note(Action.UNINVITED, invitation)


def _note(action: Action, invitation: Invitation) -> None:
    target = f"{invitation.email} ({Role(invitation.role).value})"
    security_log.note(action, target=target, account_id=invitation.account_id)


def link_of(invitation: Invitation) -> str:
    """The last part of the invitation's link, stored nowhere; empty if somebody already signs in with its address."""
    return "" if User.with_name(invitation.email).exists() else _SIGNER.sign(str(invitation.id))


# --- Accepting an invitation -----------------------------------------------------------------------------------------


def find(link: str, *, is_locked: bool = False) -> Invitation:
    """The invitation that the link belongs to. Links that we did not sign are not looked up. Raises LinkOver."""
    try:
        signed = _SIGNER.unsign(link)
    except signing.BadSignature:
        raise LinkOver from None
    is_named = Q(id=values.uuid_or_none(signed)) | Q(digest=digest_of(signed))
    invitations = Invitation.objects.select_related("account__holder").filter(is_named, expires_at__gt=Now())
    if is_locked:
        invitations = invitations.select_for_update(of=("self",))
    found = invitations.filter(account__is_active=True, account__holder__is_active=True).first()
    if found is None:
        raise LinkOver
    return found


def accept(link: str, *, name: str, password: str) -> User:
    """Create a sign-in for the person whom the link was mailed to, and use up the link.

    Raises LinkOver, or AddressTaken when somebody else signs in with the address by now.
    """
    invited = find(link)
    email = invited.email
    user = User(username=email, email=email, first_name=name)
    user.set_password(password)  # deliberately slow, so before anything is locked
    try:
        with transaction.atomic():
            # `invite` checks the team, then the invitations. With this lock, nobody moves to the team in between.
            Account.lock(invited.account_id)
            invitation = find(link, is_locked=True)
            if User.with_name(email).exists():
                raise IntegrityError
            user.save()
            Membership.objects.create(account=invitation.account, user=user, role=invitation.role)
            invitation.delete()
            security_log.note_person(Action.JOINED, user, person=user)
    except IntegrityError:
        raise AddressTaken(_("Somebody already signs in with this address.")) from None
    return user


# --- Managing colleagues ---------------------------------------------------------------------------------------------


def change_role(account_id: UUID, membership_id: UUID, role: str) -> None:
    """Give a colleague another role, which applies from their next click. Raises Membership.DoesNotExist."""
    with transaction.atomic():
        membership = _lock(account_id, membership_id)
        if membership.role != role:
            membership.role = role
            membership.save(update_fields=["role"])
            target = f"{membership.user.username}: {role}"
            security_log.note(Action.ROLE, target=target, target_id=membership.user_id, account_id=account_id)


def remove(account_id: UUID, membership_id: UUID, *, action: Action = Action.REMOVED) -> None:
    """Remove a colleague: their next click is refused, and their sessions end.

    Their name stays in the histories. Their address becomes free for another invitation or an account of their own.
    `action` is what the log says. Raises Membership.DoesNotExist.
    """
    password = unknown_password()
    with transaction.atomic():
        membership = _lock(account_id, membership_id)
        user, email = membership.user, membership.user.username
        one_time_codes.forget(user)
        membership.delete()
        if not user.get_full_name():
            user.first_name = email
        user.username, user.email = f"removed {user.pk}", ""
        user.save(update_fields=["username", "email", "first_name"])
        user.shut_out(password)
        security_log.note(action, target=email, target_id=user.pk, account_id=account_id)


def leave(user: User) -> None:
    """Remove a colleague who wants to go. Raises PersonChanged for whoever is none, such as the holder by now."""
    try:
        remove(user.membership.account_id, user.membership.id, action=Action.LEFT)
    except Membership.DoesNotExist:
        raise PersonChanged from None


def forget_codes(account_id: UUID, membership_id: UUID) -> None:
    """Turn one-time codes off for a colleague who has lost the app, and end their sessions.

    Raises Membership.DoesNotExist."""
    with transaction.atomic():
        user = _lock(account_id, membership_id).user
        one_time_codes.forget(user)


def hand_over(account_id: UUID, membership_id: UUID) -> None:
    """Make the colleague the account's holder and the previous holder a manager.

    Raises Membership.DoesNotExist, also for a deactivated colleague, since no key of the account would work."""
    with transaction.atomic():
        account = Account.lock(account_id)
        membership = _lock(account_id, membership_id)
        before = account.holder
        after = User.objects.select_for_update(no_key=True).filter(id=membership.user_id, is_active=True).first()
        if after is None:
            raise Membership.DoesNotExist
        # A new row, so that a change or removal of the colleague at this moment, by membership, cannot hit the holder.
        membership.delete()
        Account.objects.filter(id=account_id).update(holder=after)
        Membership.objects.create(account=account, user=before, role=Role.MANAGER)
        target = f"{before.username} → {after.username}"
        security_log.note(Action.HANDED_OVER, target=target, target_id=after.pk, account_id=account_id)


def _lock(account_id: UUID, membership_id: UUID) -> Membership:
    memberships = Membership.objects.select_for_update(of=("self",)).select_related("user")
    return memberships.get(id=membership_id, account_id=account_id)
