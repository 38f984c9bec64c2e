"""The operators' read-only pages of webhooks, events, deliveries and attempts. Deliveries can be resent.

Rows of accounts' twins for tests are shown on the accounts' own pages only. Secrets are not even read from the
database here.
"""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from codservice import values
from codservice.accounts.operator_lists import Choice, MerchantFilter, Owner, ReadOnly
from codservice.i18n_tags import counted
from webhooks import resending
from webhooks.models import Attempt, Delivery, Event, Webhook

MOST_ON_PAGE = 100  # attempts of a delivery or deliveries of an event


class OfLiveAccounts(ReadOnly):
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(account__live=None).select_related("account")


class FoundById(OfLiveAccounts):
    """Rows that are searched only by the ids in the columns `ids`. An empty search finds all."""

    search_fields = ("id__exact",)  # only makes the search box appear; `get_search_results` does the search
    ids: tuple[str, ...] = ("id",)
    long: tuple[str, ...] = ()  # columns that only a row's own page shows, not the list

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows if request.resolver_match.url_name.endswith("change") else rows.defer(*self.long)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term.strip():
            return queryset, False
        wanted = values.uuid_or_none(search_term.strip())
        if wanted is None:
            return queryset.none(), False
        return queryset.filter(Q(**dict.fromkeys(self.ids, wanted), _connector=Q.OR)), False


# --- Webhooks --------------------------------------------------------------------------------------------------------


class WebhookStateFilter(Choice):
    title = gettext_lazy("state")
    parameter_name = "state"
    offered = {
        "failing": (gettext_lazy("Last attempt failed"), Q(deleted_at=None, is_active=True, is_failing=True)),
        "healthy": (gettext_lazy("Healthy"), Q(deleted_at=None, is_active=True, is_failing=False)),
        "off": (gettext_lazy("Off"), Q(deleted_at=None, is_active=False)),
        "deleted": (gettext_lazy("Deleted"), Q(deleted_at__isnull=False)),
    }


@admin.register(Webhook)
class WebhookAdmin(OfLiveAccounts):
    change_list_template = "operators/webhooks.html"
    change_form_template = "operators/webhook.html"
    list_filter = (WebhookStateFilter, MerchantFilter)
    search_fields = ("url", "account__name", "account__holder__email")
    search_help_text = gettext_lazy("Part of the address, of the merchant's name or of the holder's e-mail address.")
    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Webhook]:
        return super().get_queryset(request).without_secrets()


# --- Events ----------------------------------------------------------------------------------------------------------


@admin.register(Event)
class EventAdmin(FoundById):
    change_list_template = "operators/events.html"
    change_form_template = "operators/event.html"
    search_help_text = gettext_lazy("An event's id.")
    long = ("body",)
    ordering = ("-id",)  # ids sort by time

    def page_of(self, row: Event) -> dict[str, Any]:
        told = row.deliveries.with_webhook().order_by("webhook_id")
        return {"title": row.kind, "deliveries": told[:MOST_ON_PAGE]}


# --- Deliveries ------------------------------------------------------------------------------------------------------


class WebhookFilter(Owner):
    title = gettext_lazy("webhook")
    parameter_name = "webhook"
    path = "webhook"
    owners = Webhook.objects.without_secrets().filter(account__live=None)


class FailedFilter(Choice):
    """Offered only for one webhook: there is no index by status over all. The list of webhooks shows what fails now."""

    title = gettext_lazy("status")
    parameter_name = "status"
    offered = {Delivery.Status.FAILED.value: (gettext_lazy("Failed"), Q(status=Delivery.Status.FAILED.value))}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return super().lookups(request, model_admin) if request.GET.get(WebhookFilter.parameter_name) else []


@admin.register(Delivery)
class DeliveryAdmin(FoundById):
    change_list_template = "operators/deliveries.html"
    change_form_template = "operators/delivery.html"
    list_filter = (FailedFilter, WebhookFilter)
    search_help_text = gettext_lazy("The id of a delivery, a webhook or an event.")
    ids = ("id", "event_id")
    long = ("event__body",)
    actions = ("resend",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        return super().get_queryset(request).with_webhook().select_related("event")

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Use the index of the log for one webhook, and for all that of `one_delivery_per_event_and_webhook`, whose
        event ids sort by time."""
        if request.GET.get(WebhookFilter.parameter_name):
            return ("-created_at", "-id")
        return ("-event_id", "-webhook_id")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        wanted = values.uuid_or_none(search_term.strip())
        if wanted and Webhook.objects.filter(id=wanted).exists():
            return queryset.filter(webhook_id=wanted).order_by("-created_at", "-id"), False
        return super().get_search_results(request, queryset, search_term)

    def page_of(self, row: Delivery) -> dict[str, Any]:
        return {
            "title": row.event.kind,
            "attempts": row.attempts.order_by("number")[:MOST_ON_PAGE],
            "may_resend": Delivery.objects.filter(resending.POSSIBLE, pk=row.pk).exists(),
        }

    @admin.action(description=gettext_lazy("Send the chosen deliveries again"), permissions=["view"])
    def resend(self, request: HttpRequest, deliveries: QuerySet[Delivery]) -> None:
        ids = list(deliveries.values_list("id", flat=True)[: resending.MOST_AT_ONCE + 1])
        resent = resending.resend_noted(ids[: resending.MOST_AT_ONCE], set())
        text = ngettext("%(count)s delivery is sent again.", "%(count)s deliveries are sent again.", len(resent))
        if resent:
            messages.success(request, text % {"count": counted(len(resent))})
        if len(resent) < len(ids):
            messages.warning(
                request,
                _(
                    "The others were not sent: they were dropped or tried too often, their webhook is deleted "
                    "or off, or they were more than one click sends. The command resend_deliveries sends any number."
                ),
            )

    def act(self, request: HttpRequest, row: Delivery) -> HttpResponse:
        if request.POST.get("action") != "resend":
            raise PermissionDenied
        self.resend(request, Delivery.objects.filter(pk=row.pk))
        return redirect("admin:webhooks_delivery_change", row.pk)


@admin.register(Attempt)
class AttemptAdmin(FoundById):
    change_list_template = "operators/attempts.html"
    change_form_template = "operators/attempt.html"
    search_help_text = gettext_lazy("A delivery's id.")
    ids = ("delivery_id",)
    ordering = ("-id",)

    def page_of(self, row: Attempt) -> dict[str, Any]:
        return {"title": _("Attempt %(number)d") % {"number": row.number}}
