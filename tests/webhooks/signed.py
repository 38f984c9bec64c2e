"""Deliveries as they are signed and sent, for tests of receivers."""

import time
from uuid import UUID, uuid4

from webhooks import posts, secrets

SECRET = secrets.make_secret()
OLD_SECRET = secrets.make_secret()
EVENT_ID = UUID("01954f6e-5b6c-7a1b-9c2d-3e4f5a6b7c8d")  # as in the guide
BODIES = [
    body.encode()
    for body in (
        '{"event":"order.confirmed","data":{"customer_name":"سميرة بن علي","total_amount":12.50}}',
        '{"event":"order.cancelled","data":{"customer_name":"👩‍👩‍👧 🇩🇿 é é","total_amount":0.10}}',
        '{"event":"inventory.updated","data":{"sku":"a\u2028b\u2029c\ufeff\u200f","old_quantity":0}}',
        r'{"event":"order.confirmed","data":{"customer_name":"\"<script>' + "'" + r'%s ${x} $(id) `id` \\ \/ \n \t"}}',
        '{"event":"order.confirmed","timestamp":"2026-03-01T10:15:30.123456Z","data":{"status":"confirmed"}}',
    )
]


def headers_of(body: bytes, *used: str, now: float | None = None, delivery_id: UUID | None = None) -> dict[str, str]:
    """Return the headers of a delivery as it is sent, signed with the secrets in `used`."""
    post = posts.Post(delivery_id or uuid4(), "https://shop.example/", "order.confirmed", body, used or (SECRET,), 1)
    post.event_id = EVENT_ID
    lines = posts.headers(post, time.time() if now is None else now)
    return dict(line.split(": ", 1) for line in lines if ": " in line)
