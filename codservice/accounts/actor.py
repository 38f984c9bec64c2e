"""Who makes a change. It is recorded with each change, and decides where rules differ by role."""

from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from django.utils.translation import gettext as _

from codservice.accounts.authentication import Key
from codservice.accounts.models import User


class Role(StrEnum):
    MERCHANT = "merchant"  # through an API key, or a person who works for the merchant
    AGENT = "agent"
    SUPERVISOR = "supervisor"
    COMMAND = "command"


_KEY = "API key "  # stored before the key's own name


class Actor(NamedTuple):
    """`name` is what histories show, by `in_words`; it outlives the key or user."""

    role: Role
    name: str
    user_id: UUID | None = None

    @classmethod
    def of_key(cls, key: Key) -> "Actor":
        return cls(Role.MERCHANT, f"{_KEY}{key.name}")

    @classmethod
    def of_merchant(cls, person: User) -> "Actor":
        """A person who works for a merchant; on the account's pages they may do what the account's keys may."""
        return cls(Role.MERCHANT, person.display_name, person.id)

    @classmethod
    def of_staff(cls, person: User) -> "Actor":
        """A member of staff. Those who may supervise orders, superusers included, are supervisors."""
        if not person.is_staff:
            raise ValueError(f"{person} does not work here, and may do no agent's moves")
        role = Role.SUPERVISOR if person.has_perm("orders.supervise_order") else Role.AGENT
        return cls(role, person.display_name, person.id)

    @classmethod
    def of_command(cls, command: str) -> "Actor":
        return cls(Role.COMMAND, command)


def in_words(name: str) -> str:
    """A recorded actor's name in the reader's language, as far as it is in our words."""
    return f"{_('API key')} {name.removeprefix(_KEY)}" if name.startswith(_KEY) else name
