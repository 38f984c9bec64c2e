from __future__ import annotations

import hashlib
import hmac
import os
import sys


def is_ours(secret: str, body: bytes, *signatures: str | None) -> bool:
    """Give it the raw body, X-Service-Signature and, where there is one, X-Service-Signature-Previous."""
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    good = [s for s in signatures if s and hmac.compare_digest(expected.encode(), s.encode())]
    return bool(secret and good)  # anybody can sign with an empty one


if __name__ == "__main__":
    body = sys.stdin.buffer.read()
    sys.exit(0 if is_ours(os.environ["SECRET"], body, os.environ.get("SIGNATURE"), os.environ.get("PREVIOUS")) else 1)
