"""The filters of lists. A value that cannot be used is refused, never replaced."""

import copy
import functools
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl

import django_filters
from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from rest_framework.filters import BaseFilterBackend
from rest_framework.request import Request

from codservice.api.paging import query_parameters
from codservice.errors import Invalid, read_all
from codservice.form_fields import MomentField, SearchField, TextField, WordsField


class _Filters(OrderedDict[str, django_filters.Filter]):
    """The filters of a class. Each request gets shallow copies, which know their filterset."""

    def __deepcopy__(self, memo: object) -> OrderedDict[str, django_filters.Filter]:
        copied = OrderedDict((name, copy.copy(item)) for name, item in self.items())
        for item in copied.values():
            item.method = item.method  # the setter binds the method to this copy
        return copied


class _Fields(dict[str, forms.Field]):
    """The fields of the filters' form. All requests share them, because reading a value leaves no state in a field."""

    def __deepcopy__(self, memo: object) -> "_Fields":
        return self


class Filters(django_filters.FilterSet):
    """django-filter's FilterSet without its copies.

    For each request it builds a new form and copies the form's fields and the filters, which took a third of the
    processor time of a list.
    """

    @classmethod
    def get_filters(cls) -> _Filters:
        return _Filters(super().get_filters())

    def get_form_class(self) -> type[forms.Form]:
        return _form_class(type(self))

    @classmethod
    def chosen(cls, params: Mapping[str, str]) -> dict[str, str]:
        """The filters that a page's address sets. An empty form field sets none; the page has a sort of its own."""
        return {name: params[name] for name in cls.base_filters if name != "sort" and params.get(name, "").strip()}

    def read(self, *, is_by_hand: bool = False) -> QuerySet:
        """The rows that pass the filters. Raises Invalid with each parameter that cannot be used.

        With `is_by_hand`, when a person sets the filters, it also refuses a period (`…_from` to `…_to`) that holds no
        time. A program gets an empty list then.
        """
        errors = {name: [_("Must not be empty.")] for name in self.filters if self.data.get(name, "-").strip() == ""}
        for name, sentences in self.form.errors.items():
            errors.setdefault(name, [str(sentence) for sentence in sentences])
        if is_by_hand and not errors:
            sent = self.form.cleaned_data
            for name, start in sent.items():
                end = f"{name.removesuffix('_from')}_to"
                if start and sent.get(end) and start >= sent[end]:
                    errors[end] = [_("The period must end after it begins.")]
        if errors:
            raise Invalid(errors)
        return self.qs

    def total(self) -> int:
        """The exact number of rows that pass the filters."""
        return self.qs.count()

    def pass_by(self, queryset: QuerySet, rows: int) -> tuple[QuerySet, int]:
        """A shorter way to row number `rows` of the ordered queryset: a queryset that begins at or before that row, and
        how many rows it leaves out. The whole queryset and 0 where no stored count can tell."""
        return queryset, 0


@functools.cache
def _form_class(filters: type[Filters]) -> type[forms.Form]:
    form = type(f"{filters.__name__}Form", (forms.Form,), {})
    form.base_fields = _Fields((name, item.field) for name, item in filters.base_filters.items())
    return form


class FilterBackend(BaseFilterBackend):
    """Filters a list by its view's `filterset_class`, and leaves the filterset in the view's `filterset`.

    The page is read here too, so that a request's wrong parameters are all refused at once.
    """

    def filter_queryset(self, request: Request, queryset: QuerySet, view: Any) -> QuerySet:
        view.filterset = view.filterset_class(request.query_params, queryset=queryset, request=request)
        _, filtered, _ = read_all(
            lambda: view.paginator.read(request, view),
            view.filterset.read,
            lambda: need_utf8(request, view.filterset.filters),
        )
        return filtered

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        filters = view.filterset_class.base_filters
        return query_parameters({name: (str(item.label), _schema(item)) for name, item in filters.items()})


def need_utf8(request: Request, names: Collection[str]) -> None:
    """Raise Invalid with each of these parameters that is not UTF-8, as from a shop that uses Latin-1.

    Django decodes such bytes to U+FFFD, which would find nothing, or a wilaya that nobody has named.
    """
    if any("\ufffd" in request.query_params.get(name, "") for name in names):
        # Latin-1 keeps each byte as it is. The last one of a repeated parameter counts, as in Django.
        sent = dict(parse_qsl(request.META["QUERY_STRING"], keep_blank_values=True, encoding="latin-1"))
        if errors := {name: ["Must be UTF-8, percent-encoded."] for name in names if not _is_utf8(sent.get(name, ""))}:
            raise Invalid(errors)


def _is_utf8(latin: str) -> bool:
    try:
        latin.encode("latin-1").decode()
    except UnicodeDecodeError:
        return False
    return True


def _schema(item: django_filters.Filter) -> dict[str, Any]:
    if choices := item.extra.get("choices"):
        words = [value for value, _ in choices]
        return {"type": "boolean"} if words == ["true", "false"] else {"type": "string", "enum": words}
    return {"minLength": 1, **item.field.openapi}


class TextFilter(django_filters.Filter):
    field_class = TextField


class SearchFilter(django_filters.Filter):
    field_class = SearchField


class MomentFilter(django_filters.Filter):
    field_class = MomentField


def period(column: str) -> tuple[MomentFilter, MomentFilter]:
    """A list's filters `…_from` and `…_to` over a column of times."""
    text = "Before this time, or up to the end of this date."
    return (
        MomentFilter(field_name=column, lookup_expr="gte", label="At or after this time or date."),
        MomentFilter(field_name=column, lookup_expr="lt", ends=True, label=text),
    )


class WordsFilter(django_filters.Filter):
    field_class = WordsField


class WordFilter(django_filters.ChoiceFilter):
    """A filter by one of `words`. Any other value is refused with the list of them."""

    def __init__(self, *, words: tuple[str, ...], **kwargs: Any) -> None:
        refusal = {"invalid_choice": f"Must be one of {', '.join(words)}."}
        super().__init__(choices=[(word, word) for word in words], error_messages=refusal, **kwargs)
