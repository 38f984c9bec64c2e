"""The filters of `GET /api/v1/inventory`."""

import re
from typing import Any

import django_filters
from django import forms
from django.db.models import Q, QuerySet
from rest_framework import serializers

from codservice.api.fields import Text
from codservice.api.filters import Filters, MomentFilter, TextFilter
from inventory.models import MAX_QUANTITY, Product

MAX_SKUS = 500  # as many as the largest page has products
_INTEGER = re.compile(r"[0-9]{1,10}", re.ASCII)


class SkusField(forms.CharField):
    openapi = {"type": "string", "pattern": r"^[^,\u0000-\u001f\u007f-\u009f]*[^,\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"}  # fmt: skip  # noqa: E501
    _sku = Text(max_length=64)

    def to_python(self, value: str | None) -> list[str]:
        names = value.split(",") if value else []
        if len(names) > MAX_SKUS:
            raise forms.ValidationError(f"Must have at most {MAX_SKUS} SKUs.")
        try:
            return sorted({self._sku.clean(name) for name in names})
        except serializers.ValidationError as error:
            raise forms.ValidationError([f"Each SKU: {sentence}" for sentence in error.detail]) from None


class SkusFilter(django_filters.Filter):
    field_class = SkusField


class QuantityField(forms.Field):
    openapi = {"type": "integer", "minimum": 0, "maximum": MAX_QUANTITY}

    def to_python(self, value: str | None) -> int | None:
        if not value:
            return None
        if not _INTEGER.fullmatch(value) or int(value) > MAX_QUANTITY:
            raise forms.ValidationError(f"Must be an integer from 0 to {MAX_QUANTITY}.")
        return int(value)


class QuantityFilter(django_filters.Filter):
    field_class = QuantityField


class ProductFilter(Filters):
    sku = SkusFilter(lookup_expr="in", label="One or several SKUs, comma separated.")
    q = TextFilter(method="search", max_length=100, label="A part of the name or the SKU.")
    is_active = django_filters.ChoiceFilter(choices=[("true", "true"), ("false", "false")], method="active", label="Whether it is sold.")  # fmt: skip  # noqa: E501
    stock_below = QuantityFilter(field_name="stock_quantity", lookup_expr="lt", label="Fewer than this in stock.")
    updated_from = MomentFilter(
        field_name="updated_at", lookup_expr="gte", label="Changed at or after this time or date."
    )

    class Meta:
        model = Product
        fields: list[str] = []

    def search(self, queryset: QuerySet[Product], name: str, value: str) -> QuerySet[Product]:
        return queryset.filter(Q(name__icontains=value) | Q(sku__icontains=value))

    def active(self, queryset: QuerySet[Product], name: str, value: Any) -> QuerySet[Product]:
        return queryset.filter(is_active=value == "true")
