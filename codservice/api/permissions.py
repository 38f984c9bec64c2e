"""What an API key may do: its scopes (docs/authentication.md)."""

from typing import Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request


class HasScope(BasePermission):
    """Require the scope that the view's `scopes` name for the action. None there lets any key in.

    A view without `scopes` fails, so it lets nobody in.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.auth is None:
            return False
        action = getattr(view, "action", None)
        if action in (None, "metadata"):  # no handler for this method, or OPTIONS: DRF will answer 405
            return True
        scope = view.scopes[action]
        if scope is not None and scope not in request.auth.scopes:
            raise PermissionDenied(f"This API key lacks the scope {scope}.")
        return True
