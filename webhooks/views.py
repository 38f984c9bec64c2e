"""`/api/v1/webhooks`, `/deliveries` and `/events`: register, change, test, read, resend, recover; the feed."""

from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import F, Prefetch, QuerySet
from django.urls import reverse
from rest_framework import status, viewsets
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from codservice.api import schema
from codservice.api.adapters import location, needed_body, optional_body, unknown_first
from codservice.api.fields import read_body
from codservice.api.filters import FilterBackend
from codservice.api.paging import Pages, number_schema, query_parameters, read_number
from codservice.errors import Invalid, read_all
from codservice.form_fields import WordsField
from codservice.searches import searching
from webhooks import events, feed, recovery, registry, resending, serializers
from webhooks.filters import DeliveryFilter
from webhooks.models import Attempt, Delivery, DeliveryQuerySet, Event, Webhook
from webhooks.openapi import example_of


class WebhookViewSet(viewsets.GenericViewSet):
    scopes = {
        "list": "webhooks:read",
        "retrieve": "webhooks:read",
        "create": "webhooks:write",
        "destroy": "webhooks:write",
        "partial_update": "webhooks:write",
        "recover": "webhooks:write",
        "ping": "webhooks:write",
        "rotate_secret": "webhooks:write",
    }
    http_method_names = ["get", "head", "post", "patch", "delete"]

    def get_queryset(self) -> QuerySet[Webhook]:
        return Webhook.of(self.request.auth.account_id)

    @schema.describe(
        "Register a webhook",
        request=serializers.WebhookRegistration,
        example={"url": "https://shop.example/hooks/orders", "events": ["order.confirmed", "order.cancelled"]},
        answers={201: serializers.WebhookSecretAnswer},
        errors=(400, 413, 415, 422),
        has_location=True,
    )
    def create(self, request: Request) -> Response:
        """The signing secret is shown in this answer only. At most 20 webhooks per account."""
        wanted = read_body(serializers.WebhookRegistration, needed_body(request))
        webhook, secret = registry.register(request.auth.account_id, **wanted)
        body = _with_secret(webhook, secret)
        return Response(body, status.HTTP_201_CREATED, headers=location(request, webhook.id))

    @schema.describe("List webhooks", answers={200: serializers.WebhookListBody})
    def list(self, request: Request) -> Response:
        """All webhooks, oldest first."""
        webhooks = self.get_queryset().order_by("created_at", "id")
        return Response(serializers.WebhookListBody([serializers.webhook_body(webhook) for webhook in webhooks]))

    @schema.describe("Read a webhook", answers={200: serializers.WebhookAnswer}, errors=(404,))
    def retrieve(self, request: Request, id: UUID) -> Response:
        """Without its signing secret, which is shown only once."""
        return Response(serializers.WebhookAnswer(serializers.webhook_body(self.get_queryset().get(id=id))))

    @schema.describe("Delete a webhook", answers={204: None}, errors=(404,))
    def destroy(self, request: Request, id: UUID) -> Response:
        """Its pending deliveries are dropped: no attempt begins after this answer."""
        registry.delete(request.auth.account_id, id)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @schema.describe(
        "Change a webhook",
        request=serializers.WebhookChange,
        example={"url": "https://shop.example/hooks/new", "is_active": True},
        answers={200: serializers.WebhookAnswer},
        errors=(400, 404, 413, 415, 422),
    )
    def partial_update(self, request: Request, id: UUID) -> Response:
        """Changes the fields that are sent; the secret stays. While the webhook is off, nothing is kept for it:
        `recover` afterwards."""
        with unknown_first(self.get_queryset().filter(id=id)):
            changes = read_body(serializers.WebhookChange, optional_body(request))
        webhook = registry.change(request.auth.account_id, id, changes)
        return Response(serializers.WebhookAnswer(serializers.webhook_body(webhook)))

    @schema.describe(
        "Send a ping",
        request=serializers.WebhookPing,
        example={"event": "order.confirmed"},
        answers={202: serializers.DeliveryIdBody},
        errors=(400, 404, 413, 415, 422),
        has_location=True,
    )
    def ping(self, request: Request, id: UUID) -> Response:
        """Sends a signed delivery and tries it once; `Location` is where to read how it went. The body is optional:
        without `event`, a `ping` is sent; with it, an example of that event, whose body has `"example": true`."""
        with unknown_first(self.get_queryset().filter(id=id)):
            kind = read_body(serializers.WebhookPing, optional_body(request))["event"]
        example = example_of(kind)
        delivery_id = events.ping(request.auth.account_id, id, kind=kind, example=example)
        return _will_be_sent(delivery_id)

    @schema.describe(
        "Recover from an outage",
        request=serializers.WebhookRecovery,
        example={"since": "2026-03-01T08:00:00Z", "until": "2026-03-01T12:00:00Z"},
        answers={202: serializers.RecoveredBody},
        errors=(400, 404, 413, 415, 422),
    )
    def recover(self, request: Request, id: UUID) -> Response:
        """Sends the changes of that time whose deliveries failed, were dropped or were never made. Each is sent once,
        oldest first, if the webhook now subscribes to its kind."""
        body = optional_body(request)
        self.get_queryset().only("id").get(id=id)  # 404 for another account's, whatever the object says or without one
        since, until = serializers.read_recovery(body or needed_body(request))
        recovered = recovery.recover(request.auth.account_id, id, since=since, until=until)
        answer = serializers.RecoveredBody(recovered.deliveries, not recovered.is_over)
        return Response(answer, status.HTTP_202_ACCEPTED)

    @schema.describe("Rotate the signing secret", answers={200: serializers.WebhookSecretAnswer}, errors=(404,))
    def rotate_secret(self, request: Request, id: UUID) -> Response:
        """The new secret signs at once and is shown in this answer only; for 24 hours the old one signs too."""
        return Response(_with_secret(*registry.rotate_secret(request.auth.account_id, id)))


class DeliveryViewSet(viewsets.GenericViewSet):
    scopes = {"list": "webhooks:read", "retrieve": "webhooks:read", "resend": "webhooks:write"}
    http_method_names = ["get", "head", "post"]
    filter_backends = [FilterBackend]
    filterset_class = DeliveryFilter
    pagination_class = Pages

    def get_queryset(self) -> DeliveryQuerySet:
        return Delivery.of(self.request.auth.account_id)

    @schema.describe("List deliveries", answers={200: serializers.DeliveryListBody}, errors=(404, 422))
    def list(self, request: Request, id: UUID) -> Response:
        """The webhook's log, newest first, with the newest 8 attempts of each delivery."""
        webhook = Webhook.of(request.auth.account_id).only("is_active", "deleted_at").get(id=id)
        log = _as_logged(Delivery.objects.filter(webhook=webhook)).order_by("-created_at", "-id")
        chosen, by = self.filter_queryset(log), DeliveryFilter.searched_by(request.query_params)
        with searching(request.auth.account_id, request.query_params, by=by):
            page = self.paginate_queryset(chosen)
        for entry in page:
            entry.webhook = webhook
        entries = [serializers.delivery_body(entry) for entry in page]
        return Response(serializers.DeliveryListBody(entries, self.paginator.meta()))

    @schema.describe("Read a delivery", answers={200: serializers.DeliveryAnswer}, errors=(404,))
    def retrieve(self, request: Request, id: UUID) -> Response:
        """As in the log of its webhook."""
        found = _as_logged(self.get_queryset().with_webhook()).get(id=id)
        return Response(serializers.DeliveryAnswer(serializers.delivery_body(found)))

    @schema.describe(
        "Resend a delivery", answers={202: serializers.DeliveryIdBody}, errors=(404, 422), has_location=True
    )
    def resend(self, request: Request, id: UUID) -> Response:
        """Makes one more attempt now, with the same id and body. A pending delivery gets its next attempt now."""
        self.get_queryset().only("id").get(id=id)
        resending.resend_one(id)
        return _will_be_sent(id)


def _as_logged(deliveries: QuerySet[Delivery]) -> QuerySet[Delivery]:
    """Deliveries with what `serializers.delivery_body` needs but their webhook."""
    newest = Attempt.objects.filter(number__gt=F("delivery__attempt_count") - serializers.SHOWN_ATTEMPTS)
    attempts = Prefetch("attempts", newest.order_by("number"), to_attr="log_attempts")
    return deliveries.select_related("event").defer("event__body").prefetch_related(attempts)


def _will_be_sent(delivery_id: UUID) -> Response:
    """The answer that names a delivery that a worker is about to send, and where to read how it went."""
    where = {"Location": reverse("delivery", args=[delivery_id])}
    return Response(serializers.DeliveryIdBody(delivery_id), status.HTTP_202_ACCEPTED, headers=where)


CURSOR = {"type": "string", "pattern": r"^([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)?$", "maxLength": 128}
_KINDS = WordsField(words=tuple(Event.Kind.values), most=20)


class FeedPages(BasePagination):
    """Where a reader is in the feed, and how much they want."""

    def read(self, request: Request) -> dict[str, Any]:
        """Read the parameters. Raises Invalid with each value that cannot be used."""
        after, kinds, limit = read_all(
            lambda: self._after(request),
            lambda: self._kinds(request),
            lambda: read_number(request, "limit", feed.MOST, feed.MOST),
        )
        return {"after": after, "kinds": kinds, "limit": limit}

    def _after(self, request: Request) -> feed.Cursor | None:
        text = request.query_params.get("after")
        return feed.read_cursor(request.auth.account_id, text) if text else None

    def _kinds(self, request: Request) -> list[str]:
        if (text := request.query_params.get("types")) is None:
            return []
        try:
            return _KINDS.clean(text)
        except ValidationError as error:
            raise Invalid({"types": error.messages}) from None

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        kinds = {"minLength": 1, **_KINDS.openapi}
        after, *others = query_parameters(
            {
                "after": (
                    "The `next` of an earlier answer; empty or not sent: from the oldest event that is kept.",
                    CURSOR,
                ),
                "types": ("One or several kinds, separated by commas.", kinds),
                "limit": (f"How many events at most; {feed.MOST} by default.", number_schema(feed.MOST)),
            }
        )
        return [after | {"allowEmptyValue": True}, *others]


class EventViewSet(viewsets.GenericViewSet):
    scopes = {"list": "events:read"}
    http_method_names = ["get", "head"]
    pagination_class = FeedPages
    queryset = Event.objects.none()  # read by `feed.read`

    @schema.describe("Read the feed of events", answers={200: serializers.FeedBody}, errors=(410, 422))
    def list(self, request: Request) -> Response:
        """All events of the last 30 days, subscribed to or not, oldest first. A reader that follows `next` sees each
        event exactly once, even those that are committed late. A page costs one statement."""
        page = feed.read(request.auth.account_id, **self.paginator.read(request))
        return Response(serializers.feed_answer(page, request.auth.account_id))


def _with_secret(webhook: Webhook, secret: str) -> serializers.WebhookSecretAnswer:
    return serializers.WebhookSecretAnswer(serializers.webhook_body(webhook), secret)
