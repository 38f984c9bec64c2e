"""What the lists' filters share: a value that cannot be used is refused, never replaced (contract, section 1)."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Self
from zoneinfo import ZoneInfo

import django_filters
from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from rest_framework import serializers

from codservice.api.fields import Text
from codservice.errors import Invalid

DAYS_ARE_OF = ZoneInfo("Africa/Algiers")
# Python would read a date into a Unix timestamp: 1773100800 as the 8th of October 1773.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


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


class TextField(forms.CharField):
    """Text in the form in which we keep it: trimmed, in NFC, no control characters."""

    def __init__(self, *, max_length: int, **kwargs: Any) -> None:
        self.text = Text(max_length=max_length)
        super().__init__(**kwargs)

    def to_python(self, value: str | None) -> str:
        try:
            return self.text.clean(value) if value else ""
        except serializers.ValidationError as error:
            raise forms.ValidationError([str(sentence) for sentence in error.detail]) from None

    @property
    def openapi(self) -> dict[str, Any]:
        return self.text.openapi("request")


class TextFilter(django_filters.Filter):
    field_class = TextField


class MomentField(forms.Field):
    """An ISO 8601 time with an offset, or a date: the day's start in Algeria, or with `ends` its end."""

    openapi = {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}

    def __init__(self, *, ends: bool = False, **kwargs: Any) -> None:
        self.ends = ends
        super().__init__(**kwargs)

    def to_python(self, value: str | None) -> datetime | None:
        if not value:
            return None
        try:
            if _DATE.fullmatch(value):
                day = date.fromisoformat(value)
                if self.ends and day == date.max:
                    return datetime.max.replace(tzinfo=UTC)
                return datetime.combine(day + timedelta(days=1 if self.ends else 0), time(), DAYS_ARE_OF)
            # A `+` that was not escaped arrives as a space.
            moment = datetime.fromisoformat(value.replace(" ", "+")) if _DATE.match(value) else None
        except (ValueError, OverflowError):
            moment = None
        if moment is None or moment.tzinfo is None:
            raise forms.ValidationError(_("Must be a date, or a time with a UTC offset, as ISO 8601 has them."))
        return moment


class MomentFilter(django_filters.Filter):
    field_class = MomentField
