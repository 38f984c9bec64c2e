"""The filters of lists of orders, in the API and on the account's pages."""

import re
from typing import Any
from uuid import UUID

import django_filters
from django import forms
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from codservice import days
from codservice.api.filters import Filters, SearchFilter, TextFilter, WordFilter, WordsFilter, period
from codservice.form_fields import TextField
from orders import counts, daily, phones, regions, trigrams
from orders.models import Order, Status, has_phone, numbers_meant
from orders.serializers import WILAYA_TEXTS

SORTS = ("created_at", "-created_at", "updated_at", "-updated_at")


class PhoneField(TextField):
    openapi = {"type": "string", "pattern": phones.PATTERN}

    def to_python(self, value: str | None) -> str:
        text = super().to_python(value)
        try:
            return phones.to_e164(text) if text else ""
        except phones.NotAPhone:
            raise forms.ValidationError(_("Must be an Algerian phone number.")) from None


class PhoneFilter(django_filters.Filter):
    field_class = PhoneField

    def filter(self, queryset: QuerySet[Order], value: str) -> QuerySet[Order]:
        return queryset.filter(has_phone(value)) if value else queryset


class WilayaField(TextField):
    openapi = {"anyOf": WILAYA_TEXTS}

    def to_python(self, value: str | None) -> str:
        text = super().to_python(value)
        try:
            return regions.find_wilaya(text).code if text else ""
        except regions.NotFound as error:
            raise forms.ValidationError(str(error)) from None


class WilayaFilter(django_filters.Filter):
    field_class = WilayaField


class OrderFilter(Filters):
    status = WordsFilter(
        lookup_expr="in",
        words=tuple(Status.values),
        refusal="is not a status. Use one or several of:",
        label="One or several statuses, separated by commas.",
    )
    created_from, created_to = period("created_at")
    updated_from, updated_to = period("updated_at")
    phone = PhoneFilter(label="The customer's first or second phone, in any usual form.")
    wilaya = WilayaFilter(field_name="wilaya_code", label="A wilaya's code or name.")
    external_id = TextFilter(max_length=64, label="The shop's own order number.")
    q = SearchFilter(
        method="search",
        max_length=100,
        label="Part of the customer's name, phone or address, or all of the second phone or the external_id.",
    )
    sort = WordFilter(words=SORTS, method="order", label="How the list is sorted; newest first by default.")

    class Meta:
        model = Order
        fields: list[str] = []

    def __init__(self, *args: Any, account_id: UUID | None = None, **kwargs: Any) -> None:
        """Filter the orders of `account_id`, or else of the request's API key."""
        super().__init__(*args, **kwargs)
        self.account_id = account_id or self.request.auth.account_id

    def filter_queryset(self, queryset: QuerySet[Order]) -> QuerySet[Order]:
        self._counted = found = super().filter_queryset(queryset)
        sent = self.form.cleaned_data
        if sent["updated_to"] and (sent["sort"] or "-created_at").endswith("created_at"):
            # No order is changed before it is created. A list by creation then need not begin with newer ones. The
            # count has an index by changes, which does not tell when orders were created.
            found = found.filter(created_at__lt=sent["updated_to"])
        return found

    def total(self) -> int:
        """Exactly how many orders pass the filters, from the kept counts where these can tell."""
        used = self._used()
        if used - {"status"}:
            return self._counted.count()
        return counts.total(self.account_id, self.form.cleaned_data["status"] if used else Status.values)

    def pass_by(self, queryset: QuerySet[Order], rows: int) -> tuple[QuerySet[Order], int]:
        """Leave out whole days before row `rows`, in an unfiltered list that is sorted by creation."""
        sort = self.form.cleaned_data["sort"] or "-created_at"
        if self._used() or not sort.endswith("created_at"):
            return queryset, 0
        is_down = sort.startswith("-")
        arrivals = daily.arrivals(self.account_id)
        passed = 0
        for day, count in reversed(arrivals) if is_down else arrivals:
            if passed + count > rows:
                rest = Q(created_at__lt=days.end_of(day)) if is_down else Q(created_at__gte=days.start_of(day))
                return queryset.filter(rest), passed
            passed += count
        return queryset, 0

    def _used(self) -> set[str]:
        return {name for name, value in self.form.cleaned_data.items() if value} - {"sort"}

    def search(self, queryset: QuerySet[Order], name: str, value: str) -> QuerySet[Order]:
        phone = phones.e164_or_none(value)
        number = _number(value, phone)
        turned = _turned(value)
        return queryset.filter(
            trigrams.candidates(self.account_id, value, number if turned == value else turned, phone),
            Q(customer_name__icontains=value)
            | (Q(customer_name__icontains=turned) if turned != value else Q())
            | Q(customer_phone__icontains=value)
            | Q(phone_e164__contains=number)
            | Q(customer_address__icontains=value)
            | Q(external_id__in=numbers_meant(value))
            | (Q(phone_2_e164=phone) if phone else Q()),
        )

    def order(self, queryset: QuerySet[Order], name: str, value: str) -> QuerySet[Order]:
        return queryset.order_by(value, "-id" if value.startswith("-") else "id")


def _turned(text: str) -> str:
    """First and last name in the other order; `text` itself if it is not two words without digits."""
    words = text.split()
    return " ".join(reversed(words)) if len(words) == 2 and not any(map(str.isdigit, text)) else text


def _number(text: str, phone: str | None) -> str:
    """`text` as it would appear in a phone in E.164: as `phone` if it is a whole one, else as some of its digits.

    A leading 0 is dropped where the number begins: E.164 does not have it.
    """
    digits = phones.digits(text)
    if digits is None or len(digits) < trigrams.LENGTH:  # `1-2` is part of an address; no index has so few
        return text
    if phone is None:
        digits = f"+{digits}" if text.startswith("+") else re.sub("^00(?=213)", "+", digits)
        return digits[1:] if re.fullmatch(r"0[0-9]{3,}", digits) else digits
    return digits if digits in phone else phone
