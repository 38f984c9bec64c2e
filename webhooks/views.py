"""`/api/v1/webhooks` and `/api/v1/deliveries`: register, list, delete, try, look, resend (contract, section 8)."""

from uuid import UUID

from django.db.models import Prefetch, QuerySet
from django.utils import timezone
from rest_framework import status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from codservice.api import schema
from codservice.api.filters import FilterBackend
from codservice.api.paging import Pages
from codservice.errors import Refused
from webhooks import delivery, events, registry, serializers
from webhooks.filters import DeliveryFilter
from webhooks.models import Attempt, Delivery, Webhook


class TooManyAttempts(Refused):
    def __init__(self) -> None:
        super().__init__(f"This delivery has had {delivery.MOST_ATTEMPTS} attempts, which is the most.")

    code = "too_many_attempts"


class WebhookViewSet(viewsets.GenericViewSet):
    scopes = {
        "list": "webhooks:read",
        "retrieve": "webhooks:read",
        "create": "webhooks:write",
        "destroy": "webhooks:write",
        "ping": "webhooks:write",
        "rotate_secret": "webhooks:write",
    }
    http_method_names = ["get", "head", "post", "delete"]

    def get_queryset(self) -> QuerySet[Webhook]:
        return _webhooks(self.request)

    @schema.describe(
        "Register a webhook",
        request=serializers.WebhookRegistration,
        example={"url": "https://shop.example/hooks/orders", "events": ["order.confirmed", "order.cancelled"]},
        answers={201: serializers.WebhookSecretAnswer},
        errors=(400, 413, 415, 422),
    )
    def create(self, request: Request) -> Response:
        """The signing secret is shown in this answer only. At most 20 webhooks per account."""
        webhook, secret = registry.register(request.auth.account_id, **serializers.read_registration(request.data))
        return _with_secret(webhook, secret, status.HTTP_201_CREATED)

    @schema.describe("List webhooks", answers={200: serializers.WebhookListBody})
    def list(self, request: Request) -> Response:
        """All of them, oldest first."""
        webhooks = self.get_queryset().order_by("created_at", "id")
        return Response(serializers.WebhookListBody([serializers.webhook_body(webhook) for webhook in webhooks]))

    @schema.describe("Read a webhook", answers={200: serializers.WebhookAnswer}, errors=(404,))
    def retrieve(self, request: Request, id: UUID) -> Response:
        """Without its signing secret, which is shown only once."""
        return Response(serializers.WebhookAnswer(serializers.webhook_body(self.get_queryset().get(id=id))))

    @schema.describe("Delete a webhook", answers={204: None}, errors=(404,))
    def destroy(self, request: Request, id: UUID) -> Response:
        """What it has waiting is dropped: no attempt begins after this answer."""
        registry.delete(request.auth.account_id, id)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @schema.describe("Send a ping", answers={202: serializers.DeliveryIdBody}, errors=(404,))
    def ping(self, request: Request, id: UUID) -> Response:
        """A signed delivery of the event `ping`, tried once; the log says how it went."""
        delivery_id = events.ping(request.auth.account_id, id, at=timezone.now())
        return Response(serializers.DeliveryIdBody(delivery_id), status.HTTP_202_ACCEPTED)

    @schema.describe("Rotate the signing secret", answers={200: serializers.WebhookSecretAnswer}, errors=(404,))
    def rotate_secret(self, request: Request, id: UUID) -> Response:
        """The new secret signs at once and is shown in this answer only; for 24 hours the old one signs too."""
        return _with_secret(*registry.rotate_secret(request.auth.account_id, id))


class DeliveryViewSet(viewsets.GenericViewSet):
    scopes = {"list": "webhooks:read", "resend": "webhooks:write"}
    http_method_names = ["get", "head", "post"]
    filter_backends = [FilterBackend]
    filterset_class = DeliveryFilter
    pagination_class = Pages

    def get_queryset(self) -> QuerySet[Delivery]:
        return Delivery.objects.filter(webhook__account_id=self.request.auth.account_id, webhook__deleted_at=None)

    @schema.describe("List deliveries", answers={200: serializers.DeliveryListBody}, errors=(404, 422))
    def list(self, request: Request, id: UUID) -> Response:
        """The webhook's log, newest first, with every attempt."""
        webhook = _webhooks(request).only("id").get(id=id)
        log = (
            Delivery.objects.filter(webhook=webhook)
            .order_by("-created_at", "-id")
            .select_related("event")
            .defer("event__body")
            .prefetch_related(Prefetch("attempts", Attempt.objects.order_by("number"), to_attr="log_attempts"))
        )
        page = self.paginate_queryset(self.filter_queryset(log))
        entries = [serializers.delivery_body(delivery) for delivery in page]
        return Response(serializers.DeliveryListBody(entries, self.paginator.meta()))

    @schema.describe("Resend a delivery", answers={202: serializers.DeliveryIdBody}, errors=(404, 422))
    def resend(self, request: Request, id: UUID) -> Response:
        """One more attempt, now, with the same id and body; for a pending one its next attempt, now."""
        found = self.get_queryset().only("id", "attempt_count").get(id=id)
        if not delivery.resend([found.id]):
            if found.attempt_count >= delivery.MOST_ATTEMPTS:
                raise TooManyAttempts
            raise Delivery.DoesNotExist  # its webhook was deleted meanwhile
        return Response(serializers.DeliveryIdBody(found.id), status.HTTP_202_ACCEPTED)


def _webhooks(request: Request) -> QuerySet[Webhook]:
    webhooks = Webhook.objects.filter(account_id=request.auth.account_id, deleted_at=None)
    return webhooks.defer("secret", "previous_secret")


def _with_secret(webhook: Webhook, secret: str, status_code: int = status.HTTP_200_OK) -> Response:
    return Response(serializers.WebhookSecretAnswer(serializers.webhook_body(webhook), secret), status_code)
