"""What operators see of webhooks, events, deliveries and attempts: all of it to look at, none of it to edit.

Secrets are not even read from the database here. Deliveries can be resent.
"""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from codservice.long_lists import BoundedPaginator
from webhooks import delivery, log
from webhooks.models import Attempt, Delivery, Event, Webhook

MOST_RESENT = 1000  # by one click; the command resend_deliveries knows no bound


class ReadOnly:
    """Operators may look, nobody may change. For `ModelAdmin`s and for what is shown inside them."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Log(ReadOnly, admin.ModelAdmin):
    """A table that may be long: read along an index, never counted as a whole."""

    list_per_page = 50
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    sortable_by = ()
    allowed_lookups: tuple[str, ...] = ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup in self.allowed_lookups


@admin.register(Webhook)
class WebhookAdmin(Log):
    list_display = ("url", "account", "events", "is_active", "is_failing", "created_at", "deleted_at")
    list_select_related = ("account",)
    list_filter = ("is_failing", ("deleted_at", admin.EmptyFieldListFilter))
    allowed_lookups = ("is_failing__exact", "deleted_at__isempty")
    search_fields = ("url", "account__name", "account__holder__email")
    ordering = ("-id",)
    fields = ("id", "account", "url", "events", "is_active", "is_failing", "secret_hint", "previous_secret_until",
              "created_at", "deleted_at")  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Webhook]:
        return super().get_queryset(request).defer("secret", "previous_secret")


@admin.register(Event)
class EventAdmin(Log):
    list_display = ("id", "kind", "account", "created_at")
    list_select_related = ("account",)
    search_fields = ("id__exact",)
    search_help_text = _("An event's id.")
    ordering = ("-id",)  # ids sort by time
    fields = ("id", "account", "kind", "created_at", "body")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        events = super().get_queryset(request)
        return events if request.resolver_match.url_name.endswith("change") else events.defer("body")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return _by_id(queryset, search_term), False


def shown_response(attempt: Attempt) -> str:
    """The answer's first bytes as text; whatever they hold is shown and nothing of it is believed."""
    return format_html('<pre class="answer">{}</pre>', bytes(attempt.response).decode(errors="replace"))


class AttemptInline(ReadOnly, admin.TabularInline):
    model = Attempt
    fields = ("number", "ended_at", "milliseconds", "status_code", "failure", "answer")
    readonly_fields = ("answer",)
    ordering = ("number",)
    extra = 0
    show_change_link = True

    @admin.display(description=_("answer"))
    def answer(self, attempt: Attempt) -> str:
        return shown_response(attempt)


@admin.register(Delivery)
class DeliveryAdmin(Log):
    list_display = ("id", "kind", "webhook", "account", "shown_status", "attempt_count", "next_attempt_at",
                    "created_at")  # fmt: skip
    list_filter = ("status",)
    allowed_lookups = ("status__exact", "webhook__id__exact")
    search_fields = ("id__exact",)
    search_help_text = _("The id of a delivery, a webhook or an event.")
    # Along the index of `one_delivery_per_event_and_webhook`: events' ids sort by time, deliveries' do not.
    ordering = ("-event_id", "-webhook_id")
    fields = ("id", "account", "webhook", "event", "kind", "shown_status", "attempt_count", "retries_left",
              "next_attempt_at", "created_at", "finished_at")  # fmt: skip
    readonly_fields = ("kind", "shown_status")
    inlines = (AttemptInline,)
    actions = ("resend",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        deliveries = super().get_queryset(request).select_related("webhook", "event", "account")
        return deliveries.defer("event__body", "webhook__secret", "webhook__previous_secret")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return _by_id(queryset, search_term, "id", "webhook_id", "event_id"), False

    @admin.display(description=_("event"))
    def kind(self, row: Delivery) -> str:
        return row.event.kind

    @admin.display(description=_("status"))
    def shown_status(self, row: Delivery) -> str:
        return log.shown_status(row)

    @admin.action(description=_("Send the chosen deliveries again"), permissions=["resend"])
    def resend(self, request: HttpRequest, deliveries: QuerySet[Delivery]) -> None:
        ids = list(deliveries.values_list("id", flat=True)[: MOST_RESENT + 1])
        resent = delivery.resend(ids[:MOST_RESENT])
        text = ngettext("%(count)d delivery is sent again.", "%(count)d deliveries are sent again.", len(resent))
        messages.success(request, text % {"count": len(resent)})
        if len(resent) < len(ids):
            messages.warning(
                request,
                _("The others were left alone: dropped, tried too often, or more than a click sends. The command "
                  "resend_deliveries sends any number."),
            )  # fmt: skip

    def has_resend_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)


@admin.register(Attempt)
class AttemptAdmin(Log):
    list_display = ("delivery_id", "number", "ended_at", "milliseconds", "status_code", "failure")
    search_fields = ("delivery__id__exact",)
    search_help_text = _("A delivery's id.")
    ordering = ("-id",)
    fields = ("account", "delivery", "number", "ended_at", "milliseconds", "status_code", "failure", "answer")
    readonly_fields = ("answer",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return _by_id(queryset, search_term, "delivery_id"), False

    @admin.display(description=_("answer"))
    def answer(self, attempt: Attempt) -> str:
        return shown_response(attempt)


def _by_id(rows: QuerySet[Any], text: str, *names: str) -> QuerySet[Any]:
    """Those whose id, or one of the ids in `names`, is `text`; all of them without a text."""
    if not text.strip():
        return rows
    try:
        wanted = UUID(text.strip())
    except ValueError:
        return rows.none()
    matches = Q()
    for name in names or ("id",):
        matches |= Q(**{name: wanted})
    return rows.filter(matches)
