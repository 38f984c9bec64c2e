"""The filters of lists of products, in the API and on the account's pages."""

from functools import cached_property
from typing import Any

import django_filters
from django import forms
from django.db.models import Q, QuerySet

from codservice import values
from codservice.api.filters import Filters, MomentFilter, SearchFilter, WordFilter
from codservice.form_fields import DigitsField
from inventory.models import MAX_QUANTITY, Product

MAX_PAGE = 500  # products on a page, and SKUs in one request


class SkusField(forms.CharField):
    openapi = {"type": "string", "pattern": r"^[^,\u0000-\u001f\u007f-\u009f]*[^,\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"}  # fmt: skip  # noqa: E501

    def to_python(self, value: str | None) -> list[str]:
        names = value.split(",") if value else []
        if len(names) > MAX_PAGE:
            raise forms.ValidationError(f"Must have at most {MAX_PAGE} SKUs.")
        try:
            return sorted({values.text(name, max_length=64) for name in names})
        except ValueError as error:
            raise forms.ValidationError(f"Each SKU: {error}") from None


class SkusFilter(django_filters.Filter):
    field_class = SkusField


class QuantityFilter(django_filters.Filter):
    field_class = DigitsField


class ProductFilter(Filters):
    sku = SkusFilter(lookup_expr="in", label="One or several SKUs, separated by commas.")
    q = SearchFilter(method="search", max_length=100, label="Part of the name or the SKU.")
    is_active = WordFilter(words=("true", "false"), method="active", label="Whether the product is for sale.")
    stock_below = QuantityFilter(
        field_name="stock_quantity", lookup_expr="lt", least=0, most=MAX_QUANTITY, label="Less than this in stock."
    )
    updated_from = MomentFilter(
        field_name="updated_at", lookup_expr="gte", label="Changed at or after this time or date."
    )

    class Meta:
        model = Product
        fields: list[str] = []

    @cached_property
    def state(self) -> tuple[int, str]:
        """The `ProductQuerySet.state` of the products that pass: their number, and a text."""
        return self.qs.state()

    def total(self) -> int:
        return self.state[0]

    def search(self, queryset: QuerySet[Product], name: str, value: str) -> QuerySet[Product]:
        return queryset.filter(Q(name__icontains=value) | Q(sku__icontains=value))

    def active(self, queryset: QuerySet[Product], name: str, value: Any) -> QuerySet[Product]:
        return queryset.filter(is_active=value == "true")
