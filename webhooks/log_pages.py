"""The account's pages of a webhook's log: its deliveries, one of them with all attempts, and resending."""

from itertools import chain
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import F, Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from codservice.accounts.account_page import Gone, account_page
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.accounts.team import Right
from codservice.errors import Invalid, Refused
from codservice.form_fields import AskedDay, Form
from codservice.i18n_tags import counted
from codservice.long_lists import NewestFirst
from codservice.searches import searching
from webhooks import events, registry, resending
from webhooks.account_pages import NO_WEBHOOK, OFF, WEBHOOKS
from webhooks.filters import DeliveryFilter
from webhooks.models import Attempt, Delivery, Event, Webhook
from webhooks.templatetags.webhooks import KINDS, STATUSES

NO_DELIVERY = Gone(
    gettext_lazy("This delivery no longer exists: its webhook was deleted, or it was too old to be kept."),
    *WEBHOOKS,
)


class LogForm(Form):
    """Choices for the log's filters. DeliveryFilter reads the choice, as it reads the API's parameters."""

    status = forms.ChoiceField(
        label=gettext_lazy("Status"), choices=[("", gettext_lazy("All")), *STATUSES.items()], required=False
    )
    event = forms.ChoiceField(
        label=gettext_lazy("Event"), choices=[("", gettext_lazy("All")), *[(e, e) for e in Event.KINDS]], required=False
    )
    created_from = AskedDay(label=gettext_lazy("From"))
    created_to = AskedDay(label=gettext_lazy("To"))


def _chosen(given: dict[str, str], webhook: Webhook) -> QuerySet[Delivery]:
    """Return the webhook's deliveries that the filters choose. Raises Invalid."""
    return DeliveryFilter(given, Delivery.objects.filter(webhook=webhook)).read(is_by_hand=True)


@account_page(gone=NO_WEBHOOK)
@require_safe
def webhook(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Show a webhook and its log, newest first."""
    shown, form, status = get_object_or_404(Webhook.of(account.id), id=id), LogForm(request.GET), 200
    last_attempts = Attempt.objects.filter(number=F("delivery__attempt_count")).defer("response")
    with_attempts = Prefetch("attempts", last_attempts, to_attr="last_attempts")
    given = DeliveryFilter.chosen(request.GET)
    by = DeliveryFilter.searched_by(given)
    try:
        deliveries = _chosen(given, shown).select_related("event").defer("event__body").prefetch_related(with_attempts)
        with searching(account.id, given, by=by):
            page = NewestFirst(deliveries, before=request.GET.get("before", ""))
    except Refused as error:
        form.is_valid()
        form.add_errors(error, by=by)
        page, status = NewestFirst(Delivery.objects.none()), error.status
    for row in page.rows:
        row.webhook = shown
    kinds = [(kind, KINDS[kind]) for kind in Event.Kind]
    context = {"webhook": shown, "form": form, "page": page, "given": given, "kinds": kinds}
    return render(request, "webhooks/webhook.html", context, status=status)


@account_page(gone=NO_DELIVERY)
@require_safe
def delivery_page(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Show a delivery: the body that is sent, and each attempt."""
    shown = get_object_or_404(Delivery.of(account.id).with_webhook().select_related("event"), id=id)
    attempts = list(Attempt.objects.filter(delivery=shown).order_by("-number"))
    context = {"delivery": shown, "attempts": attempts, "most": resending.MOST_ATTEMPTS}
    return render(request, "webhooks/delivery.html", context)


@account_page(look=Right.WRITE, gone=NO_DELIVERY)
@require_POST
def resend(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Make one more attempt, now, with the same id and body."""
    noted = ("webhook__url", "webhook__account_id")
    found = get_object_or_404(Delivery.of(account.id).select_related("webhook").only(*noted), id=id)
    try:
        with transaction.atomic():
            resending.resend_one(id)
            registry.note(Action.RESENT, found.webhook)
        messages.success(request, _("It is sent again."))
    except resending.TooManyAttempts:
        text = _("It was not sent again: it has had %(most)d attempts, the maximum.") % {
            "most": resending.MOST_ATTEMPTS
        }
        messages.error(request, text)
    except events.WebhookOff:
        messages.error(request, OFF)
    except resending.Dropped:
        messages.error(request, _("It was dropped when its webhook was turned off: press “Recover” on its page."))
    return redirect("account-delivery", id=id)


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
def resend_failed(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Resend all deliveries that the filters choose of those that failed: GET shows how many, POST sends them.

    Those that wait for their next attempt are among them, after those that have had all: first the oldest, then those
    that are due soonest, which are others each time.
    One POST sends at most MOST_AT_ONCE; for more, people click again.
    """
    shown, back = get_object_or_404(Webhook.of(account.id), id=id), reverse("account-webhook", args=[id])
    params = request.POST if request.method == "POST" else request.GET
    if not shown.is_active:
        messages.error(request, OFF)
        return redirect(back)
    given = DeliveryFilter.chosen(params)
    given.pop("status", None)
    try:
        deliveries = _chosen(given, shown)
    except Invalid:
        messages.error(request, _("These dates cannot be used."))
        return redirect(back)
    failed, most = deliveries.filter(status=Delivery.Status.FAILED), resending.MOST_AT_ONCE
    # Read one after the other: each has an index, while for both the database may read the whole log.
    chosen = failed.filter(attempt_count__lt=resending.MOST_ATTEMPTS), deliveries.filter(resending.WAITING)
    ids, count, waiting, has_others = list[UUID](), 0, 0, False
    try:
        with searching(account.id, given, by=DeliveryFilter.searched_by(given)):
            if request.method == "POST":
                for rows, order in zip(chosen, (("created_at", "id"), ("next_attempt_at", "id")), strict=True):
                    ids += rows.order_by(*order).values_list("id", flat=True)[: most - len(ids)]
            else:
                ended, waiting = (rows[: most + 1].count() for rows in chosen)
                count = ended + waiting
                others = failed.filter(attempt_count__gte=resending.MOST_ATTEMPTS)
                has_others = count <= most and others.exists()  # to find none, it reads all that failed
    except Refused as refused:
        for said in chain.from_iterable(refused.by_field("").values()):
            messages.error(request, said)
        return redirect(back)
    if request.method == "POST":
        count = len(resending.resend_noted(ids, set()))
        text = ngettext("%(count)s delivery is sent again.", "%(count)s deliveries are sent again.", count)
        messages.success(request, text % {"count": counted(count)})
        return redirect(back)
    context = {
        "webhook": shown,
        "form": LogForm(params),
        "failed": count,
        "most": most,
        "is_more": count > most,
        "most_attempts": resending.MOST_ATTEMPTS,
        "has_waiting": waiting > 0,
        "has_others": has_others,
    }
    return render(request, "webhooks/resend.html", context)


urlpatterns = [
    path("webhooks/<uuid:id>", webhook, name="account-webhook"),
    path("webhooks/<uuid:id>/resend", resend_failed, name="account-webhook-resend"),
    path("webhooks/deliveries/<uuid:id>", delivery_page, name="account-delivery"),
    path("webhooks/deliveries/<uuid:id>/resend", resend, name="account-delivery-resend"),
]
