"""`/api/v1/orders`: import, list, detail, cancel (contract, section 5)."""

from uuid import UUID

from django.http import HttpResponse
from rest_framework import status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from codservice.accounts.actor import Actor
from codservice.api import idempotency, schema
from codservice.api.conditional import answer_unless_known
from codservice.api.filters import FilterBackend
from codservice.api.paging import Pages
from codservice.errors import Invalid
from orders import bodies, importing, lifecycle, serializers
from orders.filters import OrderFilter
from orders.models import Order, OrderQuerySet

_EXAMPLE = {
    "external_id": "1042",
    "customer_name": "Amine Benali",
    "customer_phone": "0550123456",
    "customer_address": "12 rue Didouche Mourad",
    "customer_wilaya": "16",
    "customer_commune": "Bab Ezzouar",
    "total_amount": 4900,
    "shipping_fee": 400,
    "items": [{"product_name": "Robe kabyle", "quantity": 1, "unit_price": 4500, "attributes": {"taille": "M"}}],
}


class OrderViewSet(viewsets.GenericViewSet):
    scopes = {"list": "orders:read", "retrieve": "orders:read", "create": "orders:write", "cancel": "orders:write"}
    http_method_names = ["get", "head", "post"]
    filter_backends = [FilterBackend]
    filterset_class = OrderFilter
    pagination_class = Pages

    def get_queryset(self) -> OrderQuerySet:
        return Order.objects.filter(account_id=self.request.auth.account_id)

    @schema.describe(
        "Import an order",
        request=serializers.OrderImport,
        example=_EXAMPLE,
        answers={201: bodies.OrderBody},
        errors=(400, 409, 413, 415, 422),
        is_idempotent=True,
    )
    @idempotency.once
    def create(self, request: Request) -> Response:
        """The order is then `pending_confirmation` until an agent has reached the customer."""
        (order,) = importing.import_orders(request.auth.account_id, [request.data], actor=Actor.of_key(request.auth))
        if isinstance(order, Invalid):
            raise order
        return Response(order, status.HTTP_201_CREATED)

    @schema.describe("List orders", answers={200: bodies.OrderListBody}, errors=(422,))
    def list(self, request: Request) -> Response:
        """Newest first. A page past the end is empty; `meta.total` is exact."""
        orders = self.filter_queryset(self.get_queryset().order_by("-created_at", "-id"))
        page = self.paginate_queryset(orders.values(*bodies.LISTED))
        return Response(bodies.OrderListBody([bodies.listed(row) for row in page], self.paginator.meta()))

    @schema.describe("Read an order", answers={200: bodies.OrderDetailBody}, errors=(404,), has_etag=True)
    def retrieve(self, request: Request, id: UUID) -> HttpResponse:
        """With its call notes and history. `If-None-Match` saves reading what has not changed."""
        return answer_unless_known(request, self._detail(id))

    @schema.describe(
        "Cancel an order",
        request=serializers.OrderCancel,
        example={"reason": "Out of stock"},
        answers={200: bodies.OrderDetailBody},
        errors=(400, 404, 413, 415, 422),
    )
    def cancel(self, request: Request, id: UUID) -> Response:
        """Possible until it is shipped. The body is optional; to cancel twice is harmless."""
        reason = serializers.read_cancel(dict(request.data))
        lifecycle.cancel(id, account_id=request.auth.account_id, actor=Actor.of_key(request.auth), reason=reason)
        return Response(self._detail(id))

    def _detail(self, id: UUID) -> bodies.OrderDetailBody:
        return bodies.detail(self.get_queryset().with_detail().values().get(id=id))
