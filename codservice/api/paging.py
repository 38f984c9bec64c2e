"""Pages of a list: `page`, `per_page`, `meta` (contract, section 5)."""

from typing import Annotated, Any

from django.db.models import QuerySet
from msgspec import Meta, Struct
from rest_framework import serializers
from rest_framework.request import Request

from codservice import values
from codservice.api.error_answers import read_all
from codservice.errors import Invalid

MAX_PAGE = 1_000_000_000


def read_int(request: Request, name: str, default: int, maximum: int) -> int:
    """The query parameter `name` as an integer from 1 to `maximum`; raises Invalid otherwise."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        return values.digits(text, 1, maximum)
    except ValueError as error:
        raise Invalid({name: [str(error)]}) from None


class Page:
    """Which page was asked for. Raises Invalid for values that cannot be used."""

    def __init__(self, request: Request, *, per_page: int = 15, max_per_page: int = 100) -> None:
        self.per_page, self.number = read_all(
            lambda: read_int(request, "per_page", per_page, max_per_page),
            lambda: read_int(request, "page", 1, MAX_PAGE),
        )

    def rows(self, queryset: QuerySet, total: int) -> list[Any]:
        """This page's rows of an ordered queryset that has `total` rows.

        A page in the second half is read from the end, so that the last one costs no more than the first.
        """
        start = (self.number - 1) * self.per_page
        stop = min(start + self.per_page, total)
        if start >= total:
            return []
        if start <= total // 2:
            return list(queryset[start:stop])
        return list(queryset.reverse()[total - stop : total - start])[::-1]

    def meta(self, total: int) -> "PageMeta":
        return PageMeta(total, self.per_page, self.number, max(-(-total // self.per_page), 1))


class PageMeta(Struct):
    total: Annotated[int, Meta(ge=0)]
    per_page: Annotated[int, Meta(ge=1)]
    current_page: Annotated[int, Meta(ge=1)]
    last_page: Annotated[int, Meta(ge=1)]


class PageMetaSerializer(serializers.Serializer):
    """How `meta` looks, for OpenAPI."""

    total = serializers.IntegerField(min_value=0)
    per_page = serializers.IntegerField(min_value=1)
    current_page = serializers.IntegerField(min_value=1)
    last_page = serializers.IntegerField(min_value=1)
