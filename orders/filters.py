"""The filters of `GET /api/v1/orders`. A value that cannot be used is refused, never replaced (contract, section 1)."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import django_filters
from django import forms
from django.db.models import Q, QuerySet, Sum
from rest_framework import serializers

from codservice.api.fields import Text
from codservice.errors import Invalid
from orders import phones, regions
from orders.models import Order, OrderCount, Status
from orders.serializers import WILAYA_TEXTS

DAYS_ARE_OF = ZoneInfo("Africa/Algiers")
SORTS = ("created_at", "-created_at", "updated_at", "-updated_at")


# Python would read a date into a Unix timestamp: 1773100800 as the 8th of October 1773.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


class TextField(forms.CharField):
    """Text in the form in which orders keep it: trimmed, in NFC, no control characters."""

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
            raise forms.ValidationError("Must be a date, or a time with a UTC offset, as ISO 8601 has them.")
        return moment


class MomentFilter(django_filters.Filter):
    field_class = MomentField


class StatusesField(forms.CharField):
    openapi = {"type": "string", "pattern": "^({0})(,({0}))*$".format("|".join(Status.values))}

    def to_python(self, value: str | None) -> list[str]:
        statuses = [status.strip() for status in super().to_python(value).split(",")] if value else []
        if unknown := [status for status in statuses if status not in Status.values]:
            known = ", ".join(Status.values)
            raise forms.ValidationError(f"“{unknown[0][:50]}” is no status. Use one or several of: {known}.")
        return sorted(set(statuses))


class StatusesFilter(django_filters.Filter):
    field_class = StatusesField


class PhoneField(forms.CharField):
    openapi = {"type": "string", "pattern": phones.PATTERN}

    def to_python(self, value: str | None) -> str:
        text = super().to_python(value)
        try:
            return phones.to_e164(text) if text else ""
        except phones.NotAPhone:
            raise forms.ValidationError("Must be an Algerian phone number.") from None


class PhoneFilter(django_filters.Filter):
    field_class = PhoneField


class WilayaField(forms.CharField):
    openapi = {"anyOf": WILAYA_TEXTS}

    def to_python(self, value: str | None) -> str:
        text = super().to_python(value)
        try:
            return regions.find_wilaya(text).code if text else ""
        except regions.NotFound as error:
            raise forms.ValidationError(str(error)) from None


class WilayaFilter(django_filters.Filter):
    field_class = WilayaField


class OrderFilter(django_filters.FilterSet):
    status = StatusesFilter(lookup_expr="in", label="One or several statuses, comma separated.")
    created_from = MomentFilter(field_name="created_at", lookup_expr="gte", label="At or after this time or date.")
    created_to = MomentFilter(
        field_name="created_at", lookup_expr="lt", ends=True, label="Before this time, or up to the end of this date."
    )
    updated_from = MomentFilter(field_name="updated_at", lookup_expr="gte", label="At or after this time or date.")
    updated_to = MomentFilter(
        field_name="updated_at", lookup_expr="lt", ends=True, label="Before this time, or up to the end of this date."
    )
    phone = PhoneFilter(field_name="phone_e164", label="A phone number in any usual form.")
    wilaya = WilayaFilter(field_name="wilaya_code", label="A wilaya's code or name.")
    external_id = TextFilter(max_length=64, label="The shop's own order number.")
    q = TextFilter(method="search", max_length=100, label="A part of the customer's name, phone or address.")
    sort = django_filters.ChoiceFilter(
        method="order", choices=[(sort, sort) for sort in SORTS], label="Newest first unless said otherwise."
    )

    class Meta:
        model = Order
        fields: list[str] = []

    @classmethod
    def read(cls, params: Any, queryset: QuerySet[Order]) -> "OrderFilter":
        """The filters in the query parameters `params`; raises Invalid with each that cannot be used."""
        filters = cls(params, queryset=queryset)
        errors = {name: ["Must not be empty."] for name in cls.base_filters if params.get(name, "-").strip() == ""}
        for name, sentences in filters.form.errors.items():
            errors.setdefault(name, [str(sentence) for sentence in sentences])
        if errors:
            raise Invalid(errors)
        return filters

    def rows(self) -> QuerySet[Order]:
        """The filtered orders in the order asked for; without one newest first. Ties go by id."""
        sort = self.form.cleaned_data["sort"] or "-created_at"
        return self.qs.order_by(sort, "-id" if sort.startswith("-") else "id")

    def total(self, account_id: Any) -> int:
        """How many orders pass the filters, exactly."""
        used = {name for name, value in self.form.cleaned_data.items() if value} - {"sort"}
        if used - {"status"}:
            return self.qs.count()
        counts = OrderCount.objects.filter(account_id=account_id)
        if used:
            counts = counts.filter(status__in=self.form.cleaned_data["status"])
        return counts.aggregate(total=Sum("delta", default=0))["total"]

    def search(self, queryset: QuerySet[Order], name: str, value: str) -> QuerySet[Order]:
        return queryset.filter(
            Q(customer_name__icontains=value)
            | Q(customer_phone__icontains=value)
            | Q(phone_e164__contains=value.replace(" ", ""))
            | Q(customer_address__icontains=value)
        )

    def order(self, queryset: QuerySet[Order], name: str, value: str) -> QuerySet[Order]:
        return queryset  # `rows` sorts
