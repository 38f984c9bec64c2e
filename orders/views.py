"""`/api/v1/orders` and `/api/v1/shipping-fees` (docs/orders.md)."""

from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from rest_framework import status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from codservice.accounts.actor import Actor
from codservice.api import idempotency, schema
from codservice.api.adapters import location, needed_body, optional_body, unknown_first
from codservice.api.conditional import answer_unless_known, check_match, weak_etag
from codservice.api.fields import read_body
from codservice.api.filters import FilterBackend
from codservice.api.paging import Pages
from codservice.errors import Invalid
from codservice.searches import searching
from orders import amending, batches, bodies, fees, importing, lifecycle, openapi, reading, serializers
from orders.batches import OrderBatchBody, OrderBatchRefusedBody
from orders.filters import OrderFilter
from orders.models import Order, Status


class OrderViewSet(viewsets.GenericViewSet):
    scopes = {
        "list": "orders:read",
        "retrieve": "orders:read",
        "create": "orders:write",
        "batch": "orders:write",
        "partial_update": "orders:write",
        "cancel": "orders:write",
    }
    http_method_names = ["get", "head", "post", "patch"]
    filter_backends = [FilterBackend]
    filterset_class = OrderFilter
    pagination_class = Pages

    def get_queryset(self) -> QuerySet[Order]:
        return Order.objects.filter(account_id=self.request.auth.account_id)

    @schema.describe(
        "Import an order",
        request=serializers.OrderImport,
        example=openapi.SENT,
        answers={201: bodies.OrderBody},
        shown={201: openapi.IMPORTED},
        errors=(400, 409, 413, 415, 422),
        is_idempotent=True,
        has_location=True,
    )
    @idempotency.once
    def create(self, request: Request) -> Response:
        """The order stays `pending_confirmation` until an agent has reached the customer."""
        body = needed_body(request)
        (order,) = importing.import_orders(request.auth.account_id, [body], actor=Actor.of_key(request.auth))
        if isinstance(order, Invalid):
            raise order
        return Response(order, status.HTTP_201_CREATED, headers=location(request, order.id))

    @schema.describe(
        "Import a batch of orders",
        request=serializers.OrderBatch,
        example={"orders": [openapi.SENT, openapi.SENT | {"external_id": "1043", "total_amount": 5300}]},
        answers={201: OrderBatchBody, 207: OrderBatchBody, 422: OrderBatchRefusedBody},
        shown=openapi.BATCH,
        errors=(400, 409, 413, 415),
        is_idempotent=True,
    )
    @idempotency.once
    def batch(self, request: Request) -> Response:
        """Each order is imported by itself: 201 when all were imported, 207 when some were not, 422 when none was."""
        body = batches.import_batch(request.auth.account_id, needed_body(request), actor=Actor.of_key(request.auth))
        if isinstance(body, OrderBatchRefusedBody):
            return Response(body, status.HTTP_422_UNPROCESSABLE_ENTITY)
        return Response(body, status.HTTP_207_MULTI_STATUS if body.errors else status.HTTP_201_CREATED)

    @schema.describe("List orders", answers={200: bodies.OrderListBody}, errors=(422,))
    def list(self, request: Request) -> Response:
        """Newest first. A page past the end is empty; `meta.total` is exact. With `cursor`, nothing is counted."""
        with searching(request.auth.account_id, request.query_params):
            orders = self.filter_queryset(self.get_queryset().order_by("-created_at", "-id"))
            page = self.paginate_queryset(orders.values(*bodies.LISTED))
        return Response(bodies.OrderListBody([bodies.listed(row) for row in page], self.paginator.meta()))

    @schema.describe(
        "Read an order",
        answers={200: bodies.OrderDetailBody},
        shown={200: openapi.detail()},
        errors=(404,),
        has_etag=True,
    )
    def retrieve(self, request: Request, id: UUID) -> HttpResponse:
        """The order with its call notes and history. `If-None-Match` saves reading it again when it has not changed."""
        return answer_unless_known(request, self._detail(id))

    @schema.describe(
        "Change an order",
        request=serializers.OrderChanges,
        example=openapi.CHANGES,
        answers={200: bodies.OrderDetailBody},
        shown={200: openapi.CHANGED},
        errors=(400, 404, 412, 413, 415, 422),
        has_precondition=True,
    )
    def partial_update(self, request: Request, id: UUID) -> HttpResponse:
        """Possible while it is pending. Fields not sent stay; `items` replaces all lines. `edits` has the changes."""
        amending.amend(
            request.auth.account_id,
            id,
            optional_body(request),
            actor=Actor.of_key(request.auth),
            check=lambda: check_match(request, lambda: self._detail(id)),
        )
        body = self._detail(id)
        return Response(body, headers={"ETag": weak_etag(body)})

    @schema.describe(
        "Cancel an order",
        request=serializers.OrderCancel,
        example={"reason": "Out of stock"},
        answers={200: bodies.OrderDetailBody},
        shown={200: openapi.detail(Status.CANCELED, actor=openapi.KEY, reason="Out of stock")},
        errors=(400, 404, 413, 415, 422),
    )
    def cancel(self, request: Request, id: UUID) -> Response:
        """Possible until the order is shipped. The body is optional, and canceling twice is harmless."""
        with unknown_first(self.get_queryset().filter(id=id)):
            reason = read_body(serializers.OrderCancel, optional_body(request))["reason"]
        lifecycle.cancel(id, account_id=request.auth.account_id, actor=Actor.of_key(request.auth), reason=reason)
        return Response(self._detail(id))

    def _detail(self, id: UUID) -> bodies.OrderDetailBody:
        return bodies.detail(reading.read(self.request.auth.account_id, id))


class ShippingFeeViewSet(viewsets.GenericViewSet):
    scopes = {"list": "orders:read", "update": "orders:write"}
    http_method_names = ["get", "head", "put"]

    @schema.describe("Read the shipping fees", answers={200: fees.ShippingFeeListBody}, has_etag=True)
    def list(self, request: Request) -> HttpResponse:
        """The fees of each wilaya that has any.

        Orders written by hand or uploaded in a file get them; an import by API sends its own fee.
        """
        return answer_unless_known(request, fees.of_account(request.auth.account_id))

    @schema.describe(
        "Set shipping fees",
        request=fees.ShippingFees,
        example={"fees": [{"wilaya": "16", "home": 400, "desk": 250}, {"wilaya": "Oran", "home": 600, "desk": None}]},
        answers={200: fees.ShippingFeeListBody},
        errors=(400, 413, 415, 422),
    )
    def update(self, request: Request) -> Response:
        """Sets all fees that are sent or, if one is wrong, none. Null removes a fee. Answers with the list."""
        account_id = request.auth.account_id
        fees.set_fees(account_id, read_body(fees.ShippingFees, needed_body(request))["fees"])
        return Response(fees.of_account(account_id))
