"""An attempt as it goes out, and how it went. Knows neither an ORM nor an HTTP client."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from codservice import __version__
from webhooks import signing

# Why an attempt is no acknowledgement, for the log. One word for all that the network did: to tell refused from
# filtered would make us somebody's port scanner.
FAILURES = TIMEOUT, UNREACHABLE, BLOCKED, TLS, BAD_ANSWER, STATUS, NO_SECRET = (
    "timeout", "unreachable", "blocked_address", "tls", "bad_answer", "status", "unreadable_secret")  # fmt: skip


@dataclass(slots=True)
class Post:
    """One attempt to be made: the delivery's id and event, the very bytes, the secrets that sign them."""

    delivery_id: UUID
    url: str
    event: str
    body: bytes
    # As shown to the merchant, the newest first. None when it cannot be read.
    secrets: Sequence[str] = field(repr=False)
    attempt: int
    request_id: str = ""  # of the request that made the change, for the log


@dataclass(slots=True)
class Outcome:
    """How an attempt went. `failure` is empty when it is acknowledged."""

    post: Post
    failure: str
    status_code: int | None
    milliseconds: int
    response: bytes


def headers(post: Post, now: float) -> list[str]:
    """All headers of an attempt at `now` (seconds since 1970)."""
    delivery_id, timestamp = str(post.delivery_id), int(now)
    standard = " ".join(
        signing.standard_signature(secret, delivery_id, timestamp, post.body) for secret in post.secrets
    )
    lines = [
        "Content-Type: application/json",
        f"User-Agent: codservice/{__version__}",
        f"X-Service-Event: {post.event}",
        f"X-Service-Delivery: {delivery_id}",
        f"X-Service-Attempt: {post.attempt}",
        f"X-Service-Signature: {signing.signature(post.secrets[0], post.body)}",
        f"webhook-id: {delivery_id}",
        f"webhook-timestamp: {timestamp}",
        f"webhook-signature: {standard}",
        "Accept: */*",
        "Expect:",  # curl would wait for a 100 before a larger body
    ]
    lines += [f"X-Service-Signature-Previous: {signing.signature(secret, post.body)}" for secret in post.secrets[1:]]
    return lines
