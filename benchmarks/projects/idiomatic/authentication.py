import hashlib

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from .models import Account, ApiKey


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer KEY`. Keys are stored as digests."""

    def authenticate(self, request: Request) -> tuple[Account, ApiKey] | None:
        scheme, _, key = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        keys = ApiKey.objects.select_related("account")
        try:
            found = keys.get(digest=digest(key), revoked_at=None, account__is_active=True)
        except ApiKey.DoesNotExist:
            raise AuthenticationFailed("No such API key.") from None
        return found.account, found

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()
