"""The call center's people, as supervisors mind them: who may mind whom, and passwords given anew.

Supervisors mind agents; operators mind supervisors too. Nobody minds operators here, merchants, or anyone who has been
given more than the two groups give. So no way leads from here to more than a supervisor may do already.
"""

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet

from codservice.accounts import security_log, staff
from codservice.accounts.models import User
from codservice.accounts.security_log import Action


def minded_by(user: User) -> QuerySet[User]:
    """The people whose accounts `user` may change: never their own."""
    groups = [staff.AGENTS, staff.SUPERVISORS] if user.is_superuser else [staff.AGENTS]
    people = User.objects.filter(is_staff=True, is_superuser=False, user_permissions=None).exclude(pk=user.pk)
    of_groups = people.alias(mine=Count("groups", filter=Q(groups__name__in=groups)), all=Count("groups"))
    return of_groups.filter(mine__gt=0, mine=F("all"))


def renew_password(user: User) -> str:
    """A one-time password, which ends all of the person's sessions; to be told now or never."""
    password = staff.give_one_time_password(user)
    with transaction.atomic():
        user.save(update_fields=["password", "has_one_time_password"])
        security_log.note_person(Action.RESET, user)
    return password


def reactivate(user: User) -> str:
    """The person may sign in again, with a one-time password."""
    with transaction.atomic():
        user.is_active = True
        user.save(update_fields=["is_active"])
        security_log.note_person(Action.REACTIVATED, user)
        return renew_password(user)
