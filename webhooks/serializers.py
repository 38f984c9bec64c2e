"""Webhooks and their deliveries on the wire: what may come in, and what goes out (contract, section 8)."""

from typing import Any

from rest_framework import serializers

from codservice.api.error_answers import flatten
from codservice.api.fields import Strict
from codservice.api.paging import PageMetaSerializer as PageMeta
from codservice.errors import Invalid
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
    try:
        return _REGISTRATION.run_validation(body)
    except serializers.ValidationError as error:
        raise Invalid(flatten(error.detail)) from None


# --- Out: the functions make the bodies, the classes describe them for OpenAPI -------------------------------------


def webhook_body(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": webhook.events,
        "is_active": webhook.is_active,
        "signing_secret_hint": webhook.secret_hint,
    }


def delivery_body(delivery: Delivery) -> dict[str, Any]:
    """An entry of the log; `delivery` comes with its event, and with its attempts as `log_attempts`."""
    return {
        "id": delivery.id,
        "event": delivery.event.kind,
        "status": delivery.status,
        "attempt_count": delivery.attempt_count,
        "next_attempt_at": delivery.next_attempt_at,
        "created_at": delivery.created_at,
        "attempts": [_attempt_body(attempt) for attempt in delivery.log_attempts],  # type: ignore[attr-defined]
    }


def _attempt_body(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "at": attempt.ended_at,
        "status_code": attempt.status_code,
        "failure": attempt.failure or None,
        "milliseconds": attempt.milliseconds,
        "response": bytes(attempt.response).decode(errors="replace"),
    }


class WebhookBody(serializers.Serializer):
    id = serializers.UUIDField()
    url = serializers.CharField(help_text="Normalised: what is dialled.")
    events = serializers.ListField(child=serializers.ChoiceField(Event.Kind.choices))
    is_active = serializers.BooleanField()
    signing_secret_hint = serializers.CharField(help_text="The secret's first 10 characters.")


class WebhookAnswer(serializers.Serializer):
    data = WebhookBody()


class WebhookSecretAnswer(serializers.Serializer):
    data = WebhookBody()
    signing_secret = serializers.CharField(help_text="Shown here and never again.")


class WebhookListBody(serializers.Serializer):
    data = WebhookBody(many=True)


class AttemptBody(serializers.Serializer):
    number = serializers.IntegerField(min_value=1)
    at = serializers.DateTimeField(help_text="When it ended.")
    status_code = serializers.IntegerField(allow_null=True, help_text="Of the answer, when there was one.")
    failure = serializers.CharField(allow_null=True, help_text="Why it was no acknowledgement; null when it was one.")
    milliseconds = serializers.IntegerField()
    response = serializers.CharField(help_text="The first 2 KiB of the answer's body.")


class DeliveryBody(serializers.Serializer):
    id = serializers.UUIDField(help_text="`X-Service-Delivery`")
    event = serializers.ChoiceField([(kind, kind) for kind in EVENTS])
    status = serializers.ChoiceField(Delivery.Status.choices)
    attempt_count = serializers.IntegerField()
    next_attempt_at = serializers.DateTimeField(allow_null=True, help_text="Of a pending one.")
    created_at = serializers.DateTimeField(help_text="The time of the change.")
    attempts = AttemptBody(many=True)


class DeliveryListBody(serializers.Serializer):
    data = DeliveryBody(many=True)
    meta = PageMeta()


class DeliveryIdBody(serializers.Serializer):
    delivery_id = serializers.UUIDField()
