"""Webhooks and their deliveries on the wire: what may come in, and what goes out (contract, section 8)."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from rest_framework import serializers

from codservice.api.fields import Strict, read_body
from codservice.api.paging import PageMeta
from codservice.wire import Id, Moment
from webhooks import receivers
from webhooks.filters import EVENTS
from webhooks.models import Attempt, Delivery, Event, Webhook


class ReceiverField(Strict, serializers.CharField):
    """A URL that may be registered; gives it as it is stored and dialled."""

    def clean(self, data: Any) -> str:
        if type(data) is not str:
            raise ValueError("Must be a string.")
        return receivers.normalise(data)

    @property
    def openapi(self) -> dict[str, Any]:
        """Plain names of hosts; more is understood."""
        label = "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?"
        pattern = rf"^https://({label}\.){{1,3}}[a-z]{{2,10}}(:443)?(/[A-Za-z0-9._~-]{{1,40}}){{0,5}}$"
        return {"type": "string", "format": "uri", "maxLength": self.max_length, "pattern": pattern}


class KindsField(Strict, serializers.ListField):
    """The kinds of events to subscribe to: one or several, each once."""

    openapi = {
        "type": "array",
        "items": {"type": "string", "enum": Event.Kind.values},
        "minItems": 1,
        "uniqueItems": True,
    }

    def clean(self, data: Any) -> list[str]:
        kinds = Event.Kind.values
        if type(data) is not list:
            raise ValueError("Must be an array of kinds of events.")
        if any(type(kind) is not str or kind not in kinds for kind in data):
            raise ValueError(f"Must hold nothing but: {', '.join(kinds)}.")
        if not data or len(set(data)) != len(data):
            raise ValueError(f"Must hold 1 to {len(kinds)} kinds of events, each once.")
        return data


class WebhookRegistration(serializers.Serializer):
    url = ReceiverField(max_length=receivers.MAX_LENGTH, help_text="https:, a public host, port 443 or from 1024 on.")
    events = KindsField()


_REGISTRATION = WebhookRegistration()


def read_registration(body: dict[str, Any]) -> dict[str, Any]:
    """`url`, normalised, and `events` of a request's body. Raises Invalid with all its problems."""
    return read_body(_REGISTRATION, body)


# --- Out ---------------------------------------------------------------------------------------------------------


class WebhookBody(Struct):
    id: Id
    url: Annotated[str, Meta(description="Normalised: what is dialled.")]
    events: list[Annotated[str, Meta(extra_json_schema={"enum": Event.Kind.values})]]
    is_active: bool
    signing_secret_hint: Annotated[str, Meta(description="The secret's first 10 characters.")]


class WebhookAnswer(Struct):
    data: WebhookBody


class WebhookSecretAnswer(Struct):
    data: WebhookBody
    signing_secret: Annotated[str, Meta(description="Shown here and never again.")]


class WebhookListBody(Struct):
    data: list[WebhookBody]


class AttemptBody(Struct):
    number: Annotated[int, Meta(ge=1)]
    at: Annotated[Moment, Meta(description="When it ended.")]
    status_code: Annotated[int | None, Meta(description="Of the answer, when there was one.")]
    failure: Annotated[str | None, Meta(description="Why it was no acknowledgement; null when it was one.")]
    milliseconds: int
    response: Annotated[str, Meta(description="The first 2 KiB of the answer's body.")]


class DeliveryBody(Struct):
    id: Annotated[Id, Meta(description="`X-Service-Delivery`")]
    event: Annotated[str, Meta(extra_json_schema={"enum": EVENTS})]
    status: Annotated[str, Meta(extra_json_schema={"enum": Delivery.Status.values})]
    attempt_count: int
    next_attempt_at: Annotated[Moment | None, Meta(description="Of a pending one.")]
    created_at: Annotated[Moment, Meta(description="The time of the change.")]
    attempts: list[AttemptBody]


class DeliveryListBody(Struct):
    data: list[DeliveryBody]
    meta: PageMeta


class DeliveryIdBody(Struct):
    delivery_id: Id


def webhook_body(webhook: Webhook) -> WebhookBody:
    return WebhookBody(webhook.id, webhook.url, webhook.events, webhook.is_active, webhook.secret_hint)


def delivery_body(delivery: Delivery) -> DeliveryBody:
    """An entry of the log; `delivery` comes with its event, and with its attempts as `log_attempts`."""
    return DeliveryBody(
        id=delivery.id,
        event=delivery.event.kind,
        status=delivery.status,
        attempt_count=delivery.attempt_count,
        next_attempt_at=delivery.next_attempt_at,
        created_at=delivery.created_at,
        attempts=[_attempt_body(attempt) for attempt in delivery.log_attempts],  # type: ignore[attr-defined]
    )


def _attempt_body(attempt: Attempt) -> AttemptBody:
    return AttemptBody(
        number=attempt.number,
        at=attempt.ended_at,
        status_code=attempt.status_code,
        failure=attempt.failure or None,
        milliseconds=attempt.milliseconds,
        response=bytes(attempt.response).decode(errors="replace"),
    )
