"""Make an account, and print its API key."""

import secrets

from .authentication import digest
from .models import Account, ApiKey

key = secrets.token_urlsafe(32)
ApiKey.objects.create(account=Account.objects.create(name="bench"), name="bench", digest=digest(key.encode()))
print(key)
