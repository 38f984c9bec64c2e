"""`/api/v1/inventory`: the products, and their stock (contract, section 7)."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework import status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from codservice.accounts.actor import Actor
from codservice.api import schema
from codservice.api.conditional import answer_unless_etag_known, weak_etag
from codservice.api.filters import FilterBackend
from codservice.api.paging import Pages
from codservice.wire import dump_json
from inventory import serializers, stock
from inventory.filters import ProductFilter
from inventory.models import Product

STREAMED = 1000  # products a statement, when all are sent


class ProductPages(Pages):
    max_page_size = 500


class InventoryViewSet(viewsets.GenericViewSet):
    scopes = {"list": "inventory:read", "update": "inventory:write"}
    http_method_names = ["get", "head", "put"]
    filter_backends = [FilterBackend]
    filterset_class = ProductFilter
    pagination_class = ProductPages

    def get_queryset(self) -> QuerySet[Product]:
        return Product.objects.filter(account_id=self.request.auth.account_id).order_by("sku")

    @schema.describe("List products", answers={200: serializers.InventoryBody}, errors=(422,), has_etag=True)
    def list(self, request: Request) -> HttpResponseBase:
        """All of them, sorted by sku; with `page` or `per_page` a page and `meta`."""
        products = self.filter_queryset(self.get_queryset())
        _, state = self.filterset.state
        if not {"page", "per_page"} & request.query_params.keys():
            return answer_unless_etag_known(request, weak_etag(state), lambda: _all(request, products))
        etag = weak_etag([state, self.paginator.number, self.paginator.per_page])
        return answer_unless_etag_known(request, etag, lambda: self._page(products))

    def _page(self, products: QuerySet[Product]) -> Response:
        rows = self.paginate_queryset(products.values_list(*serializers.LISTED))
        return Response(
            serializers.InventoryBody([serializers.product_body(row) for row in rows], self.paginator.meta())
        )

    @schema.describe(
        "Set stock quantities",
        request=serializers.StockUpdates,
        example={"updates": [{"sku": "ROB-01", "quantity": 42}, {"sku": "FOU-01", "quantity": 7}]},
        answers={200: serializers.StockUpdatedBody, 207: serializers.StockUpdatedBody},
        errors=(400, 413, 415, 422),
    )
    def update(self, request: Request) -> Response:
        """Each entry by itself: 200 when all were applied, 207 when some were not, 422 when none was."""
        updates = serializers.read_updates(request.data)
        result = stock.set_quantities(request.auth.account_id, updates, actor=Actor.of_key(request.auth))
        body = serializers.result_body(result, request.data["updates"])
        return Response(body, status.HTTP_207_MULTI_STATUS if result.errors else status.HTTP_200_OK)


def _all(request: Request, products: QuerySet[Product]) -> HttpResponseBase:
    """All products, in constant memory however many they are.

    Many are read while they are sent, a page after the other by sku, each by a statement of its own: no transaction
    and no server-side cursor waits for a slow client, and any pool of connections may stand between. A product that
    is there all the while is sent exactly once, as it is when its page is read. When the database fails on the way
    the answer breaks off inside the list, which no client can take for a complete one.
    """
    pages = _pages(products)
    first = next(pages)
    if len(first) < STREAMED:
        return Response(serializers.InventoryBody([serializers.product_body(row) for row in first]))
    pieces = _pieces(chain([first], pages)) if request.method == "GET" else iter(())
    return StreamingHttpResponse(pieces, content_type="application/json")


def _pages(products: QuerySet[Product]) -> Iterator[list[tuple[Any, ...]]]:
    rest = products
    while True:
        rows = list(rest.values_list(*serializers.LISTED)[:STREAMED])
        yield rows
        if len(rows) < STREAMED:
            return
        rest = products.filter(sku__gt=rows[-1][serializers.LISTED.index("sku")])


def _pieces(pages: Iterator[list[tuple[Any, ...]]]) -> Iterator[bytes]:
    separator = b'{"data":['
    for rows in pages:
        if rows:
            yield separator + dump_json([serializers.product_body(row) for row in rows])[1:-1]
            separator = b","
    yield b"]}"
