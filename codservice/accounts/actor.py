"""Who makes a change: written beside each change, and asked for when the rules differ by role."""

from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from codservice.accounts.authentication import Key
from codservice.accounts.models import User


class Role(StrEnum):
    MERCHANT = "merchant"  # by a key, or as a person who works for the merchant
    AGENT = "agent"
    SUPERVISOR = "supervisor"
    COMMAND = "command"


class Actor(NamedTuple):
    """`name` is what people read in a history; it stays when the key or the user is gone."""

    role: Role
    name: str
    user_id: UUID | None = None

    @classmethod
    def of_key(cls, key: Key) -> "Actor":
        return cls(Role.MERCHANT, f"API key {key.name}")

    @classmethod
    def of_merchant(cls, person: User) -> "Actor":
        """A person who works for a merchant: on the account's pages they may do to orders what its keys may."""
        return cls(Role.MERCHANT, person.display_name, person.id)

    @classmethod
    def of_staff(cls, person: User) -> "Actor":
        """A supervisor is who may see all orders, as superusers may."""
        if not person.is_staff:
            raise ValueError(f"{person} does not work here, and may do no agent's moves")
        role = Role.SUPERVISOR if person.has_perm("orders.supervise_order") else Role.AGENT
        return cls(role, person.display_name, person.id)

    @classmethod
    def of_command(cls, command: str) -> "Actor":
        return cls(Role.COMMAND, command)
