"""The authentication backend: who is signed in and what they may do."""

from typing import Any
from uuid import UUID

from django.contrib.auth.backends import ModelBackend
from django.db import connection

from codservice import postgresql
from codservice.accounts.models import User

# Every page asks for the user and their permissions. One statement of our own replaces two that Django would build anew
# each time.
_COLUMNS = [field.column for field in User._meta.concrete_fields]
_SIGNED_IN = f"""
SELECT {", ".join(f"u.{column}" for column in _COLUMNS)}, ARRAY(
    SELECT t.app_label || '.' || p.codename
    FROM accounts_user_groups m JOIN auth_group_permissions g ON g.group_id = m.group_id
        JOIN auth_permission p ON p.id = g.permission_id JOIN django_content_type t ON t.id = p.content_type_id
    WHERE m.user_id = u.id
)
FROM accounts_user u WHERE u.id = %s
"""  # noqa: S608  (our own columns)


class RolesBackend(ModelBackend):
    """Signs people in as Django does. Permissions come only from their groups, and are read with the user."""

    def get_user(self, user_id: UUID) -> User | None:
        row = postgresql.row(_SIGNED_IN, [user_id])
        if row is None:
            return None
        user = User.from_db(connection.alias, _COLUMNS, row[:-1])
        user.granted = row[-1]
        return user if self.user_can_authenticate(user) else None

    def get_user_permissions(self, user_obj: User, obj: Any = None) -> set[str]:
        return set()

    def get_group_permissions(self, user_obj: User, obj: Any = None) -> set[str]:
        if not user_obj.is_active or obj is not None:
            return set()
        return set(user_obj.granted) if hasattr(user_obj, "granted") else super().get_group_permissions(user_obj, obj)
