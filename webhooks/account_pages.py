"""The account's pages about webhooks, at /account/webhooks: register, change, try, rotate, delete, the log, resend,
recover.

They do what the API does by the same functions (`registry`, `events.ping`, `resending`, `recovery`), with the
same checks.
"""

from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import F, Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from codservice import days
from codservice.accounts.account_page import Gone, account_page, confirmation
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.accounts.team import Right
from codservice.bidi import unturned
from codservice.errors import Invalid, Refused
from codservice.form_fields import DayField, Form, SinceShown, Words
from codservice.i18n_tags import counted
from codservice.long_lists import NewestFirst
from codservice.searches import searching
from webhooks import events, feed, recovery, registry, resending
from webhooks.filters import EVENTS, DeliveryFilter
from webhooks.models import Attempt, Delivery, Event, Webhook
from webhooks.openapi import example_of
from webhooks.serializers import read_change, read_ping, read_recovery, read_registration
from webhooks.templatetags.webhooks import KINDS, STATUSES

_WEBHOOKS = ("account-webhooks", gettext_lazy("Webhooks"))
NO_WEBHOOK = Gone(gettext_lazy("This webhook is not there any more: it was deleted."), *_WEBHOOKS)
NO_DELIVERY = Gone(
    gettext_lazy("This delivery is not there any more: its webhook was deleted, or it was too old to be kept."),
    *_WEBHOOKS,
)
MOST_RESENT = 1000  # deliveries by one click


class WebhookForm(Form):
    """A webhook to register. What the API would refuse is refused here in the same words."""

    url = forms.CharField(
        label=gettext_lazy("Address"),
        widget=forms.URLInput(attrs={"dir": "ltr", "placeholder": "https://shop.example/hooks"}),
        help_text=gettext_lazy("Where your shop receives events: https, a public host, port 443 or from 1024 on."),
        error_messages={"required": gettext_lazy("Write the address.")},
    )
    description = Words(
        label=gettext_lazy("Note"),
        max_length=255,
        required=False,
        help_text=gettext_lazy("What it is for; only you read it."),
    )
    events = forms.MultipleChoiceField(
        label=gettext_lazy("Notify it when"),
        choices=[(kind, KINDS[kind]) for kind in Event.Kind],
        initial=[Event.Kind.ORDER_CONFIRMED, Event.Kind.ORDER_CANCELLED, Event.Kind.INVENTORY_UPDATED],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": gettext_lazy("Choose at least one.")},
    )

    def clean(self) -> dict[str, Any]:
        if not self.errors:
            try:
                self.cleaned_data = self.read(self.cleaned_data)
            except Invalid as error:
                self.add_errors(error)
        return self.cleaned_data

    def read(self, data: dict[str, Any]) -> dict[str, Any]:
        return read_registration(data)


class WebhookChangeForm(SinceShown, WebhookForm):
    """As `WebhookForm`, of a webhook that is there already; its secret stays."""

    is_active = forms.BooleanField(
        label=gettext_lazy("It is on"),
        required=False,
        help_text=gettext_lazy("While it is off nothing is sent or kept for it, and what is waiting is dropped."),
    )

    def read(self, data: dict[str, Any]) -> dict[str, Any]:
        return read_change({name: data[name] for name in self.changed_data})


class RecoverForm(Form):
    """The time whose changes are to be sent after all."""

    since = DayField(label=gettext_lazy("From"))
    until = DayField(
        label=gettext_lazy("To"), required=False, help_text=gettext_lazy("That day included; empty: until now.")
    )

    def clean(self) -> dict[str, Any]:
        if not self.errors:
            body = {name: day.isoformat() for name, day in self.cleaned_data.items() if day}
            try:
                self.cleaned_data["since"], self.cleaned_data["until"] = read_recovery(body)
            except Invalid as error:
                if "since" in error.errors:
                    text = _("Choose one of the last %(count)d days.") % {"count": feed.SHOWN.days}
                    self.add_error("since", text)
                else:
                    self.add_error("until", _("Choose a day that is not before the first."))
        return self.cleaned_data


class LogForm(Form):
    """The log's filters, to be chosen. What is chosen is read by DeliveryFilter, as the API's parameters are."""

    status = forms.ChoiceField(
        label=gettext_lazy("Status"), choices=[("", gettext_lazy("All")), *STATUSES.items()], required=False
    )
    event = forms.ChoiceField(
        label=gettext_lazy("Event"), choices=[("", gettext_lazy("All")), *[(e, e) for e in EVENTS]], required=False
    )
    created_from = forms.CharField(
        label=gettext_lazy("From"), widget=forms.DateInput(attrs={"type": "date"}), required=False
    )
    created_to = forms.CharField(
        label=gettext_lazy("To"), widget=forms.DateInput(attrs={"type": "date"}), required=False
    )


def _webhook(account: Account, id: UUID) -> Webhook:
    return get_object_or_404(Webhook.of(account.id), id=id)


# --- Registering -----------------------------------------------------------------------------------------------------


@account_page
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("secret")
def webhooks(request: HttpRequest, account: Account) -> HttpResponse:
    """The account's webhooks; by POST a new one, whose secret is shown in this answer and never again. A second press
    makes no second one, of which the shop would be told all twice."""
    form, new, secret, status = WebhookForm(request.POST or None), None, "", 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                new, secret = registry.register(account.id, **form.cleaned_data, once=True)
                form, status = WebhookForm(), 201
            except Invalid as error:
                form.add_errors(error)
    listed = list(Webhook.of(account.id).order_by("created_at", "id"))
    context = {"form": form, "webhooks": listed, "new": new, "secret": secret, "most": registry.MOST_WEBHOOKS}
    return render(request, "webhooks/webhooks.html", context, status=status)


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("secret")
def rotate(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """By GET the question, by POST a new secret, shown in this answer and never again. A question makes one secret, not
    two."""
    webhook = _webhook(account, id)
    if request.method != "POST":
        text = _("It signs at once. For 24 hours the old one signs too, so that you can change it without a gap.")
        if webhook.previous_secret_until and webhook.previous_secret_until > timezone.now():
            text += " " + _("The one before that, which still signs now, ends at once: your shop must not need it.")
        return confirmation(
            request,
            title=_("A new signing secret?"),
            text=text,
            button=_("Create a new secret"),
            back=reverse("account-webhook", args=[id]),
            fields={"replaces": webhook.secret_hint},
        )
    try:
        if request.POST.get("replaces", webhook.secret_hint) != webhook.secret_hint:
            raise registry.SecretChanged
        webhook, secret = registry.rotate_secret(account.id, id, replaces=webhook.secret_hint)
    except registry.SecretChanged as refused:
        messages.error(request, refused.message)
        return redirect("account-webhook", id=id)
    return render(request, "webhooks/rotated.html", {"webhook": webhook, "secret": secret})


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """By GET the question, by POST the deed."""
    webhook = _webhook(account, id)
    if request.method != "POST":
        return confirmation(
            request,
            title=_("Delete this webhook?"),
            text=_("%(url)s is no longer notified, and what is waiting for it is dropped.")
            % {"url": unturned(webhook.url)},
            button=_("Delete the webhook"),
            back=reverse("account-webhook", args=[id]),
        )
    registry.delete(account.id, id)
    messages.success(request, _("The webhook is deleted."))
    return redirect("account-webhooks")


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
@require_POST
def ping(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Send a test event, or an example of a kind; its own page then says how it goes."""
    webhook = _webhook(account, id)
    try:
        kind = read_ping({"event": request.POST.get("event") or None})
        test = {"kind": kind, "example": example_of(kind)} if kind else {}
        with transaction.atomic():
            delivery_id = events.ping(account.id, id, at=timezone.now(), **test)
            registry.note(Action.WEBHOOK_TESTED, webhook)
    except events.WebhookOff:
        messages.error(request, _("This webhook is off. Turn it on first."))
        return redirect("account-webhook", id=id)
    except Invalid:
        messages.error(request, _("There is no such event."))
        return redirect("account-webhook", id=id)
    messages.success(request, _("A test event is on its way."))
    return redirect("account-delivery", id=delivery_id)


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Changes its address, kinds and note, and whether it is on."""
    shown, status = _webhook(account, id), 200
    initial = {name: getattr(shown, name) for name in ("url", "description", "events", "is_active")}
    form = WebhookChangeForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                registry.change(account.id, id, form.cleaned_data)
            except registry.StillDropping as error:
                form.add_error("is_active", error.message)
                status = error.status
            else:
                messages.success(request, _("The webhook is changed."))
                if form.cleaned_data.get("is_active"):
                    text = _("It is on again. Press “Recover…” to have it sent what it missed while it was off.")
                    messages.success(request, text)
                return redirect("account-webhook", id=id)
    return render(request, "webhooks/change.html", {"webhook": shown, "form": form}, status=status)


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
@require_http_methods(["GET", "HEAD", "POST"])
def recover(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """By GET the question of which days; a POST has sent what was missed in them."""
    shown = _webhook(account, id)
    form = RecoverForm(request.POST if request.method == "POST" else None, initial={"since": days.today()})
    if not form.is_valid():
        context = {"webhook": shown, "form": form}
        return render(request, "webhooks/recover.html", context, status=422 if form.errors else 200)
    try:
        note = partial(registry.note, Action.WEBHOOK_RECOVERED, shown)
        recovered = recovery.recover(account.id, id, **form.cleaned_data, note=note)
    except events.WebhookOff:
        messages.error(request, _("This webhook is off. Turn it on first."))
        return redirect("account-webhook", id=id)
    count = recovered.deliveries
    text = ngettext("%(count)s delivery is sent.", "%(count)s deliveries are sent.", count)
    messages.success(request, text % {"count": counted(count)})
    if not recovered.is_over:
        messages.success(request, _("There is more, and it follows by itself."))
    return redirect("account-webhook", id=id)


# --- The log ---------------------------------------------------------------------------------------------------------


def _chosen(given: dict[str, str], webhook: Webhook) -> QuerySet[Delivery]:
    """The webhook's deliveries that the filters choose. Raises Invalid."""
    return DeliveryFilter(given, Delivery.objects.filter(webhook=webhook)).read(is_by_hand=True)


@account_page(gone=NO_WEBHOOK)
@require_safe
def webhook(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """One webhook and its log, newest first."""
    shown, form, status = _webhook(account, id), LogForm(request.GET), 200
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
    """One delivery: the body that is sent, and each attempt."""
    shown = get_object_or_404(Delivery.of(account.id).with_webhook().select_related("event"), id=id)
    attempts = list(Attempt.objects.filter(delivery=shown).order_by("-number"))
    context = {"delivery": shown, "attempts": attempts, "most": resending.MOST_ATTEMPTS}
    return render(request, "webhooks/delivery.html", context)


@account_page(look=Right.WRITE, gone=NO_DELIVERY)
@require_POST
def resend(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """Has one more attempt made, now, with the same id and body."""
    asked = ("status", "attempt_count", "webhook__is_active", "webhook__url", "webhook__account_id")
    found = get_object_or_404(Delivery.of(account.id).select_related("webhook").only(*asked), id=id)
    try:
        with transaction.atomic():
            resending.resend_one(found)
            registry.note(Action.RESENT, found.webhook)
        messages.success(request, _("It is sent again."))
    except resending.TooManyAttempts:
        text = _("It was not sent again: %(most)d attempts are the maximum.") % {"most": resending.MOST_ATTEMPTS}
        messages.error(request, text)
    except events.WebhookOff:
        messages.error(request, _("This webhook is off. Turn it on first."))
    except resending.Dropped:
        messages.error(request, _("It was dropped when its webhook was turned off: press “Recover” on its page."))
    return redirect("account-delivery", id=id)


@account_page(look=Right.WRITE, gone=NO_WEBHOOK)
@require_http_methods(["GET", "HEAD", "POST"])
def resend_failed(request: HttpRequest, account: Account, id: UUID) -> HttpResponse:
    """All failed deliveries that the filters choose: by GET how many, by POST their next attempt, oldest first.

    Not more than MOST_RESENT at once: who has more presses again.
    """
    shown, back = _webhook(account, id), reverse("account-webhook", args=[id])
    params = request.POST if request.method == "POST" else request.GET
    if not shown.is_active:
        messages.error(request, _("This webhook is off. Turn it on first."))
        return redirect(back)
    try:
        failed = _chosen(DeliveryFilter.chosen(params) | {"status": "failed"}, shown)
    except Invalid:
        messages.error(request, _("These dates cannot be used."))
        return redirect(back)
    chosen = failed.filter(attempt_count__lt=resending.MOST_ATTEMPTS)
    if request.method == "POST":
        ids = list(chosen.order_by("created_at", "id").values_list("id", flat=True)[:MOST_RESENT])
        with transaction.atomic():
            count = len(resending.resend(ids))
            if count:
                registry.note(Action.RESENT, shown)
        text = ngettext("%(count)s delivery is sent again.", "%(count)s deliveries are sent again.", count)
        messages.success(request, text % {"count": counted(count)})
        return redirect(back)
    count = chosen[: MOST_RESENT + 1].count()
    context = {
        "webhook": shown,
        "form": LogForm(params),
        "failed": count,
        "most": MOST_RESENT,
        "is_more": count > MOST_RESENT,
        "most_attempts": resending.MOST_ATTEMPTS,
        "has_others": failed.filter(attempt_count__gte=resending.MOST_ATTEMPTS).exists(),
    }
    return render(request, "webhooks/resend.html", context)


urlpatterns = [
    path("webhooks", webhooks, name="account-webhooks"),
    path("webhooks/<uuid:id>", webhook, name="account-webhook"),
    path("webhooks/<uuid:id>/ping", ping, name="account-webhook-ping"),
    path("webhooks/<uuid:id>/change", change, name="account-webhook-change"),
    path("webhooks/<uuid:id>/recover", recover, name="account-webhook-recover"),
    path("webhooks/<uuid:id>/rotate", rotate, name="account-webhook-rotate"),
    path("webhooks/<uuid:id>/delete", delete, name="account-webhook-delete"),
    path("webhooks/<uuid:id>/resend", resend_failed, name="account-webhook-resend"),
    path("webhooks/deliveries/<uuid:id>", delivery_page, name="account-delivery"),
    path("webhooks/deliveries/<uuid:id>/resend", resend, name="account-delivery-resend"),
]
