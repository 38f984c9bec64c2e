"""Webhooks and their deliveries in requests and responses (docs/webhooks.md)."""

from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from rest_framework import serializers

from codservice import days, retention, values
from codservice.api.fields import Body, Boolean, Strict, Text, Word, read_body
from codservice.api.paging import ListMeta
from codservice.errors import Invalid
from codservice.form_fields import MomentField as FilterMoment
from codservice.wire import Id, Moment, one_of
from webhooks import feed, receivers
from webhooks.models import Attempt, Delivery, Event, Webhook

SHOWN_ATTEMPTS = 8  # per delivery, so that a page of 100 has at most some megabytes, whatever was answered


class ReceiverField(Strict, serializers.CharField):
    """A URL that may be registered, converted to the form in which it is stored and dialled."""

    def clean(self, data: Any) -> str:
        if type(data) is not str:
            raise ValueError("Must be a string.")
        return receivers.normalise(data)

    @property
    def openapi(self) -> dict[str, Any]:
        pattern = f"^{values.LINK_PATTERN}$"
        return {"type": "string", "format": "uri", "maxLength": self.max_length, "pattern": pattern}


class KindsField(Strict, serializers.ListField):
    """The kinds of events to subscribe to: one or more, each once."""

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
            raise ValueError(f"Must contain only: {', '.join(kinds)}.")
        if not data or len(set(data)) != len(data):
            raise ValueError(f"Must hold 1 to {len(kinds)} kinds of events, each once.")
        return data


class MomentField(Strict, serializers.CharField):
    """A time or a day, in the forms that filters accept too."""

    openapi = FilterMoment.openapi

    def __init__(self, *, ends: bool = False, **kwargs: Any) -> None:
        self.ends = ends
        super().__init__(**kwargs)

    def clean(self, data: Any) -> datetime:
        if type(data) is not str:
            raise ValueError("Must be a string.")
        return days.read_moment(data, ends=self.ends)


class WebhookRegistration(Body):
    url = ReceiverField(
        max_length=receivers.MAX_LENGTH, help_text="An https: URL of a public host, with port 443 or one from 1024 on."
    )
    events = KindsField()
    is_active = Boolean(
        allow_null=True, default=True, help_text="With `false`, nothing is sent or kept for it until you turn it on."
    )
    description = Text(max_length=255, allow_null=True, allow_blank=True, default="")


class WebhookChange(Body):
    only_sent = True

    url = ReceiverField(max_length=receivers.MAX_LENGTH, required=False)
    events = KindsField(required=False)
    is_active = Boolean(required=False, help_text="`false` drops pending deliveries, and nothing more is sent.")
    description = Text(max_length=255, allow_null=True, allow_blank=True, default="")


class WebhookPing(Body):
    event = Word(choices=Event.Kind.choices, allow_null=True, default=None, help_text="Send an example of this event.")


class WebhookRecovery(Body):
    since = MomentField(
        help_text="Recover changes from this time on, which is at most 30 days ago and not in the future."
    )
    until = MomentField(
        allow_null=True, default=None, ends=True, help_text="Recover changes before this time; now by default."
    )


_CLOCKS_DIFFER = timedelta(minutes=5)  # a client's and ours


def read_recovery(body: dict[str, Any]) -> tuple[datetime, datetime | None]:
    """Return `since` and `until`. Raises Invalid, also for times that the feed no longer shows or that are to come."""
    read = read_body(WebhookRecovery, body)
    since, until = read["since"], read["until"]
    now = retention.now()  # by the database's clock, as changes are dated
    errors = {}
    if since < (earliest := now - feed.SHOWN) - _CLOCKS_DIFFER:
        errors["since"] = [f"Must not be before {earliest:%Y-%m-%dT%H:%M:%SZ}: older changes are no longer kept."]
    elif since > now + _CLOCKS_DIFFER:
        errors["since"] = ["Must not be in the future."]
    if until is not None and until <= since:
        errors["until"] = ["Must be after `since`."]
    if errors:
        raise Invalid(errors)
    return since, until


# --- What goes out -----------------------------------------------------------------------------------------------


class WebhookBody(Struct):
    id: Id
    url: Annotated[str, Meta(description="The normalised URL that deliveries are sent to.")]
    events: list[Annotated[str, one_of(Event.Kind.values)]]
    is_active: bool
    signing_secret_hint: Annotated[str, Meta(description="The secret's first 10 characters.")]
    description: Annotated[str, Meta(description="Your own note about it, if there is one.")] | UnsetType = UNSET
    previous_secret_until: (
        Annotated[Moment, Meta(description="Until when the secret before signs too, while it does.")] | UnsetType
    ) = UNSET


class WebhookAnswer(Struct):
    data: WebhookBody


class WebhookSecretAnswer(Struct):
    data: WebhookBody
    signing_secret: Annotated[str, Meta(description="Shown only in this answer.")]


class WebhookListBody(Struct):
    data: list[WebhookBody]


class AttemptBody(Struct):
    number: Annotated[int, Meta(ge=1)]
    at: Annotated[Moment, Meta(description="When the attempt ended.")]
    status_code: Annotated[int | None, Meta(description="Status of the answer, if there was one.")]
    failure: Annotated[str | None, Meta(description="Why the attempt failed; null if it was acknowledged.")]
    milliseconds: int
    response: Annotated[
        str,
        Meta(description="The first 2 KiB of the answer's body. For a redirect, a line above it says where it leads."),
    ]


class DeliveryBody(Struct):
    id: Annotated[Id, Meta(description="`X-Service-Delivery`")]
    event_id: Annotated[
        Id, Meta(description="`X-Service-Event-Id`, the event's `id` in the feed; pings are not there.")
    ]
    event: Annotated[str, one_of(Event.KINDS)]
    status: Annotated[str, Meta(extra_json_schema={"enum": Delivery.Status.values})]
    attempt_count: int
    next_attempt_at: Annotated[Moment | None, Meta(description="When a pending delivery is tried next.")]
    created_at: Annotated[Moment, Meta(description="The time of the change.")]
    attempts: Annotated[list[AttemptBody], Meta(description=f"The newest {SHOWN_ATTEMPTS} attempts, in order.")]


class DeliveryAnswer(Struct):
    data: DeliveryBody


class DeliveryListBody(Struct):
    data: list[DeliveryBody]
    meta: ListMeta


class FeedEventBody(Struct):
    """An event of the feed: the bytes that webhooks receive, preceded by the event's id."""

    id: Annotated[Id, Meta(description="`X-Service-Event-Id`")]
    event: Annotated[str, one_of(Event.Kind.values)]
    timestamp: Annotated[Moment, Meta(description="The time of the change.")]
    data: Annotated[dict[str, Any], Meta(description="The `data` that webhooks receive.")]


class FeedBody(Struct):
    data: list[FeedEventBody]
    next: Annotated[str, Meta(description="The `after` for the next call, even if there is nothing more for now.")]
    has_more: bool


class FeedAnswer(Struct):
    """A FeedBody, made of the bytes that were fixed when the events happened."""

    data: list[Raw]
    next: str
    has_more: bool


def feed_answer(page: feed.Page, account_id: UUID) -> FeedAnswer:
    entries = [Raw(f'{{"id":"{event.id}",{event.body[1:]}'.encode()) for event in page.events]
    return FeedAnswer(entries, page.next.sign(account_id), page.has_more)


class DeliveryIdBody(Struct):
    delivery_id: Id


class RecoveredBody(Struct):
    deliveries: Annotated[int, Meta(ge=0, description="How many are sent, or sent again.")]
    has_more: Annotated[bool, Meta(description="True if it was not over yet: a worker goes on with it.")]


def webhook_body(webhook: Webhook) -> WebhookBody:
    body = WebhookBody(webhook.id, webhook.url, webhook.events, webhook.is_active, webhook.secret_hint)
    if webhook.description:
        body.description = webhook.description
    if until := webhook.both_sign_until:
        body.previous_secret_until = until
    return body


def delivery_body(delivery: Delivery) -> DeliveryBody:
    """Return an entry of the log. `delivery` has its event and webhook loaded, and its attempts in `log_attempts`."""
    status = delivery.shown_status()
    return DeliveryBody(
        id=delivery.id,
        event_id=delivery.event_id,
        event=delivery.event.kind,
        status=status,
        attempt_count=delivery.attempt_count,
        next_attempt_at=delivery.next_attempt_at if status == Delivery.Status.PENDING else None,
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
        response=attempt.answer,
    )
