"""Pages of a list: `page`, `per_page`, `meta` (contract, section 5)."""

from typing import Annotated, Any

from django.db.models import QuerySet
from msgspec import Meta, Struct
from rest_framework.pagination import BasePagination
from rest_framework.request import Request

from codservice import values
from codservice.api.error_answers import read_all
from codservice.errors import Invalid

MAX_PAGE = 1_000_000_000


class PageMeta(Struct):
    total: Annotated[int, Meta(ge=0)]
    per_page: Annotated[int, Meta(ge=1)]
    current_page: Annotated[int, Meta(ge=1)]
    last_page: Annotated[int, Meta(ge=1)]


class Pages(BasePagination):
    """A list in pages, with its exact total. Belongs to a view with `filters.FilterBackend`, which has it `read`."""

    page_size = 15
    max_page_size = 100

    def read(self, request: Request) -> None:
        """Which page was asked for; raises Invalid with each value that cannot be used."""
        self.per_page, self.number = read_all(
            lambda: _read(request, "per_page", self.page_size, self.max_page_size),
            lambda: _read(request, "page", 1, MAX_PAGE),
        )

    def paginate_queryset(self, queryset: QuerySet, request: Request, view: Any = None) -> list[Any]:
        """This page's rows of the ordered queryset that passed the view's filters; one past the end is empty.

        A page in the second half is read from the end, so that the last one costs no more than the first.
        """
        self.total = total = view.filterset.total()
        start = (self.number - 1) * self.per_page
        stop = min(start + self.per_page, total)
        if start >= total:
            return []
        if start <= total // 2:
            return list(queryset[start:stop])
        return list(queryset.reverse()[total - stop : total - start])[::-1]

    def meta(self) -> PageMeta:
        """Of the page that `paginate_queryset` gave."""
        return PageMeta(self.total, self.per_page, self.number, max(-(-self.total // self.per_page), 1))

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": "page",
                "in": "query",
                "description": "Which page, from 1 on; one past the end is empty.",
                "schema": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 1},
            },
            {
                "name": "per_page",
                "in": "query",
                "description": "How many a page holds.",
                "schema": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": self.max_page_size,
                    "default": self.page_size,
                },
            },
        ]


def _read(request: Request, name: str, default: int, maximum: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        return values.digits(text, 1, maximum)
    except ValueError as error:
        raise Invalid({name: [str(error)]}) from None
