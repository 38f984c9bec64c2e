"""What the lists' filters share: a value that cannot be used is refused, never replaced (contract, section 1)."""

from typing import Any, Self

import django_filters
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from codservice.errors import Invalid
from codservice.form_fields import MomentField, TextField


class Filters(django_filters.FilterSet):
    @classmethod
    def read(cls, params: Any, queryset: QuerySet) -> Self:
        """The filters in the query parameters `params`; raises Invalid with each that cannot be used."""
        filters = cls(params, queryset=queryset)
        errors = {name: [_("Must not be empty.")] for name in cls.base_filters if params.get(name, "-").strip() == ""}
        for name, sentences in filters.form.errors.items():
            errors.setdefault(name, [str(sentence) for sentence in sentences])
        if errors:
            raise Invalid(errors)
        return filters


class TextFilter(django_filters.Filter):
    field_class = TextField


class MomentFilter(django_filters.Filter):
    field_class = MomentField
