"""An attempt as it is sent, and its outcome. Knows neither the ORM nor an HTTP client."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from codservice import __version__
from webhooks import signing

# Why an attempt was not acknowledged, for the log. Everything that prevents a connection has one word and takes one
# time (`webhooks.transfer`): telling refused from filtered would make us somebody's port scanner.
FAILURES = TIMEOUT, UNREACHABLE, BLOCKED, TLS, BAD_ANSWER, STATUS, NO_SECRET = (
    "timeout", "unreachable", "blocked_address", "tls", "bad_answer", "status", "unreadable_secret")  # fmt: skip
UNRECORDED = "unrecorded"  # an error on our side: the attempt's result could not be written


@dataclass(slots=True)
class Post:
    """An attempt to be made: the ids of delivery and event, the exact bytes, and the secrets that sign them."""

    delivery_id: UUID
    url: str
    event: str
    body: bytes
    # As shown to the merchant, newest first. Empty when the newest cannot be decrypted.
    secrets: Sequence[str] = field(repr=False)
    attempt: int
    event_id: UUID | None = None
    webhook_id: str = ""  # for the log, as is the account; to read a UUID takes longer
    account_id: str = ""
    is_test: bool = False  # whether it belongs to an account's twin
    is_failing: bool = False  # whether its webhook's last attempt had failed when this one was claimed
    request_id: str = ""  # of the request that made the change, for the log
    # In time.monotonic(): a post that begins later has to have its claim renewed first (`webhooks.delivery`).
    begin_by: float = math.inf
    # From time.monotonic() to seconds since 1970 by the database's clock: receivers refuse timestamps of a wrong clock.
    offset: float = field(default_factory=lambda: time.time() - time.monotonic())


@dataclass(slots=True)
class Outcome:
    """How an attempt went. `failure` is empty when it was acknowledged."""

    post: Post
    failure: str
    status_code: int | None
    milliseconds: int
    response: bytes


def headers(post: Post, now: float) -> list[str]:
    """Return all headers of an attempt that is made at `now` (seconds since 1970)."""
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
        "Expect:",  # without this, curl waits for a 100 before a larger body
    ]
    lines += [f"X-Service-Signature-Previous: {signing.signature(secret, post.body)}" for secret in post.secrets[1:]]
    if post.is_test:
        lines.append("X-Service-Mode: test")
    return lines
