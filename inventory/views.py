"""`/api/v1/inventory` for the stock, and `/api/v1/products` to create and change products (docs/inventory.md)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework import status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from codservice.accounts.actor import Actor
from codservice.api import schema
from codservice.api.adapters import needed_body
from codservice.api.conditional import answer_unless_etag_known, answer_unless_known, weak_etag
from codservice.api.fields import read_body
from codservice.api.filters import FilterBackend
from codservice.api.paging import Pages
from codservice.searches import batch_by_batch, searching
from codservice.wire import dump_json
from inventory import catalog, serializers, stock
from inventory.filters import MAX_PAGE, ProductFilter
from inventory.models import Product
from inventory.serializers import ListedProductBody, ProductDetailBody

STREAMED = 1000  # products per statement when all are sent
Around = Callable[[], AbstractContextManager[None]]
_SKU = serializers.LISTED.index("sku")


class ProductPages(Pages):
    max_page_size = MAX_PAGE


class _Products(viewsets.GenericViewSet):
    http_method_names = ["get", "head", "put"]
    filter_backends = [FilterBackend]
    filterset_class = ProductFilter
    pagination_class = ProductPages

    def get_queryset(self) -> QuerySet[Product]:
        return Product.objects.filter(account_id=self.request.auth.account_id).order_by("sku")


class InventoryViewSet(_Products):
    scopes = {"list": "inventory:read", "update": "inventory:write"}

    @schema.describe("List products", answers={200: serializers.InventoryBody}, errors=(422,), has_etag=True)
    def list(self, request: Request) -> HttpResponseBase:
        """All products, sorted by SKU. With `page`, `per_page` or `cursor`, one page of them and `meta`."""
        products = self.filter_queryset(self.get_queryset())
        around = batch_by_batch(request.auth.account_id, request.query_params)
        with around():
            return self._listed(request, products, around)

    def _listed(self, request: Request, products: QuerySet[Product], around: Around) -> HttpResponseBase:
        if self.paginator.is_by_cursor:  # costs only the page: nothing is counted or summed up
            return answer_unless_known(request, self._page(products))
        _, state = self.filterset.state
        if not {"page", "per_page"} & request.query_params.keys():
            return answer_unless_etag_known(request, weak_etag(state), lambda: _all(request, products, around))
        etag = weak_etag([state, self.paginator.number, self.paginator.per_page])
        return answer_unless_etag_known(request, etag, lambda: Response(self._page(products)))

    def _page(self, products: QuerySet[Product]) -> serializers.InventoryBody:
        rows = self.paginate_queryset(products.values_list(*serializers.LISTED))
        return serializers.InventoryBody([serializers.product_body(row) for row in rows], self.paginator.meta())

    @schema.describe(
        "Set stock quantities",
        request=serializers.StockUpdates,
        example={"updates": [{"sku": "ROB-01", "quantity": 42}, {"sku": "FOU-01", "quantity": 7}]},
        answers={200: serializers.StockUpdatedBody, 207: serializers.StockUpdatedBody},
        errors=(400, 413, 415, 422),
    )
    def update(self, request: Request) -> Response:
        """Each entry is applied by itself: 200 when all were applied, 207 when some were not, 422 when none was."""
        updates = read_body(serializers.StockUpdates, needed_body(request))["updates"]
        result = stock.set_quantities(request.auth.account_id, updates, actor=Actor.of_key(request.auth))
        body = serializers.result_body(result, request.data["updates"])
        return Response(body, status.HTTP_207_MULTI_STATUS if result.errors else status.HTTP_200_OK)


class ProductViewSet(_Products):
    scopes = {"list": "products:read", "retrieve": "products:read", "update": "products:write"}

    @schema.describe("List products", answers={200: serializers.ProductListBody}, errors=(422,))
    def list(self, request: Request) -> Response:
        """Products in pages, sorted by SKU. The inventory lists all at once."""
        products = self.filter_queryset(self.get_queryset())
        with searching(request.auth.account_id, request.query_params):
            page = self.paginate_queryset(products.values(*ListedProductBody.__struct_fields__))
        listed = [ListedProductBody.of(row) for row in page]
        return Response(serializers.ProductListBody(listed, self.paginator.meta()))

    @schema.describe("Read a product", answers={200: ProductDetailBody}, errors=(404,), has_etag=True)
    def retrieve(self, request: Request, id: UUID) -> HttpResponseBase:
        """The product with its script. `If-None-Match` saves reading it again when it has not changed."""
        row = self.get_queryset().values(*ProductDetailBody.__struct_fields__).get(id=id)
        return answer_unless_known(request, ProductDetailBody.of(row))

    @schema.describe(
        "Create and change products",
        request=serializers.ProductDrafts,
        example={
            "products": [
                {"sku": "ROB-01", "name": "Robe kabyle", "price": "4500.00", "stock_quantity": 42},
                {"sku": "FOU-01", "name": "Foulard", "price": 1200, "script": "En soie; six couleurs."},
            ]
        },
        answers={200: serializers.ProductsSavedBody, 207: serializers.ProductsSavedBody},
        errors=(400, 413, 415, 422),
    )
    def update(self, request: Request) -> Response:
        """Each entry is saved by itself, by SKU: 200 when all were saved, 207 when some were not, 422 when none was."""
        entries = serializers.read_drafts(needed_body(request))
        drafts = [entry for entry in entries if isinstance(entry, catalog.Draft)]
        saved = catalog.save(request.auth.account_id, drafts, actor=Actor.of_key(request.auth), sets_stock=False)
        body = serializers.saved_body(entries, saved, request.data["products"])
        return Response(body, status.HTTP_207_MULTI_STATUS if body.errors else status.HTTP_200_OK)


def _all(request: Request, products: QuerySet[Product], around: Around) -> HttpResponseBase:
    """All products, in constant memory however many they are.

    Many products are read while they are sent, page by page by SKU, each page by a statement of its own: no transaction
    or server-side cursor waits for a slow client, and any connection pool may be used. A product that exists all the
    while is sent exactly once, as it is when its page is read. The caller reads the first page within `around()`; each
    later one is read within its own. If that refuses a page of a search, or the database fails on the way, the answer
    breaks off inside the list, so that no client can take it for a complete one.
    """
    first = _rows(products)
    if len(first) < STREAMED:
        return Response(serializers.InventoryBody([serializers.product_body(row) for row in first]))
    if request.method == "HEAD":
        return StreamingHttpResponse((), content_type="application/json")
    piece = _written(b'{"data":[', first)
    return StreamingHttpResponse(_pieces(products, around, piece, first[-1][_SKU]), content_type="application/json")


def _pieces(products: QuerySet[Product], around: Around, piece: bytes, last_sku: str) -> Iterator[bytes]:
    """`piece`, and all pages after it. While a client reads, only a page's bytes are held, not its rows."""
    while last_sku:
        yield piece
        with around():
            rows = _rows(products.filter(sku__gt=last_sku))
        piece, last_sku = _written(b"," if rows else b"", rows), rows[-1][_SKU] if len(rows) == STREAMED else ""
        del rows
    yield piece + b"]}"


def _rows(products: QuerySet[Product]) -> list[tuple[Any, ...]]:
    return list(products.values_list(*serializers.LISTED)[:STREAMED])


def _written(before: bytes, rows: list[tuple[Any, ...]]) -> bytes:
    return before + dump_json([serializers.product_body(row) for row in rows])[1:-1]
