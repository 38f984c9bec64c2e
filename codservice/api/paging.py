"""Pages of a list, by number or by cursor, and their `meta` (docs/pagination.md)."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.core import signing
from django.db.models import Model, QuerySet
from django.utils.translation import gettext as _
from msgspec import Meta, Struct
from rest_framework.pagination import BasePagination
from rest_framework.request import Request

from codservice import values
from codservice.errors import Invalid, read_all
from codservice.long_lists import is_beyond
from codservice.wire import dump_json

MAX_PAGE = 1_000_000_000
FAR = 1000  # rows before a page
MAX_CURSOR = 2000  # characters; a cursor with the longest SKU has about 1 100
_SIGNER = signing.Signer(salt="codservice.api.paging", sep=".")


class PageMeta(Struct):
    total: Annotated[int, Meta(ge=0)]
    per_page: Annotated[int, Meta(ge=1)]
    current_page: Annotated[int, Meta(ge=1)]
    last_page: Annotated[int, Meta(ge=1)]


class CursorMeta(Struct):
    per_page: Annotated[int, Meta(ge=1)]
    next_cursor: Annotated[str | None, Meta(description="The `cursor` of the next page; null on the last one.")]


def _either(*structs: type[Struct]) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/components/schemas/{struct.__name__}"} for struct in structs]}


# The `meta` of a list's body. msgspec has no choice between two objects, so `api.schema` describes those of NAMED.
ListMeta = Annotated[
    Any, Meta(description="By `page`, or by `cursor`.", extra_json_schema=_either(PageMeta, CursorMeta))
]
NAMED = (PageMeta, CursorMeta)


class Pages(BasePagination):
    """A list in pages: by number with an exact total (`page`, or neither parameter), or one after the other (`cursor`).

    Belongs to a view with `filters.FilterBackend`, which calls `read`. To be paged by cursor, a queryset must be
    ordered by columns that are never null, all ascending or all descending, and the last must be unique. `values` or
    `values_list` must include them. A cursor holds the place of the last row that was given, and the next page is read
    from there along the list's index. No row that keeps its place is skipped or repeated, and page 10 000 costs what
    the first did.
    """

    page_size = 15
    max_page_size = 100

    def read(self, request: Request, view: Any) -> None:
        """Read which page was asked for. Raises Invalid with each value that cannot be used."""
        self.is_by_cursor = "cursor" in request.query_params
        self._bound_to = _binding(request, view)
        self.per_page, self.number, self._after = read_all(
            lambda: read_number(request, "per_page", self.page_size, self.max_page_size),
            lambda: read_number(request, "page", 1, MAX_PAGE),
            lambda: self._read_cursor(request) if self.is_by_cursor else None,
        )

    def paginate_queryset(self, queryset: QuerySet, request: Request, view: Any = None) -> list[Any]:
        """This page's rows of the ordered and filtered queryset. A page past the end is empty.

        A page in the second half is read from the end, so that the last one costs no more than the first. For a page
        far from both ends the rows before it are skipped where the filters can tell how many they are (`pass_by`).
        """
        if self.is_by_cursor:
            return self._after_cursor(queryset)
        self.total = total = view.filterset.total()
        start = (self.number - 1) * self.per_page
        stop = min(start + self.per_page, total)
        if start >= total:
            return []
        is_far = min(start, total - stop) >= FAR
        rest, passed = view.filterset.pass_by(queryset, start) if is_far else (queryset, 0)
        if passed or start <= total // 2:
            return list(_rows(rest, start - passed, stop - passed))
        return list(_rows(queryset.reverse(), total - stop, total - start))[::-1]

    def meta(self) -> PageMeta | CursorMeta:
        """The `meta` of the page that `paginate_queryset` returned."""
        if self.is_by_cursor:
            return CursorMeta(self.per_page, self._next)
        return PageMeta(self.total, self.per_page, self.number, max(-(-self.total // self.per_page), 1))

    def _after_cursor(self, queryset: QuerySet) -> list[Any]:
        order = [str(column) for column in queryset.query.order_by]
        names = [column.removeprefix("-") for column in order]
        if self._after is not None:
            queryset = queryset.filter(is_beyond(names, self._after, is_down=order[0].startswith("-")))
        rows = list(queryset[: self.per_page + 1])
        page = rows[: self.per_page]
        self._next = self._cursor(_place(queryset, page[-1], names)) if len(rows) > self.per_page else None
        return page

    def _cursor(self, place: Sequence[Any]) -> str:
        return _SIGNER.sign_object([self._bound_to, *([_KINDS[type(each)], str(each)] for each in place)])

    def _read_cursor(self, request: Request) -> list[Any] | None:
        """The place after which the page begins, or None for the first page."""
        cursor = request.query_params["cursor"]
        if "page" in request.query_params:
            raise Invalid({"cursor": [_("Send `page` or `cursor`, not both.")]})
        if not cursor:
            return None
        bound_to, place = None, list[Any]()
        if len(cursor) <= MAX_CURSOR:
            with suppress(signing.BadSignature):
                bound_to, *place = _SIGNER.unsign_object(cursor)
        if bound_to != self._bound_to:
            raise Invalid(
                {"cursor": [_("Was not given by this list with these filters and this sort. Start with an empty one.")]}
            )
        return [_READ[kind](text) for kind, text in place]

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        by_number = {
            "page": ("The page number, from 1. A page past the end is empty.", number_schema(MAX_PAGE)),
            "per_page": (f"Entries per page; {self.page_size} by default.", number_schema(self.max_page_size)),
        }
        text = "Instead of `page`: empty for the first page, then `meta.next_cursor` of the page before."
        by_cursor = {"cursor": (text, {"type": "string", "maxLength": MAX_CURSOR})}
        (cursor,) = query_parameters(by_cursor)
        return [*query_parameters(by_number), cursor | {"allowEmptyValue": True}]


def _rows(queryset: QuerySet, start: int, stop: int) -> QuerySet:
    """The rows from `start` to `stop`. Where many come before, those are skipped in the list's index and not read."""
    if start < FAR:
        return queryset[start:stop]
    return queryset.filter(pk__in=queryset.values("pk")[start:stop])


_READ = {"t": datetime.fromisoformat, "u": UUID, "s": str, "i": int}
_KINDS = {datetime: "t", UUID: "u", str: "s", int: "i"}


def _binding(request: Request, view: Any) -> str:
    """A digest that identifies a list: its account, address, filters and sort."""
    names = sorted(view.filterset_class.base_filters)
    chosen = [[name, request.query_params[name]] for name in names if name in request.query_params]
    said = [str(request.auth.account_id), request.path, chosen]
    return hashlib.sha256(dump_json(said)).hexdigest()[:16]


def _place(queryset: QuerySet, row: Any, names: Sequence[str]) -> list[Any]:
    """The row's values in the columns by which the queryset is ordered."""
    if isinstance(row, Model):
        return [getattr(row, name) for name in names]
    if isinstance(row, dict):
        return [row[name] for name in names]
    fields: Any = queryset._fields  # type: ignore[attr-defined]
    return [row[fields.index(name)] for name in names]


def query_parameters(described: Mapping[str, tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Query parameters for the OpenAPI description, from each one's text and schema."""
    return [
        {"name": name, "in": "query", "description": text, "schema": schema}
        for name, (text, schema) in described.items()
    ]


def number_schema(most: int) -> dict[str, Any]:
    """The schema of what `read_number` accepts. Generated clients would send a default: `page` beside each cursor."""
    return {"type": "integer", "minimum": 1, "maximum": most}


def read_number(request: Request, name: str, default: int, most: int) -> int:
    """The parameter `name`, from 1 to `most`, or `default` if it was not sent. Raises Invalid."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        return values.digits(text, 1, most)
    except ValueError as error:
        raise Invalid({name: [str(error)]}) from None
