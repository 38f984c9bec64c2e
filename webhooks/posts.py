"""An attempt as it goes out, and how it went. Knows neither an ORM nor an HTTP client."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from codservice import __version__
from webhooks import signing

# Why an attempt is no acknowledgement, for the log. One word for whatever kept a connection from being made, and one
# time (`webhooks.transfer`): to tell refused from filtered would make us somebody's port scanner.
FAILURES = TIMEOUT, UNREACHABLE, BLOCKED, TLS, BAD_ANSWER, STATUS, NO_SECRET = (
    "timeout", "unreachable", "blocked_address", "tls", "bad_answer", "status", "unreadable_secret")  # fmt: skip
UNRECORDED = "unrecorded"  # an error of ours: how the attempt went could not be written


@dataclass(slots=True)
class Post:
    """One attempt to be made: the delivery's and the event's id, the very bytes, the secrets that sign them."""

    delivery_id: UUID
    url: str
    event: str
    body: bytes
    # As shown to the merchant, the newest first. Empty when that one cannot be read.
    secrets: Sequence[str] = field(repr=False)
    attempt: int
    event_id: UUID | None = None
    is_test: bool = False  # of an account's twin
    request_id: str = ""  # of the request that made the change, for the log
    # By time.monotonic: from then on its claim has to be looked at again before it begins (`webhooks.delivery`).
    begin_by: float = math.inf
    # From time.monotonic to seconds since 1970, by the database's clock: receivers refuse what is dated by a wrong one.
    offset: float = field(default_factory=lambda: time.time() - time.monotonic())


@dataclass(slots=True)
class Outcome:
    """How an attempt went. `failure` is empty when it is acknowledged."""

    post: Post
    failure: str
    status_code: int | None
    milliseconds: int
    response: bytes


def headers(post: Post, now: float) -> list[str]:
    """All headers of an attempt that is made at `now` (seconds since 1970)."""
    delivery_id, timestamp = str(post.delivery_id), int(now)
    standard = " ".join(
        signing.standard_signature(secret, delivery_id, timestamp, post.body) for secret in post.secrets
    )
    lines = [
        "Content-Type: application/json",
        f"User-Agent: codservice/{__version__}",
        f"X-Service-Event: {post.event}",
        f"X-Service-Delivery: {delivery_id}",
        f"X-Service-Event-Id: {post.event_id}",
        f"X-Service-Attempt: {post.attempt}",
        f"X-Service-Signature: {signing.signature(post.secrets[0], post.body)}",
        f"webhook-id: {delivery_id}",
        f"webhook-timestamp: {timestamp}",
        f"webhook-signature: {standard}",
        "Accept: */*",
        "Expect:",  # curl would wait for a 100 before a larger body
    ]
    lines += [f"X-Service-Signature-Previous: {signing.signature(secret, post.body)}" for secret in post.secrets[1:]]
    if post.is_test:
        lines.append("X-Service-Mode: test")
    return lines
