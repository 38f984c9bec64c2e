"""Deliveries in the OpenAPI description: the requests that we send, under `webhooks`."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string
from drf_spectacular.utils import OpenApiWebhook
from msgspec import Struct

from codservice.api.schema import as_json, struct_schema
from webhooks.events import PingEvent
from webhooks.models import Event

AT = datetime(2026, 3, 1, 10, 15, 30, 123456, tzinfo=UTC)  # the time of every example
_TEXT = {"type": "string"}
_HEADERS = {
    "X-Service-Event": "The event.",
    "X-Service-Delivery": "The delivery's id, the same for all its attempts and resends: drop those you know.",
    "X-Service-Event-Id": "The event's id, as in the feed: the same for every webhook.",
    "X-Service-Attempt": "The number of this attempt, from 1.",
    "X-Service-Signature": "`sha256=` and the hexadecimal HMAC-SHA256 of the raw body, keyed with the signing secret.",
    "webhook-id": "The delivery's id, for Standard Webhooks.",
    "webhook-timestamp": "Seconds since 1970 at this attempt, for Standard Webhooks.",
    "webhook-signature": "For Standard Webhooks: `v1,` and base64; two of them while two secrets sign.",
}
_AT_TIMES = {
    "X-Service-Signature-Previous": "The same, keyed with the previous secret, for 24 hours after a rotation.",
    "X-Service-Mode": "`test` for deliveries of test mode.",
}


_EXAMPLES: dict[str, Struct] = {}


def example_of(kind: str | None) -> Struct | None:
    """Return the `data` of an example of this kind of event; None for none."""
    if kind is None:
        return None
    for name in settings.SPECTACULAR_SETTINGS["WEBHOOKS"]:
        import_string(name)
    return _EXAMPLES[kind]


def delivery(kind: str, summary: str, example: Struct) -> OpenApiWebhook:
    """Describe the deliveries of a kind of event, with an example of its `data`, which pings send too.

    `WEBHOOKS` in SPECTACULAR_SETTINGS lists them all.
    """
    kind = str(kind)
    _EXAMPLES[kind] = example
    body: dict[str, Any] = {
        "type": "object",
        "required": ["event", "timestamp", "data"],
        "properties": {
            "event": {"type": "string", "const": kind},
            "timestamp": _TEXT | {"format": "date-time", "description": "The time of the change."},
            "data": struct_schema(type(example)),
        },
    }
    if kind != Event.PING:
        text = "Only in examples that a ping requested: nothing has happened."
        body["properties"]["example"] = {"const": True, "description": text}
    whole = as_json({"event": kind, "timestamp": AT, "data": example})
    otherwise = (
        "Pings and examples are tried once only" if kind == Event.PING else "Otherwise the delivery is tried again"
    )
    headers = [(name, text, True) for name, text in _HEADERS.items()]
    headers += [(name, text, False) for name, text in _AT_TIMES.items()]
    return OpenApiWebhook(
        kind,
        {
            "post": {
                "operationId": f"deliveries_{kind.replace('.', '_')}",
                "summary": summary,
                "description": f"Answer with any 2xx within 3 seconds. {otherwise}.",
                "tags": ["deliveries"],
                "security": [],  # no key of ours: the receiver verifies the signature
                "parameters": [
                    {"name": name, "in": "header", "required": is_always, "description": text, "schema": _TEXT}
                    for name, text, is_always in headers
                ],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": body, "examples": {"Example": {"value": whole}}}},
                },
                "responses": {"2XX": {"description": "Acknowledged; the answer's body is kept for the log only."}},
            }
        },
    )


PING = delivery(Event.PING, "A ping was requested", PingEvent(UUID("01954f6e-4d5e-7e6f-9071-23456789abcd")))
