"""The two signatures over the same bytes that prove that a delivery is ours (docs/webhooks.md)."""

import base64
import hmac


def signature(secret: str, body: bytes) -> str:
    """Return the value of `X-Service-Signature`, keyed with the bytes of the secret as it was shown."""
    return "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()


def standard_signature(secret: str, delivery_id: str, timestamp: int, body: bytes) -> str:
    """Return a value of `webhook-signature` (Standard Webhooks), keyed with the bytes that the base64 encodes."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = hmac.digest(key, b"%s.%d." % (delivery_id.encode(), timestamp) + body, "sha256")
    return "v1," + base64.b64encode(signed).decode()
