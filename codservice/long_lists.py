"""Lists of long tables, read along an index: nothing here counts a whole table or skips rows with OFFSET."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import BigIntegerField, BooleanField, F, Func, QuerySet, Value
from django.http import Http404
from django.utils.functional import cached_property

from codservice import days


class BoundedPaginator(Paginator):
    """Counts no further than MOST, so that showing a page never counts the whole table."""

    MOST = 1000

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most MOST."""
        return self.object_list.order_by().values("pk")[: self.MOST].count()  # without joins and annotations


class NewestFirst:
    """One page of a long list, newest first: `rows`, and `older`, the `before` of the next page (empty: none).

    `before` names the last row of the previous page, so that any page is read along an index on `-created_at, -id` as
    fast as the first, and nothing is counted. Raises Http404 for a `before` that cannot be read.
    """

    SIZE = 25

    def __init__(self, queryset: QuerySet[Any], *, before: str = "") -> None:
        if before:
            queryset = queryset.filter(is_beyond(("created_at", "id"), _read(before), is_down=True))
        rows = list(queryset.order_by("-created_at", "-id")[: self.SIZE + 1])
        self.rows = rows[: self.SIZE]
        self.older = _name(self.rows[-1]) if len(rows) > self.SIZE else ""


def _name(row: Any) -> str:
    return f"{row.created_at.isoformat()}_{row.id}"


def _read(name: str) -> tuple[datetime, UUID]:
    at, _, id_ = name.partition("_")
    try:
        return days.read_moment(at), UUID(id_)
    except ValueError:
        raise Http404 from None


def batches_by(
    rows: QuerySet[Any],
    key: Sequence[str],
    size: int,
    *,
    place: Callable[[Any], Sequence[Any]] | None = None,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Iterator[list[Any]]:
    """Yield the rows along `key`, columns that are unique together: 1 to `size` in each list.

    Each list is a statement of its own, run within `around`, that begins after the last row of the one before, whatever
    has become of the rows before it meanwhile. No transaction or cursor stays open between them, and only one list is
    held here. `place` tells a row's values of the key; by default they are its attributes.
    """
    rest = rows = rows.order_by(*key)
    while True:
        with around():
            batch = list(rest[:size])
        if batch:
            yield batch
        if len(batch) < size:
            return
        there = place(batch[-1]) if place else [getattr(batch[-1], name) for name in key]
        del batch
        rest = rows.filter(is_beyond(key, there, is_down=False))


class IsOneOf(Func):
    """Whether an id is in an array, which is one parameter, however long: a statement has at most 65 535."""

    arg_joiner, template = " = ANY(", "%(expressions)s::uuid[])"
    output_field = BooleanField()

    def __init__(self, name: str, ids: Sequence[UUID] | str) -> None:
        """The array may also be given as PostgreSQL's text for it."""
        super().__init__(name, Value(ids))


def is_beyond(names: Sequence[str], place: Sequence[Any], *, is_down: bool) -> Func:
    """Return `ROW(created_at, id) < ROW(…)`, which uses an index on the columns; AND and OR would not."""
    columns = Func(*(F(name) for name in names), function="ROW")
    # Without a type, Django sends a number in four bytes.
    kinds = [BigIntegerField() if type(value) is int else None for value in place]
    there = Func(*map(Value, place, kinds), function="ROW")
    return Func(
        columns,
        there,
        template="%(expressions)s",
        arg_joiner=" < " if is_down else " > ",
        output_field=BooleanField(),
    )
