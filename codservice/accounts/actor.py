"""Who makes a change: written beside each change, and asked for when the rules differ by role."""

from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from codservice.accounts.authentication import Key
from codservice.accounts.models import User


class Role(StrEnum):
    API = "api"
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
        return cls(Role.API, f"API key {key.name}")

    @classmethod
    def of_holder(cls, holder: User) -> "Actor":
        """On the account's pages its holder may do what the account's keys may."""
        return cls(Role.API, holder.display_name, holder.id)

    @classmethod
    def of_user(cls, user: User) -> "Actor":
        """A supervisor is who may see all orders; superusers are."""
        role = Role.SUPERVISOR if user.has_perm("orders.supervise_order") else Role.AGENT
        return cls(role, user.display_name, user.id)

    @classmethod
    def of_command(cls, command: str) -> "Actor":
        return cls(Role.COMMAND, command)
