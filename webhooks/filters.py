"""The filters of a webhook's log. Values that cannot be used are refused, never replaced."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from codservice.api.filters import Filters, WordsFilter, period
from webhooks.models import Delivery, Event


class DeliveryFilter(Filters):
    status = WordsFilter(
        method="shown_as", words=tuple(Delivery.Status.values), label="One or several statuses, separated by commas."
    )
    event = WordsFilter(
        field_name="event__kind",
        lookup_expr="in",
        words=Event.KINDS,
        label="One or several kinds, separated by commas.",
    )
    created_from, created_to = period("created_at")

    class Meta:
        model = Delivery
        fields: list[str] = []

    @classmethod
    def searched_by(cls, given: Mapping[str, Any]) -> str | None:
        """Return the parameter that may need a search of the whole log to find a few entries.

        None when there is none: the log's indexes cover times and failed deliveries.
        """
        if "event" in given:
            return "event"
        return "status" if given.get("status", "failed") != "failed" else None

    def shown_as(self, deliveries: QuerySet[Delivery], name: str, statuses: list[str]) -> QuerySet[Delivery]:
        return deliveries.filter(Delivery.shown_as(statuses))
