from typing import Any

from django.contrib.auth.backends import ModelBackend

from codservice.accounts.models import User


class RolesBackend(ModelBackend):
    """Signs people in as Django does. What they may do comes from their groups alone, in one query a request."""

    def get_user_permissions(self, user_obj: User, obj: Any = None) -> set[str]:
        return set()
